// The map of racks, nodes and GPUs: one canvas as large as what is seen of it, whatever the size of the cluster.

import { byId, say } from "./dom.js";
import { blocks, corner, fitting, geometry, step, under } from "./layout.js";
import { keys } from "./map_keys.js";
import { Painter } from "./paint.js";
import { nodeSummary } from "./summary.js";

const SHARE = 0.72; // of the window's height, in which all racks are to be seen

export class ClusterMap {
  // `open(kind, name)` shows a node or rack.
  constructor(cluster, open) {
    this.cluster = cluster;
    this.open = open;
    this.frame = byId("map");
    this.canvas = byId("map-canvas");
    this.tip = byId("map-tip");
    this.probe = byId("map-probe");
    this.painter = new Painter(this.canvas);
    this.list = [];
    this.cell = 0; // 0: as large as fits
    this.filter = "";
    this.cursor = -1; // row of the node that the keyboard is at
    this.name = ""; // and its name
    this.hover = null;
    this.near = new Set(); // rows that something beside the map is about
    this.dirty = null;
    this.lines = 0;
    this.#watch();
  }

  // Racks and nodes are others, or their places are.
  lay(width = this.frame.clientWidth) {
    const { cluster } = this;
    if (!cluster.levels.length) return;
    this.painter.dress(this.probe, cluster.levels);
    this.gpus = 0;
    for (let row = 0; row < cluster.nodes.length; row += 1) this.gpus = Math.max(this.gpus, cluster.gpuFirst[row + 1] - cluster.gpuFirst[row]);
    this.list = blocks(cluster, this.#shown());
    this.blockOf = new Int32Array(cluster.nodes.length).fill(-1);
    this.list.forEach((block, index) => this.blockOf.fill(index, block.first, block.first + block.nodes));
    const { pen } = this.painter;
    const longest = cluster.nodes.reduce((found, name) => (name.length > found.length ? name : found), "").slice(0, 64);
    const name = (px) => {
      pen.font = `600 ${px}px ${this.painter.font}`;
      return pen.measureText(longest).width;
    };
    this.form = this.cell ? geometry(this.list, this.gpus, this.cell, width, name)
      : fitting(this.list, this.gpus, width, innerHeight * SHARE, name);
    this.high = Math.max(Math.min(this.form.height, Math.round(innerHeight * 0.85)), 1);
    this.frame.style.height = `${this.high}px`;
    byId("map-space").style.height = `${this.form.height}px`;
    this.painter.size(this.form.width, this.high);
    if (this.frame.clientWidth < width) { // what is to be scrolled has its bar now
      this.lay(this.frame.clientWidth);
      return;
    }
    byId("map-empty").hidden = this.list.length > 0;
    this.#stay();
    this.redraw();
  }

  // Rows are others where nodes come and go: the keyboard stays at its node, or goes to the first where that has gone.
  #stay() {
    if (this.cursor < 0) return;
    const row = this.cluster.row.get(this.name);
    if (this.blockOf[row] >= 0) this.cursor = row;
    else this.move(this.list.length ? this.list[0].first : -1);
  }

