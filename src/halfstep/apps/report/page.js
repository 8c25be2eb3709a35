// Tooltips, maps that can be searched, tables that can be sorted and filtered. The page is whole without it.
"use strict";
const tip = document.getElementById("tip");
const SVG = "http://www.w3.org/2000/svg";

function showTip(text, event) {
  tip.textContent = text;
  tip.hidden = false;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const top = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${top}px`;
}

document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.("[data-t]");
  if (mark) showTip(mark.dataset.t, event);
  else if (!event.target.closest?.("[data-map]")) tip.hidden = true;
});

// What is folded opens where the address leads to it, and on paper.
const unfold = () => {
  const aim = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  aim?.querySelector?.(":scope > details.folded")?.setAttribute("open", "");
};
addEventListener("hashchange", unfold);
addEventListener("beforeprint", () => document.querySelectorAll("details.folded").forEach((each) => each.setAttribute("open", "")));
unfold();

// A map: points.x and .y as shares of the plot, whose place is in `data-plot` of each drawing; .label for each point,
// and a ring around what is near or found. The second drawing, where there is one, is for phones.
for (const script of document.querySelectorAll("script.points")) {
  const figure = script.closest("figure");
  const points = JSON.parse(script.textContent);
  const maps = [...figure.querySelectorAll(".chart > svg")].map((svg) => {
    const [left, top, width, height] = svg.dataset.plot.split(" ").map(Number);
    svg.dataset.map = "";
    return { svg, rings: svg.appendChild(document.createElementNS(SVG, "g")), at: (k) => [left + points.x[k] * width, top + points.y[k] * height] };
  });

  const ring = ({ svg, rings, at }, k, named) => {
    const [x, y] = at(k);
    const circle = rings.appendChild(document.createElementNS(SVG, "circle"));
    circle.setAttribute("class", "hit");
    circle.setAttribute("cx", x);
    circle.setAttribute("cy", y);
    circle.setAttribute("r", 6);
    if (!named) return;
    const text = rings.appendChild(document.createElementNS(SVG, "text"));
    const right = x > svg.viewBox.baseVal.width * 0.75;
    text.setAttribute("class", "halo");
    text.setAttribute("x", x + (right ? -9 : 9));
    text.setAttribute("y", y + 4);
    text.setAttribute("text-anchor", right ? "end" : "start");
    text.textContent = points.label[k].split("\n")[0];
  };

  for (const { svg, at } of maps) svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const y = (event.clientY - box.top) * scale;
    let best = -1;
    let nearest = 14 * 14;
    for (let k = 0; k < points.x.length; k++) {
      const [px, py] = at(k);
      const d = (px - x) ** 2 + (py - y) ** 2;
      if (d < nearest) { nearest = d; best = k; }
    }
    if (best < 0) tip.hidden = true;
    else showTip(points.label[best], event);
  });
  for (const { svg } of maps) svg.addEventListener("pointerleave", () => { tip.hidden = true; });

  const box = figure.querySelector("[data-find]");
  box?.addEventListener("input", () => {
    for (const { rings } of maps) rings.replaceChildren();
    const wanted = box.value.trim().toLowerCase();
    const hits = wanted ? points.label.flatMap((label, k) => (label.toLowerCase().includes(wanted) ? [k] : [])) : [];
    for (const map of maps) hits.slice(0, 400).forEach((k, place) => ring(map, k, place < 12));
    figure.querySelector(".found").textContent = wanted ? `${hits.length} found` : "";
  });
}

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const numeric = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      const up = before ? before === "descending" : !numeric;
      table.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.k;
      const order = numeric ? (a, b) => key(a) - key(b) : (a, b) => key(a).localeCompare(key(b));
      body.append(...[...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a))));
    });
  });
  const card = table.closest(".table");
  card.querySelector("[data-filter]")?.addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const shown = [...body.rows].filter((row) => !row.hidden).length;
    card.querySelector(".found").textContent = wanted ? `${shown} of ${body.rows.length}` : "";
  });
}

// The contents follow the reader.
const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) links.get(entry.target.id)?.classList.toggle("here", entry.isIntersecting);
}, { rootMargin: "-10% 0px -70% 0px" });
document.querySelectorAll("section[id]").forEach((section) => watcher.observe(section));
