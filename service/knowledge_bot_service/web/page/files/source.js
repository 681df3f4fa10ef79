// One source: where it stands, its text with the passage that an answer uses, and what can be done.

import { read, remove } from "./calls.js";
import { blocks, markQuotes, quotesBehind } from "./answer.js";
import { announce, element, find, time } from "./elements.js";
import { KINDS, UNFINISHED, remark, standing } from "./sources.js";

// How long until the source is read again, in milliseconds: while it is unfinished, and else.
const SOON = 1000;
const LATER = 15000;

const GONE = "No question is answered from it any more.";

let manages = false;
let source = null;
let opened = 0;
let timer = 0;
let asked = null;
let pages = { previous: null, next: null };
let state = "";

export function openSource(about) {
  manages = about.role === "manage";
}

export async function showSource(id, passage) {
  find("list-card").hidden = true;
  find("source-card").hidden = false;
  asked = passage;
  state = "";
  source = { id };
  find("form-card").hidden = true;
  find("back").href = passage ? "#chat" : "#sources";
  find("back").textContent = passage ? "← Back to the chat" : "← All sources";
  find("source-name").textContent = "";
  for (const one of ["facts", "text"]) find(one).replaceChildren();
  for (const one of ["manage", "earlier", "later", "whole-name"]) find(one).hidden = true;
  await load();
}

async function load() {
  const { id } = source;
  opened += 1;
  const mine = opened;
  find("text-note").textContent = state ? find("text-note").textContent : "Reading…";
  try {
    const found = await part(asked ? { passage: asked } : {});
    if (mine !== opened || isAway(id)) return;
    find("source-problem").textContent = "";
    render(found);
    const delay = UNFINISHED.includes(found.source.status) ? SOON : LATER;
    clearTimeout(timer);
    timer = setTimeout(() => isAway(id) || load(), delay);
  } catch (failure) {
    if (mine !== opened || isAway(id)) return;
    find("text-note").textContent = "";
    find("source-problem").textContent =
      failure.status === 404
        ? "This source is not there any more: it was deleted."
        : `${failure.message} Open the source again later.`;
    if (failure.status === 404) find("source-name").textContent = "Deleted source";
    find("source-name").focus();
  }
}

function part(place) {
  return read(`${addressOf(source.id)}/text`, place);
}

function addressOf(id) {
  return `public/v1/sources/${encodeURIComponent(id)}`;
}

// Whether another view is shown by now.
function isAway(id) {
  return source?.id !== id || find("source-card").hidden || find("sources-view").hidden;
}

function render(found) {
  const now = JSON.stringify(found.source);
  if (now === state) return;
  const isNew = state === "";
  state = now;
  source = found.source;
  find("source-name").textContent = source.name;
  find("source-name").title = source.name;
  find("source-name").classList.add("long");
  find("facts").replaceChildren(...facts());
  find("manage").hidden = !manages;
  const { clientHeight, scrollHeight } = find("source-name");
  find("whole-name").hidden = scrollHeight <= clientHeight + 1;
  find("text").replaceChildren(...found.passages.map(passage));
  pages = { previous: found.previous, next: found.next };
  showPages();
  const quoted = find("text").querySelector(".quoted");
  find("text-note").textContent = note(quoted);
  if (!isNew) announce(`${source.name}: ${standing(source)}.`);
  else if (quoted) {
    const mark = quoted.querySelector("mark");
    (mark ?? quoted).scrollIntoView({ block: mark ? "center" : "start" });
    quoted.focus({ preventScroll: true });
  } else find("source-name").focus();
}

function note(quoted) {
  if (source.ready_revision === null) return "Its text can be read here when it is ready.";
  if (asked && !quoted) {
    return "The passage that the answer used is no longer in this text: it was replaced since.";
  }
  return asked ? "The passage that the answer uses is marked." : "";
}

function facts() {
  const rows = [
    ["Status", element("span", { class: `status ${source.status}` }, standing(source))],
    ["Kind", KINDS[source.kind] ?? source.kind],
    ["Collections", source.collections.map(({ name }) => name).join(", ")],
    ["Added", time(source.created_at)],
  ];
  if (source.origin !== null) rows.push(["Origin", source.origin]);
  if (source.ready_at) rows.push(["Ready since", time(source.ready_at)]);
  if (source.title && source.title !== source.name) rows.push(["Title", source.title]);
  if (source.url) rows.push(["Address", address(source.url)]);
  const said = remark(source);
  if (said) rows.push(["Reason", element("span", { class: "reason" }, said)]);
  return rows.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]);
}

// Only an address of the web becomes a link: another scheme could run a script.
function address(url) {
  if (!/^https?:/i.test(url)) return url;
  return element("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, url);
}

function passage({ id, text }) {
  const made = element("div", { class: "passage" }, ...blocks(text));
  if (id === asked) {
    made.classList.add("quoted");
    made.setAttribute("tabindex", "-1");
    made.setAttribute("aria-label", "The passage that the answer uses");
    made.setAttribute("role", "group");
    markQuotes(made, quotesBehind(location.hash));
  }
  return made;
}

function showPages() {
  find("earlier").hidden = pages.previous === null;
  find("later").hidden = pages.next === null;
}

async function more(button, place, put) {
  const { id } = source;
  button.disabled = true;
  try {
    const found = await part({ first: place });
    if (isAway(id)) return;
    put(found);
    showPages();
  } catch (failure) {
    find("source-problem").textContent = `${failure.message} Try again later.`;
  } finally {
    button.disabled = false;
  }
}

find("earlier").addEventListener("click", () =>
  more(find("earlier"), pages.previous, (found) => {
    const known = find("text").firstElementChild;
    find("text").prepend(...found.passages.map(passage));
    pages.previous = found.previous;
    known?.scrollIntoView();
  }),
);
find("later").addEventListener("click", () =>
  more(find("later"), pages.next, (found) => {
    find("text").append(...found.passages.map(passage));
    pages.next = found.next;
  }),
);
find("whole-name").addEventListener("click", () => {
  find("source-name").classList.remove("long");
  find("whole-name").hidden = true;
});
find("delete").addEventListener("click", () => {
  find("confirm-name").textContent = source.name;
  find("confirm-name").title = source.name;
  find("confirm-note").textContent =
    source.origin === null
      ? `${GONE} It cannot be brought back, except from a backup.`
      : `${GONE} It comes back when ${source.origin} is fed again, unless it is gone from there.`;
  find("confirm").showModal();
});
find("confirm-no").addEventListener("click", () => find("confirm").close());
find("confirm-yes").addEventListener("click", async () => {
  const { id, name } = source;
  find("confirm-yes").disabled = true;
  try {
    await remove(addressOf(id));
    announce(`${name}: deleted.`);
    location.hash = "#sources";
  } catch (failure) {
    find("source-problem").textContent = failure.leavesOpen
      ? `${failure.message} It may have deleted the source: see the list.`
      : failure.message;
  } finally {
    find("confirm-yes").disabled = false;
    find("confirm").close();
  }
});
document.addEventListener("source-sent", () => {
  if (source && !isAway(source.id)) load();
});
