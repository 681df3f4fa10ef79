// The list of the sources: what there is and where it stands.

import { read } from "./calls.js";
import { announce, element, find, options, time } from "./elements.js";

// How long until the list is read again, in milliseconds: while something is unfinished, and else.
const SOON = 1000;
const LATER = 15000;

// How long typing must rest before it is searched for, in milliseconds.
const REST = 250;

// How many sources one call lists at most.
const MOST = 500;
const STEP = 50;

export const KINDS = { webpage: "Web page", text: "Text", file: "File" };
export const UNFINISHED = ["pending", "processing"];

let writes = false;
let timer = 0;
let reading = 0;
let wanted = STEP;
let shown = "";
let statuses = new Map();

export function openSources(about, collections) {
  writes = about.role !== "read";
  const all = element("option", { value: "" }, "All collections");
  find("collection").replaceChildren(all, ...options(collections));
  find("collection").hidden = collections.length < 2;
}

export function showSources() {
  find("form-card").hidden = !writes;
  find("list-card").hidden = false;
  find("source-card").hidden = true;
  find("sources-title").focus();
  refresh();
}

export function closeSources() {
  clearTimeout(timer);
  reading += 1;
}

async function refresh() {
  if (find("list-card").hidden) return;
  closeSources();
  const mine = reading;
  let delay = LATER;
  try {
    const found = await listed();
    // A later refresh has begun meanwhile, and has newer news.
    if (mine !== reading) return;
    find("sources-problem").textContent = "";
    render(found);
    if (found.data.some(({ status }) => UNFINISHED.includes(status))) delay = SOON;
  } catch (failure) {
    if (mine !== reading) return;
    find("sources-problem").textContent = `${failure.message} The list may be out of date.`;
  }
  timer = setTimeout(refresh, delay);
}

// Where a source stands; while an older text of it is there, only the new one is not ready.
export function standing({ status, ready_revision: ready }) {
  return status === "ready" || ready === null ? status : `new text ${status}`;
}

function whence({ origin }) {
  return origin === null ? "" : ` from ${origin}`;
}

// Why it failed, or what of it could not be read.
export function remark({ reason, warnings }) {
  return reason ?? warnings.join(" ");
}

// As many as are wanted, in as few calls as that takes.
async function listed() {
  const filter = {
    search: find("search").value.trim(),
    status: find("status").value,
    collection: find("collection").value,
    counts: true,
  };
  const data = [];
  let page = { next: null };
  do {
    const limit = Math.min(MOST, wanted - data.length);
    page = await read("public/v1/sources", { ...filter, before: page.next, limit });
    data.push(...page.data);
  } while (page.next !== null && data.length < wanted);
  return { ...page, data };
}

function render(found) {
  // An unchanged list stays, so that a person can select text in it.
  const now = JSON.stringify(found);
  if (now === shown) return;
  shown = now;
  find("counts").textContent = summary(found.counts);
  const focused = document.activeElement?.closest("#list a")?.hash;
  find("list").replaceChildren(...found.data.map(row));
  if (focused) find("list").querySelector(`a[href="${focused}"]`)?.focus();
  find("more").hidden = found.next === null;
  announceChanges(found.data);
}

function summary(counts) {
  const parts = ["ready", "pending", "processing", "failed"]
    .filter((status) => counts[status])
    .map((status) => `${counts[status].toLocaleString()} ${status}`);
  const isFiltered = find("search").value.trim() || find("collection").value;
  if (!parts.length) return isFiltered ? "None is found." : "There are none yet.";
  return `${parts.join(", ")}.`;
}

function row(source) {
  const names = source.collections.map((collection) => collection.name).join(", ");
  const link = element(
    "a",
    { class: "name long", href: `#sources/${encodeURIComponent(source.id)}`, title: source.name },
    source.name,
  );
  const parts = [
    link,
    element("span", { class: `status ${source.status}` }, standing(source)),
    element(
      "span",
      { class: "note" },
      `${KINDS[source.kind] ?? source.kind} in ${names}${whence(source)}, `,
      time(source.ready_at ?? source.created_at),
    ),
  ];
  const said = remark(source);
  if (said) parts.push(element("span", { class: "reason long", title: said }, said));
  return element("li", { "data-status": source.status }, ...parts);
}

function announceChanges(sources) {
  const news = sources
    .filter(({ id, status }) => statuses.has(id) && statuses.get(id) !== status)
    .filter(({ status }) => !UNFINISHED.includes(status))
    .map(({ name, status }) => `${name}: ${status}.`);
  statuses = new Map(sources.map(({ id, status }) => [id, status]));
  if (news.length) announce(news.join(" "));
}

function again() {
  wanted = STEP;
  refresh();
}

let rest = 0;
find("search").addEventListener("input", () => {
  clearTimeout(rest);
  rest = setTimeout(again, REST);
});
for (const id of ["status", "collection"]) find(id).addEventListener("change", again);
find("more").addEventListener("click", () => {
  wanted += STEP;
  refresh();
});
document.addEventListener("source-sent", ({ detail }) => {
  // It may be read, or have failed, before the list names it for the first time.
  if (detail !== null && !statuses.has(detail)) statuses.set(detail, "pending");
  refresh();
});
