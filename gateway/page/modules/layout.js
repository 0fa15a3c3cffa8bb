// Where everything is on the map, in pixels. Racks have equal places, so that a place is found by division.

const CELLS = [24, 20, 16, 13, 10, 8, 6, 5, 4, 3, 2]; // sizes of a GPU
const MAX_ROWS = 24; // nodes below one another; a larger rack, or the nodes of no known rack, take several places
const NAMED = 13, MARKED = 6, LABELLED = 3; // from these sizes on: names of nodes, a sign per node, names of racks
const PAD = 4;

// Racks as blocks of at most MAX_ROWS nodes.
export function blocks(cluster, shown) {
  const found = [];
  cluster.racks.forEach(({ name, first, nodes }, rack) => {
    if (!shown(rack)) return;
    const parts = Math.ceil(nodes / MAX_ROWS), size = Math.ceil(nodes / parts);
    for (let at = 0; at < nodes; at += size) {
      found.push({ rack, name: name || "no rack", part: parts > 1 ? at / size + 1 : 0, first: first + at, nodes: Math.min(size, nodes - at) });
    }
  });
  return found;
}

// The geometry for a size of GPU and a width. `name(px)`: the width of the longest node name in that size of letters.
export function geometry(list, gpus, cell, width, name, labelled = cell >= LABELLED) {
  const gap = cell >= 10 ? 3 : cell >= 3 ? 1 : 0, line = cell + Math.max(gap, 1);
  const mark = cell >= MARKED ? cell + 2 : 0, port = Math.max(Math.round(cell / 2), 1) + 1;
  const letters = Math.min(Math.max(cell - 4, 10), 13), names = cell >= NAMED ? Math.min(name(letters), 170) + 8 : 0;
  const label = labelled ? (cell >= 10 ? 20 : 12) : 0, space = cell >= 10 ? 14 : cell >= 4 ? 6 : 3;
  const rows = Math.max(...list.map((block) => block.nodes), 1);
  const slot = 2 * PAD + names + mark + gpus * (cell + gap) + port + space;
  const high = 2 * PAD + label + rows * line + space;
  const columns = Math.max(Math.floor((width + space) / slot), 1);
  return {
    cell, gap, line, mark, port, names, letters, label, space, slot, high, columns, pad: PAD,
    height: Math.ceil(list.length / columns) * high, width: Math.max(slot - space, width),
  };
}

// The largest size with which everything is seen at once; small racks go without their names before GPUs get smaller.
export function fitting(list, gpus, width, height, name) {
  for (const cell of CELLS) {
    for (const labelled of cell < MARKED ? [cell >= LABELLED, false] : [true]) {
      const made = geometry(list, gpus, cell, width, name, labelled);
      if (made.height <= height && made.slot - made.space <= width) return made;
    }
  }
  return geometry(list, gpus, CELLS.at(-1), width, name);
}

// The next size up or down.
export function step(cell, by) {
  const at = CELLS.indexOf(cell) - by;
  return CELLS[Math.min(Math.max(at, 0), CELLS.length - 1)];
}

export function corner(form, index) {
  return { x: (index % form.columns) * form.slot, y: Math.floor(index / form.columns) * form.high };
}

// The node at a point, and which of its GPUs: { block, row, gpu }, or null.
export function under(form, list, x, y) {
  const column = Math.floor(x / form.slot);
  if (column >= form.columns || x < 0 || y < 0) return null;
  const index = Math.floor(y / form.high) * form.columns + column, block = list[index];
  if (!block) return null;
  const within = y - corner(form, index).y - form.pad - form.label;
  const line = Math.floor(within / form.line);
  const row = line >= 0 && line < block.nodes ? block.first + line : null;
  const along = x - column * form.slot - form.pad - form.names - form.mark;
  return { block, row, gpu: along < 0 ? -1 : Math.floor(along / (form.cell + form.gap)) };
}
