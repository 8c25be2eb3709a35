// Single values as numbers, as marks on a line with their interval, and as sums of parts. Knows no server.

import { bar, capital, h } from "./dom.js";

export const fixed = (value) => (typeof value === "number" ? value.toFixed(2) : String(value));

export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

/** A value on a line from low to high with its interval; decoration beside numbers that are also text. */
export function line(value, between, { low, high }) {
  const at = (x) => `${Math.round((1000 * (x - low)) / Math.max(high - low, 1e-9)) / 10}%`;
  const frame = h("span", { class: "whisker" });
  frame.setAttribute("aria-hidden", "true");
  if (typeof value !== "number") return frame;
  if (between) {
    const range = h("i");
    range.style.left = at(between[0]);
    range.style.right = `${100 - parseFloat(at(between[1]))}%`;
    frame.append(range);
  }
  const mark = h("b");
  mark.style.left = at(value);
  frame.append(mark);
  return frame;
}

/** What a value is made of, as numbers with bars. */
export function partsList(parts, { user, item }) {
  const said = Object.entries({ average: "an average pair", user: `this ${user}`, item: `this ${item}`, taste: "how they go together" });
  const largest = Math.max(...said.map(([name]) => Math.abs(parts[name])), 1e-9);
  return h("dl", { class: "parts" }, ...said.flatMap(([name, text]) => [h("dt", {}, capital(text)), h("dd", {}, bar(Math.abs(parts[name]) / largest, parts[name] < 0 ? "against" : "")), h("dd", {}, signed(parts[name]))]));
}
