// What the person gives a recommender: a known one to start from, single items, how many answers. Knows no answers.

import { get } from "./api.js";
import { combobox } from "./combobox.js";
import { a, capital, h, plural } from "./dom.js";

const SHOWN = 6; // items that stand in the open; more are folded away

/**
 * @param {object} model what the server says of itself
 * @param {object} state have, user, n, diversity; changed by the sliders
 * @param {object} act jump(entry), add(entry), remove(entry), clear(), later()
 * @param {?HTMLElement} narrow what lists are narrowed by
 */
export function givenCard(model, state, act, narrow) {
  const { user, item } = model.names;
  const folds = model.fold_in === "items";
  const has = (entry) => !state.example && state.have.some((other) => other.id === entry.id);
  const from = combobox({
    label: folds ? `Start from ${a(user)}` : capital(user),
    placeholder: `Search ${plural(user)}…`,
    complete: async (q, signal) => (await get("/complete", { q, n: 8, of: "users" }, signal)).results,
    choose: act.jump,
  });
  const wanted = combobox({
    label: `Your ${plural(item)}`,
    placeholder: `Add ${a(item)}…`,
    complete: async (q, signal) => {
      const found = await get("/complete", { q, n: Math.min(model.limits.max_n, 8 + state.have.length), of: "items" }, signal);
      return found.results.filter((entry) => !has(entry)).slice(0, 8);
    },
    choose: act.add,
    erase: () => state.have.length && !state.example && act.remove(state.have.at(-1)),
  });
  const offers = h("div", { class: "chips" });
  const first = h("ul", { class: "chips", "aria-label": `Your ${plural(item)}` });
  const others = h("ul", { class: "chips", "aria-label": `More of your ${plural(item)}` });
  const said = h("summary", {});
  const folded = h("details", { hidden: true }, said, others);
  const sliders = {
    n: slider("n", `How many ${plural(item)}`, 1, Math.min(50, model.limits.max_n, model.sizes.items), 1, String),
    diversity: slider("diversity", "Diversity", 0, 1, 0.05, (value) => value.toFixed(2), "0 ranks by score alone; higher values avoid look-alikes."),
  };
  // On a phone the answer comes first: what shapes it is folded.
  const settings = h("details", { class: "narrow", open: matchMedia("(min-width: 760px)").matches }, h("summary", {}, "How the list is made"), ...Object.values(sliders).map((each) => each.element));
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "given-title" },
    h("h2", { id: "given-title" }, "You", h("button", { type: "button", class: "quiet", onclick: act.clear }, "Clear")),
    from.element,
    ...(folds ? [wanted.element, first, folded, offers, h("br")] : []),
    settings,
    narrow,
  );

  function slider(name, label, min, max, step, text, hint) {
    const output = h("output", { htmlFor: `slider-${name}` }, text(state[name]));
    const input = h("input", { type: "range", id: `slider-${name}`, min, max, step, value: state[name] });
    if (hint) input.setAttribute("aria-describedby", `hint-${name}`);
    const take = () => {
      state[name] = Number(input.value);
      output.textContent = text(state[name]);
    };
    input.addEventListener("input", () => {
      take();
      act.later();
    });
    const head = h("span", { class: "label-row" }, h("label", { htmlFor: input.id }, label), output);
    const field = h("div", { class: "field" }, head, input, hint ? h("span", { class: "hint", id: `hint-${name}` }, hint) : null);
    return { element: field, set: (value) => { input.value = value; take(); } };
  }

  function chip(entry) {
    const button = h("button", { type: "button", "aria-label": `Remove ${entry.label}`, onclick: () => act.remove(entry) }, "×");
    return h("li", { class: "chip" }, h("span", {}, entry.label), button);
  }

  return {
    element,
    focus: () => (folds && state.have.length ? wanted : from).input.focus(),
    offer(entries) {
      const buttons = entries.map((entry) => h("button", { type: "button", class: "offer", onclick: () => act.add(entry) }, `+ ${entry.label}`));
      offers.replaceChildren(h("span", { class: "hint" }, "Often found:"), ...buttons);
    },
    /** Chips for what somebody has; a long profile is folded behind its number. */
    draw() {
      const shown = state.user ? 0 : SHOWN; // what a known one has is theirs; what was chosen here stands in the open
      const [open, hidden] = state.have.length > shown + 2 ? [state.have.slice(state.have.length - shown), state.have.slice(0, state.have.length - shown)] : [state.have, []];
      first.replaceChildren(...open.map(chip));
      others.replaceChildren(...hidden.map(chip));
      folded.hidden = !hidden.length;
      said.textContent = state.user ? `${hidden.length} ${plural(item)} of ${state.user.label}` : `${hidden.length} more ${plural(item)}`;
      offers.hidden = state.have.length > 0;
    },
    restore(kept) {
      for (const [name, each] of Object.entries(sliders)) if (typeof kept[name] === "number") each.set(kept[name]);
    },
  };
}
