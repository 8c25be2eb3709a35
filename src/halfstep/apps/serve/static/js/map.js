// The latent map on a canvas: all items as dots, what matters now on top with names. Knows points, not models.

import { h } from "./dom.js";

/** @param {(point) => void} choose called with the point that was clicked. */
export function latentMap(choose) {
  const canvas = h("canvas", { role: "img" });
  const tip = h("span", { class: "map-tip", hidden: true });
  tip.setAttribute("aria-hidden", "true");
  const tool = (name, text, action) => h("button", { type: "button", "aria-label": name, onclick: action }, text);
  const tools = h(
    "div",
    { class: "map-tools" },
    tool("Zoom in", "+", () => zoom(1.5)),
    tool("Zoom out", "−", () => zoom(1 / 1.5)),
    tool("Whole map", "⤢", () => ((view = { ...whole }), draw())),
  );
  const element = h("div", { class: "map-frame" }, canvas, tip, tools);
  let points = [];
  let groups = [];
  let marks = { have: [], best: [], near: [], you: null };
  let whole = { x: 0, y: 0, scale: 1, half: 1 };
  let view = { ...whole };
  let drag = null;

  const size = () => canvas.clientWidth;
  const reach = () => (0.44 * size() * view.scale) / whole.half;
  const at = (p) => [size() / 2 + (p.x - view.x) * reach(), size() / 2 - (p.y - view.y) * reach()];

  function zoom(factor) {
    if (marks.you && view.scale === 1 && factor > 1) Object.assign(view, { x: marks.you.x, y: marks.you.y });
    view.scale = Math.min(12, Math.max(1, view.scale * factor));
    if (view.scale === 1) view = { ...whole };
    draw();
  }

  function draw() {
    const width = size();
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.height = Math.round(width * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(`--${name}`).trim();
    pen.fillStyle = colour("map-dot");
    for (const p of points) dot(pen, at(p), Math.min(4, 1.8 + view.scale / 3));
    const taken = [];
    pen.strokeStyle = colour("good");
    pen.lineWidth = 2;
    for (const p of marks.near) diamond(pen, at(p), 6);
    pen.fillStyle = colour("accent");
    for (const p of marks.best) dot(pen, at(p), 5);
    pen.fillStyle = colour("warm");
    for (const p of marks.have) square(pen, at(p), 10);
    if (marks.you) {
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 3;
      pen.beginPath();
      pen.arc(...at(marks.you), 9, 0, 7);
      pen.stroke();
      name(pen, "you are here", at(marks.you), colour("ink"), colour("raised"), taken, 14, true);
    }
    for (const p of marks.have) name(pen, p.label, at(p), colour("warm"), colour("raised"), taken, 9, true);
    for (const p of marks.near) name(pen, p.label, at(p), colour("good"), colour("raised"), taken, 10, false);
    for (const p of marks.best) name(pen, p.label, at(p), colour("accent"), colour("raised"), taken, 9, false);
    for (const p of groups) name(pen, p.label, at(p), colour("muted"), colour("raised"), taken, 0, false, true);
  }

  /** Zoom to most of what was answered, with room around it; a few that stand far off do not count. */
  function zoomToAnswer() {
    const shown = [...marks.have, ...marks.best, ...(marks.you ? [marks.you] : [])];
    if (shown.length < 3) return (view = { ...whole });
    const [left, right] = span(shown.map((p) => p.x));
    const [low, high] = span(shown.map((p) => p.y));
    const half = 0.65 * Math.max(right - left, high - low, whole.half / 6);
    view = { ...whole, x: (left + right) / 2, y: (low + high) / 2, scale: Math.min(12, Math.max(1, whole.half / half)) };
    if (view.scale === 1) view = { ...whole };
  }

  /** A name beside its point, unless it would cover another one. */
  function name(pen, text, [x, y], colour, halo, taken, gap, bold, middle = false) {
    pen.font = `${bold ? "600 " : ""}${middle ? "italic " : ""}12.5px system-ui, sans-serif`;
    const width = pen.measureText(text).width;
    const around = middle ? [[x - width / 2, y - 8]] : [[x + gap, y - 8], [x - gap - width, y - 8], [x - width / 2, y - gap - 16], [x - width / 2, y + gap]];
    for (const [left, top] of around) {
      const box = [left - 2, top, left + width + 2, top + 16];
      const inside = box[0] > 2 && box[2] < size() - 2 && box[1] > 2 && box[3] < size() - 2;
      if (!inside || taken.some((o) => box[0] < o[2] && box[2] > o[0] && box[1] < o[3] && box[3] > o[1])) continue;
      taken.push(box);
      pen.lineWidth = 3;
      pen.strokeStyle = halo;
      pen.strokeText(text, left, top + 12);
      pen.fillStyle = colour;
      pen.fillText(text, left, top + 12);
      return;
    }
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let found = null;
    let best = 144; // twelve pixels, squared
    for (const p of [...marks.near, ...marks.best, ...marks.have, ...points]) {
      const [px, py] = at(p);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < best) [found, best] = [p, distance];
    }
    return found;
  }

  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, from: { ...view }, moved: false };
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag && view.scale > 1) {
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag.moved ||= Math.hypot(dx, dy) > 4;
      view.x = drag.from.x - dx / reach();
      view.y = drag.from.y + dy / reach();
      return draw();
    }
    const point = nearest(event);
    tip.hidden = !point;
    if (!point) return;
    tip.textContent = point.label;
    const [x, y] = at(point);
    const half = tip.offsetWidth / 2 + 4;
    tip.style.left = `${Math.min(Math.max(x, half), size() - half)}px`;
    tip.style.top = `${Math.max(y, 44)}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("pointerup", (event) => {
    const moved = drag?.moved;
    drag = null;
    const point = moved ? null : nearest(event);
    if (point) choose(point);
  });
  new ResizeObserver(draw).observe(element);
  document.addEventListener("themechange", draw);

  return {
    element,
    setPoints(given, named, description) {
      points = given;
      groups = named;
      const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
      const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
      whole = { x: (left + right) / 2, y: (low + high) / 2, scale: 1, half: Math.max(right - left, high - low) / 2 || 1 };
      view = { ...whole };
      canvas.setAttribute("aria-label", description);
      draw();
    },
    mark(given, description) {
      marks = given;
      zoomToAnswer();
      canvas.setAttribute("aria-label", description);
      draw();
    },
  };
}

/** Where the middle eight tenths of some numbers lie. */
function span(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other);
  const cut = Math.floor(sorted.length / 10);
  return [sorted[cut], sorted[sorted.length - 1 - cut]];
}

function dot(pen, [x, y], radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fill();
}

function square(pen, [x, y], side) {
  pen.fillRect(x - side / 2, y - side / 2, side, side);
}

function diamond(pen, [x, y], radius) {
  pen.beginPath();
  pen.moveTo(x, y - radius);
  pen.lineTo(x + radius, y);
  pen.lineTo(x, y + radius);
  pen.lineTo(x - radius, y);
  pen.closePath();
  pen.stroke();
}
