// An answer as it is meant to be read: paragraphs, lists, tables and code, made of elements.

import { element } from "./elements.js";

// What stands between an answer and the names of its sources.
const SOURCES = "\n\nSources: ";

const FENCE = /^\s{0,3}(`{3,}|~{3,})/;
const BULLET = /^\s*(?:[-*+•]|\d{1,9}[.)])\s+/;
const NUMBERED = /^\s*\d/;
const TABLE_ROW = /^\s*\|.*\|\s*$/;
const TABLE_RULE = /^[\s|:-]+$/;

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
    if (fence) {
      const until = lines.findIndex((line, n) => n > at && line.trim().startsWith(fence));
      const last = until < 0 ? lines.length : until;
      end();
      made.push(code(lines.slice(at + 1, last).join("\n")));
      at = last;
    } else if (BULLET.test(lines[at])) {
      const last = after(lines, at, (line) => BULLET.test(line) || /^\s+\S/.test(line));
      end();
      made.push(list(lines.slice(at, last)));
      at = last - 1;
    } else if (TABLE_ROW.test(lines[at])) {
      const last = after(lines, at, (line) => TABLE_ROW.test(line));
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
  const passage = passages?.length ? `/${passages[0]}` : "";
  const href = `#sources/${encodeURIComponent(id)}${passage}`;
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

// Marks the sentences of a passage that an answer has, word for word.
export function markQuotes(passage, answer) {
  const quoted = answer.replace(/\s+/g, " ");
  const walker = document.createTreeWalker(passage, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const node of texts) {
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

function after(lines, start, belongs) {
  let last = start + 1;
  while (last < lines.length && belongs(lines[last])) last += 1;
  return last;
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

function table(lines) {
  const rows = lines.filter((line) => !TABLE_RULE.test(line)).map(cells);
  const isHeaded = lines.length > 1 && TABLE_RULE.test(lines[1]);
  const made = rows.map((row, index) => {
    const tag = isHeaded && index === 0 ? "th" : "td";
    return element("tr", {}, ...row.map((cell) => element(tag, {}, ...inline(cell))));
  });
  return element("div", { class: "wide", tabindex: "0" }, element("table", {}, ...made));
}

function cells(line) {
  return line.trim().slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// Words in backquotes are code; everything else is as it stands.
function inline(text) {
  return text
    .split(/(`[^`\n]+`)/)
    .filter(Boolean)
    .map((part) => (/^`[^`\n]+`$/.test(part) ? element("code", {}, part.slice(1, -1)) : part));
}
