// Talking to the server: JSON in and out, errors as sentences, the key if there is one. Knows no view.

let key = sessionStorage.getItem("halfstep-key") ?? "";

let language = "";

/** Names in this language from now on; "" for those of the model. */
export function setLanguage(value) {
  language = value;
}

export class ApiError extends Error {
  constructor(status, body) {
    super(body?.error ?? `the server answered ${status}`);
    this.status = status;
    this.field = body?.field ?? "";
    this.suggestions = body?.suggestions ?? [];
  }
}

export function setKey(value) {
  key = value;
  sessionStorage.setItem("halfstep-key", value);
}

async function call(path, options) {
  const headers = { ...(options.headers ?? {}), ...(key ? { Authorization: `Bearer ${key}` } : {}), "Accept-Language": language || "*" };
  const response = await fetch(path, { ...options, headers });
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(response.status, body);
  return body;
}

export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return call(query ? `${path}?${query}` : path, { signal });
}

export function post(path, body, signal = undefined) {
  return call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
}

/** Text as it is, such as a table. */
export function send(path, text, type) {
  return call(path, { method: "POST", headers: { "Content-Type": type }, body: text });
}

/** Only the newest call counts: an older one that is still under way is cancelled and gives null. */
export function latest() {
  let controller = null;
  return async (work) => {
    controller?.abort();
    const own = (controller = new AbortController());
    try {
      const answer = await work(own.signal);
      return own.signal.aborted ? null : answer;
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    }
  };
}
