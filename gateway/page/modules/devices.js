// The GPUs and ports of one node: levels at once, readings and identity when they have come.

import { el, fold, state } from "./dom.js";
import { FIGURES, moment, upper } from "./words.js";

// `more`: the answer of `health?node=`, null while it is awaited. `unfolded`: ids of devices whose details are shown.
export function deviceList(cluster, row, more, unfolded, agent) {
  if (!more?.members) {
    const level = (codes, name) => [...codes].map((code, at) => ({ name: `${name} ${at}`, level: cluster.levels[code] }));
    const known = [...level(cluster.gpus(row), "GPU"), ...level(cluster.ports(row), "Port")];
    const why = more?.refused && more.refused.status !== 404 ? el("p", { class: "empty" }, more.refused.message) : null;
    return [section("GPUs and ports", known.map((one) => el("li", {}, el("b", {}, one.name), state(one.level)))), why];
  }
  const of = (kind) => more.members.filter((one) => one.kind === kind).map((one) => device(one, unfolded, agent));
  return [section("GPUs", of("gpu")), section("Ports", of("ib_port"))];
}

const section = (title, items) => items.length > 0 && el("section", { class: "part" }, el("h3", {}, title), el("ul", { class: "nodes" }, ...items));

function device(one, unfolded, agent) {
  const figures = Object.entries(FIGURES).filter(([column]) => typeof one.values?.[column] === "number")
    .map(([column, [title, write]]) => [title, write(one.values[column])]);
  const short = ["Utilisation", "Power", "Temperature", "Rate"];
  const row = (name, value) => value && el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const more = fold(one.id, unfolded,
    el("summary", {}, el("span", { class: "unseen" }, `${upper(one.name)}: `), figures.filter(([title]) => short.includes(title)).map(([, value]) => value).join(" · ") || "No readings"),
    el("dl", { class: "identity" },
      ...figures.map(([title, value]) => row(title, value)),
      row("Id", one.id), row("Serial", one.serial), row("Leaf", one.leaf), row("Rail", one.rail), row("Read", one.seen && moment(one.seen)),
      row("Jobs", one.jobs?.join(", "))),
    agent && el("p", {}, el("a", { href: `${agent}#cell-${encodeURIComponent(one.id)}`, rel: "noreferrer" }, `${upper(one.name)} on the node's own page`)));
  return el("li", {}, el("b", {}, upper(one.name)), state(one.level), one.reasons?.length ? el("small", {}, one.reasons.join("; ")) : null, more);
}