  #shown() {
    const { cluster, filter } = this;
    if (!filter) return () => true;
    const wanted = cluster.levels.map((level) => (filter === "trouble" ? !["ok", "note"].includes(level) : level === filter));
    const racks = new Set();
    for (let row = 0; row < cluster.nodes.length; row += 1) {
      if (wanted[cluster.node[row]] || cluster.gpus(row).some((code) => wanted[code])) racks.add(cluster.rackOf[row]);
    }
    return (rack) => racks.has(rack);
  }

  show(filter) {
    this.filter = filter;
    this.lay();
  }

  zoom(by) {
    this.cell = by ? step(this.form.cell, by) : 0;
    this.lay();
  }

  // Rows that look different now.
  change(rows) {
    if (this.filter) {
      this.lay();
      return;
    }
    for (const row of rows) this.#touch(row);
  }

  // What else the page is about: drawn on the map.
  point(rows) {
    const old = this.near;
    this.near = new Set(rows);
    for (const row of [...old, ...this.near]) this.#touch(row);
  }

  redraw() {
    this.dirty = "all";
    this.#draw();
  }

  #touch(row) {
    const block = this.blockOf?.[row] ?? -1;
    if (block < 0 || this.dirty === "all") return;
    this.dirty ??= new Set();
    this.dirty.add(block);
    this.#draw();
  }

  #draw() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      const { painter, form, list, dirty, cluster } = this, began = performance.now();
      this.dirty = null;
      if (!form) return;
      const marked = (row) => (row === this.cursor || row === this.hover?.row ? "chosen" : this.near.has(row) ? "near" : "");
      if (dirty === "all") {
        const top = this.frame.scrollTop, first = Math.floor(top / form.high) * form.columns;
        const last = Math.min((Math.floor((top + this.high) / form.high) + 1) * form.columns, list.length);
        painter.clear(top);
        for (let index = first; index < last; index += 1) painter.block(cluster, form, list[index], index, marked);
      } else for (const index of dirty) painter.block(cluster, form, list[index], index, marked);
      performance.measure("map", { start: began, end: performance.now(), detail: dirty === "all" ? "all" : dirty.size });
      if (performance.getEntriesByName("map").length > 200) performance.clearMeasures("map");
    });
  }

  // The keyboard goes to a node: it is seen, and said.
  move(row) {
    const old = this.cursor;
    this.cursor = row;
    if (old >= 0) this.#touch(old);
    if (row < 0) return;
    this.name = this.cluster.nodes[row];
    const { y } = corner(this.form, this.blockOf[row]);
    const at = y + this.form.label + this.form.pad + (row - this.list[this.blockOf[row]].first) * this.form.line;
    if (at < this.frame.scrollTop + this.form.label) this.frame.scrollTop = at - this.form.label - 8;
    if (at + this.form.line > this.frame.scrollTop + this.high) this.frame.scrollTop = at + this.form.line + 8 - this.high;
    this.#touch(row);
    // Two options take turns, so that a screen reader hears that the active one is another.
    this.lines = 1 - this.lines;
    const option = byId(`map-option-${this.lines}`);
    say(option, nodeSummary(this.cluster, row));
    option.setAttribute("aria-setsize", this.cluster.nodes.length);
    option.setAttribute("aria-posinset", row + 1);
    option.setAttribute("aria-selected", "true");
    byId(`map-option-${1 - this.lines}`).setAttribute("aria-selected", "false");
    this.frame.setAttribute("aria-activedescendant", option.id);
    this.#tell(row);
  }

  #tell(row, at = null) {
    this.tip.hidden = row === null || row < 0;
    if (this.tip.hidden) return;
    say(this.tip, nodeSummary(this.cluster, row, this.hover?.gpu));
    const block = this.blockOf[row], place = corner(this.form, block);
    const x = (at?.x ?? place.x + 12) - this.frame.scrollLeft, y = (at?.y ?? place.y + this.form.label + (row - this.list[block].first + 1) * this.form.line - this.frame.scrollTop) + 14;
    const room = this.frame.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(Math.min(x + 10, room), 0)}px`;
    this.tip.style.top = `${y + this.tip.offsetHeight > this.high && y > this.high / 2 ? y - this.tip.offsetHeight - 24 : y}px`;
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #enter(event) {
    const { x, y } = this.#at(event), old = this.hover;
    this.hover = this.form ? under(this.form, this.list, x, y + this.frame.scrollTop) : null;
    if (old?.row !== this.hover?.row) {
      if (old && old.row !== null) this.#touch(old.row);
      if (this.hover && this.hover.row !== null) this.#touch(this.hover.row);
    }
    this.canvas.classList.toggle("over", this.hover !== null);
    this.#tell(this.hover?.row ?? null, { x, y });
  }

  #leave() {
    const old = this.hover;
    this.hover = null;
    if (old && old.row !== null) this.#touch(old.row);
    this.tip.hidden = true;
  }

  // Where nodes are too small to hit, their rack is opened.
  #press(event) {
    const { x, y } = this.#at(event), hit = this.form && under(this.form, this.list, x, y + this.frame.scrollTop);
    if (!hit) return;
    if (hit.row !== null && this.form.line >= 10) this.open("node", this.cluster.nodes[hit.row]);
    else this.open("rack", this.cluster.racks[hit.block.rack].name);
  }

  #watch() {
    new ResizeObserver(() => this.lay()).observe(byId("map-box"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.lay());
    this.frame.addEventListener("scroll", () => {
      this.#leave();
      this.redraw();
    }, { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this.#enter(event));
    this.canvas.addEventListener("pointerleave", () => this.#leave());
    this.canvas.addEventListener("click", (event) => this.#press(event));
    keys(this);
  }
}
