// A text as it is meant to be read: headings, paragraphs, lists, tables and code, made of elements.

import { element } from "./elements.js";

// What stands between an answer and the names of its sources.
const SOURCES = "\n\nSources: ";

const FENCE = /^\s{0,3}(`{3,}|~{3,})/;
const BULLET = /^\s*(?:[-*+•]|\d{1,9}[.)])\s+/;
const NUMBERED = /^\s*\d/;

// Headings and tables are what `analyzer/blocks.py` takes for them, which writes them as well.
const HEADING = /^(#{1,6})[ \t]+(?=\S)/;
const LONGEST_HEADING = 120;
const TABLE_ROW = /^[ \t]*\||^[^|]*[^|\s] \| /;
const TABLE_RULE = /^(?=[^-=]*[-=])[ \t|:+=-]+$/;
const BAR = /(?<=\s)\|(?=\s)/;
const NOTHING = "–";

// Where a sentence of a quote may end; what is shorter than so many characters is marked nowhere.
const SENTENCE_END = /(?<=[.!?:]\s+|[。！？]|\n)/;
const SHORTEST = 4;

let opened = { href: "", text: "" };

// The elements of a text: what a person would write as Markdown, and nothing of the rest of it.
export function blocks(text) {
  const made = [];
  const lines = text.split("\n");
  let paragraph = [];
  const end = () => {
    if (paragraph.some((line) => line.trim())) {
      made.push(element("p", {}, ...inline(paragraph.join("\n").trim())));
    }
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at += 1) {
    const fence = lines[at].match(FENCE)?.[1];
    // In the middle of a paragraph a bar is a sign of its author's.
    const mayBegin = !paragraph.length || lines[at].trimStart().startsWith("|");
    if (fence) {
      const until = lines.findIndex((line, n) => n > at && line.trim().startsWith(fence));
      const last = until < 0 ? lines.length : until;
      end();
      made.push(code(lines.slice(at + 1, last).join("\n")));
      at = last;
    } else if (HEADING.test(lines[at]) && lines[at].length <= LONGEST_HEADING) {
      end();
      made.push(heading(lines[at]));
    } else if (BULLET.test(lines[at])) {
      const last = after(lines, at, (line) => BULLET.test(line) || /^\s+\S/.test(line));
      end();
      made.push(list(lines.slice(at, last)));
      at = last - 1;
    } else if (mayBegin && TABLE_ROW.test(lines[at]) && isInTable(lines[at + 1] ?? "")) {
      const last = after(lines, at, isInTable);
      end();
      made.push(table(lines.slice(at, last)));
      at = last - 1;
    } else if (lines[at].trim()) {
      paragraph.push(lines[at]);
    } else {
      end();
    }
  }
  end();
  return made;
}

// An answer's bubble. `sources` is null where they are known by their names alone.
export function answered(answer, sources) {
  const place = answer.lastIndexOf(SOURCES);
  const text = place < 0 ? answer : answer.slice(0, place);
  const bubble = element("div", { class: "bubble answer" }, ...blocks(text));
  if (sources?.length) {
    const links = sources.flatMap((source, index) => {
      const comma = index < sources.length - 1 ? "," : "";
      return [element("span", {}, link(source, text), comma), " "];
    });
    bubble.append(element("p", { class: "cited" }, element("b", {}, "Sources: "), ...links));
  } else if (place >= 0) {
    const names = answer.slice(place + SOURCES.length);
    bubble.append(element("p", { class: "cited" }, element("b", {}, "Sources: "), names));
  }
  return bubble;
}

function link({ id, name, passages }, text) {
  const place = passages?.[0]?.place;
  const href = `#sources/${encodeURIComponent(id)}${place === undefined ? "" : `/${place}`}`;
  const made = element("a", { href, title: name }, name);
  made.addEventListener("click", () => {
    opened = { href, text };
  });
  return made;
}

// The answer's text, where the address was opened from an answer in this tab.
export function answerBehind(href) {
  return opened.href === href ? opened.text : "";
}

