// The panel beside the page: one node, rack, leaf switch, job or incident, by the fragment of the address.

import { Refused, get } from "./api.js";
import { deviceList } from "./devices.js";
import { byId, el, fold, icon, say, state } from "./dom.js";
import { lifeOf } from "./ended.js";
import { age, levelOf, links, reach, since } from "./incidents.js";
import { stateOf } from "./jobs.js";
import { parts } from "./summary.js";
import { clock, count, moment, severity, upper } from "./words.js";

const MAX_LISTED = 200;
export const path = (kind, name) => `#${kind}/${encodeURIComponent(name)}`;

// The kind, name and part of a fragment; null where it is none of ours.
export function parsed(fragment) {
  try {
    const [kind, name, part = ""] = fragment.slice(1).split("/").map(decodeURIComponent);
    return name === undefined ? null : { kind, name, part };
  } catch {
    return null;
  }
}

export class Detail {
  // `page`: what is known of everything (main.js); `near(rows)`: draw them on the map.
  constructor(page, near) {
    this.page = page;
    this.near = near;
    this.panel = byId("detail");
    this.body = byId("detail-body");
    this.title = byId("detail-title");
    this.looked = false;
    this.shown = null;
    this.more = null; // what was asked for, beside what is known
    this.made = null; // the body, as it was made last
    this.unfolded = new Set();
    byId("detail-close").addEventListener("click", () => this.close());
    addEventListener("hashchange", () => this.look());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && this.shown) this.close();
    });
  }

  // Shows what the address says.
  look() {
    this.looked = true;
    const asked = parsed(location.hash);
    if (!asked || !VIEWS[asked.kind]) {
      this.#hide();
      return;
    }
    if (!this.shown) this.opener = document.activeElement;
    this.shown = asked;
    this.more = this.made = null;
    this.unfolded = new Set(asked.part ? [asked.part] : []);
    this.panel.hidden = false;
    document.body.classList.add("detailed");
    this.render();
    this.title.focus({ preventScroll: true });
    this.panel.scrollTop = 0;
    this.ask();
  }

  close() {
    history.pushState(null, "", location.pathname + location.search);
    this.#hide();
  }

  #hide() {
    if (!this.shown) return;
    this.shown = null;
    this.panel.hidden = true;
    document.body.classList.remove("detailed");
    this.near([]);
    if (this.opener?.isConnected) this.opener.focus({ preventScroll: true });
  }

  // What only the gateway has: readings and evidence.
  async ask() {
    const { shown } = this;
    const asked = shown && ASKED[shown.kind]?.(shown.name);
    if (!asked) return;
    try {
      const answer = await get(...asked);
      if (this.shown === shown) this.more = answer;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (this.shown === shown && !this.more) this.more = { refused: error };
    }
    if (this.shown === shown) this.render();
  }

  render() {
    if (!this.shown) return;
    const { kind, name } = this.shown, view = VIEWS[kind](this.page, name, this);
    say(this.title, view.title.join(""));
    say(byId("detail-kind"), kind === "leaf" ? "Leaf switch" : upper(kind));
    this.near(view.rows ?? []);
    this.#show(el("div", {}, ...view.body));
    age(this.page.time);
  }

  // What is the same stays, and so does what the reader has selected, to copy it.
  #show(fresh) {
    const made = fresh.innerHTML, selection = getSelection();
    const selected = selection.type === "Range" && this.body.contains(selection.anchorNode);
    if (made === this.made || (selected && this.made !== null)) return;
    this.made = made;
    const keep = this.body.contains(document.activeElement) ? [...this.body.querySelectorAll("a, button, summary")].indexOf(document.activeElement) : -1;
    this.body.replaceChildren(...fresh.childNodes);
    if (keep >= 0) this.body.querySelectorAll("a, button, summary")[keep]?.focus({ preventScroll: true });
  }
}

const ASKED = {
  node: (name) => ["health", { node: name, limit: 100 }],
  device: (name) => ["health", { device: name }],
  incident: (name) => [`incidents/${encodeURIComponent(name)}`],
};

const VIEWS = { node: nodeView, rack: rackView, leaf: leafView, job: jobView, incident: incidentView, device: deviceView };

