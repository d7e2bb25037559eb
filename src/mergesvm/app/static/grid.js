// The grid of pictures, with heat maps over them.

import { pictureUrl } from "./api.js";
import { overlay, tint } from "./heat.js";

const CANVAS_SIDE = 200;

export class Grid {
  constructor(list, template, open) {
    this.list = list;
    this.template = template;
    this.open = open;
    this.cards = new Map();
    this.visible = new Set();
    this.observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const name = entry.target.dataset.name;
        if (entry.isIntersecting) this.visible.add(name);
        else this.visible.delete(name);
      }
    });
  }

  show(names) {
    for (const name of names) {
      const card = this.template.content.firstElementChild.cloneNode(true);
      card.dataset.name = name;
      card.querySelector(".name").textContent = name;
      const image = card.querySelector("img");
      image.src = pictureUrl("thumbnails", name);
      image.addEventListener("error", () => card.classList.add("broken"));
      card.querySelector("button").addEventListener("click", () => this.open(name));
      this.cards.set(name, card);
      this.observer.observe(card);
    }
    this.names = names;
    this.list.replaceChildren(...this.cards.values());
    this.describe(new Map());
  }

  /** All names, those in view first. */
  inOrderOfSight() {
    const shown = [...this.list.children].map((card) => card.dataset.name);
    return [...shown.filter((name) => this.visible.has(name)), ...shown.filter((name) => !this.visible.has(name))];
  }

  draw(map, threshold) {
    const canvas = this.cards.get(map.picture)?.querySelector("canvas");
    if (!canvas) return;
    canvas.width = canvas.height = CANVAS_SIDE;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, CANVAS_SIDE, CANVAS_SIDE);
    if (!map.size) return;
    const [height, width] = map.size;
    const scale = CANVAS_SIDE / Math.max(height, width);
    const corner = [(CANVAS_SIDE - width * scale) / 2, (CANVAS_SIDE - height * scale) / 2];
    overlay(context, map, tint(map, threshold), ...corner, scale);
    this.cards.get(map.picture).querySelector(".score").textContent = map.rank === null ? "" : map.rank.toFixed(2);
  }

  clear() {
    for (const card of this.cards.values()) {
      card.querySelector("canvas").getContext("2d").clearRect(0, 0, CANVAS_SIDE, CANVAS_SIDE);
      card.querySelector(".score").textContent = "";
    }
  }

  /** Mark the tagged pictures, and say for each card what it shows. */
  describe(maps, tagged = new Set(), tag = "") {
    for (const [name, card] of this.cards) {
      const rank = maps.get(name)?.rank;
      card.classList.toggle("tagged", tagged.has(name));
      const parts = [name];
      if (tagged.has(name)) parts.push(`tagged ${tag}`);
      if (typeof rank === "number") parts.push(`score ${rank.toFixed(2)}`);
      card.querySelector("button").setAttribute("aria-label", parts.join(", "));
    }
  }

  /** Order by name, or by the highest rank. The focus stays where it is. */
  sort(maps, byName) {
    const rank = (name) => maps.get(name)?.rank ?? -Infinity;
    const names = [...this.names];
    if (!byName) names.sort((one, other) => rank(other) - rank(one) || (one < other ? -1 : 1));
    const now = [...this.list.children].map((card) => card.dataset.name);
    if (names.every((name, at) => name === now[at])) return;
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    this.list.replaceChildren(...names.map((name) => this.cards.get(name)));
    focused?.focus({ preventScroll: true });
  }
}
