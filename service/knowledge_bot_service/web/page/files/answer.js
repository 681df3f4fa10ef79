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

// What stands between words, cells and code, and is not the same wherever a quote is shown; and what
// no quote begins or ends in the middle of.
const BETWEEN = /[\s|\\`]/;
const WORD = "[\\p{L}\\p{N}]";

let opened = { href: "", quotes: [] };

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
    markQuotes(bubble, sources.flatMap(quotesOf));
    const links = sources.flatMap((source, index) => {
      const comma = index < sources.length - 1 ? "," : "";
      return [element("span", {}, link(source), comma), " "];
    });
    bubble.append(element("p", { class: "cited" }, element("b", {}, "Sources: "), ...links));
  } else if (place >= 0) {
    const names = answer.slice(place + SOURCES.length);
    bubble.append(element("p", { class: "cited" }, element("b", {}, "Sources: "), names));
  }
  return bubble;
}

function quotesOf({ passages }) {
  return (passages ?? []).map(({ quote }) => quote);
}

function link(source) {
  const { id, name, passages } = source;
  const place = passages?.[0]?.place;
  const href = `#sources/${encodeURIComponent(id)}${place === undefined ? "" : `/${place}`}`;
  const made = element("a", { href, title: name }, name);
  made.addEventListener("click", () => {
    opened = { href, quotes: quotesOf(source) };
  });
  return made;
}

// What an answer is from, where the address was opened from it in this tab.
export function quotesBehind(href) {
  return opened.href === href ? opened.quotes : [];
}

// Marks the first place of each quote, which is a sentence, an item, a row or a line of code.
export function markQuotes(shown, quotes) {
  for (const quote of quotes) {
    const lines = quote.split("\n").filter((line) => !FENCE.test(line));
    const words = lines.flatMap((line) => line.replace(BULLET, "").split(BETWEEN)).filter(Boolean);
    const escaped = words.map((word) => word.replace(/[$()*+.?[\]^{}]/g, "\\$&"));
    const pattern = `(?<!${WORD})${escaped.join(`${BETWEEN.source}*`)}(?!${WORD})`;
    if (words.length) mark(shown, new RegExp(pattern, "u"));
  }
}

function mark(shown, words) {
  const walker = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  const found = words.exec(texts.map(({ data }) => data).join("\n"));
  if (!found) return;
  let first = found.index;
  let last = first + found[0].length;
  for (const text of texts) {
    const { length } = text.data;
    if (last > 0 && first < length) {
      const range = document.createRange();
      range.setStart(text, Math.max(first, 0));
      range.setEnd(text, Math.min(last, length));
      range.surroundContents(element("mark"));
    }
    first -= length + 1;
    last -= length + 1;
  }
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