const fact = (name, ...value) => (value.every((one) => one === "" || one === null) ? null : el("div", {}, el("dt", {}, name), el("dd", {}, ...value)));
const facts = (...list) => el("dl", { class: "identity" }, ...list);
const part = (title, ...body) => el("section", { class: "part" }, el("h3", {}, title), ...body);
const gone = (text) => ({ title: [text], body: [el("p", { class: "empty" }, "It is not known now: it may have ended, or its host is no longer there.")] });

function nodeView({ cluster, incidents, jobs, agent }, name, detail) {
  const row = cluster.row.get(name);
  if (row === undefined) return gone(name);
  const its = [...jobs.values()].filter((job) => job.nodes.includes(name));
  const about = [...incidents.values()].filter((one) => one.host === name || one.nodes.includes(name));
  const rack = cluster.rack(row), leaves = [...cluster.leaves].filter(([, rows]) => rows.includes(row)).map(([leaf]) => leaf);
  return {
    title: [name],
    rows: [row],
    body: [
      el("p", {}, state(cluster.level(row))),
      cluster.silent.has(row) && el("p", { class: "remark" }, "This node sends nothing: what is shown of it is old."),
      facts(
        fact("Rack", rack && el("a", { href: path("rack", rack) }, rack)),
        fact("GPUs", `${count(cluster.gpus(row).length, "GPU")}${cluster.models[cluster.model[row]] ? `, ${cluster.models[cluster.model[row]]}` : ""}`),
        fact("Leaves", ...leaves.slice(0, 8).flatMap((leaf, at) => [at ? ", " : "", el("a", { href: path("leaf", leaf) }, leaf)])),
        fact("Jobs", ...its.flatMap((job, at) => [at ? ", " : "", el("a", { href: path("job", job.id) }, job.id)]))),
      agent && el("p", {}, el("a", { href: agent(name), rel: "noreferrer", class: "agent" }, "Status page of this node")),
      incidentList(about),
      ...deviceList(cluster, row, detail.more, detail.unfolded, agent && agent(name)),
    ],
  };
}

function rackView({ cluster, incidents }, name) {
  const rack = cluster.racks.find((one) => one.name === name);
  if (!rack) return gone(name || "No rack");
  const rows = Array.from({ length: rack.nodes }, (_, at) => rack.first + at);
  return places(cluster, name || "No rack is known", rows, [...incidents.values()].filter((one) => one.rack === name && name));
}

function leafView({ cluster, incidents }, name) {
  const rows = cluster.leaves.get(name);
  return rows ? places(cluster, name, rows, [...incidents.values()].filter((one) => one.device === name)) : gone(name);
}

function places(cluster, title, rows, about) {
  const codes = rows.map((row) => cluster.node[row]);
  return {
    title: [title],
    rows,
    body: [el("p", {}, `${count(rows.length, "node")}: ${parts(cluster, codes).join(", ")}`), incidentList(about), nodeList(cluster, rows)],
  };
}

function jobView({ cluster, incidents, jobs, stored }, name) {
  const job = jobs.get(name);
  if (!job) return gone(name);
  const rows = job.nodes.map((node) => cluster.row.get(node)).filter((row) => row !== undefined);
  return {
    title: [job.id],
    rows,
    body: [
      el("p", {}, stateOf(job)),
      facts(fact("Name", job.name), fact("User", job.user), fact("Scheduler", job.scheduler), fact("Holds", `${count(job.gpus, "GPU")} on ${count(job.nodes.length, "node")}`),
        fact("Verdict", job.verdicts.join(", ").replaceAll("_", " ")), fact("Worst node", state(job.level))),
      stored && el("p", {}, el("a", { href: lifeOf(name), class: "agent" }, "What has happened to this job")),
      incidentList([...incidents.values()].filter((one) => one.jobs.includes(name))),
      nodeList(cluster, rows),
    ],
  };
}

function nodeList(cluster, rows) {
  const worst = [...rows].sort((one, other) => cluster.node[one] - cluster.node[other] || one - other);
  return part(`Nodes, the worst first`,
    el("ul", { class: "nodes" }, ...worst.slice(0, MAX_LISTED).map((row) => el("li", {},
      el("a", { href: path("node", cluster.nodes[row]) }, cluster.nodes[row]), state(cluster.level(row)),
      el("small", {}, `GPUs: ${parts(cluster, cluster.gpus(row)).join(", ") || "none"}`)))),
    rows.length > MAX_LISTED && el("p", { class: "empty" }, `${rows.length - MAX_LISTED} more.`));
}

