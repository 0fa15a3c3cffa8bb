// The map by keyboard: arrows go through nodes and racks, N and P through what is not healthy, Enter opens.

const FINE = new Set(["ok", "note"]);

export function keys(map) {
  const { frame } = map;
  frame.addEventListener("focus", () => {
    if (map.list.length && frame.matches(":focus-visible")) map.move(map.blockOf[map.cursor] >= 0 ? map.cursor : map.list[0].first);
  });
  frame.addEventListener("blur", () => {
    map.tip.hidden = true;
    map.move(-1);
  });
  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !map.list.length) return;
    const row = map.blockOf[map.cursor] >= 0 ? map.cursor : map.list[0].first;
    if (event.key === "Enter" || event.key === " ") map.open("node", map.cluster.nodes[row]);
    else {
      const next = target(map, row, event.key);
      if (next === null) return;
      map.move(next);
    }
    event.preventDefault();
  });
}

function target(map, row, key) {
  const at = map.blockOf[row], { list } = map, { columns } = map.form;
  const beside = (index) => {
    const block = list[Math.min(Math.max(index, 0), list.length - 1)];
    return Math.min(block.first + row - list[at].first, block.first + block.nodes - 1);
  };
  const last = list[at].first + list[at].nodes - 1;
  switch (key) {
    case "ArrowDown": return row < last ? row + 1 : at + columns < list.length ? list[at + columns].first : row;
    case "ArrowUp": return row > list[at].first ? row - 1 : at >= columns ? list[at - columns].first + list[at - columns].nodes - 1 : row;
    case "ArrowRight": return at + 1 < list.length ? beside(at + 1) : row;
    case "ArrowLeft": return at > 0 ? beside(at - 1) : row;
    case "PageDown": return beside(at + columns < list.length ? at + columns : at);
    case "PageUp": return beside(at >= columns ? at - columns : at);
    case "Home": return list[0].first;
    case "End": return list.at(-1).first + list.at(-1).nodes - 1;
    case "n": case "N": return unwell(map, row, 1);
    case "p": case "P": return unwell(map, row, -1);
    default: return null;
  }
}

// The next node that is not healthy, around the end.
function unwell({ cluster, blockOf }, row, by) {
  const { length } = cluster.nodes;
  for (let step = 1; step <= length; step += 1) {
    const at = (row + by * step + length * step) % length;
    if (blockOf[at] >= 0 && !FINE.has(cluster.level(at))) return at;
  }
  return row;
}
