// Calls to the service. The key goes in its header, and never into an address.

const ITEM = "knowledge-bot-key";

// Without an answer nobody knows whether the service has acted.
const NO_ANSWER = "The service gave no answer, and may have acted.";

export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function key() {
  return sessionStorage.getItem(ITEM);
}

export function keepKey(given) {
  sessionStorage.setItem(ITEM, given);
}

export function forgetKey() {
  sessionStorage.removeItem(ITEM);
}

// Paths are relative, so that the page also works behind a proxy that adds a prefix.
export function read(path) {
  return call(path, {});
}

export function create(path, value) {
  return call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ value }),
  });
}

export function upload(path, value, file) {
  const form = new FormData();
  form.append("value", JSON.stringify(value));
  form.append("file", file);
  return call(path, { method: "POST", body: form });
}

async function call(path, request) {
  const headers = { ...request.headers, "X-API-KEY": key() ?? "" };
  let response;
  let body;
  try {
    response = await fetch(path, { ...request, headers, cache: "no-store", redirect: "error" });
    body = await response.text();
  } catch {
    throw new Failure(0, NO_ANSWER);
  }
  const answer = parsed(body);
  if (!response.ok) {
    if (response.status === 401) document.dispatchEvent(new Event("key-refused"));
    throw new Failure(response.status, answer?.message ?? `The service answered ${response.status}.`);
  }
  return answer?.value ?? answer;
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
