// The view of a model of ratings: what somebody would give, how sure that is, what it is made of, what to rate next.

import { get, latest, post } from "./api.js";
import { combobox } from "./combobox.js";
import { a, announce, bar, capital, debounced, h, named, percent, plural } from "./dom.js";
import { downloadButton } from "./download.js";
import { latentMap } from "./map.js";
import { fitting, misfitsCard } from "./misfits.js";
import { fixed, line, partsList } from "./values.js";

const SHOWN = 10;

export async function mount(main, model) {
  const { user, item } = model.names;
  const can = (path) => model.answers.includes(path);
  const lists = can("/recommend");
  const folds = can("/misfits"); // somebody new may tell their ratings
  const state = { user: null, given: [], item: null, level: 0.9, example: false };
  const newest = latest();
  const newestOne = latest();
  const soon = debounced(refresh, 90);

  // ---------------------------------------------------------------- who asks

  const who = combobox({ label: capital(user), placeholder: `Search ${plural(user)}…`, complete: search("users"), choose: (entry) => change({ user: entry, given: [] }) });
  const told = folds ? combobox({ label: "Or tell ratings of your own", placeholder: `Add ${a(item)}…`, complete: search("items"), choose: tell }) : null;
  const given = h("ul", { class: "given", "aria-label": "Your ratings" });
  const level = h("input", { type: "range", id: "level", min: 0.5, max: 0.99, step: 0.01, value: state.level });
  const sure = h("output", { htmlFor: "level" }, "90 %");
  level.addEventListener("input", () => {
    state.level = Number(level.value);
    sure.textContent = percent(state.level);
    later();
  });
  const clear = h("button", { type: "button", class: "quiet", onclick: () => change({ user: null, given: [], item: null }) }, "Clear");
  const you = h(
    "section",
    { class: "card", "aria-labelledby": "given-title" },
    h("h2", { id: "given-title" }, "You", clear),
    who.element,
    ...(told ? [told.element, given] : []),
    model.intervals ? h("div", { class: "field" }, h("span", { class: "label-row" }, h("label", { htmlFor: "level" }, "Sure by"), sure), level) : null,
  );

  function search(of) {
    return async (q, signal) => (await get("/complete", { q, n: 8, of }, signal)).results;
  }

  function tell(entry) {
    if (state.given.some((other) => other.id === entry.id)) return;
    const before = state.example ? [] : state.given;
    change({ user: null, given: [...before, { ...entry, value: middle(before) }] });
    announce(`${entry.label} added; say what you give it`);
    given.lastElementChild?.querySelector("input")?.focus();
  }

  function drawGiven() {
    given.replaceChildren(
      ...state.given.map((entry) => {
        const input = h("input", { type: "number", step: "any", value: entry.value, "aria-label": `Your rating of ${entry.label}` });
        input.addEventListener("input", () => {
          if (input.value === "" || !Number.isFinite(Number(input.value))) return;
          entry.value = Number(input.value);
          later();
        });
        const remove = () => change({ given: state.given.filter((other) => other.id !== entry.id) });
        return h("li", {}, h("span", { class: "name" }, entry.label), input, h("button", { type: "button", "aria-label": `Remove ${entry.label}`, onclick: remove }, "×"));
      }),
    );
  }

  // ---------------------------------------------------------------- what is expected

  let ranked = [];
  const heading = h("span", {}, `Expected ratings`);
  const save = downloadButton("the expected ratings", () => `${plural(item)} for ${whose()}`, ["rank", item, "id", "expected", "low", "high"], () => ranked.map((entry, k) => [k + 1, entry.label, entry.id, entry.value, ...(entry.between ?? [])]));
  const note = h("div", {});
  const list = h("ol", { class: "ranking" });
  const best = h("section", { class: "card", "aria-labelledby": "best-title" }, h("h2", { id: "best-title" }, heading, save), note, list);
  const what = combobox({ label: capital(item), placeholder: `Search ${plural(item)}…`, complete: search("items"), choose: (entry) => change({ item: entry }) });
  const one = h("div", { class: "stack" });
  const single = h("section", { class: "card", "aria-labelledby": "one-title" }, h("h2", { id: "one-title" }, "One rating"), what.element, one);
  const next = h("ol", { class: "gap" });
  const ask = h("section", { class: "card", "aria-labelledby": "next-title", hidden: true }, h("h2", { id: "next-title" }, "What to rate next"), h("p", { class: "hint" }, `What would say most about all other ${plural(item)}: the share of what is open that each would settle.`), next);
  const misfits = misfitsCard(model);
  const people = h("ol", { class: "neighbours" });
  const near = h("section", { class: "card", "aria-labelledby": "near-title", hidden: true }, h("h2", { id: "near-title" }, `Similar ${plural(user)}`), people);
  const map = can("/map") ? latentMap(() => {}) : null;
  const place = map ? h("section", { class: "card", "aria-labelledby": "map-title" }, h("h2", { id: "map-title" }, `Map of ${plural(item)}`), map.element, h("p", { class: "hint" }, "Near means alike.")) : null;
  main.replaceChildren(
    h("div", { class: "intro" }, h("h1", {}, "Rating explorer"), h("p", { class: "hint" }, `Choose ${a(user)}${folds ? ", or tell a few ratings" : ""}; see what to expect, how sure it is, and what it is made of.`)),
    h("div", { class: "grid" }, you, h("div", { class: "stack" }, ...(lists ? [best] : []), single), h("div", { class: "stack aside" }, ask, misfits.element, ...(place ? [place] : []), near)),
  );

  const whose = () => state.user?.label ?? "you";
  const about = () => (state.user ? { user: state.user.id } : { items: state.given.map((entry) => entry.id) });

  function middle(before) {
    return before.length ? before.at(-1).value : Number(fixed(model.middle ?? 3));
  }

  function change(changes) {
    Object.assign(state, { example: false }, changes);
    one.replaceChildren(); // it belongs to another pair
    drawGiven();
    return refresh();
  }

  function remember() {
    const kept = { level: state.level, ...(state.user ? { user: state.user.id } : { given: state.given.map(({ id, value }) => [id, value]) }), ...(state.item ? { item: state.item.id } : {}) };
    history.replaceState(null, "", state.example ? "#" : `#${encodeURIComponent(JSON.stringify(kept))}`);
  }

  function fail(error) {
    ranked = [];
    for (const part of [list, one, next]) part.replaceChildren(); // nothing stale stays under an error
    save.hidden = ask.hidden = near.hidden = true;
    note.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }

  /** What is shown follows in a moment; until then lists may change under a hand. */
  function later() {
    main.setAttribute("aria-busy", "true");
    soon();
  }

  async function refresh() {
    remember();
    const asks = state.user || state.given.length;
    if (!asks) {
      heading.textContent = "Expected ratings";
      ranked = [];
      for (const part of [list, one, next]) part.replaceChildren();
      save.hidden = ask.hidden = near.hidden = true;
      note.replaceChildren(h("p", { class: "hint" }, `Choose ${a(user)} to begin${folds ? `, or add ${a(item)} and say what you give it` : ""}.`));
      main.removeAttribute("aria-busy");
      return misfits.ofNobody();
    }
    try {
      const found = await newest((signal) => Promise.all([lists ? expected(signal) : [], can("/rate_next") ? post("/rate_next", { ...about(), n: 5 }, signal) : { results: [] }]));
      if (!found) return;
      show(...found);
      await Promise.all([showOne(), showNear(), folds && !state.user ? misfits.of(state.given) : misfits.ofNobody()]);
    } catch (error) {
      fail(error);
    }
    main.removeAttribute("aria-busy");
  }

  /** The best ones with value, interval and parts; somebody new has values alone. */
  async function expected(signal) {
    if (!state.user) {
      const { items } = await post("/recommend_for", { items: state.given.map((entry) => entry.id), ratings: state.given.map((entry) => entry.value), n: SHOWN }, signal);
      return items.map((entry) => ({ ...entry, value: entry.score }));
    }
    const { items } = await get("/recommend", { user: state.user.id, n: SHOWN }, signal);
    if (!items.length) return [];
    const found = await post("/predict", { pairs: items.map((entry) => [state.user.id, entry.id]), parts: model.parts, ...(model.intervals ? { level: state.level } : {}) }, signal);
    return items.map((entry, k) => ({ ...entry, value: found.values[k], between: found.intervals?.[k], parts: found.parts?.[k] }));
  }

  function show(found, after) {
    ranked = found;
    heading.textContent = `For ${whose()}`;
    save.hidden = !ranked.length;
    note.replaceChildren(...(state.example ? [h("p", { class: "hint" }, `An example. Search ${a(user)} of your own${folds ? ", or tell ratings" : ""}.`)] : []));
    const scale = fitting([model.middle, ...ranked.flatMap((entry) => [entry.value, ...(entry.between ?? [])])]);
    list.replaceChildren(...ranked.map((entry, k) => row(entry, k + 1, scale)));
    ask.hidden = !after.results.length;
    const most = Math.max(...after.results.map((entry) => entry.gain), 1e-12);
    const offer = (entry) => (state.user || !told ? null : h("button", { type: "button", "aria-label": `Rate ${entry.label}`, onclick: () => tell(entry) }, "Rate"));
    next.replaceChildren(...after.results.map((entry) => h("li", {}, named(entry), offer(entry) ?? h("span", { class: "score" }, share(entry.gain)), bar(entry.gain / most))));
    if (map) locate();
    announce(ranked.length ? `For ${whose()}: ${ranked[0].label}, expected ${fixed(ranked[0].value)}` : `For ${whose()}`);
  }

  function row(entry, rank, scale) {
    const between = entry.between ? h("p", { class: "hint between" }, `${fixed(entry.between[0])} to ${fixed(entry.between[1])}, ${percent(state.level)} sure`) : null;
    const inside = entry.parts ? h("details", {}, h("summary", {}, "made of", h("span", { class: "sr" }, ` ${entry.label}`)), partsList(entry.parts, model.names)) : null;
    return h("li", {}, h("span", { class: "place" }, `${rank}.`), named(entry), h("span", { class: "act" }, h("span", { class: "score" }, fixed(entry.value))), line(entry.value, entry.between, scale), between, inside);
  }

  async function showOne() {
    if (!state.item || !state.user) return one.replaceChildren(h("p", { class: "hint" }, state.user || !state.given.length ? `Choose ${a(item)} for its value and what it is made of.` : `For single values choose a known ${user}.`));
    const body = { pairs: [[state.user.id, state.item.id]], parts: model.parts, ...(model.intervals ? { level: state.level } : {}) };
    one.replaceChildren();
    try {
      const found = await newestOne((signal) => post("/predict", body, signal));
      if (!found) return;
      const between = found.intervals?.[0];
      one.replaceChildren(
        h("p", { class: "value", role: "status" }, h("b", {}, fixed(found.values[0])), ` ${state.item.label}`, between ? `: between ${fixed(between[0])} and ${fixed(between[1])}, ${percent(found.level)} sure` : ""),
        ...(found.parts ? [h("h3", {}, "What it is made of"), partsList(found.parts[0], model.names)] : []),
      );
      announce(`expected ${fixed(found.values[0])}`);
    } catch (error) {
      one.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
  }

  async function showNear() {
    near.hidden = !can("/similar") || !state.user;
    if (near.hidden) return;
    const { results } = await get("/similar", { user: state.user.id, n: 5 });
    people.replaceChildren(...results.map((entry) => h("li", {}, h("button", { type: "button", class: "quiet", onclick: () => change({ user: entry, given: [] }) }, entry.label), h("span", {}, h("span", { class: "hint" }, `${percent(entry.score)} alike`), bar(entry.score)))));
  }

  async function locate() {
    const located = await post("/map", { show: ranked.map((entry) => entry.id), users: state.user ? [state.user.id] : [] });
    map.mark({ have: [], best: located.items, near: located.users.map((point) => ({ ...point, of: "users" })), you: null }, `Map of ${plural(item)}; best: ${ranked.slice(0, 3).map((entry) => entry.label).join(", ")}`);
  }

  // ---------------------------------------------------------------- the start

  if (map) {
    const points = await get("/map", { n: 1500 });
    map.setPoints(points.points, points.groups, `Map of ${plural(item)}`);
  }
  let kept = {};
  try {
    kept = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "null") ?? { example: true };
    if (typeof kept.level === "number" && model.intervals) {
      level.value = state.level = kept.level;
      sure.textContent = percent(state.level);
    }
    if (kept.user !== undefined) state.user = await found("users", kept.user);
    if (folds && kept.given) state.given = await Promise.all(kept.given.map(async ([id, value]) => ({ ...(await found("items", id)), value: Number(value) })));
    if (kept.item !== undefined) state.item = await found("items", kept.item);
  } catch {
    history.replaceState(null, "", "#"); // an address that means nothing to this model
    Object.assign(state, { user: null, given: [], item: null });
  }
  if (kept.example && model.example) Object.assign(state, { user: model.example, example: true });
  drawGiven();
  await refresh();

  async function found(of, id) {
    const { results } = await get("/complete", { q: String(id), n: 8, of });
    const same = results.find((entry) => entry.id === id || entry.label === id);
    if (same) return same;
    throw new Error(`nothing is called ${id}`);
  }
}

const share = (gain) => (gain < 0.001 ? "< 0.1 %" : `${(100 * gain).toFixed(1)} %`);
