// The editor: one picture, strokes on it, and what was found.

import { get, pictureUrl, post } from "./api.js";
import { overlay, tint } from "./heat.js";

const KEY_STEP = 0.02;
const MAX_ZOOM = 16;
const MAX_POINTS = 5000;

function newKey() {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return [...numbers].map((number) => number.toString(16).padStart(8, "0")).join("");
}

function distance(point, start, end, aspect) {
  const [dx, dy] = [(end[0] - start[0]) * aspect, end[1] - start[1]];
  const [px, py] = [(point[0] - start[0]) * aspect, point[1] - start[1]];
  const length = dx * dx + dy * dy;
  const place = length ? Math.min(1, Math.max(0, (px * dx + py * dy) / length)) : 0;
  return Math.hypot(px - place * dx, py - place * dy);
}

export class Editor {
  constructor(dialog, settings) {
    this.dialog = dialog;
    this.settings = settings; // {tag(), author(), threshold(), changed(picture), say(text, error)}
    this.stage = dialog.querySelector("#stage");
    this.canvas = dialog.querySelector("#canvas");
    this.status = dialog.querySelector("#editor-status");
    this.strokes = [];
    this.tool = "brush";
    this.pointers = new Map();
    this.cursor = [0.5, 0.5];
    this.keyboard = false;
    this.listen();
  }

