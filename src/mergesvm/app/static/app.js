// The page: state, the flow of news, and what is shown where.

import { get, lines, post } from "./api.js";
import { Editor } from "./editor.js";
import { Grid } from "./grid.js";
import { decode } from "./heat.js";

const by = (id) => document.getElementById(id);
const CARRIED = ["tag", "method", "order"];

const state = { maps: new Map(), tags: {}, tagged: new Set(), own: new Set(), scoreRange: 2 };

const grid = new Grid(by("pictures"), by("card"), (name) => {
  editor.open(name);
  editor.show(state.maps.get(name) ?? null);
});

const editor = new Editor(by("editor"), {
  tag: () => by("tag").value.trim(),
  author: () => localStorage.getItem("author") ?? "",
  threshold: () => Number(by("threshold").value),
  changing: (changes) => changes.forEach((change) => state.own.add(change)),
  changed: (picture) => refresh(picture),
  closed: () => grid.sort(state.maps, by("order").value === "name"),
});

function say(text, error = false) {
  by("status").textContent = text;
  by("status").classList.toggle("error", error);
}

function remember() {
  const parameters = new URLSearchParams();
  for (const id of CARRIED) if (by(id).value) parameters.set(id, by(id).value);
  history.replaceState(null, "", `#${parameters}`);
}

function recall() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const id of CARRIED) if (parameters.has(id)) by(id).value = parameters.get(id);
}

function bytes(count) {
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} MB` : `${Math.round(count / 1e3)} kB`;
}

function showTags() {
  const options = Object.entries(state.tags).map(([tag, count]) => {
    const option = document.createElement("option");
    option.value = tag;
    option.label = `${tag} (${count} tagged)`;
    return option;
  });
  by("tags").replaceChildren(...options);
}

function showTagged(tag, pictures) {
  const shown = JSON.stringify([tag, pictures]);
  if (shown === state.shown) return; // keep the focus
  const focused = by("tagged").contains(document.activeElement);
  state.shown = shown;
  state.tagged = new Set(pictures);
  by("tagged-section").hidden = !pictures.length;
  by("tagged-title").textContent = `Tagged ${tag}`;
  by("tagged").replaceChildren(...pictures.map((name) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Forget ${name}`;
    button.dataset.forget = name;
    button.addEventListener("click", () => forget(tag, name));
    item.append(button);
    return item;
  }));
  if (focused) (by("tagged").querySelector("button") ?? by("tag")).focus();
}

async function forget(tag, picture) {
  try {
    await post("api/forget", { tag, picture });
  } catch (error) {
    say(error.message, true);
    return;
  }
  if (editor.picture === picture) await editor.reload().catch(() => {});
  refresh(picture);
}

function showLinks(tag, method, trained) {
  const links = { "model-file": `api/model?${new URLSearchParams({ tag, method })}` };
  links["model-onnx"] = method === "merge" ? `${links["model-file"]}&format=onnx` : null;
  links.masks = `api/masks?${new URLSearchParams({ tag, method, threshold: scoreAt(by("threshold").value) })}`;
  for (const [id, link] of Object.entries(links)) {
    if (trained && link) by(id).href = link;
    else by(id).removeAttribute("href");
  }
}

function scoreAt(value) {
  return (((value - 128) / 127) * state.scoreRange).toFixed(2);
}

async function showAccuracy(tag, method) {
  const found = await get("api/accuracy", { tag, method, threshold: scoreAt(by("threshold").value) });
  if (state.asked !== `${method} ${tag}`) return;
  by("accuracy").hidden = found.precision === null;
  if (found.precision !== null) {
    const percent = (value) => `${(100 * value).toFixed(1)} %`;
    by("accuracy").textContent = `Against ${found.pictures} masks: precision ${percent(found.precision)}, recall ${percent(found.recall)}.`;
  }
}

