// The view of a recommender: what you have, what fits, why, where you stand, who is like you.

import { get, latest, post } from "./api.js";
import { combobox } from "./combobox.js";
import { a, announce, bar, capital, debounced, h, percent, plural } from "./dom.js";
import { latentMap } from "./map.js";

export async function mount(main, model) {
  const { user, item } = model.names;
  const folds = model.fold_in === "items";
  const explains = model.answers.includes("/explain");
  const state = { have: [], user: null, n: 10, diversity: 0 };
  const newest = latest();

  // ---------------------------------------------------------------- what the person gives

  const chips = h("ul", { class: "chips", "aria-label": `Your ${plural(item)}` });
  const offers = h("div", { class: "chips" });
  const wanted = combobox({
    label: `Your ${plural(item)}`,
    placeholder: `Type ${a(item)}…`,
    complete: async (q, signal) => {
      const found = await get("/complete", { q, n: 8 + state.have.length, of: "items" }, signal);
      return found.results.filter((entry) => !has(entry)).slice(0, 8);
    },
    choose: add,
    erase: () => state.have.length && remove(state.have.at(-1)),
  });
  const from = combobox({
    label: folds ? `Or start from a known ${user}` : capital(user),
    placeholder: `Type ${a(user)}…`,
    complete: async (q, signal) => (await get("/complete", { q, n: 8, of: "users" }, signal)).results,
    choose: jump,
  });
  const sliders = [
    slider("n", `How many ${plural(item)}`, 1, Math.min(50, model.limits.max_n, model.sizes.items), 1, String),
    slider("diversity", "Diversity", 0, 1, 0.05, (value) => value.toFixed(2), "0 ranks by score alone; higher values avoid look-alikes."),
  ];
  const given = h(
    "section",
    { class: "card", "aria-labelledby": "given-title" },
    h("h2", { id: "given-title" }, "You", h("button", { type: "button", class: "quiet", onclick: clear }, "Clear")),
    ...(folds ? [wanted.element, chips, offers, h("br")] : []),
    from.element,
    ...sliders,
  );

  function slider(name, label, min, max, step, text, hint) {
    const output = h("output", { htmlFor: `slider-${name}` }, text(state[name]));
    const input = h("input", { type: "range", id: `slider-${name}`, min, max, step, value: state[name] });
    if (hint) input.setAttribute("aria-describedby", `hint-${name}`);
    input.addEventListener("input", () => {
      state[name] = Number(input.value);
      output.textContent = text(state[name]);
      later();
    });
    const said = h("span", { class: "label-row" }, h("label", { htmlFor: input.id }, label), output);
    return h("div", { class: "field" }, said, input, hint ? h("span", { class: "hint", id: `hint-${name}` }, hint) : null);
  }

  // ---------------------------------------------------------------- what the model answers

  const title = h("h2", { id: "best-title" }, `Recommended ${plural(item)}`);
  const list = h("ol", { class: "ranking" });
  const note = h("div", { class: "empty" });
  const best = h("section", { class: "card", "aria-labelledby": "best-title" }, title, note, list);
  const map = latentMap((point) => (point.of === "users" ? jump(point) : folds && add(point)));
  const legend = h(
    "p",
    { class: "legend" },
    ...[["have", `your ${plural(item)}`], ["best", "recommended"], ["near", `similar ${plural(user)}`], ["you", "you"]]
      .filter(([kind]) => folds || kind === "best" || kind === "near")
      .map(([kind, text]) => h("span", { class: kind }, h("i"), text)),
  );
  const caption = h("p", { class: "hint" });
  const place = h("section", { class: "card", "aria-labelledby": "map-title" }, h("h2", { id: "map-title" }, `Map of ${plural(item)}`), map.element, legend, caption);
  const people = h("ol", { class: "neighbours" });
  const near = h("section", { class: "card", "aria-labelledby": "near-title" }, h("h2", { id: "near-title" }, `Similar ${plural(user)}`), people);
  near.hidden = true;
  main.replaceChildren(
    h("div", { class: "intro" }, h("h1", {}, `${capital(item)} explorer`), h("p", { class: "hint" }, folds ? `Say which ${plural(item)} you have; see what goes with them, and why.` : `Choose ${a(user)}; see what fits.`)),
    h("div", { class: "grid" }, given, best, h("div", { class: "stack aside" }, place, near)),
  );

  // ---------------------------------------------------------------- changes

  const has = (entry) => state.have.some((other) => other.id === entry.id);
  const later = debounced(refresh, 90);

  function add(entry) {
    if (has(entry)) return;
    state.have.push({ id: entry.id, label: entry.label });
    state.user = null;
    refresh();
    announce(`${entry.label} added`);
  }

  function remove(entry) {
    state.have = state.have.filter((other) => other.id !== entry.id);
    state.user = null;
    refresh();
    wanted.input.focus();
    announce(`${entry.label} removed`);
  }

  function clear() {
    Object.assign(state, { have: [], user: null });
    refresh();
    (folds ? wanted : from).input.focus();
  }

  /** Take over everything a known user has. */
  async function jump(entry) {
    try {
      const found = await get("/profile", { user: entry.id });
      state.user = found.user;
      if (folds) state.have = found.items.map(({ id, label }) => ({ id, label }));
      refresh();
      announce(`${found.user.label}: ${found.items.length} ${plural(item)}`);
      main.scrollIntoView({ block: "start" });
    } catch (error) {
      fail(error);
    }
  }

  function fail(error) {
    note.replaceChildren(h("p", { class: "error" }, error.message));
    best.classList.remove("busy");
  }

  function remember() {
    const kept = { n: state.n, diversity: state.diversity, have: state.have.map((entry) => entry.id), user: state.user?.id };
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
  }

  async function refresh() {
    remember();
    chips.replaceChildren(...state.have.map(chip));
    offers.hidden = state.have.length > 0;
    if (!(folds ? state.have.length : state.user)) return showNothing();
    best.classList.add("busy");
    try {
      const answers = await newest(folds ? askForItems : askForUser);
      if (answers) show(...answers);
    } catch (error) {
      fail(error);
    }
  }

  async function askForItems(signal) {
    const items = state.have.map((entry) => entry.id);
    const about = { items, n: state.n, diversity: state.diversity, why: explains ? 3 : 0 };
    const [ranked, alike] = await Promise.all([
      post("/recommend_for", about, signal),
      post("/similar", { of: "users", items, n: 6 }, signal),
    ]);
    const show = ranked.items.map((entry) => entry.id);
    const users = alike.results.map((entry) => entry.id);
    return [ranked.items, alike.results, await post("/map", { items, show: [...show, ...items], users }, signal)];
  }

  async function askForUser(signal) {
    const { id } = state.user;
    const [ranked, alike] = await Promise.all([
      get("/recommend", { user: id, n: state.n, diversity: state.diversity }, signal),
      get("/similar", { user: id, n: 6 }, signal),
    ]);
    const show = ranked.items.map((entry) => entry.id);
    const users = alike.results.map((entry) => entry.id);
    return [ranked.items, alike.results, await post("/map", { show, users }, signal)];
  }

  // ---------------------------------------------------------------- drawing

  function chip(entry) {
    const button = h("button", { type: "button", "aria-label": `Remove ${entry.label}`, onclick: () => remove(entry) }, "×");
    return h("li", { class: "chip" }, h("span", {}, entry.label), button);
  }

  function showNothing() {
    best.classList.remove("busy");
    list.replaceChildren();
    near.hidden = true;
    note.replaceChildren(h("p", { class: "hint" }, folds ? `Add ${a(item)} to begin. Recommendations follow as you type and choose.` : `Choose ${a(user)} to begin.`));
    title.textContent = `Recommended ${plural(item)}`;
    map.mark({ have: [], best: [], near: [], you: null }, `Map of ${plural(item)}; nothing chosen yet`);
  }

  function show(ranked, alike, located) {
    best.classList.remove("busy");
    note.replaceChildren(...(ranked.length ? [] : [h("p", { class: "hint" }, `There is no other ${item} left to recommend.`)]));
    title.textContent = state.user ? `For ${state.user.label}` : `Recommended ${plural(item)}`;
    const top = Math.max(...ranked.map((entry) => entry.score), 1e-9);
    list.replaceChildren(...ranked.map((entry, k) => row(entry, k + 1, top)));
    near.hidden = !alike.length;
    people.replaceChildren(...alike.map(neighbour));
    const mine = new Set(state.have.map((entry) => entry.id));
    const users = located.users.map((point) => ({ ...point, of: "users" }));
    const you = located.position && { x: located.position[0], y: located.position[1], label: "you" };
    const marks = { have: located.items.filter((p) => mine.has(p.id)), best: located.items.filter((p) => !mine.has(p.id)), near: users.slice(0, 3), you };
    const said = ranked.slice(0, 3).map((entry) => entry.label).join(", ");
    map.mark(marks, `Map of ${plural(item)}; nearest recommendations: ${said}`);
    announce(`${ranked.length} recommendations, first ${ranked[0]?.label ?? "none"}`);
  }

  function row(entry, rank, top) {
    const reasons = (entry.why ?? []).filter((reason) => reason.contribution > 0);
    const because = reasons.length
      ? h("p", { class: "because" }, "because of ", ...reasons.flatMap((reason, k) => [k ? ", " : "", h("b", {}, reason.label), ` ${percent(reason.contribution / entry.score)}`]))
      : null;
    const act = h(
      "span",
      { class: "act" },
      h("span", { class: "score", title: "score" }, entry.score.toFixed(3)),
      folds ? h("button", { type: "button", "aria-label": `Add ${entry.label}`, onclick: () => add(entry) }, "Add") : null,
    );
    return h("li", {}, h("span", { class: "place" }, `${rank}.`), h("span", { class: "name" }, entry.label), act, bar(entry.score / top), because, more(entry));
  }

  /** All parts of a score and similar items, asked for when somebody looks. */
  function more(entry) {
    const details = h("details", {}, h("summary", {}, "More", h("span", { class: "sr" }, ` about ${entry.label}`)));
    details.addEventListener("toggle", async () => {
      if (!details.open || details.children.length > 1) return;
      try {
        const alike = await get("/similar", { item: entry.id, n: 5 });
        if (explains && state.have.length) {
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
    return h("li", {}, button, h("span", {}, h("span", { class: "hint" }, `${percent(entry.score)} alike`), bar(entry.score)));
  }

  // ---------------------------------------------------------------- the start

  const [points, popular] = await Promise.all([get("/map", { n: 1500 }), folds ? get("/complete", { q: "", n: 6 }) : { results: [] }]);
  map.setPoints(points.points, `Map of ${plural(item)}`);
  const shown = points.points.length < points.total ? `The ${points.points.length} most frequent of ${points.total.toLocaleString("en")} ${plural(item)}. ` : "";
  caption.textContent = `${shown}Near means alike. The plane shows ${percent(points.explained)} of the differences between directions.`;
  offers.replaceChildren(h("span", { class: "hint" }, "Often found:"), ...popular.results.map((entry) => h("button", { type: "button", class: "offer", onclick: () => add(entry) }, `+ ${entry.label}`)));
  await restore();

  /** What the address says, so that a view can be kept and shared. */
  async function restore() {
    try {
      const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
      for (const name of ["n", "diversity"]) {
        if (typeof kept[name] !== "number") continue;
        const input = document.getElementById(`slider-${name}`);
        input.value = kept[name];
        input.dispatchEvent(new Event("input"));
      }
      if (folds && kept.have?.length) state.have = (await post("/map", { show: kept.have })).items.map(({ id, label }) => ({ id, label }));
      if (!folds && kept.user !== undefined) return jump({ id: kept.user });
    } catch {
      history.replaceState(null, "", "#"); // an address that means nothing to this model
    }
    await refresh();
  }
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}
