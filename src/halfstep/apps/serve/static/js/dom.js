// Building and filling elements. Knows nothing of models or of the server.

/** An element: h("button", { class: "quiet", onclick: f, ariaLabel: "..." }, "text", child). Text is never HTML. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && name !== "role") element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A horizontal bar filled to `share` of its width; decoration beside a number that is also text. */
export function bar(share, kind = "") {
  const fill = h("i");
  fill.style.width = `${Math.round(1000 * Math.min(1, Math.max(0, share))) / 10}%`;
  const frame = h("span", { class: `bar ${kind}` }, fill);
  frame.setAttribute("aria-hidden", "true");
  return frame;
}

/** Say something to screen readers without moving the focus. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

/** Call `action` when nothing more has happened for `ms`. */
export function debounced(action, ms) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), ms);
  };
}

/** "occupation" -> "occupations"; enough for the nouns of a page. */
export function plural(noun) {
  return /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : /(s|x|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`;
}

/** "an item", "a skill". */
export function a(noun) {
  return `${/^(?!us|uni|eu)[aeiou]/i.test(noun) ? "an" : "a"} ${noun}`;
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The name of an entry; where its id is an address on the web, a link to it. */
export function named(entry) {
  const linked = typeof entry.id === "string" && URL.canParse(entry.id) && new URL(entry.id).origin !== "null"; // no script has an origin
  const link = linked ? h("a", { class: "source", href: entry.id, target: "_blank", rel: "noopener noreferrer", "aria-label": `${entry.label}: its page on the web` }, "↗") : null;
  return h("span", { class: "name" }, entry.label, ...(link ? [" ", link] : []));
}