  listen() {
    const by = (id) => this.dialog.querySelector(`#${id}`);
    by("close").addEventListener("click", () => this.dialog.close());
    by("undo").addEventListener("click", () => this.undo());
    by("redo").addEventListener("click", () => this.redo());
    by("zoom-in").addEventListener("click", () => this.zoom(1.4));
    by("zoom-out").addEventListener("click", () => this.zoom(1 / 1.4));
    by("fit").addEventListener("click", () => this.fit());
    by("show-heat").addEventListener("change", () => this.draw());
    by("forget").addEventListener("click", () => this.forget());
    const tools = [...this.dialog.querySelectorAll("[data-tool]")];
    for (const button of tools) {
      button.addEventListener("click", () => this.choose(button.dataset.tool));
      button.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!move) return;
        const next = tools[(tools.indexOf(button) + move + tools.length) % tools.length];
        this.choose(next.dataset.tool);
        next.focus();
        event.preventDefault();
      });
    }
    this.choose("brush");
    this.stage.addEventListener("pointerdown", (event) => this.press(event));
    this.stage.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) {
      this.stage.addEventListener(kind, (event) => this.release(event, kind === "pointercancel"));
    }
    this.stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), this.local(event));
    }, { passive: false });
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("close", () => {
      this.drawn = null;
      this.picture = null;
      this.dragging = false;
      this.pointers.clear();
      this.settings.closed();
    });
    new ResizeObserver(() => { if (this.picture) this.fit(); }).observe(this.stage);
  }

  choose(tool) {
    this.tool = tool;
    this.stage.dataset.tool = tool;
    for (const button of this.dialog.querySelectorAll("[data-tool]")) {
      button.setAttribute("aria-checked", String(button.dataset.tool === tool));
      button.tabIndex = button.dataset.tool === tool ? 0 : -1;
    }
  }

  async open(name) {
    this.picture = name;
    this.image = null;
    this.map = null;
    this.own = { done: [], undone: [] };
    this.strokes = [];
    this.dialog.querySelector("#editor-title").textContent = name;
    if (!this.dialog.open) this.dialog.showModal();
    this.stage.focus();
    this.say("");
    this.buttons();
    const image = new Image();
    image.src = pictureUrl("pictures", name);
    try {
      await Promise.all([image.decode(), this.reload()]);
    } catch (error) {
      this.say(error.name === "EncodingError" ? "This picture cannot be read." : error.message, true);
      return;
    }
    if (this.picture !== name) return;
    this.image = image;
    this.fit();
  }

  /** Fetch the strokes that all people have drawn here for this tag. */
  async reload() {
    const [picture, tag] = [this.picture, this.settings.tag()];
    if (!picture) return;
    const strokes = tag ? await get("api/strokes", { picture, tag }) : [];
    if (picture !== this.picture || tag !== this.settings.tag()) return;
    this.strokes = strokes;
    this.buttons();
    this.draw();
  }

  show(map) {
    this.map = map;
    this.draw();
  }

  say(text, error = false) {
    this.status.textContent = text;
    this.status.classList.toggle("error", error);
  }

  // Coordinates. The view is the place and size of the picture on the stage, in CSS pixels.

  fit() {
    if (!this.image) return;
    const { clientWidth: width, clientHeight: height } = this.stage;
    const scale = Math.min(width / this.image.width, height / this.image.height);
    this.base = scale;
    this.view = {
      scale,
      x: (width - this.image.width * scale) / 2,
      y: (height - this.image.height * scale) / 2,
    };
    this.draw();
  }

  zoom(factor, at = [this.stage.clientWidth / 2, this.stage.clientHeight / 2]) {
    if (!this.image) return;
    const scale = Math.min(this.base * MAX_ZOOM, Math.max(this.base, this.view.scale * factor));
    const ratio = scale / this.view.scale;
    this.view = {
      scale,
      x: at[0] - (at[0] - this.view.x) * ratio,
      y: at[1] - (at[1] - this.view.y) * ratio,
    };
    this.draw();
  }

  local(event) {
    const bounds = this.stage.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  point([x, y]) {
    const limit = (value) => Math.min(1, Math.max(0, Number(value.toFixed(5))));
    return [
      limit((x - this.view.x) / (this.image.width * this.view.scale)),
      limit((y - this.view.y) / (this.image.height * this.view.scale)),
    ];
  }

  get brush() {
    return Number(this.dialog.querySelector("#brush").value) / 100;
  }

  // Pointers: one draws, two zoom and move.

  press(event) {
    if (!this.image || event.button > 1) return;
    event.preventDefault();
    this.stage.focus();
    this.stage.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.local(event));
    this.keyboard = false;
    if (this.pointers.size > 1) this.drawn = null;
    else if (this.tool === "hand" || event.button === 1) this.dragging = true;
    else this.begin(this.point(this.local(event)));
    this.draw();
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before || !this.image) return;
    const now = this.local(event);
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, now);
    if (other) {
      const spread = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
      const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
      this.view.x += (now[0] - before[0]) / 2;
      this.view.y += (now[1] - before[1]) / 2;
      this.zoom(spread(now) / Math.max(1, spread(before)), middle);
    } else if (this.dragging) {
      this.view.x += now[0] - before[0];
      this.view.y += now[1] - before[1];
    } else if (this.drawn) {
      const events = event.getCoalescedEvents?.() ?? [];
      for (const each of events.length ? events : [event]) this.extend(this.point(this.local(each)));
    }
    this.draw();
  }

  release(event, cancelled) {
    this.pointers.delete(event.pointerId);
    this.dragging = false;
    if (cancelled) this.drawn = null;
    else this.end();
    this.draw();
  }

  // Strokes.

  begin(point) {
    if (!this.settings.tag()) {
      this.say("Type a tag first.", true);
      return;
    }
    this.drawn = { points: [point], width: this.brush, negative: this.tool === "negative", erase: this.tool === "eraser" };
  }

  extend(point) {
    const last = this.drawn.points.at(-1);
    if (Math.hypot(point[0] - last[0], point[1] - last[1]) <= 0.002) return;
    this.drawn.points.push(point);
    if (this.drawn.points.length === MAX_POINTS) {
      this.end();
      this.begin(point);
    }
  }

  end() {
    const drawn = this.drawn;
    this.drawn = null;
    if (!drawn) return;
    if (drawn.erase) this.erase(drawn);
    else {
      const { points, width, negative } = drawn;
      this.add([{ key: newKey(), picture: this.picture, tag: this.settings.tag(), author: this.settings.author(), points, width, negative }]);
    }
  }

  erase({ points, width }) {
    const aspect = this.image.width / this.image.height;
    const longer = Math.max(1, aspect);
    const near = (stroke) => stroke.points.some((start, at) => {
      const end = stroke.points[Math.min(at + 1, stroke.points.length - 1)];
      return points.some((point) => distance(point, start, end, aspect) < ((stroke.width + width) / 2) * longer);
    });
    const hit = this.strokes.filter(near);
    if (hit.length) this.remove(hit);
  }

  /** Run changes one after another, in the order in which they were made. */
  enqueue(job) {
    this.queue = (this.queue ?? Promise.resolve()).then(job, job);
    return this.queue;
  }

  add(strokes) {
    const own = this.own;
    this.strokes = [...this.strokes, ...strokes];
    this.draw();
    return this.enqueue(async () => {
      if (await this.post(strokes)) this.remember(own, { added: strokes });
    });
  }

  remove(strokes) {
    const own = this.own;
    return this.enqueue(async () => {
      if (await this.take(strokes)) this.remember(own, { removed: strokes });
    });
  }

  remember(own, step) {
    own.done.push(step);
    own.undone.length = 0;
    this.buttons();
  }

  /** Send strokes to the server; returns whether it has kept them. */
  async post(strokes) {
    const [{ picture }] = strokes;
    this.settings.changing(strokes.map(({ key }) => `+${key}`));
    try {
      for (const { key, tag, author, points, width, negative } of strokes) {
        await post("api/strokes", { key, picture, tag, author, points, width, negative });
      }
    } catch (error) {
      this.say(`The stroke was not kept: ${error.message}`, true);
      await this.reload().catch(() => {});
      return false;
    }
    const here = new Set(this.strokes.map((stroke) => stroke.key));
    const missing = strokes.filter((stroke) => !here.has(stroke.key));
    if (picture === this.picture) this.strokes = [...this.strokes, ...missing];
    this.saved(picture);
    return true;
  }

  /** Have the server remove strokes; returns whether it has. */
  async take(strokes) {
    const keys = strokes.map((stroke) => stroke.key);
    this.settings.changing(keys.map((key) => `-${key}`));
    try {
      await post("api/strokes/remove", { keys });
    } catch (error) {
      this.say(`The strokes are still there: ${error.message}`, true);
      return false;
    }
    this.strokes = this.strokes.filter((stroke) => !keys.includes(stroke.key));
    this.saved(strokes[0].picture);
    return true;
  }

  saved(picture) {
    this.say(`${this.strokes.length} ${this.strokes.length === 1 ? "stroke" : "strokes"}, saved.`);
    this.buttons();
    this.draw();
    this.settings.changed(picture);
  }

  forget() {
    if (this.strokes.length) this.remove(this.strokes);
  }

  undo() {
    return this.step("done", "undone", (step) => (step.added ? this.take(step.added) : this.post(step.removed)));
  }

  redo() {
    return this.step("undone", "done", (step) => (step.added ? this.post(step.added) : this.take(step.removed)));
  }

  step(from, to, change) {
    const own = this.own;
    return this.enqueue(async () => {
      const step = own[from].pop();
      if (step) own[(await change(step)) ? to : from].push(step);
      this.buttons();
    });
  }

  buttons() {
    this.dialog.querySelector("#undo").disabled = !this.own.done.length;
    this.dialog.querySelector("#redo").disabled = !this.own.undone.length;
    this.dialog.querySelector("#forget").disabled = !this.strokes.length;
  }

  // Keyboard: arrows move the brush, Enter starts and ends a stroke.

  key(event) {
    const typed = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && (typed === "z" || typed === "y")) {
      event.preventDefault();
      if (typed === "y" || event.shiftKey) this.redo();
      else this.undo();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    const tool = { b: "brush", n: "negative", e: "eraser", h: "hand" }[typed];
    if (tool) this.choose(tool);
    else if (typed === "+" || typed === "=") this.zoom(1.4);
    else if (typed === "-") this.zoom(1 / 1.4);
    else if (typed === "0") this.fit();
    else if (event.target === this.stage && this.image) this.steer(event);
  }

  steer(event) {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (move) {
      event.preventDefault();
      this.keyboard = true;
      const step = event.shiftKey ? KEY_STEP / 4 : KEY_STEP;
      if (this.tool === "hand") {
        this.view.x -= move[0] * 40;
        this.view.y -= move[1] * 40;
      } else {
        this.cursor = this.cursor.map((value, axis) => Math.min(1, Math.max(0, value + move[axis] * step)));
        if (this.drawn) this.extend([...this.cursor]);
        this.say(`Brush at ${this.cursor.map((value) => `${Math.round(100 * value)} %`).join(", ")}`);
      }
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.keyboard = true;
      if (this.drawn) this.end();
      else {
        this.begin([...this.cursor]);
        if (this.drawn) this.say("Stroke started. Move with the arrow keys; Enter ends it.");
      }
    }
    this.draw();
  }

  // Drawing.

  draw() {
    if (!this.image || !this.view) return;
    if (this.requested) return;
    this.requested = requestAnimationFrame(() => {
      this.requested = 0;
      if (this.image) this.paint();
    });
  }

  paint() {
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const { x, y, scale } = this.view;
    context.drawImage(this.image, x, y, this.image.width * scale, this.image.height * scale);
    if (this.map?.size && this.dialog.querySelector("#show-heat").checked) {
      const reduced = (this.image.width * scale) / this.map.size[1];
      overlay(context, this.map, tint(this.map, this.settings.threshold()), x, y, reduced);
    }
    for (const stroke of this.strokes) this.line(context, stroke);
    if (this.drawn) this.line(context, this.drawn);
    if (this.keyboard) this.crosshair(context);
  }

  line(context, { points, width, negative, erase }) {
    const side = Math.max(this.image.width, this.image.height) * this.view.scale;
    context.lineCap = context.lineJoin = "round";
    context.lineWidth = Math.max(1, width * side);
    context.strokeStyle = erase ? "rgb(255 255 255 / .6)" : negative ? "rgb(220 40 40 / .55)" : "rgb(30 120 220 / .5)";
    context.beginPath();
    points.forEach((point, at) => {
      const [x, y] = this.place(point);
      if (at) context.lineTo(x, y);
      else context.moveTo(x, y);
      if (points.length === 1) context.lineTo(x + 0.01, y);
    });
    context.stroke();
  }

  place([x, y]) {
    const { x: left, y: top, scale } = this.view;
    return [left + x * this.image.width * scale, top + y * this.image.height * scale];
  }

  crosshair(context) {
    const [x, y] = this.place(this.cursor);
    for (const [color, width] of [["#000", 4], ["#fff", 2]]) {
      context.strokeStyle = color;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x - 12, y);
      context.lineTo(x + 12, y);
      context.moveTo(x, y - 12);
      context.lineTo(x, y + 12);
      context.stroke();
    }
  }
}
