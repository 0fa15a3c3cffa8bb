// Draws racks on a canvas. Colour is never the only sign: what is not healthy has its shape, its frame and its lightness.

import { shape } from "./dom.js";
import { corner } from "./layout.js";

const SIGNED = 8; // from this size on a cell has the shape of its level within
const PLAIN = new Set(["ok", "note"]);

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.strips = new Map();
    this.shapes = {};
  }

  // Colours as the style sheet has them now, read from elements that have them.
  dress(probe, levels) {
    const colour = (level, of) => {
      probe.dataset.level = level;
      return getComputedStyle(probe).getPropertyValue(of);
    };
    this.strips.clear();
    this.colours = levels.map((level) => colour(level, "color"));
    this.levels = levels;
    this.ink = getComputedStyle(this.canvas).color;
    this.card = colour("ok", "background-color");
    this.soft = colour("ok", "outline-color");
    this.edge = colour("ok", "border-top-color");
    this.mark = colour("ok", "text-decoration-color");
    this.font = getComputedStyle(document.body).fontFamily;
    levels.forEach((level) => { this.shapes[level] ??= new Path2D(shape(level)); });
  }

  size(width, height) {
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.ratio = ratio;
    this.view = { width, height };
  }

  clear(top) {
    this.pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.pen.clearRect(0, 0, this.view.width, this.view.height);
    this.top = top;
  }

  // One block; `marked(row)`: "chosen", "near" or "".
  block(cluster, form, block, index, marked) {
    const { pen } = this, { x, y } = corner(form, index);
    if (y - this.top > this.view.height || y + form.high < this.top) return;
    pen.setTransform(this.ratio, 0, 0, this.ratio, x * this.ratio, Math.round((y - this.top) * this.ratio));
    pen.clearRect(-1, 0, form.slot, form.high);
    const worst = this.#worst(cluster, block), wide = form.slot - form.space, high = form.high - form.space;
    pen.fillStyle = this.card;
    pen.fillRect(0, form.label, wide, 2 * form.pad + block.nodes * form.line);
    if (form.label) this.#label(block, form, wide, worst);
    for (let line = 0; line < block.nodes; line += 1) this.#node(cluster, form, block.first + line, line, marked(block.first + line));
    if (!PLAIN.has(this.levels[worst])) this.#frame(form, worst, wide, 2 * form.pad + block.nodes * form.line, high);
  }

  #worst(cluster, block) {
    let worst = this.levels.length - 1;
    for (let row = block.first; row < block.first + block.nodes; row += 1) worst = Math.min(worst, cluster.node[row]);
    return worst;
  }

  #label(block, form, wide, worst) {
    const { pen } = this, size = form.cell >= 10 ? 12 : 9;
    pen.font = `${form.cell >= 10 ? 600 : 400} ${size}px ${this.font}`;
    pen.textBaseline = "alphabetic";
    pen.fillStyle = form.cell >= 10 ? this.ink : this.soft;
    const room = wide - (PLAIN.has(this.levels[worst]) ? 0 : size + 2);
    pen.fillText(this.#fitted(block.part ? `${block.name} · ${block.part}` : block.name, room), 0, form.label - (form.cell >= 10 ? 6 : 3));
  }

  // The end of a name says most.
  #fitted(text, room) {
    let shown = text.slice(-64);
    while (shown.length > 1 && this.pen.measureText(shown).width > room) shown = `…${shown.slice(shown.startsWith("…") ? 2 : 1)}`;
    return shown;
  }

  #frame(form, worst, wide, high) {
    const { pen } = this, colour = this.colours[worst], level = this.levels[worst];
    pen.strokeStyle = colour;
    pen.lineWidth = form.cell >= 4 ? 1.5 : 1;
    pen.strokeRect(0.5, form.label + 0.5, wide - 1, high - 1);
    const size = form.label ? (form.cell >= 10 ? 12 : 9) : 9;
    if (form.label) this.#sign(level, colour, wide - size, form.label - size - (form.cell >= 10 ? 5 : 2), size);
    else {
      pen.fillStyle = this.card;
      pen.beginPath();
      pen.arc(wide / 2, high / 2, size / 2 + 2, 0, 7);
      pen.fill();
      this.#sign(level, colour, (wide - size) / 2, (high - size) / 2, size);
    }
  }

  #sign(level, colour, x, y, size, pen = this.pen) {
    pen.save();
    pen.translate(x, y);
    pen.scale(size / 16, size / 16);
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(1.6, 22 / size);
    pen.lineCap = pen.lineJoin = "round";
    pen.stroke(this.shapes[level]);
    pen.restore();
  }

  #node(cluster, form, row, line, marked) {
    const { pen } = this, y = form.label + form.pad + line * form.line;
    let x = form.pad;
    if (marked) {
      pen.fillStyle = this.mark;
      pen.globalAlpha = marked === "chosen" ? 0.45 : 0.2;
      pen.fillRect(1, y - 1, form.slot - form.space - 2, form.line);
      pen.globalAlpha = 1;
    }
    const code = cluster.node[row], level = this.levels[code];
    if (form.names) {
      pen.font = `${PLAIN.has(level) ? 400 : 600} ${form.letters}px ${this.font}`;
      pen.textBaseline = "middle";
      pen.fillStyle = this.ink;
      pen.fillText(this.#fitted(cluster.nodes[row], form.names - 6), x, y + form.cell / 2 + 1);
      x += form.names;
    }
    if (form.mark) {
      if (!PLAIN.has(level)) this.#sign(level, this.colours[code], x, y, form.cell);
      x += form.mark;
    }
    const gpus = cluster.gpus(row), [first] = gpus;
    if (gpus.length && gpus.every((each) => each === first)) {
      this.#stamp(this.#strip(form, first, gpus.length), x, y);
    } else gpus.forEach((each, at) => this.#stamp(this.#strip(form, each, 1), x + at * (form.cell + form.gap), y));
    const ports = cluster.ports(row);
    if (ports.length) {
      pen.fillStyle = this.#tint(Math.min(...ports));
      pen.fillRect(form.slot - form.space - form.pad - form.port + 1, y, form.port - 1, form.cell);
    }
  }

  #stamp(strip, x, y) {
    this.pen.drawImage(strip, x, y, strip.width / this.ratio, strip.height / this.ratio);
  }

  #tint(code) {
    return PLAIN.has(this.levels[code]) ? `color-mix(in srgb, ${this.colours[code]} 62%, ${this.card})` : this.colours[code];
  }

  // So many GPUs of one level, side by side, drawn once.
  #strip(form, code, gpus) {
    const key = `${form.cell} ${code} ${gpus}`;
    if (!this.strips.has(key)) this.strips.set(key, this.#drawn(form, code, gpus));
    return this.strips.get(key);
  }

  #drawn(form, code, gpus) {
    const { cell, gap } = form, strip = new OffscreenCanvas(Math.ceil(gpus * (cell + gap) * this.ratio), Math.ceil(cell * this.ratio));
    const pen = strip.getContext("2d"), level = this.levels[code];
    pen.scale(this.ratio, this.ratio);
    for (let at = 0; at < gpus; at += 1) {
      const x = at * (cell + gap);
      pen.fillStyle = this.#tint(code);
      if (cell >= 6) {
        pen.beginPath();
        pen.roundRect(x, 0, cell, cell, cell / 6);
        pen.fill();
      } else pen.fillRect(x, 0, gap || cell < 3 ? cell : cell - 1, cell);
      if (cell >= SIGNED && level !== "ok") this.#sign(level, this.card, x + cell * 0.12, cell * 0.12, cell * 0.76, pen);
    }
    return strip;
  }
}