function incidentList(list) {
  return list.length > 0 && part("Open incidents", el("ul", { class: "nodes" }, ...list.slice(0, MAX_LISTED).map((one) => el("li", { "data-level": levelOf(one) },
    el("a", { href: `#incident/${one.id}` }, upper(one.title || one.device)), state(levelOf(one), severity(one.severity)), el("small", {}, one.cause || one.summary)))));
}

function incidentView({ cluster, incidents, past }, name, detail) {
  const known = detail.more && !detail.more.refused ? detail.more : null;
  const one = incidents.get(name) ?? past.find((each) => each.id === name) ?? known;
  if (!one) return detail.more ? gone(`Incident ${name}`) : { title: [`Incident ${name}`], body: [el("p", { class: "empty" }, "It is being read.")] };
  const rows = one.nodes.map((node) => cluster.row.get(node)).filter((row) => row !== undefined);
  const open = one.state === "open";
  const lastTrue = (known?.state === one.state ? known : one).last_true; // the list has it as it was when the row changed
  return {
    title: [upper(one.title || one.device)],
    rows: open ? rows : [],
    body: [
      el("p", {}, open ? state(levelOf(one), severity(one.severity)) : el("span", { class: "over" }, icon(levelOf(one)), ` ${severity(one.severity)}, over since ${clock(one.cleared)}: ${one.ended}`)),
      el("p", { class: "cause" }, one.summary),
      one.reason && el("p", { class: "next" }, el("b", {}, "Next step "), one.reason),
      el("p", { class: "links" }, ...links(one).flatMap((link) => [link, " "])),
      facts(
        fact("Open", open ? since(one.since) : "", open ? ` since ${moment(one.since)}` : `${moment(one.since)} to ${moment(one.cleared)}`),
        fact("Last true", lastTrue ? moment(lastTrue) : ""),
        fact("Affects", reach(one)),
        fact("Class", one.class.replaceAll("_", " ") + (one.certain ? ", a fact" : ", a statistical judgement")),
        fact("Device", one.device), fact("Serial", one.serial ?? ""), fact("Incident", one.id),
        fact("Note", one.acknowledged ? `${one.acknowledged_by || "an operator"}, ${moment(one.acknowledged)}: ${one.note}` : "")),
      one.jobs.length > 0 && part("Jobs", el("p", {}, ...one.jobs.flatMap((job, at) => [at ? ", " : "", el("a", { href: path("job", job) }, job)]), one.jobs_affected > one.jobs.length ? ` and ${one.jobs_affected - one.jobs.length} more` : "")),
      ...(known ? [evidence("Evidence", known.standing), evidence("No longer true", known.over), rules(known.rules, detail.unfolded)] : []),
      detail.more?.refused && el("p", { class: "empty" }, detail.more.refused.message),
      rows.length > 0 && nodeList(cluster, rows),
    ],
  };
}

function evidence(title, findings) {
  return findings.length > 0 && part(title, el("ul", { class: "members" }, ...findings.map((one) => el("li", {},
    el("p", {}, el("b", {}, `${upper(one.name)}${one.host ? ` on ${one.host}` : ""}`), one.summary),
    one.evidence.length ? el("ul", {}, ...one.evidence.map((line) => el("li", {}, el("code", {}, line)))) : null))));
}

function rules(list, unfolded) {
  return list.length > 0 && part("How it is judged", ...list.map((one) => fold(`rule ${one.detector}`, unfolded, el("summary", {}, one.detector),
    ...(one.judges ?? []).map((text) => el("p", {}, text)), el("p", {}, one.rule), one.clears && el("p", {}, el("b", {}, "It ends "), one.clears))));
}

// Where a device is, nobody knows but the gateway: the panel goes on to its node.
function deviceView(_, name, detail) {
  const [member] = detail.more?.members ?? [];
  if (member?.host) location.replace(`${path("node", member.host)}/${encodeURIComponent(name)}`);
  return detail.more ? gone(name) : { title: [name], body: [el("p", { class: "empty" }, "It is being looked for.")] };
}

