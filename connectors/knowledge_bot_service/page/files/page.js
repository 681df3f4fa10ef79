// The page: asks for the key, then shows the sources or the chat, as the address's fragment says.

import { openChat } from "./chat.js";
import { forgetKey, keepKey, key, read } from "./calls.js";
import { find } from "./elements.js";
import { closeSources, openSources } from "./sources.js";

const VIEWS = { "#sources": "sources-view", "#chat": "chat-view" };
const DEFAULT = "#sources";

let open = false;

async function enter() {
  try {
    const [collections, bots] = await Promise.all([
      read("public/v1/collections"),
      read("public/v1/bots"),
    ]);
    open = true;
    openSources(collections.data);
    openChat(bots.data);
    showAndFocus();
  } catch (failure) {
    leave(failure.status === 401 ? "The service does not know this key." : failure.message);
  }
}

function leave(problem) {
  forgetKey();
  closeSources();
  open = false;
  find("door-problem").textContent = problem;
  show();
  find("key").focus();
}

function show() {
  const chosen = VIEWS[location.hash] ? location.hash : DEFAULT;
  find("door").hidden = open;
  find("views").hidden = !open;
  find("leave").hidden = !open;
  for (const [hash, view] of Object.entries(VIEWS)) {
    find(view).hidden = !open || hash !== chosen;
    const link = document.querySelector(`nav a[href="${hash}"]`);
    if (hash === chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function showAndFocus() {
  show();
  document.querySelector("main > section:not([hidden]) h2[tabindex]")?.focus();
}

find("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey(find("key").value);
  find("key").value = "";
  find("door-problem").textContent = "";
  enter();
});

// What was shown needs the key: a new page holds none of it.
find("leave").addEventListener("click", () => {
  forgetKey();
  location.reload();
});

window.addEventListener("hashchange", showAndFocus);
document.addEventListener("key-refused", () => {
  if (open) leave("The service does not know this key any more.");
});

if (key()) enter();
else show();
