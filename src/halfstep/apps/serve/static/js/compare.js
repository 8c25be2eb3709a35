// Two profiles side by side: what both have, what is lacking, what would bring them closest.

import { post } from "./api.js";
import { bar, h, named, percent, plural } from "./dom.js";
import { downloadButton } from "./download.js";

/** @param {{user: string, item: string}} names @param {(entry) => void} add @param {(open: boolean) => void} onToggle */
export function comparison(names, add, onToggle) {
  const items = plural(names.item);
  const body = h("div", { class: "stack" });
  const title = h("h2", { id: "compare-title", tabIndex: -1 });
  const close = h("button", { type: "button", class: "quiet small", onclick: () => hide(true) }, "Close");
  const element = h("section", { class: "card compare", "aria-labelledby": "compare-title", hidden: true }, title, body);
  let to = null;

  function hide(told = false) {
    to = null;
    element.hidden = true;
    if (told) onToggle();
  }

  /** Stand open for a known one; `show` fills it when it is known who asks. */
  function open(entry) {
    to = entry;
    title.replaceChildren(`Compared with ${entry.label}`, close);
    element.hidden = false;
    body.replaceChildren(h("p", { class: "hint" }, "Comparing…"));
  }

  /** Show how `items` compare with a known one; what was shown before goes at once, so that nothing stale stays. */
  async function show(entry, { have, where, relation }, mine, focus = false) {
    open(entry);
    try {
      const narrowed = { where: Object.keys(where).length ? where : undefined, relation: relation || undefined };
      const found = await post("/compare", { to: entry.id, items: have.map((other) => other.id), n: 200, ...narrowed });
      if (to !== entry) return;
      body.replaceChildren(...drawn(found, mine));
    } catch (error) {
      if (to === entry) body.replaceChildren(h("p", { class: "error" }, error.message));
    }
    if (focus) title.focus();
    if (focus) element.scrollIntoView({ block: "nearest" });
  }

  function drawn(found, mine) {
    const most = Math.max(...found.lacking.map((entry) => entry.gain), 1e-9);
    const count = (list) => `${list.length} ${list.length === 1 ? names.item : items}`;
    const lacking = found.lacking.map((entry) =>
      h("li", {}, named(entry), h("button", { type: "button", "aria-label": `Add ${entry.label}`, onclick: () => add(entry) }, "Add"), bar(entry.gain / most)),
    );
    const rest = lacking.splice(8);
    const gap = found.lacking.length
      ? [
          h("h3", {}, `What would close the gap: ${count(found.lacking)}`, downloadButton("the gap", () => `${mine} to ${found.to.label}`, [names.item, "id", "gain"], () => found.lacking.map((entry) => [entry.label, entry.id, entry.gain]))),
          h("p", { class: "hint" }, `In the order of what each adds to the likeness of ${percent(found.likeness)}.`),
          h("ol", { class: "gap" }, ...lacking),
          rest.length ? h("details", {}, h("summary", {}, `${rest.length} more`), h("ol", { class: "gap" }, ...rest)) : null,
        ]
      : [h("p", {}, `You have all ${items} of ${found.to.label}.`)];
    const folded = (text, list) =>
      list.length ? h("details", {}, h("summary", {}, `${text}: ${count(list)}`), h("ul", { class: "plain" }, ...list.map((entry) => h("li", {}, named(entry))))) : h("p", { class: "hint" }, `${text}: none`);
    return [h("div", {}, ...gap.filter(Boolean)), folded("Both have", found.both), folded("Only you have", found.only_you)];
  }

  return { element, open, show, hide, entry: () => to };
}
