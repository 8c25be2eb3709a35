// The view of an ensemble: instances by difficulty, every classifier's vote, labels and a refit.

import { get, latest, post } from "./api.js";
import { bringCard } from "./bring.js";
import { curveCard } from "./curve.js";
import { announce, bar, h, percent } from "./dom.js";
import { downloadButton } from "./download.js";
import { redundancyCard } from "./redundancy.js";

const PAGE = 15;
const ORDERS = [
  ["difficulty", "hardest first"],
  ["uncertainty", "least certain first"],
  ["disagreement", "most disputed first"],
  ["novelty", "most unusual first"],
  ["number", "as given"],
];
const KINDS = [["all", "all"], ["unlabelled", "without label"], ["labelled", "with label"]];

export async function mount(main, model) {
  const classes = model.classes;
  const labels = model.answers.includes("/suggestions");
  const state = { order: "difficulty", which: "all", offset: 0, chosen: null, fresh: new Map() };
  const newestList = latest();
  const newestOne = latest();

  // ---------------------------------------------------------------- the list

  const rows = h("ol", { class: "instances" });
  const total = h("span", { class: "hint" });
  const back = h("button", { type: "button", onclick: () => turn(-PAGE) }, "Back");
  const on = h("button", { type: "button", onclick: () => turn(PAGE) }, "Next");
  const list = h(
    "section",
    { class: "card", "aria-labelledby": "list-title" },
    h("h2", { id: "list-title" }, "Instances", total),
    h("div", { class: "pickers" }, picker("order", "Order", ORDERS), picker("which", "Show", KINDS)),
    legend(),
    rows,
    h("div", { class: "pager" }, back, on),
  );

  function picker(name, label, options) {
    const select = h("select", { id: `pick-${name}` }, ...options.map(([value, text]) => h("option", { value }, text)));
    select.addEventListener("change", () => {
      Object.assign(state, { [name]: select.value, offset: 0 });
      showList();
    });
    return h("div", { class: "field" }, h("label", { htmlFor: select.id }, label), select);
  }

  function legend() {
    const entries = classes.map((name, k) => h("span", {}, swatch(k, 1), String(name)));
    return h("p", { class: "legend votes-legend" }, "Votes: ", ...entries, h("span", {}, swatch(null), "no vote"));
  }

  function turn(by) {
    state.offset = Math.max(0, state.offset + by);
    showList();
  }

  async function showList() {
    const { order, which, offset } = state;
    const found = await guarded(() => newestList((signal) => get("/instances", { order, which, offset, n: PAGE }, signal)));
    if (!found) return;
    const end = offset + found.results.length;
    total.textContent = found.total ? `${offset + 1} to ${end} of ${found.total.toLocaleString("en")}` : "none";
    back.disabled = offset === 0;
    on.disabled = end >= found.total;
    rows.replaceChildren(...found.results.map(line));
    announce(`${found.total} instances, ${total.textContent}`);
    if (state.chosen === null && found.results.length) choose(found.results[0].number, false);
  }

  function line(entry) {
    const label = state.fresh.get(entry.number) ?? entry.label;
    const name = h("button", { type: "button", class: "quiet", onclick: () => choose(entry.number) }, typeof entry.id === "number" ? `No. ${entry.id}` : String(entry.id));
    const element = h(
      "li",
      { "data-number": String(entry.number) },
      name,
      h("span", { class: "fused" }, `${entry.answer} `, h("span", { class: "hint" }, percent(Math.max(...entry.probabilities)))),
      label === null || label === undefined ? h("span", {}) : h("span", { class: "tag" }, `label ${label}`),
      strip(entry),
    );
    if (entry.number === state.chosen) element.setAttribute("aria-current", "true");
    return element;
  }

  function strip(entry) {
    const agree = entry.top_votes.filter((k) => k !== null && String(classes[k]) === String(entry.answer)).length;
    const said = entry.top_votes.filter((k) => k !== null).length;
    const cells = entry.top_votes.map((k, j) => swatch(k, entry.vote_strengths[j]));
    return h("span", { class: "strip", role: "img", "aria-label": `${agree} of ${said} classifiers agree` }, ...cells);
  }

  function swatch(k, strength = 1) {
    const cell = h("i", { class: k === null ? "cell none" : `cell class-${k % 6}` });
    if (k !== null) cell.style.opacity = String(0.25 + 0.75 * Math.max(0, (strength * classes.length - 1) / (classes.length - 1)));
    return cell;
  }

  // ---------------------------------------------------------------- one instance

  const detail = h("section", { class: "card", "aria-labelledby": "one-title", tabIndex: -1 }, h("h2", { id: "one-title" }, "Votes"));

  /** Whether the focus is still where it was, or where answers put it: who has gone elsewhere is left there. */
  function stayed(from) {
    return [from, document.body].includes(document.activeElement) || detail.contains(document.activeElement);
  }

  async function choose(number, move = true) {
    const from = document.activeElement;
    state.chosen = number;
    for (const row of [...rows.children, ...queue.children]) {
      if (Number(row.dataset.number) === number) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    const one = await guarded(() => newestOne((signal) => get("/instance", { number }, signal)));
    if (!one) return;
    const known = state.fresh.get(number) ?? one.label;
    const heaviest = Math.max(...one.votes.map((vote) => Math.abs(vote.weight ?? 0)), 1e-9);
    const place = (k) => h("div", { class: "fused-row" }, h("span", {}, String(classes[k])), bar(one.probabilities[k], `class-${k % 6}`), h("b", {}, percent(one.probabilities[k])));
    const answers = [...classes.keys()].sort((a, b) => one.probabilities[b] - one.probabilities[a]);
    detail.replaceChildren(
      h("h2", { id: "one-title" }, `Instance ${one.id}`, h("span", { class: "tag" }, known === null || known === undefined ? "no label" : `label ${known}`)),
      h("p", { class: "hint" }, `Difficulty ${one.difficulty.toFixed(2)}, novelty ${percent(one.novelty)}`),
      h("h3", {}, "Fused answer"),
      ...answers.map(place),
      ...(labels ? [labelButtons(number, known)] : []),
      h("h3", {}, "Each classifier"),
      voteTable(one, heaviest),
    );
    if (move) {
      announce(`Instance ${one.id}: ${one.answer}, ${percent(Math.max(...one.probabilities))}`);
      if (stayed(from)) detail.focus({ preventScroll: matchMedia("(min-width: 760px)").matches });
    }
  }

  function labelButtons(number, known) {
    const button = (name) => {
      const pressed = String(known) === String(name);
      return h("button", { type: "button", class: pressed ? "primary" : "", "aria-pressed": String(pressed), onclick: () => label(number, name) }, String(name));
    };
    return h("div", { class: "label-as", role: "group", "aria-label": `Label of instance ${number}` }, h("span", { class: "hint" }, "It is in truth:"), ...classes.map(button));
  }

  function voteTable(one, heaviest) {
    const weighted = one.votes.some((vote) => vote.weight !== undefined);
    const head = ["Classifier", "Says", "", ...(weighted ? ["Weight"] : [])].map((text) => h("th", { scope: "col" }, text || h("span", { class: "sr" }, "how sure")));
    const body = one.votes.map((vote) => {
      const says = vote.probabilities ? vote.probabilities.indexOf(Math.max(...vote.probabilities)) : null;
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, vote.name),
        h("td", {}, says === null ? h("span", { class: "hint" }, "nothing") : `${classes[says]} ${percent(vote.probabilities[says])}`),
        h("td", { class: "wide-bar" }, says === null ? "" : bar(vote.probabilities[says], `class-${says % 6}`)),
        weighted ? h("td", { class: "number" }, vote.weight.toFixed(2), bar(Math.abs(vote.weight) / heaviest, vote.weight < 0 ? "against" : "")) : null,
      );
    });
    return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Votes of the classifiers" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)));
  }

  // ---------------------------------------------------------------- labels

  const curve = model.answers.includes("/curve") ? curveCard() : null;
  const queue = h("ol", { class: "instances" });
  const pending = h("p", { class: "hint" });
  const refit = h("button", { type: "button", class: "primary", onclick: fit }, "Refit");
  let known = [];
  const keep = downloadButton("the labels", () => "labels", ["id", "label"], () => known.map((entry) => [entry.id, entry.label]));
  const outcome = h("p", { role: "status" });
  const next = h(
    "section",
    { class: "card", "aria-labelledby": "next-title" },
    h("h2", { id: "next-title" }, "What to label next"),
    h("p", { class: "hint" }, `Labels of these instances would help the model most. Keys: ${keys()}, s to skip.`),
    queue,
    h("div", { class: "pager" }, refit, keep),
    pending,
    outcome,
  );

  async function showQueue() {
    if (!labels) return;
    const [found, all] = await Promise.all([guarded(() => get("/suggestions", { n: 5 })), guarded(() => get("/labels"))]);
    if (found) queue.replaceChildren(...found.results.map(line));
    if (all) known = all.labels;
    showPending();
  }

  /** Which key gives which class, in words. */
  function keys() {
    return classes.slice(0, 10).map((name, k) => (String(name) === String(k) ? name : `${k} ${name}`)).join(", ");
  }

  /** The next one of the queue that has no label yet, the chosen one left out. */
  function skip(move = true) {
    const numbers = [...queue.children].map((row) => Number(row.dataset.number));
    const after = numbers.slice(numbers.indexOf(state.chosen) + 1);
    const free = [...after, ...numbers].find((number) => number !== state.chosen && !state.fresh.has(number));
    if (free !== undefined) choose(free, move);
  }

  document.addEventListener("keydown", async (event) => {
    const typing = event.target.closest?.("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
    if (!labels || typing || state.chosen === null || !main.contains(detail)) return;
    const from = document.activeElement;
    if (event.key === "s") skip();
    else if (/^[0-9]$/.test(event.key) && Number(event.key) < classes.length) {
      await label(state.chosen, classes[Number(event.key)]);
      skip(stayed(from));
    } else return;
    event.preventDefault();
  });

  function takeLabels(given) {
    for (const entry of given) state.fresh.set(entry.number, entry.label);
    showPending();
  }

  function showPending() {
    const count = state.fresh.size;
    refit.disabled = count === 0;
    refit.textContent = count ? `Refit with ${count} new label${count > 1 ? "s" : ""}` : "Refit";
    pending.textContent = count ? "New labels count after the refit." : "Choose an instance and say what it is in truth.";
  }

  async function label(number, name) {
    const from = document.activeElement;
    state.fresh.set(number, name);
    outcome.textContent = "";
    showPending();
    await choose(number, false);
    for (const row of [...queue.children, ...rows.children]) {
      if (Number(row.dataset.number) === number) row.children[2].replaceWith(h("span", { class: "tag" }, `label ${name}`));
    }
    announce(`Instance ${number} labelled ${name}`);
    if (stayed(from)) detail.querySelector(`[aria-pressed="true"]`)?.focus();
  }

  async function fit() {
    refit.disabled = true;
    refit.textContent = "Refitting…";
    const given = [...state.fresh].map(([number, name]) => ({ number, label: name }));
    const changes = await guarded(() => post("/labels", { labels: given }));
    if (!changes) return showPending();
    state.fresh.clear();
    curve?.stale();
    outcome.textContent = `Refitted with ${changes.labelled} labels${changes.sweeps ? ` in ${changes.sweeps} sweeps` : ""}. ${changes.changed} answer${changes.changed === 1 ? "" : "s"} changed.`;
    await Promise.all([showList(), showQueue(), state.chosen !== null ? choose(state.chosen, false) : null]);
  }

  async function guarded(work) {
    try {
      return await work();
    } catch (error) {
      outcome.textContent = error.message;
      announce(error.message);
      if (!labels) throw error;
      return null;
    }
  }

  // ---------------------------------------------------------------- the start

  main.replaceChildren(
    h("div", { class: "intro" }, h("h1", {}, "Ensemble explorer"), h("p", { class: "hint" }, "See where classifiers disagree, what the fused answer makes of it, and what to label next.")),
    h("div", { class: "grid ensemble" }, h("div", { class: "stack" }, ...(labels ? [next] : []), bringCard(model, takeLabels)), list, h("div", { class: "stack aside" }, detail)),
  );
  await Promise.all([showList(), showQueue()]);
  const aside = main.querySelector(".aside");
  if (curve) aside.append(curve.element);
  aside.append(await redundancyCard());
}
