// The page: asks for the key, then shows what the address's fragment says: `#sources`,
// `#sources/src_…`, `#sources/src_…/12` (a passage), `#chat`, `#chat/bot_…`, `#chat/bot_…/conv_…`.

import { closeChat, openChat, showChat } from "./chat.js";
import { forgetKey, keepKey, key, read } from "./calls.js";
import { find } from "./elements.js";
import { openForm } from "./form.js";
import { openSource, showSource } from "./source.js";
import { closeSources, openSources, showSources } from "./sources.js";

const VIEWS = ["sources", "chat"];
const WIDE = matchMedia("(min-width: 48.01rem)");

let open = false;

async function enter() {
  try {
    const [about, collections, bots] = await Promise.all([
      read("page/about"),
      read("public/v1/collections"),
      read("public/v1/bots"),
    ]);
    open = true;
    openForm(about, collections.data);
    openSources(about, collections.data);
    openSource(about);
    openChat(bots.data);
    fold();
    route();
  } catch (failure) {
    leave(
      failure.status === 401
        ? "The service does not know this key."
        : `${failure.message} Is it running? Load the page again when it is.`,
      failure.status !== 401,
    );
  }
}

function leave(problem, keepsKey = false) {
  if (!keepsKey) forgetKey();
  closeSources();
  closeChat();
  open = false;
  find("door-problem").textContent = problem;
  show(VIEWS[0]);
  find("key").focus();
}

function show(view) {
  find("door").hidden = open;
  find("views").hidden = !open;
  find("leave").hidden = !open;
  for (const one of VIEWS) {
    find(`${one}-view`).hidden = !open || one !== view;
    const link = document.querySelector(`nav a[href="#${one}"]`);
    if (one === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function route() {
  if (!open) {
    show(VIEWS[0]);
    return;
  }
  const [view, ...place] = location.hash.slice(1).split("/").map(decoded);
  closeSources();
  closeChat();
  show(VIEWS.includes(view) ? view : VIEWS[0]);
  if (view === "chat") showChat(place[0], place[1]);
  else if (view === "sources" && place[0]) showSource(place[0], Number(place[1]) || null);
  else showSources();
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

// What is beside the text on a wide screen is above it on a narrow one, and folded there.
function fold() {
  for (const card of [find("form-card"), find("talks-card")]) card.open = WIDE.matches;
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
  location.replace("#");
  location.reload();
});

WIDE.addEventListener("change", fold);
window.addEventListener("hashchange", route);
document.addEventListener("key-refused", () => {
  if (open) leave("The service does not know this key any more.");
});

if (key()) enter();
else leave("");
