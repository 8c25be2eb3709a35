// What lists are narrowed by: what published files say of items and users, kinds of relations, the language of names.

import { capital, h, plural } from "./dom.js";

const OPEN = 6; // values that stand as boxes to tick; more are a list to choose from

/**
 * @param {object} model what the server says of itself
 * @param {object} state where, near, relation, language; changed here
 * @param {object} act narrowed() lists change, related() profiles do, spoken() names do
 * @returns {?{element: HTMLElement, restore: (kept: object) => void, kept: () => object}} null where nothing is known
 */
export function narrowCard(model, state, act) {
  const { user, item } = model.names;
  const known = model.filters ?? { items: [], users: [], relations: [] };
  const languages = model.languages ?? [];
  const draws = [];
  const fields = [
    ...known.items.map((facet) => field(facet, "where", `${capital(facet.name)} of ${plural(item)}`)),
    known.relations.length ? relations() : null,
    ...known.users.map((facet) => field(facet, "near", `${capital(facet.name)} of similar ${plural(user)}`)),
    languages.length ? tongue() : null,
  ].filter(Boolean);
  if (!fields.length) return null;
  const said = h("summary", {});
  const clear = h("button", { type: "button", class: "quiet small", onclick: () => set({}, act.narrowed) }, "Show all");
  const element = h("details", { class: "narrow" }, said, ...fields, clear);

  function field(facet, place, label) {
    return facet.values.length <= OPEN ? boxes(facet, place, label) : choice(facet, place, label);
  }

  function boxes(facet, place, label) {
    const inputs = facet.values.map((each, k) => {
      const input = h("input", { type: "checkbox", id: `${place}-${facet.name}-${k}`, value: each.value });
      input.addEventListener("change", () => take(facet, place, inputs.filter((other) => other.checked).map((other) => other.value)));
      return input;
    });
    draws.push(() => inputs.forEach((input) => (input.checked = (state[place][facet.name] ?? []).includes(input.value))));
    const rows = facet.values.map((each, k) => h("label", { class: "tick", htmlFor: inputs[k].id }, inputs[k], ` ${each.title} `, count(each)));
    return h("fieldset", { class: "field" }, h("legend", {}, label), ...rows);
  }

  function choice(facet, place, label) {
    const options = facet.values.map((each) => h("option", { value: each.value }, `${each.title} (${each.count.toLocaleString("en")})`));
    const select = h("select", { id: `${place}-${facet.name}` }, h("option", { value: "" }, "all"), ...options);
    select.addEventListener("change", () => take(facet, place, select.value ? [select.value] : []));
    draws.push(() => (select.value = state[place][facet.name]?.[0] ?? ""));
    return h("div", { class: "field" }, h("label", { htmlFor: select.id }, label), select);
  }

  function relations() {
    const select = h("select", { id: "relation" }, h("option", { value: "" }, "all"), ...known.relations.map((name) => h("option", { value: name }, `${name} only`)));
    select.addEventListener("change", () => {
      state.relation = select.value;
      draw();
      act.related();
    });
    draws.push(() => (select.value = state.relation));
    return h("div", { class: "field" }, h("label", { htmlFor: "relation" }, `${capital(plural(item))} of ${plural(user)} that count`), select);
  }

  function tongue() {
    const select = h("select", { id: "language" }, h("option", { value: "" }, "as fitted"), ...languages.map((name) => h("option", { value: name }, spelt(name))));
    select.addEventListener("change", () => {
      state.language = select.value;
      act.spoken();
    });
    draws.push(() => (select.value = state.language));
    return h("div", { class: "field" }, h("label", { htmlFor: "language" }, "Language of names"), select);
  }

  function take(facet, place, values) {
    state[place] = { ...state[place], [facet.name]: values };
    if (!values.length) delete state[place][facet.name];
    draw();
    act.narrowed();
  }

  /** Values that the files do not know are left out, so that an old address still opens. */
  function valid(given, facets) {
    const found = {};
    for (const facet of facets) {
      const values = [given?.[facet.name]].flat().filter((value) => facet.values.some((each) => each.value === value));
      if (values.length) found[facet.name] = values;
    }
    return found;
  }

  function set(kept, then = () => {}) {
    const related = state.relation;
    Object.assign(state, {
      where: valid(kept.where, known.items),
      near: valid(kept.near, known.users),
      relation: known.relations.includes(kept.relation) ? kept.relation : "",
    });
    draw();
    (related === state.relation ? then : act.related)();
  }

  function draw() {
    const chosen = [...Object.values(state.where), ...Object.values(state.near)].flat().length + (state.relation ? 1 : 0);
    said.textContent = chosen ? `Narrowed by ${chosen} choice${chosen > 1 ? "s" : ""}` : "Narrow the lists";
    clear.hidden = !chosen;
    for (const each of draws) each();
  }

  draw();
  return {
    element,
    restore(kept) {
      Object.assign(state, { where: valid(kept.where, known.items), near: valid(kept.near, known.users) });
      if (known.relations.includes(kept.relation)) state.relation = kept.relation;
      if (languages.includes(kept.language)) state.language = kept.language;
      draw();
    },
    kept: () => Object.fromEntries(Object.entries({ where: state.where, near: state.near, relation: state.relation, language: state.language }).filter(([, value]) => Object.keys(value).length)),
  };
}

function count(each) {
  return h("span", { class: "hint" }, each.count.toLocaleString("en"));
}

function spelt(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language;
  }
}
