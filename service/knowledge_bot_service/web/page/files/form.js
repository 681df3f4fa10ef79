// The form that adds a source.

import { send, upload } from "./calls.js";
import { announce, element, find } from "./elements.js";

const MEGABYTE = 1e6;

let largest = Infinity;
let cancel = null;

export function openForm(about, collections) {
  largest = about.upload_bytes;
  const boxes = collections.map((collection, index) => {
    const box = element("input", { type: "checkbox", value: collection.id });
    box.checked = index === 0;
    return element("label", {}, box, collection.name);
  });
  find("collections").replaceChildren(find("collections").querySelector("legend"), ...boxes);
  chooseKind();
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
  const problem = refusal(collections);
  find("add-problem").textContent = problem;
  if (problem) return;
  find("add").disabled = true;
  try {
    const source = await sent(kind(), find("name").value.trim(), collections);
    for (const id of ["url", "content", "file", "name"]) find(id).value = "";
    announce(`${source.name}: accepted.`);
    document.dispatchEvent(new CustomEvent("source-sent", { detail: source.id }));
  } catch (failure) {
    // Sending again what the service may have taken would make a second source.
    const unknown = failure.leavesOpen && cancel !== "cancelled";
    find("add-problem").textContent = unknown
      ? `${failure.message} It may have acted: see the list before you send the source again.`
      : failure.message;
    document.dispatchEvent(new CustomEvent("source-sent", { detail: null }));
  } finally {
    find("add").disabled = false;
    find("upload").hidden = true;
    cancel = null;
  }
}

function refusal(collections) {
  if (!collections.length) return "Choose a collection.";
  const file = kind() === "upload" ? find("file").files[0] : null;
  if (file && file.size > largest) {
    return `The file has ${inMegabytes(file.size)}, and the service takes ${inMegabytes(largest)}.`;
  }
  return "";
}

function sent(chosen, name, collections) {
  const path = `public/v1/sources/${chosen}`;
  if (chosen === "webpage") {
    const url = find("url").value.trim();
    return send(path, { name: name || url, collections, url });
  }
  if (chosen === "write") {
    return send(path, { name, collections, content: find("content").value });
  }
  const file = find("file").files[0];
  progress(0, file.size);
  find("upload").hidden = false;
  const uploading = upload(path, { name: name || file.name, collections }, file, progress);
  cancel = uploading.cancel;
  return uploading.answered;
}

function progress(gone, total) {
  const share = total ? Math.floor((100 * gone) / total) : 0;
  find("upload-progress").value = share;
  find("upload-note").textContent =
    share < 100
      ? `${share} % of ${inMegabytes(total)}`
      : "Sent. Waiting until the service has stored it.";
}

function inMegabytes(bytes) {
  const megabytes = (bytes / MEGABYTE).toLocaleString(undefined, { maximumFractionDigits: 1 });
  return bytes < MEGABYTE / 10 ? `${bytes.toLocaleString()} bytes` : `${megabytes} MB`;
}

find("upload-cancel").addEventListener("click", () => {
  const stop = cancel;
  cancel = "cancelled";
  stop?.();
});
for (const radio of find("add-form").elements.kind) radio.addEventListener("change", chooseKind);
find("add-form").addEventListener("submit", (event) => {
  event.preventDefault();
  add();
});
