// The page: asks the server what it serves and shows the view for it.

import { ApiError, get, setKey } from "./api.js";
import { h, plural } from "./dom.js";
import { startTheme } from "./theme.js";

const main = document.getElementById("main");

function describe(model) {
  const { sizes, names } = model;
  const number = (n) => n.toLocaleString("en");
  if (sizes.items) {
    return `${model.kind} · ${number(sizes.users)} ${plural(names.user)} × ${number(sizes.items)} ${plural(names.item)} ${sizes.rank ? ` · rank ${sizes.rank}` : ""}`;
  }
  if (!sizes.instances) return `${model.kind} · ${model.classes.length} classes`;
  return `${model.kind} · ${number(sizes.instances)} instances × ${number(sizes.classifiers)} classifiers`;
}

function askForKey(message) {
  const input = h("input", { type: "password", id: "key", autocomplete: "off" });
  const form = h(
    "form",
    { class: "card", onsubmit: (event) => (event.preventDefault(), setKey(input.value), start()) },
    h("h1", {}, "This server asks for a key"),
    h("p", { class: "hint" }, message),
    h("div", { class: "field" }, h("label", { htmlFor: "key" }, "Key"), input),
    h("button", { type: "submit", class: "primary" }, "Open"),
  );
  main.replaceChildren(form);
  input.focus();
}

async function start() {
  try {
    const model = await get("/model");
    document.getElementById("model-line").textContent = describe(model);
    const views = { "/profile": "./recommender.js", "/predict": "./rating.js", "/instances": "./ensemble.js", "/fuse": "./fuse.js" };
    const { mount } = await import(views[Object.keys(views).find((path) => model.answers.includes(path))]);
    await mount(main, model);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return askForKey(error.message);
    document.getElementById("model-line").textContent = "";
    main.replaceChildren(h("p", { class: "card error" }, `The model could not be shown: ${error.message}`));
    if (!(error instanceof ApiError)) throw error;
  }
}

startTheme();
start();
