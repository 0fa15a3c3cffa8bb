// Nodes and the cluster in one sentence: for tips, for ears, for the verdict.

import { word } from "./dom.js";
import { count, listed } from "./words.js";

const FINE = new Set(["ok", "note"]);

// "2 failed, 6 healthy", of codes of levels.
export function parts(cluster, codes) {
  return cluster.counts(codes).map((many, code) => many && `${many} ${word(cluster.levels[code]).toLowerCase()}`).filter(Boolean);
}

function of(cluster, codes, one) {
  if (!codes.length) return "";
  const found = parts(cluster, codes);
  return found.length === 1 ? `${count(codes.length, one)} ${found[0].replace(/^\d+ /, "")}` : `${one}s: ${found.join(", ")}`;
}

// A node by its row; of one of its GPUs too, where it has one with that number.
export function nodeSummary(cluster, row, gpu = -1) {
  const rack = cluster.rack(row), silent = cluster.silent.has(row) ? "sends nothing" : "";
  const named = gpu >= 0 && gpu < cluster.gpus(row).length ? `GPU ${gpu} ${word(cluster.levels[cluster.gpus(row)[gpu]]).toLowerCase()}` : "";
  const about = [silent, named, of(cluster, cluster.gpus(row), "GPU"), of(cluster, cluster.ports(row), "port")].filter(Boolean);
  return `${cluster.nodes[row]}${rack ? `, ${rack}` : ""}: ${word(cluster.level(row))}. ${about.join("; ")}`;
}

// The cluster's level and sentence, from open incidents and levels of nodes.
export function verdict(cluster, incidents, total) {
  const open = (severity) => incidents.filter((one) => one.severity === severity).length;
  const pages = open("page"), tickets = open("ticket"), nodes = cluster.nodes.length;
  const said = [pages && count(pages, "page"), tickets && count(tickets, "ticket")].filter(Boolean);
  const unwell = cluster.counts(cluster.node).reduce((sum, many, code) => sum + (FINE.has(cluster.levels[code]) ? 0 : many), 0);
  const silent = cluster.silent.size;
  if (!nodes) return { level: "blind", text: "No node has sent anything yet." };
  if (said.length) {
    const shown = total > incidents.length ? ` (of ${total} open incidents, the first ${incidents.length} are counted)` : "";
    return { level: pages ? "bad" : "warn", text: `${listed(said)} open${shown}. ${count(unwell, "node")} of ${count(nodes, "node").replace(/ .*/, "")} not healthy.` };
  }
  if (silent) return { level: "blind", text: `${count(silent, "node")} of ${nodes} ${silent === 1 ? "sends" : "send"} nothing: faults there go undetected.` };
  if (unwell) return { level: "warn", text: `${total ? "No page and no ticket" : "No incident"} is open. ${count(unwell, "node")} of ${nodes} not healthy.` };
  return { level: "ok", text: `Healthy. ${count(nodes, "node")}, ${count(cluster.gpu.length, "GPU")}; ${total ? "no page and no ticket" : "no incident"} is open.` };
}