// Marks the sentences of a passage that an answer has, word for word, and the rows of its tables.
export function markQuotes(passage, answer) {
  for (const made of passage.querySelectorAll("table")) markRows(made, answer);
  const quoted = answer.replace(/\s+/g, " ");
  const walker = document.createTreeWalker(passage, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  // A word in a cell or in a heading is in an answer by chance.
  for (const node of texts.filter((one) => !one.parentElement.closest("table, .heading"))) {
    const parts = node.data.split(SENTENCE_END).flatMap((part) => {
      const sentence = part.trimEnd();
      const words = sentence.trimStart().replace(/\s+/g, " ");
      return words.length >= SHORTEST && quoted.includes(words)
        ? [element("mark", {}, sentence), part.slice(sentence.length)]
        : [part];
    });
    if (parts.some((part) => part instanceof Element)) node.replaceWith(...parts);
  }
}

// A row is quoted as it stands or as `rows` in `analyzer/blocks.py` tells it, in a line of its own;
// of a long one there may be only a part, between ellipses.
function markRows(made, answer) {
  const lines = answer.split("\n").map((line) => plain(line));
  const names = made.tHead && textsOf(made.tHead.rows[0]);
  for (const row of made.rows) {
    const texts = textsOf(row);
    const told = plain(names ? toldWith(names, texts) : toldBy(texts));
    const isQuoted = lines.some((line) => {
      const part = line.replace(/^…|…$/g, "");
      const isTold = line === told || (part && part !== line && told.includes(part));
      return isTold || cells(line).join("|") === texts.join("|");
    });
    for (const cell of isQuoted ? row.cells : []) {
      if (cell.firstChild) cell.replaceChildren(element("mark", {}, ...cell.childNodes));
    }
  }
}

function toldWith(names, texts) {
  return Array.from({ length: Math.max(names.length, texts.length) }, (_, at) => {
    const text = texts[at] || (names[at] && NOTHING);
    return names[at] ? `${names[at]}: ${text}` : text;
  })
    .filter(Boolean)
    .join("; ");
}

function toldBy([first, ...others]) {
  return [first, others.filter(Boolean).join("; ")].filter(Boolean).join(": ");
}

function textsOf(row) {
  return Array.from(row.cells, (cell) => plain(cell.textContent));
}

// As it is read: without the marks of code, and of bars that part no cells.
function plain(text) {
  return text.replaceAll("`", "").replaceAll("\\|", "|").replace(/\s+/g, " ").trim();
}

function after(lines, start, belongs) {
  let last = start + 1;
  while (last < lines.length && belongs(lines[last])) last += 1;
  return last;
}

// The view that a text is shown in has a heading of the second level.
function heading(line) {
  const [marks, { length }] = line.match(HEADING);
  const tag = `h${Math.min(length + 2, 6)}`;
  return element(tag, { class: "heading" }, ...inline(line.slice(marks.length).trim()));
}

// A code block can be scrolled with the keyboard, so it must be possible to focus it.
function code(text) {
  return element("pre", { tabindex: "0" }, element("code", {}, text));
}

function list(lines) {
  const items = [];
  for (const line of lines) {
    if (BULLET.test(line)) items.push([line.replace(BULLET, "")]);
    else items.at(-1).push(line.trim());
  }
  const first = Number.parseInt(lines[0], 10);
  const isNumbered = NUMBERED.test(lines[0]);
  const attributes = isNumbered && first !== 1 ? { start: first } : {};
  const made = items.map((parts) => element("li", {}, ...inline(parts.join("\n"))));
  return element(isNumbered ? "ol" : "ul", attributes, ...made);
}

function isInTable(line) {
  return line.includes("|") || TABLE_RULE.test(line);
}

// Like a code block, a table can be scrolled with the keyboard.
function table(lines) {
  const rows = lines.filter((line) => !TABLE_RULE.test(line)).map(cells);
  const names = TABLE_RULE.test(lines[1]) ? rows.splice(0, 1) : [];
  const made = element("table");
  if (names.length) made.append(element("thead", {}, ...names.map((row) => tableRow("th", row))));
  made.append(element("tbody", {}, ...rows.map((row) => tableRow("td", row))));
  return element("div", { class: "wide", tabindex: "0" }, made);
}

function tableRow(tag, texts) {
  return element("tr", {}, ...texts.map((text) => element(tag, {}, ...inline(text))));
}

function cells(line) {
  const row = line.trim();
  const inner = row.startsWith("|") ? row.slice(1).replace(/\|$/, "") : row;
  const parted = ` ${inner} `.split(BAR);
  const found = parted.length > 1 ? parted : inner.split(/(?<!\\)\|/);
  return found.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// Words in backquotes are code; everything else is as it stands.
function inline(text) {
  return text
    .split(/(`[^`\n]+`)/)
    .filter(Boolean)
    .map((part) => (/^`[^`\n]+`$/.test(part) ? element("code", {}, part.slice(1, -1)) : part));
}
