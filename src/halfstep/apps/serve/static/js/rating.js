// The view of a model of ratings: what one would give, how sure that is, and what it is made of.

import { post } from "./api.js";
import { announce, bar, capital, h } from "./dom.js";

export async function mount(main, model) {
  const { user, item } = model.names;
  const who = h("input", { type: "text", id: "who", autocomplete: "off", required: true });
  const what = h("input", { type: "text", id: "what", autocomplete: "off", required: true });
  const level = h("input", { type: "range", id: "level", min: 0.5, max: 0.99, step: 0.01, value: 0.9 });
  const shown = h("output", { htmlFor: "level" }, "90 %");
  level.addEventListener("input", () => (shown.textContent = `${Math.round(100 * level.value)} %`));
  const result = h("div", { class: "stack", role: "status" });
  let intervals = true; // until the model says that it has none

  async function ask(event) {
    event.preventDefault();
    result.replaceChildren(); // nothing stale stays under an error
    const pair = [[typed(who.value), typed(what.value)]];
    try {
      let found;
      try {
        found = await post("/predict", { pairs: pair, parts: true, ...(intervals ? { level: Number(level.value) } : {}) });
      } catch (error) {
        if (!intervals || error.field !== "level") throw error;
        intervals = false;
        found = await post("/predict", { pairs: pair, parts: true });
      }
      result.replaceChildren(...drawn(found));
    } catch (error) {
      result.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
  }

  function drawn(found) {
    const value = found.values[0];
    const between = found.intervals?.[0];
    const parts = Object.entries({ average: "an average pair", user: `this ${user}`, item: `this ${item}`, taste: "how they go together" });
    const largest = Math.max(...parts.map(([name]) => Math.abs(found.parts[0][name])), 1e-9);
    announce(`expected ${number(value)}`);
    return [
      h("p", { class: "value" }, h("b", {}, number(value)), between ? ` between ${number(between[0])} and ${number(between[1])}, ${Math.round(100 * found.level)} % sure` : ""),
      h("h3", {}, "What it is made of"),
      h("dl", { class: "parts" }, ...parts.flatMap(([name, text]) => [h("dt", {}, capital(text)), h("dd", {}, bar(Math.abs(found.parts[0][name]) / largest, found.parts[0][name] < 0 ? "against" : "")), h("dd", {}, signed(found.parts[0][name]))])),
    ];
  }

  main.replaceChildren(
    h("div", { class: "intro" }, h("h1", {}, "Rating explorer"), h("p", { class: "hint" }, `Name ${user} and ${item}; see the rating to expect, how sure it is, and what it is made of.`)),
    h(
      "form",
      { class: "card", onsubmit: ask },
      h("div", { class: "field" }, h("label", { htmlFor: "who" }, capital(user)), who),
      h("div", { class: "field" }, h("label", { htmlFor: "what" }, capital(item)), what),
      h("div", { class: "field" }, h("span", { class: "label-row" }, h("label", { htmlFor: "level" }, "Sure by"), shown), level),
      h("button", { type: "submit", class: "primary" }, "Predict"),
    ),
    h("section", { class: "card", "aria-label": "Answer" }, result),
  );
}

/** Ids that are whole numbers are numbers. */
function typed(text) {
  return /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text.trim();
}

const number = (value) => (typeof value === "number" ? value.toFixed(2) : String(value));
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
