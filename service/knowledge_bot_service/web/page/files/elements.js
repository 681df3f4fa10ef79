// Making elements. What the service sends is only ever put in as text, never as markup.

const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function find(id) {
  return document.getElementById(id);
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function options(choices) {
  return choices.map(({ id, name }) => element("option", { value: id }, name));
}

// A time of the service's, in milliseconds since 1970.
export function time(milliseconds) {
  const moment = new Date(milliseconds);
  return element("time", { datetime: moment.toISOString() }, TIME.format(moment));
}

// Something that a screen reader reads out.
export function announce(news) {
  find("news").textContent = news;
}
