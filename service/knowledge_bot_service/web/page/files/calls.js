// Calls to the service. The key goes in its header, and never into an address.

const ITEM = "knowledge-bot-key";

// How long reading a list may take, in milliseconds. An answer takes as long as the model that
// words it, and an upload as long as its file.
const PATIENCE = 30000;

export class Failure extends Error {
  // A status of 0 says that there was no answer at all.
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  // Without an answer of the service's, or after a fault, nobody knows whether it has acted.
  get leavesOpen() {
    return this.status < 400 || (this.status >= 500 && this.status !== 503 && this.status !== 507);
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
export function read(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== "");
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  return call(path + query, { signal: AbortSignal.timeout(PATIENCE) });
}

export function remove(path) {
  return call(path, { method: "DELETE" });
}

export function send(path, value) {
  return call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ value }),
  });
}

// Sends a file, and reports how many of its bytes are sent; `fetch` does not know that. Returns the
// promise of the answer, and what cancels the upload.
export function upload(path, value, file, onProgress) {
  const form = new FormData();
  form.append("value", JSON.stringify(value));
  form.append("file", file);
  const request = new XMLHttpRequest();
  const answered = new Promise((resolve, reject) => {
    const lost = (message) => () => reject(new Failure(0, message));
    request.open("POST", path);
    request.setRequestHeader("X-API-KEY", key() ?? "");
    request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(loaded, total));
    request.addEventListener("error", lost("The service gave no answer."));
    request.addEventListener("abort", lost("The upload was cancelled."));
    request.addEventListener("load", () => {
      try {
        resolve(answerOf(request.status, request.responseText));
      } catch (failure) {
        reject(failure);
      }
    });
    request.send(form);
  });
  return { answered, cancel: () => request.abort() };
}

async function call(path, request) {
  const headers = { ...request.headers, "X-API-KEY": key() ?? "" };
  let response;
  let body;
  try {
    response = await fetch(path, { ...request, headers, cache: "no-store", redirect: "error" });
    body = await response.text();
  } catch {
    throw new Failure(0, "The service gave no answer.");
  }
  return answerOf(response.status, body);
}

function answerOf(status, body) {
  if (status === 204) return null;
  const answer = parsed(body);
  if (status < 200 || status > 299 || answer === null) {
    if (status === 401) document.dispatchEvent(new Event("key-refused"));
    throw new Failure(
      status,
      answer?.message ?? `Something before the service answered, a proxy perhaps (status ${status}).`,
    );
  }
  return answer.value ?? answer;
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
