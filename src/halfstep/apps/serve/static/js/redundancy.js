// How alike classifiers are, as a heat map with words beside it: which ones say the same, which count.

import { get } from "./api.js";
import { bar, h } from "./dom.js";

export async function redundancyCard() {
  const { names, weights, similarity } = await get("/classifiers");
  const card = h("section", { class: "card", "aria-labelledby": "alike-title" }, h("h2", { id: "alike-title" }, "Which classifiers say the same"));
  const off = similarity.flatMap((row, i) => row.filter((_, j) => j !== i));
  const [low, high] = [Math.min(...off, 1), Math.max(...off, 0)];
  const most = pairs(names, similarity).slice(0, 3);
  const said = most.map(([one, other, value]) => `${one} and ${other} ${value.toFixed(2)}`).join("; ");
  const grid = h("div", { class: "heat", role: "img", "aria-label": `Likeness of ${names.length} classifiers. Largest: ${said}` });
  grid.style.gridTemplateColumns = `minmax(0, max-content) repeat(${names.length}, minmax(0, 1fr))`;
  similarity.forEach((row, i) => {
    grid.append(h("span", { title: names[i] }, names[i]));
    row.forEach((value, j) => {
      const cell = h("i", { title: `${names[i]} and ${names[j]}: ${value.toFixed(2)}` });
      cell.style.opacity = String(i === j ? 1 : 0.06 + 0.94 * Math.max(0, (value - low) / (high - low || 1)));
      grid.append(cell);
    });
  });
  card.append(grid, h("p", { class: "hint" }, `Alike ones stand side by side. Most alike: ${said || "none"}. They bring little news beyond each other.`));
  if (weights) {
    const largest = Math.max(...weights.map(Math.abs), 1e-9);
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
    const line = (j) => h("li", {}, h("span", { class: "name" }, names[j]), h("span", { class: "number" }, weights[j].toFixed(2)), bar(Math.abs(weights[j]) / largest, weights[j] < 0 ? "against" : ""));
    card.append(h("h3", {}, "What each counts"), h("ol", { class: "gap weights" }, ...order.map(line)));
    if (weights.some((weight) => weight < 0)) card.append(h("p", { class: "hint" }, "Hatched: it counts against what it says."));
  }
  return card;
}

function pairs(names, similarity) {
  const found = names.flatMap((one, i) => names.slice(i + 1).map((other, j) => [one, other, similarity[i][i + 1 + j]]));
  return found.sort((a, b) => b[2] - a[2]);
}
