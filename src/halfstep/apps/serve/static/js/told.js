// What is known of somebody new beside items: features by name, with completion. Knows no answers.

import { get } from "./api.js";
import { combobox } from "./combobox.js";
import { h } from "./dom.js";

/**
 * @param {object} state told: features that were chosen
 * @param {object} act tell(entry), untell(entry)
 */
export function toldCard(state, act) {
  const said = (entry) => state.told.some((other) => other.id === entry.id);
  const field = combobox({
    label: "Known of you",
    placeholder: "Add a feature…",
    complete: async (q, signal) => (await get("/features", { q, n: 8 }, signal)).results.filter((entry) => !said(entry)),
    choose: act.tell,
    erase: () => state.told.length && act.untell(state.told.at(-1)),
  });
  const chips = h("ul", { class: "chips", "aria-label": "Known of you" });
  const hint = h("p", { class: "hint" }, "Somebody without any history is ranked for by this alone.");
  const chip = (entry) => {
    const button = h("button", { type: "button", "aria-label": `Remove ${entry.label}`, onclick: () => act.untell(entry) }, "×");
    return h("li", { class: "chip" }, h("span", {}, entry.label), button);
  };
  return {
    element: h("section", { class: "card", "aria-label": "Features" }, field.element, chips, hint),
    focus: () => field.input.focus(),
    draw: () => chips.replaceChildren(...state.told.map(chip)),
  };
}

/** The body of a request: a value for each column that something was said of. */
export function featuresOf(told) {
  const columns = {};
  for (const { column, kind, value } of told) {
    if (kind === "flags") columns[column] = true;
    else if (kind === "lists") columns[column] = [...(columns[column] ?? []), value];
    else if (kind === "words") columns[column] = columns[column] ? `${columns[column]} ${value}` : value;
    else columns[column] = value; // one group of a column at a time: the last one said
  }
  return columns;
}
