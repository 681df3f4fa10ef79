// Making elements. What the service sends is only ever put in as text, never as markup.

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
