// The view of an ensemble that keeps no instances: paste predictions, read fused probabilities.

import { post } from "./api.js";
import { bringCard } from "./bring.js";
import { announce, h, percent } from "./dom.js";

export async function mount(main, model) {
  const text = h("textarea", { id: "rows", rows: 8, placeholder: "0.9, 0.7, 0.2\n0.1, , 0.4" });
  const result = h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Fused probabilities" });
  const trouble = h("p", { class: "error", role: "alert" });
  const binary = model.classes.length === 2;

  /** A line is an instance, a comma separates classifiers; nothing between commas is a missing prediction. */
  function rows() {
    const value = (part) => (part.trim() === "" ? null : Number(part));
    const cell = (part) => (binary ? value(part) : part.trim() === "" ? null : part.trim().split(/\s+/).map(Number));
    return text.value.split("\n").filter((line) => line.trim()).map((line) => line.split(",").map(cell));
  }

  async function fuse(event) {
    event.preventDefault();
    trouble.textContent = "";
    try {
      const found = await post("/fuse", { predictions: rows() });
      const head = ["Instance", "Answer", ...found.classes].map((name) => h("th", { scope: "col" }, String(name)));
      const body = found.probabilities.map((row, k) =>
        h("tr", {}, h("th", { scope: "row" }, String(k + 1)), h("td", {}, String(found.labels[k])), ...row.map((p) => h("td", {}, percent(p)))),
      );
      result.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)));
      announce(`${found.labels.length} instances fused`);
    } catch (error) {
      result.replaceChildren(); // nothing stale stays under an error
      trouble.textContent = error.message;
    }
  }

  main.replaceChildren(
    h("div", { class: "intro" }, h("h1", {}, "Ensemble explorer"), h("p", { class: "hint" }, "Paste what the classifiers predict; read one fused probability for each class.")),
    h(
      "form",
      { class: "card", onsubmit: fuse },
      h("div", { class: "field" }, h("label", { htmlFor: "rows" }, binary ? `Probabilities of ${model.classes[1]}, an instance a line, commas between classifiers` : `Probabilities of ${model.classes.join(", ")}, an instance a line, commas between classifiers, spaces between classes`), text),
      h("button", { type: "submit", class: "primary" }, "Fuse"),
      trouble,
      result,
    ),
    bringCard(model, () => {}),
  );
}
