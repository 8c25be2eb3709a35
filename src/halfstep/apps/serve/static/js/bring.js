// A table from somebody's disk: read in the page, fused on the server, never stored; answers are saved as CSV.

import { send } from "./api.js";
import { announce, h, percent } from "./dom.js";
import { downloadButton } from "./download.js";

const SHOWN = 12;

/** @param {(labels: {number, label}[]) => void} takeLabels called with labels of fitted instances that were brought. */
export function bringCard(model, takeLabels) {
  const input = h("input", { type: "file", id: "bring", accept: ".csv,.tsv,.txt,text/csv" });
  const result = h("div", {});
  const card = h(
    "section",
    { class: "card", "aria-labelledby": "bring-title" },
    h("h2", { id: "bring-title" }, "Your table"),
    h("p", { class: "hint" }, `A CSV of new instances: a column for each classifier, with id and label if you have them. Or only id and label, for labels of fitted instances. At most ${Math.round(model.limits.max_body / 1e6)} MB; nothing is stored.`),
    h("div", { class: "field" }, h("label", { htmlFor: "bring" }, "File"), input),
    result,
  );

  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    result.replaceChildren(h("p", { class: "hint" }, "Fusing…")); // what was there before belongs to another file
    try {
      const found = await send("/table", await file.text(), "text/csv");
      result.replaceChildren(...(found.ids ? drawn(found, file.name) : taken(found.labels)));
    } catch (error) {
      result.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
    input.value = "";
  });

  function taken(labels) {
    takeLabels(labels);
    announce(`${labels.length} labels read`);
    return [h("p", {}, `${labels.length} labels read. They count after the refit.`)];
  }

  function drawn(found, file) {
    const rows = found.ids.map((id, k) => [id, found.labels[k], ...found.probabilities[k]]);
    const head = ["id", "answer", ...found.classes.map((name) => `p(${name})`)];
    const body = rows.slice(0, SHOWN).map((row) => h("tr", {}, h("th", { scope: "row" }, String(row[0])), h("td", {}, String(row[1])), ...row.slice(2).map((p) => h("td", { class: "number" }, percent(p)))));
    announce(`${rows.length} instances fused`);
    return [
      light(found.novel, found.chance),
      found.judged ? h("p", {}, `On ${found.judged.labelled} labelled rows: log loss ${found.judged.fused_log_loss.toFixed(3)}, that of the plain mean ${found.judged.mean_log_loss.toFixed(3)}.`) : null,
      h("h3", {}, `${rows.length} fused answers`, downloadButton("the fused answers", () => `fused ${file.replace(/\.\w+$/, "")}`, head, () => rows)),
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Fused answers" }, h("table", {}, h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...body))),
      rows.length > SHOWN ? h("p", { class: "hint" }, `The first ${SHOWN}; the file has all.`) : null,
    ].filter(Boolean);
  }

  /** Whether these rows look like those of the fit: one in twenty stands out by chance, of few rows easily more. */
  function light(novel, chance) {
    if (novel === null) return null;
    const [kind, words] = chance > 0.01 ? ["good", "These rows look like those of the fit"] : novel < 0.25 ? ["warm", "Some of these rows are unlike those of the fit"] : ["bad", "Many of these rows are unlike those of the fit; do not trust their answers blindly"];
    return h("p", { class: `light ${kind}` }, h("i"), `${words}: ${percent(novel)} stand out, 5 % would by chance.`);
  }

  return card;
}
