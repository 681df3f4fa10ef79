// The view of the sources: what there is and where it stands, and a form to add more.

import { create, read, upload } from "./calls.js";
import { element, find } from "./elements.js";

// How long until the list is read again, in milliseconds: while something is unfinished, and else.
const SOON = 1000;
const LATER = 15000;

const KINDS = { webpage: "Web page", text: "Text", file: "File" };
const UNFINISHED = ["pending", "processing"];
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

let timer = 0;
let reading = 0;
let shown = "";
let statuses = new Map();

export function openSources(collections) {
  const boxes = collections.map((collection, index) => {
    const box = element("input", { type: "checkbox", value: collection.id });
    box.checked = index === 0;
    return element("label", {}, box, collection.name);
  });
  find("collections").replaceChildren(find("collections").querySelector("legend"), ...boxes);
  chooseKind();
  refresh();
}

export function closeSources() {
  clearTimeout(timer);
  reading += 1;
}

async function refresh() {
  closeSources();
  const mine = reading;
  const status = find("shown").value;
  let delay = LATER;
  try {
    const overview = await read(status ? `page/sources?status=${status}` : "page/sources");
    // A later refresh has begun meanwhile, and has newer news.
    if (mine !== reading) return;
    find("sources-problem").textContent = "";
    render(overview);
    if (UNFINISHED.some((one) => overview.counts[one])) delay = SOON;
  } catch (failure) {
    if (mine !== reading) return;
    find("sources-problem").textContent = "The service gave no list. This one may be out of date.";
  }
  timer = setTimeout(refresh, delay);
}

function render(overview) {
  // An unchanged list stays, so that a person can select text in it.
  const now = JSON.stringify(overview);
  if (now === shown) return;
  shown = now;
  find("counts").textContent = summary(overview);
  find("list").replaceChildren(...overview.newest.map(row));
  announce(overview.newest);
}

function summary({ counts, newest }) {
  const parts = ["ready", "pending", "processing", "failed"]
    .filter((status) => counts[status])
    .map((status) => `${counts[status].toLocaleString()} ${status}`);
  if (!parts.length) return "There are none yet.";
  const chosen = find("shown").value;
  const total = chosen ? (counts[chosen] ?? 0) : Object.values(counts).reduce((a, b) => a + b);
  const part = total > newest.length ? ` The newest ${newest.length} are shown.` : "";
  return `${parts.join(", ")}.${part}`;
}

function row(source) {
  const created = new Date(source.created_at);
  const names = source.collections.map((collection) => collection.name).join(", ");
  const parts = [
    element("span", { class: "name" }, source.name),
    element("span", { class: `status ${source.status}` }, source.status),
    element(
      "span",
      { class: "note" },
      `${KINDS[source.kind] ?? source.kind} in ${names}, `,
      element("time", { datetime: created.toISOString() }, TIME.format(created)),
    ),
  ];
  if (source.reason) parts.push(element("span", { class: "reason" }, source.reason));
  return element("li", { "data-status": source.status }, ...parts);
}

function announce(sources) {
  const news = sources
    .filter(({ id, status }) => statuses.has(id) && statuses.get(id) !== status)
    .filter(({ status }) => !UNFINISHED.includes(status))
    .map(({ name, status }) => `${name}: ${status}.`);
  statuses = new Map(sources.map(({ id, status }) => [id, status]));
  if (news.length) find("news").textContent = news.join(" ");
}

function kind() {
  return find("add-form").elements.kind.value;
}

function chooseKind() {
  for (const part of find("add-form").querySelectorAll("[data-kind]")) {
    part.hidden = part.dataset.kind !== kind();
    // What is hidden is neither asked for nor checked.
    for (const field of part.querySelectorAll("input, textarea")) field.disabled = part.hidden;
  }
  find("name").required = kind() === "write";
  find("name-optional").hidden = kind() === "write";
}

async function add() {
  const chosen = find("collections").querySelectorAll("input:checked");
  const collections = Array.from(chosen, (box) => box.value);
  if (!collections.length) {
    find("add-problem").textContent = "Choose a collection.";
    return;
  }
  find("add-problem").textContent = "";
  const button = find("add-form").querySelector("[type=submit]");
  button.disabled = true;
  try {
    const source = await send(kind(), find("name").value.trim(), collections);
    for (const id of ["url", "content", "file", "name"]) find(id).value = "";
    find("news").textContent = `${source.name}: accepted.`;
  } catch (failure) {
    // Without an answer, or after a fault, the service may have added it: sending again would then
    // make a second one.
    const unknown = failure.status === 0 || failure.status >= 500;
    find("add-problem").textContent = unknown
      ? `${failure.message} See the list before you add the source again.`
      : failure.message;
  } finally {
    button.disabled = false;
    refresh();
  }
}

function send(chosen, name, collections) {
  if (chosen === "webpage") {
    const url = find("url").value.trim();
    return create("public/v1/sources/webpage", { name: name || url, collections, url });
  }
  if (chosen === "write") {
    return create("public/v1/sources/write", { name, collections, content: find("content").value });
  }
  const file = find("file").files[0];
  return upload("public/v1/sources/upload", { name: name || file.name, collections }, file);
}

find("shown").addEventListener("change", refresh);
for (const radio of find("add-form").elements.kind) radio.addEventListener("change", chooseKind);
find("add-form").addEventListener("submit", (event) => {
  event.preventDefault();
  add();
});
