// The cluster as it was last read: columns by row of the layout (docs/api.md, `topology`).

export class Cluster {
  constructor() {
    this.layout = "";
    this.time = "";
    this.name = "";
    this.levels = [];
    this.nodes = [];
    this.racks = [];
    this.rackOf = new Int32Array(0);
    this.gpuFirst = this.portFirst = new Int32Array(1);
    this.node = this.gpu = this.port = new Uint8Array(0);
    this.silent = new Set();
    this.row = new Map();
    this.models = [];
    this.model = [];
    this.leaves = new Map(); // rows by leaf switch
  }

  // A whole answer; true where nodes or devices are others than before.
  adopt(document) {
    const fresh = document.static !== null;
    if (fresh) this.#lay(document.static);
    this.name = document.cluster;
    this.layout = document.layout;
    this.levels = document.levels;
    this.time = document.time;
    this.node = digits(document.node_levels);
    this.gpu = digits(document.gpu_levels);
    this.port = digits(document.port_levels);
    this.silent = new Set(document.silent);
    return fresh;
  }

  #lay(known) {
    this.nodes = known.nodes.name;
    this.models = known.models;
    this.model = known.nodes.model;
    this.gpuFirst = firsts(known.nodes.gpus);
    this.portFirst = firsts(known.nodes.ports);
    this.row = new Map(this.nodes.map((name, row) => [name, row]));
    this.rackOf = new Int32Array(this.nodes.length);
    let first = 0;
    this.racks = known.racks.map(({ name, nodes }, rack) => {
      this.rackOf.fill(rack, first, first + nodes);
      first += nodes;
      return { name, first: first - nodes, nodes };
    });
    this.leaves = new Map();
    known.nodes.leaf_set.forEach((set, row) => {
      for (const leaf of known.leaf_sets[set] ?? []) {
        const name = known.leaves[leaf];
        if (!this.leaves.has(name)) this.leaves.set(name, []);
        this.leaves.get(name).push(row);
      }
    });
  }

  // What has changed since; the rows of nodes that look different now.
  change(event) {
    const rows = new Set();
    const set = (levels, changes, rowOf) => {
      for (const [at, level] of changes) {
        if (levels[at] !== level && at < levels.length) {
          levels[at] = level;
          rows.add(rowOf(at));
        }
      }
    };
    set(this.node, event.nodes, (row) => row);
    set(this.gpu, event.gpus, (at) => owner(this.gpuFirst, at));
    set(this.port, event.ports, (at) => owner(this.portFirst, at));
    if (event.silent) this.silent = new Set(event.silent);
    this.time = event.time;
    return rows;
  }

  gpus(row) {
    return this.gpu.subarray(this.gpuFirst[row], this.gpuFirst[row + 1]);
  }

  ports(row) {
    return this.port.subarray(this.portFirst[row], this.portFirst[row + 1]);
  }

  level(row) {
    return this.levels[this.node[row]];
  }

  // How many of some levels there are of each, the worst first.
  counts(codes) {
    const found = new Array(this.levels.length).fill(0);
    for (const code of codes) found[code] += 1;
    return found;
  }

  rack(row) {
    return this.racks[this.rackOf[row]]?.name ?? "";
  }
}

function digits(text) {
  return Uint8Array.from(text, (digit) => digit.charCodeAt(0) - 48);
}

function firsts(sizes) {
  const found = new Int32Array(sizes.length + 1);
  sizes.forEach((size, row) => { found[row + 1] = found[row] + size; });
  return found;
}

// The row of the node that has this device: the last one that begins at or before it.
function owner(first, at) {
  let low = 0, high = first.length - 1;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (first[middle] <= at) low = middle;
    else high = middle;
  }
  return low;
}
