// The legend of the map: each level with its shape, its word and how many nodes have it; a filter too.

import { byId, el, icon, say, word } from "./dom.js";
import { number } from "./words.js";

const FINE = new Set(["ok", "note"]);

export class Legend {
  constructor(choose) {
    this.choose = choose;
    this.chosen = "";
    this.buttons = new Map();
  }

  show(cluster) {
    const list = byId("legend");
    if (!this.buttons.size && cluster.levels.length) {
      this.#add(list, "", "All");
      this.#add(list, "trouble", "Not healthy");
      for (const level of cluster.levels) this.#add(list, level, word(level), icon(level));
    }
    const counts = cluster.counts(cluster.node), { length } = cluster.nodes;
    const fine = cluster.levels.reduce((sum, level, code) => sum + (FINE.has(level) ? counts[code] : 0), 0);
    this.#set("", length);
    this.#set("trouble", length - fine);
    cluster.levels.forEach((level, code) => this.#set(level, counts[code]));
  }

  #add(list, key, text, shape = null) {
    const many = el("b", {}), button = el("button", { type: "button", "data-level": shape && key, "aria-pressed": String(key === this.chosen) }, shape, `${text} `, many);
    button.addEventListener("click", () => {
      this.chosen = this.chosen === key ? "" : key;
      for (const [name, { button: each }] of this.buttons) each.setAttribute("aria-pressed", name === this.chosen);
      this.choose(this.chosen);
    });
    this.buttons.set(key, { button, many });
    list.append(el("li", {}, button));
  }

  #set(key, many) {
    const one = this.buttons.get(key);
    if (!one) return;
    say(one.many, number(many));
    one.button.parentElement.hidden = many === 0 && key !== "" && key !== this.chosen;
  }
}
