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

/** One form, however often it is asked: an answer that is late replaces no field somebody is typing in. */
function askForKey(message) {
  const input = h("input", { type: "password", id: "key", autocomplete: "off" });
  const hint = h("p", { class: "hint", role: "status" }, message);
  const button = h("button", { type: "submit", class: "primary" }, "Open");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    setKey(input.value);
    await start((refusal) => {
      hint.textContent = `That key was not accepted: ${refusal}`;
      button.disabled = false;
    });
  };
  const field = h("div", { class: "field" }, h("label", { htmlFor: "key" }, "Key"), input);
  main.replaceChildren(h("form", { class: "card", onsubmit: submit }, h("h1", {}, "This server asks for a key"), hint, field, button));
  input.focus();
}

async function start(refused = askForKey) {
  try {
    const model = await get("/model");
    document.getElementById("model-line").textContent = describe(model);
    const views = { "/profile": "./recommender.js", "/predict": "./rating.js", "/instances": "./ensemble.js", "/fuse": "./fuse.js" };
    const lists = model.fold_in !== "items" && model.answers.includes("/predict"); // lists of ratings, not of scores
    const { mount } = await import(lists ? views["/predict"] : views[Object.keys(views).find((path) => model.answers.includes(path))]);
    await mount(main, model);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return refused(error.message);
    document.getElementById("model-line").textContent = "";
    main.replaceChildren(h("p", { class: "card error" }, `The model could not be shown: ${error.message}`));
    if (!(error instanceof ApiError)) throw error;
  }
}

startTheme();
start();
