// A text field with completion, after the ARIA combobox pattern: arrows, Enter, Escape, Home and End work.

import { announce, debounced, h } from "./dom.js";
import { latest } from "./api.js";

let count = 0;

/**
 * @param {object} options label, placeholder, complete(text, signal) -> [{id, label}], choose(entry), and
 *   erase() for Backspace in an empty field.
 * @returns {{element: HTMLElement, input: HTMLInputElement}}
 */
export function combobox({ label, placeholder, complete, choose, erase = () => {} }) {
  const id = `combo-${++count}`;
  let entries = [];
  let active = -1;
  let shown = ""; // what the entries were found for
  const newest = latest();
  const list = h("ul", { id: `${id}-list`, role: "listbox", hidden: true });
  list.setAttribute("aria-label", label);
  const input = h("input", { id, type: "text", placeholder, autocomplete: "off", spellcheck: false, role: "combobox" });
  for (const [name, value] of Object.entries({ autocomplete: "list", expanded: "false", controls: list.id })) {
    input.setAttribute(`aria-${name}`, value);
  }

  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function point(at) {
    active = entries.length ? (at + entries.length) % entries.length : -1;
    [...list.children].forEach((option, k) => option.setAttribute("aria-selected", String(k === active)));
    if (active < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[active].id);
    list.children[active].scrollIntoView({ block: "nearest" });
  }

  function take(at) {
    const entry = entries[at];
    if (!entry) return;
    input.value = shown = "";
    close();
    choose(entry);
  }

  function show(found, text) {
    entries = found;
    shown = text;
    list.replaceChildren(
      ...found.map((entry, k) => {
        const option = h("li", { id: `${id}-${k}`, role: "option" }, ...marked(entry.label, text));
        option.setAttribute("aria-selected", "false");
        option.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
        option.addEventListener("click", () => take(k));
        option.addEventListener("mousemove", () => active !== k && point(k));
        return option;
      }),
    );
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    point(found.length && text ? 0 : -1);
    announce(found.length ? `${found.length} matches` : `nothing matches ${text}`);
  }

  async function search() {
    const text = input.value.trim();
    try {
      const found = await newest((signal) => complete(text, signal));
      if (found && document.activeElement === input) show(found, text);
    } catch (error) {
      announce(error.message);
    }
  }

  /** The first that is found for what was typed, not for what stood there before. */
  async function settle() {
    await search();
    take(active);
  }

  const soon = debounced(() => input.value.trim() !== shown && search(), 60);
  input.addEventListener("input", soon);
  input.addEventListener("click", () => list.hidden && search());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const open = !list.hidden;
    if (event.key === "ArrowDown") open ? point(active + 1) : search();
    else if (event.key === "ArrowUp" && open) point(active - 1);
    else if (event.key === "Home" && open && active >= 0) point(0);
    else if (event.key === "End" && open && active >= 0) point(entries.length - 1);
    else if (event.key === "Enter" && input.value.trim() !== shown) settle();
    else if (event.key === "Enter" && open && active >= 0) take(active);
    else if (event.key === "Escape" && open) close();
    else {
      if (event.key === "Backspace" && !input.value) erase();
      return;
    }
    event.preventDefault();
  });
  const element = h("div", { class: "field" }, h("label", { htmlFor: id }, label), h("div", { class: "combo" }, input, list));
  return { element, input };
}

function marked(label, text) {
  const at = text ? label.toLowerCase().indexOf(text.toLowerCase()) : -1;
  if (at < 0) return [label];
  return [label.slice(0, at), h("mark", {}, label.slice(at, at + text.length)), label.slice(at + text.length)];
}
