// Lists as CSV files that spreadsheets open. Knows rows, not what they mean.

import { h } from "./dom.js";

/** A field in quotes where it needs them; text that a spreadsheet would run as a formula is told apart. */
function field(value) {
  const text = String(value ?? "");
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {string[]} names of the columns @param {any[][]} rows */
export function csv(names, rows) {
  return [names, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

/** A button that saves what `rows()` gives under `name()`; `what` is said to screen readers. */
export function downloadButton(what, name, names, rows) {
  const save = () => {
    const address = URL.createObjectURL(new Blob(["\ufeff", csv(names, rows())], { type: "text/csv" }));
    const link = h("a", { href: address, download: `${name().replace(/[^\w-]+/g, "-").slice(0, 80)}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  return h("button", { type: "button", class: "quiet small", "aria-label": `Save ${what} as CSV`, onclick: save }, "CSV");
}
