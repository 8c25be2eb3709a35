// What labels bring: a curve measured on hidden labels, drawn as far as ten labels more. Asked for by a button.

import { get } from "./api.js";
import { announce, h } from "./dom.js";

const NS = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [340, 190, 44, 34];

export function curveCard() {
  const result = h("div", {});
  const button = h("button", { type: "button", onclick: measure }, "Measure it");
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "curve-title" },
    h("h2", { id: "curve-title" }, "What labels bring"),
    h("p", { class: "hint" }, "The model is fitted again with fewer labels and judged on those it did not see: sixteen fits."),
    button,
    result,
  );

  async function measure() {
    button.disabled = true;
    result.replaceChildren(h("p", { class: "hint", role: "status" }, "Measuring…"));
    try {
      result.replaceChildren(...drawn(await get("/curve")));
      button.textContent = "Measure again";
    } catch (error) {
      result.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
    button.disabled = false;
  }

  /** After a refit the curve belongs to fewer labels than there are. */
  return { element, stale: () => result.replaceChildren() };
}

function drawn(found) {
  const gained = found.now - found.then;
  const told = `With ${found.labelled} labels the log loss is about ${found.now.toFixed(3)}; the next ${found.more} are expected to bring it to ${found.then.toFixed(3)}${gained < 0.005 ? ": hardly worth their cost" : ""}.`;
  announce(told);
  const rows = found.points.map((point) => h("tr", {}, h("th", { scope: "row" }, String(point.labels)), h("td", { class: "number" }, `${point.log_loss.toFixed(3)} ± ${point.error.toFixed(3)}`)));
  const head = ["Labels", "Log loss"].map((text) => h("th", { scope: "col" }, text));
  return [
    h("p", {}, told),
    chart(found, told),
    h("details", {}, h("summary", {}, "In numbers"), h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows))),
  ];
}

function chart(found, told) {
  const last = found.labelled + found.more;
  const law = (n) => found.level + found.slope / n;
  const first = found.points[0].labels;
  const tops = found.points.flatMap((point) => [point.log_loss - point.error, point.log_loss + point.error]);
  const [low, high] = [Math.max(0, Math.min(...tops, found.then)), Math.max(...tops, law(first))];
  const x = (n) => LEFT + ((WIDTH - LEFT - 12) * (n - first * 0.8)) / (last - first * 0.8);
  const y = (loss) => 10 + ((HEIGHT - BOTTOM - 10) * (high - loss)) / Math.max(high - low, 1e-9);
  const path = (from, to) => Array.from({ length: 40 }, (_, k) => from + ((to - from) * k) / 39).map((n, k) => `${k ? "L" : "M"}${x(n).toFixed(1)},${y(law(n)).toFixed(1)}`).join("");
  const picture = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve", role: "img", "aria-label": told });
  for (const loss of [low, (low + high) / 2, high]) picture.append(node("line", { x1: LEFT, x2: WIDTH - 12, y1: y(loss), y2: y(loss), class: "rule" }), text(LEFT - 6, y(loss) + 4, loss.toFixed(2), "end"));
  for (const n of [...new Set([found.points[0].labels, found.labelled, last])]) picture.append(text(x(n), HEIGHT - BOTTOM + 16, String(n), "middle"));
  picture.append(text((LEFT + WIDTH) / 2, HEIGHT - 4, "labels", "middle"), node("path", { d: path(first, found.labelled), class: "known" }), node("path", { d: path(found.labelled, last), class: "ahead" }));
  for (const point of found.points) {
    picture.append(node("line", { x1: x(point.labels), x2: x(point.labels), y1: y(point.log_loss - point.error), y2: y(point.log_loss + point.error), class: "error-bar" }));
    picture.append(node("circle", { cx: x(point.labels), cy: y(point.log_loss), r: 4 }));
  }
  return picture;
}

function node(tag, attributes) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function text(x, y, said, anchor) {
  const made = node("text", { x, y, "text-anchor": anchor });
  made.textContent = said;
  return made;
}
