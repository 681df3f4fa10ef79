// The view of the chat: the conversations of a bot, and the one that the address names.

import { read, send } from "./calls.js";
import { answered } from "./answer.js";
import { element, find, options, time } from "./elements.js";

const STEP = 30;

let bots = [];
let chat = null;
let reading = 0;
let talks = { bot: null, rows: [], next: null };

// Conversations that wait for an answer, by id.
const unanswered = new Map();

export function openChat(known) {
  bots = known;
  find("bot").replaceChildren(...options(bots));
  // The name of the bot is there once: to choose from, or as the heading.
  find("bot").hidden = bots.length < 2;
  find("chat-title").textContent = bots.length === 1 ? bots[0].name : "Chat";
  find("chat-title").classList.toggle("hidden", bots.length > 1);
}

export async function showChat(bot, conversation) {
  if (!bot && chat) {
    // The view is opened again, with what was in it.
    history.replaceState(null, "", hashOf(chat));
    [bot, conversation] = [chat.bot, chat.conversation];
  }
  const chosen = bots.some(({ id }) => id === bot) ? bot : bots[0]?.id;
  find("bot").value = chosen;
  // A conversation that has just begun got its id, and the address, while it was shown.
  if (!chat || chat.bot !== chosen || chat.conversation !== (conversation ?? null)) {
    chat = opened(chosen, conversation ?? null);
    show();
    if (conversation) await loadEarlier(chat);
  } else show();
  if (talks.bot !== chosen) await loadTalks(chosen);
  else renderTalks();
  // On a phone the keyboard would cover the half of it.
  find(matchMedia("(pointer: fine)").matches ? "question" : "chat-title").focus();
}

export function closeChat() {
  reading += 1;
}

function opened(bot, conversation) {
  const kept = unanswered.get(conversation);
  if (kept) return kept;
  const turns = element("div", { class: "turns" });
  if (!conversation) {
    turns.append(element("p", { class: "note" }, "Ask about what is in the sources."));
  }
  return { bot, conversation, turns, waits: false, next: null };
}

// The newest messages come first, so that they are put in from the bottom up.
async function loadEarlier(one) {
  const button = one.turns.querySelector(".earlier");
  button?.remove();
  const path = `${ofBot(one.bot)}/${encodeURIComponent(one.conversation)}`;
  try {
    const found = await read(path, { before: one.next, limit: STEP });
    const made = found.rows
      .toReversed()
      .flatMap((message) => [asked(message.question), answered(message.answer, message.sources)]);
    const height = find("log").scrollHeight;
    one.turns.prepend(...made);
    const isFirst = one.next === null;
    one.next = found.next;
    if (found.next !== null) one.turns.prepend(earlier(one));
    if (one !== chat) return;
    // What was being read stays where it is.
    find("log").scrollTop = isFirst ? find("log").scrollHeight : find("log").scrollHeight - height;
  } catch (failure) {
    const message =
      failure.status === 404
        ? "This conversation is not there. Start a new one, or choose another."
        : `${failure.message} Open the conversation again later.`;
    one.turns.prepend(element("p", { class: "problem", role: "alert" }, message));
    if (failure.status === 404) one.conversation = null;
  }
}

function earlier(one) {
  const button = element("button", { type: "button", class: "quiet earlier" }, "Show what is before");
  button.addEventListener("click", () => loadEarlier(one));
  return button;
}

function ofBot(bot) {
  return `page/bots/${encodeURIComponent(bot)}/conversations`;
}

async function loadTalks(bot, before = null) {
  closeChat();
  const mine = reading;
  try {
    const found = await read(ofBot(bot), { before, limit: STEP });
    if (mine !== reading) return;
    const rows = before === null ? found.rows : [...talks.rows, ...found.rows];
    talks = { bot, rows, next: found.next };
    find("talks-problem").textContent = "";
    renderTalks();
  } catch (failure) {
    if (mine !== reading) return;
    find("talks-problem").textContent = `${failure.message} The list may be out of date.`;
  }
}