/** Find the tag in all pictures: those in view first, and before them the one that has changed. */
async function refresh(first) {
  state.running?.abort();
  const running = new AbortController();
  state.running = running;
  const [tag, method] = [by("tag").value.trim(), by("method").value];
  remember();
  if (state.asked !== `${method} ${tag}`) {
    state.asked = `${method} ${tag}`;
    state.maps.clear();
    grid.clear();
    editor.show(null);
  }
  if (!tag) {
    showTagged("", []);
    showLinks("", method, false);
    state.maps.clear();
    grid.clear();
    grid.describe(state.maps);
    say("Type a tag, open a picture, and stroke over it.");
    return;
  }
  const start = performance.now();
  try {
    const [facts, now] = await Promise.all([get("api/facts", { tag, method }), get("api/state")]);
    if (running.signal.aborted) return;
    state.tags = now.tags;
    showTags();
    showTagged(tag, facts.pictures);
    showLinks(tag, method, facts.trained);
    if (!facts.trained) {
      state.maps.clear();
      grid.clear();
      grid.describe(state.maps);
      grid.sort(state.maps, true);
      editor.show(null);
      by("accuracy").hidden = true;
      say(`Nothing is known about ${tag}. Open a picture and stroke over it.`);
      document.body.dataset.ready = "empty";
      return;
    }
    const order = grid.inOrderOfSight().filter((name) => name !== first);
    const pictures = first ? [first, ...order] : order;
    const fresh = new Map();
    let shown;
    for await (const found of lines("api/heat-maps", { tag, method, pictures }, running.signal)) {
      if (running.signal.aborted) return;
      const map = decode(found);
      fresh.set(map.picture, map);
      state.maps.set(map.picture, map);
      grid.draw(map, Number(by("threshold").value));
      if (map.picture === editor.picture) editor.show(map);
      shown ??= performance.now() - start;
    }
    state.maps = fresh;
    const size = "support_vectors" in facts ? `${facts.support_vectors} support vectors` : `${bytes(facts.bytes)} of knowledge`;
    const took = `first after ${Math.round(shown ?? 0)} ms, all after ${Math.round(performance.now() - start)} ms`;
    say(`${facts.pictures.length} tagged, ${fresh.size} searched: ${size}; ${took}.`);
    grid.describe(state.maps, state.tagged, tag);
    if (!editor.dialog.open) grid.sort(state.maps, by("order").value === "name");
    await showAccuracy(tag, method);
    document.body.dataset.ready = "found";
  } catch (error) {
    if (!running.signal.aborted) say(error.message, true);
  }
}

function redraw() {
  by("threshold-value").textContent = scoreAt(by("threshold").value);
  for (const map of state.maps.values()) grid.draw(map, Number(by("threshold").value));
  editor.draw();
}

function listen() {
  const news = new EventSource("api/events");
  let lost = false;
  news.addEventListener("message", (event) => {
    const { kind, tag, picture, changes } = JSON.parse(event.data);
    if (kind === "hello" && !lost) return;
    // The page searches by itself after its own changes.
    if (kind === "strokes" && changes.length && changes.every((change) => state.own.delete(change))) return;
    lost = false;
    if (kind === "strokes" && tag !== by("tag").value.trim()) {
      get("api/state").then((now) => { state.tags = now.tags; showTags(); }).catch(() => {});
      return;
    }
    clearTimeout(state.waiting);
    state.waiting = setTimeout(() => {
      if (editor.picture && !editor.drawn) editor.reload().catch(() => {});
      refresh(picture ?? undefined);
    }, 150);
  });
  news.addEventListener("error", () => {
    lost = true;
    say("The server cannot be reached. Trying again.", true);
  });
}

async function start() {
  if (!localStorage.getItem("author")) {
    localStorage.setItem("author", `person ${1 + Math.floor(Math.random() * 1e6)}`);
  }
  try {
    const now = await get("api/state");
    by("folder").textContent = `in ${now.folder}`;
    state.tags = now.tags;
    state.scoreRange = now.score_range;
    grid.show(now.pictures);
    showTags();
  } catch (error) {
    say(error.message, true);
    return;
  }
  recall();
  by("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["tag", "method"]) by(id).addEventListener("change", () => refresh());
  by("order").addEventListener("change", () => { remember(); grid.sort(state.maps, by("order").value === "name"); });
  by("threshold").addEventListener("input", redraw);
  by("threshold").addEventListener("change", () => {
    const [tag, method] = [by("tag").value.trim(), by("method").value];
    if (!state.tagged.size) return;
    showLinks(tag, method, true);
    showAccuracy(tag, method).catch((error) => say(error.message, true));
  });
  listen();
  refresh();
}

start();
