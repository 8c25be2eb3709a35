// The view of a recommender: who you are, what fits and why, where you stand, who is like you and what they have.

import { get, latest, post, setLanguage } from "./api.js";
import { comparison } from "./compare.js";
import { a, announce, bar, capital, debounced, h, named, percent, plural } from "./dom.js";
import { downloadButton } from "./download.js";
import { givenCard } from "./given.js";
import { latentMap } from "./map.js";
import { narrowCard } from "./narrow.js";
import { featuresOf, toldCard } from "./told.js";

export async function mount(main, model) {
  const { user, item } = model.names;
  const folds = model.fold_in === "items";
  const explains = model.answers.includes("/explain");
  const compares = model.answers.includes("/compare");
  const maps = model.answers.includes("/map"); // what has no factors has no map, and compares no users
  const state = { have: [], told: [], user: null, n: 10, diversity: 0, example: false, where: {}, near: {}, relation: "", language: "" };
  const newest = latest();
  const newestPlace = latest();
  const later = debounced(refresh, 90);
  const narrow = narrowCard(model, state, { narrowed: later, related, spoken });
  const given = givenCard(model, state, { jump, add, remove, clear, later }, narrow?.element ?? null);
  const told = model.answers.includes("/features") ? toldCard(state, { tell, untell }) : null;

  // ---------------------------------------------------------------- what the model answers

  let ranked = [];
  const heading = h("span", {}, `Recommended ${plural(item)}`);
  const save = downloadButton("the recommendations", () => `${plural(item)} for ${whose()}`, ["rank", item, "id", "score"], () => ranked.map((entry, k) => [k + 1, entry.label, entry.id, entry.score]));
  save.hidden = true; // until there is something to save
  const title = h("h2", { id: "best-title" }, heading, save);
  const list = h("ol", { class: "ranking" });
  const note = h("div", { class: "empty" });
  const best = h("section", { class: "card", "aria-labelledby": "best-title" }, title, note, list);
  const beside = comparison(model.names, add, () => near.querySelector("button")?.focus());
  const map = latentMap((point) => (point.of === "users" ? jump(point) : folds && add(point)));
  const legend = h(
    "p",
    { class: "legend" },
    ...[["have", `your ${plural(item)}`], ["best", "recommended"], ["near", `similar ${plural(user)}`], ["you", "you"]]
      .filter(([kind]) => folds || kind === "best" || kind === "near")
      .map(([kind, text]) => h("span", { class: kind }, h("i"), text)),
  );
  const caption = h("p", { class: "hint" });
  const atlas = h("section", { class: "card", "aria-labelledby": "map-title" }, h("h2", { id: "map-title" }, `Map of ${plural(item)}`), map.element, legend, caption);
  const people = h("ol", { class: "neighbours" });
  const near = h("section", { class: "card", "aria-labelledby": "near-title" }, h("h2", { id: "near-title" }, `Similar ${plural(user)}`), people);
  near.hidden = true;
  main.replaceChildren(
    h("div", { class: "intro" }, h("h1", {}, `${capital(item)} explorer`), h("p", { class: "hint" }, folds ? `Search ${a(user)}, or say which ${plural(item)} you have; see what goes with them, and why.` : `Choose ${a(user)}; see what fits.`)),
    h("div", { class: "grid" }, told ? h("div", { class: "stack" }, given.element, told.element) : given.element, h("div", { class: "stack" }, best, beside.element), ...(maps ? [h("div", { class: "stack aside" }, atlas, near)] : [])),
  );

  // ---------------------------------------------------------------- changes

  const whose = () => state.user?.label ?? "you";

  function change(changes) {
    Object.assign(state, { example: false }, changes);
    return refresh();
  }

  function add(entry) {
    const before = state.example ? [] : state.have; // an example makes room for what somebody says
    if (before.some((other) => other.id === entry.id)) return;
    change({ have: [...before, { id: entry.id, label: entry.label }], user: null });
    announce(`${entry.label} added`);
  }

  function remove(entry) {
    change({ have: state.have.filter((other) => other.id !== entry.id), user: null });
    given.focus();
    announce(`${entry.label} removed`);
  }

  function tell(entry) {
    const others = state.told.filter((other) => entry.kind !== "categories" || other.column !== entry.column);
    change({ have: state.example ? [] : state.have, told: [...others, entry], user: null });
    announce(`${entry.label} added`);
  }

  function untell(entry) {
    change({ told: state.told.filter((other) => other.id !== entry.id), user: null });
    told.focus();
    announce(`${entry.label} removed`);
  }

  function clear() {
    beside.hide();
    change({ have: [], told: [], user: null });
    given.focus();
  }

  /** Take over everything a known user has. */
  async function jump(entry, example = false) {
    try {
      const found = await get("/profile", { user: entry.id, relation: state.relation || null });
      const have = folds ? found.items.map(({ id, label }) => ({ id, label })) : [];
      await change({ user: found.user, have, told: [], example });
      announce(`${found.user.label}: ${found.items.length} ${plural(item)}`);
      if (!example) main.scrollIntoView({ block: "start" });
    } catch (error) {
      fail(error);
    }
  }

  /** Another kind of relation counts: what a known user has is another list. */
  function related() {
    return state.user ? jump(state.user, state.example) : later();
  }

  /** Everything that is shown, called by its name in the language that was chosen. */
  async function spoken() {
    setLanguage(state.language);
    try {
      if (maps) {
        const told = await post("/map", { show: state.have.map((entry) => entry.id), users: state.user ? [state.user.id] : [] });
        Object.assign(state, { have: told.items.map(({ id, label }) => ({ id, label })), user: state.user && told.users[0] });
      }
      await refresh();
      if (maps) await layOut();
    } catch (error) {
      fail(error);
    }
  }

  function fail(error) {
    ranked = [];
    list.replaceChildren(); // nothing stale stays under an error
    near.hidden = true;
    note.replaceChildren(h("p", { class: "error" }, error.message));
    best.classList.remove("busy");
  }

  /** Ids that are addresses are long; their names restore a view as well. */
  const brief = (entry) => (/:\/\//.test(entry.id) && !state.language ? entry.label : entry.id);

  function remember() {
    const to = beside.entry();
    const kept = { n: state.n, diversity: state.diversity, ...(state.user ? { user: brief(state.user) } : { have: state.have.map(brief), ...(state.told.length ? { told: state.told } : {}) }), ...(to ? { to: brief(to) } : {}), ...narrow?.kept() };
    history.replaceState(null, "", state.example ? "#" : `#${encodeURIComponent(JSON.stringify(kept))}`);
  }

  async function refresh() {
    remember();
    given.draw();
    told?.draw();
    newestPlace(() => null); // marks of what was asked before come too late
    if (!(folds ? state.have.length || state.told.length : state.user)) {
      newest(() => null); // so does a list that nobody asks for any more
      return showNothing();
    }
    best.classList.add("busy");
    try {
      const answers = await newest(folds ? askForItems : askForUser);
      if (!answers) return;
      show(...answers); // the list does not wait for the map
      if (beside.entry() && state.have.length) beside.show(beside.entry(), state, whose());
      if (maps) await place(...answers);
    } catch (error) {
      fail(error);
      beside.hide(); // nothing stale stays under an error
    }
  }

  async function askForItems(signal) {
    const items = state.have.map((entry) => entry.id);
    const about = { n: state.n, diversity: state.diversity, why: explains ? 3 : 0, where: asked(state.where) };
    if (items.length) about.items = items;
    if (state.told.length) about.features = featuresOf(state.told);
    if (!items.length) return [(await post("/recommend_for", about, signal)).items, []]; // nobody to be near to
    const [found, alike] = await Promise.all([
      post("/recommend_for", about, signal),
      maps ? post("/similar", { of: "users", items, n: 7, where: asked(state.near) }, signal) : { results: [] },
    ]);
    return [found.items, alike.results.filter((entry) => entry.id !== state.user?.id).slice(0, 6)];
  }

  async function askForUser(signal) {
    const { id } = state.user;
    const [found, alike] = await Promise.all([
      recommended(id, signal),
      maps ? post("/similar", { of: "users", user: id, n: 6, where: asked(state.near) }, signal) : { results: [] },
    ]);
    return [found.items, alike.results];
  }

  async function recommended(id, signal) {
    const { n, diversity } = state;
    if (!asked(state.where)) return get("/recommend", { user: id, n, diversity }, signal);
    return (await post("/recommend", { users: [id], n, diversity, where: state.where }, signal)).results[0];
  }

  // ---------------------------------------------------------------- drawing

  function showNothing() {
    ranked = [];
    best.classList.remove("busy");
    save.hidden = near.hidden = true;
    list.replaceChildren();
    note.replaceChildren(h("p", { class: "hint" }, folds ? `Add ${a(item)} to begin. Recommendations follow as you type and choose.` : `Choose ${a(user)} to begin.`));
    heading.textContent = `Recommended ${plural(item)}`;
    map.mark({ have: [], best: [], near: [], you: null }, `Map of ${plural(item)}; nothing chosen yet`);
  }

  function show(found, alike) {
    ranked = found;
    best.classList.remove("busy");
    save.hidden = !ranked.length;
    const hints = [state.example ? `An example. Search ${a(user)} of your own, or clear it.` : null, ranked.length ? null : asked(state.where) ? `No other ${item} is of that kind.` : `There is no other ${item} left to recommend.`];
    note.replaceChildren(...hints.filter(Boolean).map((text) => h("p", { class: "hint" }, text)));
    heading.textContent = state.user ? `For ${state.user.label}` : `Recommended ${plural(item)}`;
    const top = Math.max(...ranked.map((entry) => entry.score), 1e-9);
    list.replaceChildren(...ranked.map((entry, k) => row(entry, k + 1, top)));
    near.hidden = !alike.length;
    people.replaceChildren(...alike.map(neighbour));
    announce(`${ranked.length} recommendations, first ${ranked[0]?.label ?? "none"}`);
  }

  /** Mark on the map what was answered. */
  async function place(found, alike) {
    const items = state.have.map((entry) => entry.id);
    const show = found.map((entry) => entry.id);
    const about = folds && items.length ? { items, show: [...show, ...items] } : { show };
    const located = await newestPlace((signal) => post("/map", { ...about, users: alike.map((entry) => entry.id) }, signal));
    if (!located) return;
    const mine = new Set(state.have.map((entry) => entry.id));
    const users = located.users.map((point) => ({ ...point, of: "users" }));
    const you = located.position && { x: located.position[0], y: located.position[1], label: "you" };
    const marks = { have: located.items.filter((p) => mine.has(p.id)), best: located.items.filter((p) => !mine.has(p.id)), near: users.slice(0, 3), you };
    const said = ranked.slice(0, 3).map((entry) => entry.label).join(", ");
    map.mark(marks, `Map of ${plural(item)}; nearest recommendations: ${said}`);
  }

  function row(entry, rank, top) {
    const reasons = (entry.why ?? []).filter((reason) => reason.contribution > 0).slice(0, 2);
    const because = reasons.length
      ? h("span", { class: "because" }, "because of ", ...reasons.flatMap((reason, k) => [k ? ", " : "", h("b", {}, reason.label), ` ${percent(reason.contribution / entry.score)}`]), " · ")
      : null;
    const act = h(
      "span",
      { class: "act" },
      h("span", { class: "score", title: "score" }, entry.score.toFixed(3)),
      folds ? h("button", { type: "button", "aria-label": `Add ${entry.label}`, onclick: () => add(entry) }, "Add") : null,
    );
    return h("li", {}, h("span", { class: "place" }, `${rank}.`), named(entry), act, bar(entry.score / top), more(entry, because));
  }

  /** All parts of a score and similar items, asked for when somebody looks. */
  function more(entry, because) {
    const details = h("details", {}, h("summary", {}, because, because ? "more" : "More", h("span", { class: "sr" }, ` about ${entry.label}`)));
    details.addEventListener("toggle", async () => {
      if (!details.open || details.children.length > 1) return;
      try {
        const alike = await get("/similar", { item: entry.id, n: 5 });
        if (explains && state.have.length && !state.told.length) {
          const parts = await post("/explain", { item: entry.id, items: state.have.map((other) => other.id), n: 50 });
          const largest = Math.max(...parts.contributions.map((part) => Math.abs(part.contribution)), 1e-9);
          details.append(
            h("dl", { class: "parts" }, ...parts.contributions.flatMap((part) => [h("dt", {}, part.label), h("dd", {}, bar(Math.abs(part.contribution) / largest, "warm")), h("dd", {}, signed(part.contribution))])),
          );
        }
        const offer = (other) => h("button", { type: "button", class: "offer", onclick: () => folds && add(other) }, other.label);
        details.append(h("p", { class: "hint" }, `Similar ${plural(item)}`), h("div", { class: "chips" }, ...alike.results.map(offer)));
      } catch (error) {
        details.append(h("p", { class: "error" }, error.message));
      }
    });
    return details;
  }

  function neighbour(entry) {
    const button = h("button", { type: "button", class: "quiet", onclick: () => jump(entry) }, entry.label);
    const aside = compares ? h("button", { type: "button", class: "small", "aria-label": `Compare with ${entry.label}`, onclick: () => compare(entry) }, "Compare") : null;
    return h("li", {}, button, h("span", {}, h("span", { class: "hint" }, `${percent(entry.score)} alike`), bar(entry.score)), aside);
  }

  async function compare(entry) {
    await beside.show(entry, state, whose(), true);
    remember();
  }

  // ---------------------------------------------------------------- the start

  const [popular] = await Promise.all([folds ? get("/complete", { q: "", n: 6 }) : { results: [] }, maps ? layOut() : null]);
  given.offer(popular.results);
  await restore();

  /** The map; a plain one is taken anew until the better one is laid out on the server. */
  async function layOut(again = false) {
    const points = await get("/map", { n: 1500 });
    if (points.method === "PCA") setTimeout(() => layOut(true).catch(() => {}), 5000);
    if (again && points.method === "PCA") return;
    map.setPoints(points.points, points.groups, `Map of ${plural(item)}`);
    const shown = points.points.length < points.total ? `The ${points.points.length.toLocaleString("en")} most frequent of ${points.total.toLocaleString("en")} ${plural(item)}. ` : "";
    caption.textContent = `${shown}Near means alike.`;
    if (again) await refresh();
  }

  /** Items that an address names, by id or label; one that is unknown throws. */
  async function known(given) {
    const found = maps ? (await post("/map", { show: given })).items : await Promise.all(given.map(completed));
    return found.map(({ id, label }) => ({ id, label }));
  }

  async function completed(name) {
    const { results } = await get("/complete", { q: String(name), n: 5, of: "items" });
    const same = results.find((entry) => entry.id === name || entry.label === name);
    if (!same) throw new Error(`nothing is called ${name}`);
    return same;
  }

  /** What the address says, so that a view can be kept and shared; without one, an example. */
  async function restore() {
    let kept = {};
    try {
      kept = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "null") ?? { example: true };
      given.restore(kept);
      narrow?.restore(kept);
      setLanguage(state.language);
      if (kept.to !== undefined && compares) beside.open((await get("/profile", { user: kept.to })).user);
      if (folds && kept.have?.length) state.have = await known(kept.have);
      if (told && Array.isArray(kept.told)) state.told = kept.told.filter((entry) => typeof entry?.column === "string");
    } catch {
      history.replaceState(null, "", "#"); // an address that means nothing to this model
      kept = {};
      beside.hide();
    }
    if (kept.user !== undefined) return jump({ id: kept.user });
    if (kept.example && model.example) return jump(model.example, true);
    await refresh();
  }
}

/** What is asked of a list; nothing where nothing is. */
const asked = (where) => (Object.keys(where).length ? where : undefined);

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}