function renderTalks() {
  const rows = talks.rows.map(({ id, name, created_at: created }) => {
    const href = `#chat/${encodeURIComponent(talks.bot)}/${encodeURIComponent(id)}`;
    const link = element("a", { href, title: name }, element("span", { class: "long" }, name));
    link.append(element("span", { class: "note" }, time(created)));
    if (id === chat?.conversation) link.setAttribute("aria-current", "page");
    return element("li", {}, link);
  });
  if (!rows.length) rows.push(element("li", { class: "note" }, "There are none yet."));
  find("talks").replaceChildren(...rows);
  find("more-talks").hidden = talks.next === null;
}

function asked(question) {
  return element("p", { class: "bubble question" }, question);
}

async function ask(question) {
  const one = chat;
  const reply = element("p", { class: "bubble answer waits" }, "Looking it up…");
  for (const old of one.turns.querySelectorAll(":scope > .note, :scope > .problem")) old.remove();
  one.turns.append(asked(question), reply);
  one.waits = true;
  if (one.conversation) unanswered.set(one.conversation, one);
  show();
  const value = { bot_id: one.bot, content: question };
  if (one.conversation) value.conversation_id = one.conversation;
  let begins = false;
  try {
    const message = await send("public/v1/messages", value);
    begins = one.conversation === null;
    one.conversation = message.conversation_id;
    reply.replaceWith(answered(message.answer, message.sources ?? null));
    // A reload, or the address sent to somebody, shows this conversation.
    if (begins && one === chat && !find("chat-view").hidden) {
      history.replaceState(null, "", hashOf(one));
    }
  } catch (failure) {
    reply.previousElementSibling.remove();
    reply.replaceWith(element("p", { class: "problem" }, explained(failure)));
    if (one === chat && !find("question").value) find("question").value = question;
  } finally {
    one.waits = false;
    unanswered.delete(one.conversation);
    if (one === chat) show();
  }
  // Who has the answer may ask on: the list of conversations is not waited for.
  if (begins && one.bot === chat?.bot) await loadTalks(one.bot);
}

function explained(failure) {
  if (failure.status === 404) return `${failure.message} Start a new conversation and ask again.`;
  if (failure.status === 0) {
    return `${failure.message} It may be stopped or out of reach. The question is still in its field: ask it again when the service is back; asking twice does no harm.`;
  }
  return failure.leavesOpen ? `${failure.message} The question may be asked again.` : failure.message;
}

function hashOf({ bot, conversation }) {
  const parts = ["#chat", encodeURIComponent(bot)];
  if (conversation) parts.push(encodeURIComponent(conversation));
  return parts.join("/");
}

function show() {
  const log = find("log");
  // Turns that are there stay as they are: a screen reader reads out what is new in the log.
  if (log.firstChild !== chat.turns) log.replaceChildren(chat.turns);
  // The end, or of an answer that is longer than the log its question.
  const newest = chat.turns.querySelector(":scope > .question:nth-last-child(2)");
  log.scrollTop = newest ? newest.offsetTop : log.scrollHeight;
  find("ask-form").querySelector("[type=submit]").disabled = chat.waits;
}

function submit() {
  const question = find("question").value.trim();
  if (!question || chat.waits) return;
  find("question").value = "";
  ask(question);
}

find("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
find("question").addEventListener("keydown", (event) => {
  // A key that ends the input of a character (Japanese, for one) is not meant for the form.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
find("bot").addEventListener("change", () => {
  location.hash = hashOf({ bot: find("bot").value });
});
find("fresh").addEventListener("click", () => {
  const there = hashOf({ bot: chat.bot });
  chat = null;
  if (location.hash === there) showChat(find("bot").value);
  else location.hash = there;
});
find("more-talks").addEventListener("click", () => loadTalks(talks.bot, talks.next));
