// The view of the chat: one conversation with each bot, kept until a new one is started.

import { create } from "./calls.js";
import { element, find, options } from "./elements.js";

// What stands between an answer and the names of its sources.
const SOURCES = "\n\nSources: ";

const chats = new Map();

export function openChat(bots) {
  find("bot").replaceChildren(...options(bots));
  show();
}

function current() {
  const bot = find("bot").value;
  if (!chats.has(bot)) {
    const invitation = element("p", { class: "note" }, "Ask about what is in the sources.");
    const turns = element("div", { class: "turns" }, invitation);
    chats.set(bot, { bot, conversation: null, turns, waits: false });
  }
  return chats.get(bot);
}

async function ask(question) {
  const chat = current();
  const reply = element("p", { class: "bubble answer waits" }, "Looking it up…");
  chat.turns.querySelector(".note")?.remove();
  chat.turns.append(element("p", { class: "bubble question" }, question), reply);
  chat.waits = true;
  show();
  const value = { bot_id: chat.bot, content: question };
  if (chat.conversation) value.conversation_id = chat.conversation;
  try {
    const message = await create("public/v1/messages", value);
    chat.conversation = message.conversation_id;
    reply.replaceWith(answered(message.answer));
  } catch (failure) {
    reply.replaceWith(element("p", { class: "problem" }, failure.message));
    if (!find("question").value) find("question").value = question;
  } finally {
    chat.waits = false;
    show();
  }
}

function show() {
  const chat = current();
  const log = find("log");
  // Turns that are there stay as they are: a screen reader reads out what is new in the log.
  if (log.firstChild !== chat.turns) log.replaceChildren(chat.turns);
  log.scrollTop = log.scrollHeight;
  find("ask-form").querySelector("[type=submit]").disabled = chat.waits;
}

function answered(answer) {
  const place = answer.lastIndexOf(SOURCES);
  const text = place < 0 ? answer : answer.slice(0, place);
  const bubble = element("div", { class: "bubble answer" }, element("p", {}, text));
  if (place >= 0) {
    const names = answer.slice(place + SOURCES.length);
    bubble.append(element("p", { class: "cited" }, element("b", {}, "Sources: "), names));
  }
  return bubble;
}

function submit() {
  const question = find("question").value.trim();
  if (!question || current().waits) return;
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
find("bot").addEventListener("change", show);
find("fresh").addEventListener("click", () => {
  chats.delete(find("bot").value);
  show();
  find("question").focus();
});
