// Ratings that do not fit: of somebody new, each judged by the others; or of a table that somebody brings.

import { post, send } from "./api.js";
import { announce, h, percent } from "./dom.js";
import { downloadButton } from "./download.js";
import { fixed } from "./values.js";

const FAR = 1.5; // standard deviations from which a rating is called a surprise

/** Low and high of a scale that holds these numbers. */
export function fitting(values) {
  const numbers = values.filter((value) => typeof value === "number");
  return { low: Math.min(...numbers), high: Math.max(...numbers) };
}

export function misfitsCard(model) {
  const { user, item } = model.names;
  const own = h("div", {});
  const input = h("input", { type: "file", id: "bring", accept: ".csv,.tsv,.txt,text/csv" });
  const result = h("div", {});
  const brings = model.answers.includes("/table") && model.parts; // classes have no distance
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "misfit-title", hidden: !brings && !model.answers.includes("/misfits") },
    h("h2", { id: "misfit-title" }, "Ratings that do not fit"),
    own,
    ...(brings ? [h("p", { class: "hint" }, `A CSV with ${user}, ${item} and rating; at most ${Math.round(model.limits.max_body / 1e6)} MB, nothing is stored. Ratings that the model was fitted to have shaped what it expects.`), h("div", { class: "field" }, h("label", { htmlFor: "bring" }, "File"), input), result] : []),
  );

  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    result.replaceChildren(h("p", { class: "hint" }, "Judging…")); // what was there before belongs to another file
    try {
      const found = await send("/table", await file.text(), "text/csv");
      const known = found.rows - found.unknown;
      announce(`${known} ratings judged`);
      result.replaceChildren(
        h("p", {}, `${known.toLocaleString("en")} of ${found.rows.toLocaleString("en")} ratings are of known ids; they are off by ${fixed(found.mae)} on average.${found.covered === null ? "" : ` ${percent(found.covered)} lie in the interval that should hold ${percent(found.level)}.`}`),
        h("h3", {}, "The least expected", downloadButton("the least expected ratings", () => "least expected", [user, item, "given", "expected"], () => found.results.map((each) => [each.user.label, each.item.label, each.given, each.expected]))),
        table([user, item, "given", "expected"], found.results.map((each) => [each.user.label, each.item.label, fixed(each.given), fixed(each.expected)])),
      );
    } catch (error) {
      result.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
    input.value = "";
  });

  return {
    element,
    ofNobody: () => own.replaceChildren(...(model.answers.includes("/misfits") ? [h("p", { class: "hint" }, "Tell three or more ratings, and each is judged by the others.")] : [])),
    /** Every rating of somebody new beside what the others make the model expect. */
    async of(given) {
      if (given.length < 3) return this.ofNobody();
      const found = await post("/misfits", { items: given.map((entry) => entry.id), ratings: given.map((entry) => entry.value) });
      const said = found.results.filter((each) => Math.abs(each.surprise) >= FAR);
      own.replaceChildren(
        h("p", {}, said.length ? `${said.map((each) => each.label).join(", ")}: far from what the others suggest.` : "All fit the others."),
        table([item, "given", "expected"], found.results.map((each) => [each.label, fixed(each.given), fixed(each.expected)])),
      );
    },
  };
}

function table(head, rows) {
  const body = rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row[0]), ...row.slice(1).map((text) => h("td", { class: /^-?[\d.]+$/.test(text) ? "number" : "" }, text))));
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Ratings beside what is expected" }, h("table", {}, h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...body)));
}
