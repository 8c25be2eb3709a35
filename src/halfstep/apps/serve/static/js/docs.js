// The page of the API: endpoints, fields and a way to try them, from the server's own openapi.json.

import { setKey } from "./api.js";
import { announce, h } from "./dom.js";
import { startTheme } from "./theme.js";

const main = document.getElementById("main");

startTheme();
const key = sessionStorage.getItem("halfstep-key") ?? "";
const headers = key ? { Authorization: `Bearer ${key}` } : {};
const response = await fetch("/openapi.json", { headers });
if (response.status === 401) {
  const input = h("input", { type: "password", id: "key" });
  const keep = (event) => (event.preventDefault(), setKey(input.value), location.reload());
  main.replaceChildren(
    h("form", { class: "card", onsubmit: keep }, h("h1", {}, "This server asks for a key"), h("label", { htmlFor: "key" }, "Key "), input, " ", h("button", { class: "primary" }, "Open")),
  );
} else {
  show(await response.json());
}

function show(api) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), endpoint(api, path, method, operation)]);
    }
  }
  main.replaceChildren(
    h("h1", {}, "API"),
    h("p", { class: "hint" }, "JSON in and out. An error has the field `error` with one sentence, and `field` or `suggestions` where they help."),
    ...[...groups].flatMap(([tag, entries]) => [h("h2", {}, tag), ...entries]),
  );
}

function endpoint(api, path, method, operation) {
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const fields = body ? ofSchema(api, resolve(api, body)) : (operation.parameters ?? []).map((p) => ({ ...p.schema, name: p.name, description: p.description ?? p.schema.description, required: p.required }));
  const form = trial(path, method, body && sample(api, resolve(api, body)), operation.parameters ?? []);
  return h(
    "details",
    { class: "card" },
    h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("span", { class: "path" }, path), h("span", { class: "hint" }, firstSentence(operation.description))),
    h("p", {}, operation.description ?? ""),
    fields.length ? table(api, fields) : null,
    form,
  );
}

function table(api, fields) {
  const head = h("tr", {}, ...["Field", "Type", "Meaning"].map((text) => h("th", { scope: "col" }, text)));
  const rows = fields.map((field) =>
    h("tr", {}, h("td", {}, h("code", {}, field.name), field.required ? " (needed)" : ""), h("td", {}, type(api, field)), h("td", {}, meaning(field))),
  );
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Fields" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)));
}

function meaning(field) {
  const preset = field.default !== undefined && field.default !== null ? ` Default ${JSON.stringify(field.default)}.` : "";
  return `${field.description ?? ""}${preset}`;
}

function resolve(api, schema) {
  return schema.$ref ? api.components.schemas[schema.$ref.split("/").at(-1)] : schema;
}

function ofSchema(api, schema) {
  const needed = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, field]) => ({ ...field, name, required: needed.has(name) }));
}

function type(api, field) {
  if (field.enum) return field.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (field.anyOf) return [...new Set(field.anyOf.filter((part) => part.type !== "null").map((part) => type(api, part)))].join(" or ");
  if (field.type === "array") return `list of ${type(api, field.items ?? {})}`;
  const bounds = [field.minimum !== undefined ? `≥ ${field.minimum}` : "", field.maximum !== undefined ? `≤ ${field.maximum}` : ""].filter(Boolean);
  return [field.type ?? "value", ...bounds].join(" ");
}

function sample(api, schema) {
  return Object.fromEntries(
    ofSchema(api, schema)
      .filter((field) => field.required || field.examples)
      .map((field) => [field.name, field.examples?.[0] ?? (field.type === "array" ? [] : "")]),
  );
}

function trial(path, method, body, parameters) {
  const id = `try-${method}${path.replaceAll("/", "-")}`;
  const label = method === "get" ? "Query" : "Body";
  const start = method === "get" ? parameters.filter((p) => p.required).map((p) => `${p.name}=`).join("&") : JSON.stringify(body ?? {}, null, 1);
  const input = method === "get" ? h("input", { id, type: "text", value: start }) : h("textarea", { id, value: start });
  const output = h("pre", { hidden: true, tabIndex: 0 });
  const send = async (event) => {
    event.preventDefault();
    const started = performance.now();
    const url = method === "get" && input.value ? `${path}?${input.value}` : path;
    const options = method === "get" ? { headers } : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: input.value };
    const answer = await fetch(url, options).catch((error) => ({ status: "no answer", text: async () => error.message }));
    const text = await answer.text();
    const ms = Math.round(performance.now() - started);
    let shown = text;
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // not JSON: metrics are plain text
    }
    output.hidden = false;
    output.textContent = `${answer.status} in ${ms} ms\n${shown.slice(0, 20000)}`;
    announce(`answer ${answer.status}`);
  };
  return h("form", { onsubmit: send }, h("label", { htmlFor: id, class: "hint" }, label), input, h("button", { type: "submit", class: "primary" }, "Send"), output);
}

function firstSentence(text = "") {
  return text.split(/(?<=\.)\s/)[0];
}
