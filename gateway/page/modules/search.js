// Search over nodes, racks, leaf switches, jobs, users, incidents, and ids of devices.

import { byId, el, fill } from "./dom.js";
import { path } from "./detail.js";
import { upper } from "./words.js";

const MAX_FOUND = 10;
const DEVICE = /^(GPU-|MIG-|0x)[0-9a-f-]{4,}$/i;

// What a text may mean: { kind, name, hint }, those that begin with it first.
export function found({ cluster, jobs, incidents }, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const first = [], then = [];
  const add = (kind, name, hint, ...texts) => {
    const at = Math.min(...texts.map((one) => one.toLowerCase().indexOf(wanted)).map((place) => (place < 0 ? Infinity : place)));
    if (at !== Infinity && first.length < MAX_FOUND) (at === 0 ? first : then).push({ kind, name, hint });
  };
  for (const job of jobs.values()) add("job", job.id, [job.name, job.user, job.state].filter(Boolean).join(" · "), job.id, job.name, job.user);
  for (const { name, nodes } of cluster.racks) if (name) add("rack", name, `${nodes} nodes`, name);
  cluster.nodes.forEach((name, row) => add("node", name, cluster.rack(row), name));
  for (const [name, rows] of cluster.leaves) add("leaf", name, `${rows.length} nodes`, name);
  for (const one of incidents.values()) add("incident", one.id, upper(one.title), one.id, one.title, one.class, one.serial ?? "");
  if (DEVICE.test(text.trim())) first.unshift({ kind: "device", name: text.trim(), hint: "a GPU or port by its id" });
  return [...first, ...then].slice(0, MAX_FOUND);
}

export function search(page) {
  const field = byId("search"), list = byId("search-found"), status = byId("search-status");
  let hits = [], at = -1;
  const show = () => {
    hits = found(page, field.value);
    at = -1;
    fill(list, ...hits.map(({ kind, name, hint }, index) => {
      const shown = kind === "incident" ? hint : name;
      const option = el("li", { role: "option", id: `found-${index}`, "aria-selected": "false" },
        el("span", { class: "kind" }, kind), el("b", {}, shown), kind === "incident" ? el("small", {}, name) : hint && el("small", {}, hint));
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        choose(index);
      });
      return option;
    }));
    open(hits.length > 0);
    status.textContent = field.value.trim() ? (hits.length ? `${hits.length} found` : "Nothing found") : "";
  };
  const open = (yes) => {
    list.hidden = !yes;
    field.setAttribute("aria-expanded", yes);
    mark(-1);
  };
  const mark = (index) => {
    at = index;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", place === at));
    if (at >= 0) field.setAttribute("aria-activedescendant", `found-${at}`);
    else field.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    const hit = hits[Math.max(index, 0)];
    if (!hit) return;
    field.value = "";
    status.textContent = "";
    open(false);
    location.hash = path(hit.kind, hit.name);
  };
  field.addEventListener("input", show);
  field.addEventListener("focus", () => field.value && show());
  field.addEventListener("blur", () => open(false));
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && hits.length) mark((at + by + hits.length + (at < 0 && by < 0 ? 1 : 0)) % hits.length);
    else if (event.key === "Enter") choose(at);
    else if (event.key === "Escape" && !list.hidden) open(false);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches?.("input, select, textarea")) return;
    event.preventDefault();
    field.focus();
  });
}
