// Open incidents as cards, and those that are over as rows.

import { byId, el, icon, keyed, say, state } from "./dom.js";
import { between, clock, count, listed, moment, severity, upper } from "./words.js";

export const MAX_CARDS = 50;
const FIRST = 8; // as high as the map; more would push it and the jobs far down on a phone
let whole = false;
const LEVEL = { page: "bad", ticket: "warn", record: "note" };
const SEVERITIES = ["page", "ticket", "record"];
const ORDERS = {
  gpus: (one) => -one.gpus_affected,
  jobs: (one) => -one.jobs_affected,
  newest: (one) => -Date.parse(one.since),
};

export const levelOf = (incident) => LEVEL[incident.severity] ?? "note";

function urgency(one, other) {
  return SEVERITIES.indexOf(one.severity) - SEVERITIES.indexOf(other.severity) || other.certain - one.certain
    || other.gpus_affected - one.gpus_affected || other.jobs_affected - one.jobs_affected
    || one.since.localeCompare(other.since) || one.id.localeCompare(other.id);
}

// The most urgent first (as the API does), or by what the reader has chosen, and then so.
export function sorted(incidents, by = "urgency") {
  const of = ORDERS[by];
  return [...incidents].sort((one, other) => (of ? of(one) - of(other) : 0) || urgency(one, other));
}

export function reach(incident) {
  const { gpus_affected: gpus, nodes_affected: nodes, jobs_affected: jobs } = incident;
  return listed([gpus && count(gpus, "GPU"), nodes && count(nodes, "node"), jobs && count(jobs, "job")].filter(Boolean));
}

export const since = (iso) => el("time", { datetime: iso, "data-since": iso, title: moment(iso) });

// Texts that grow older with what is shown, which is of this time.
export function age(now) {
  for (const time of document.querySelectorAll("time[data-since]")) say(time, between(time.dataset.since, now));
}

function card(incident) {
  const level = levelOf(incident), hit = reach(incident);
  return el("li", { class: "card", "data-level": level },
    el("h3", {},
      el("a", { href: `#incident/${incident.id}`, class: "opener" }, upper(incident.title || incident.device)),
      state(level, severity(incident.severity))),
    el("p", { class: "cause" }, incident.cause || incident.summary),
    incident.reason && el("p", { class: "next" }, el("b", {}, "Next step "), incident.reason),
    hit && el("p", { class: "reach" }, el("b", {}, "Affects "), hit, incident.jobs.length && incident.jobs.length < 4 ? ` (${listed(incident.jobs)})` : "", "."),
    el("p", { class: "facts" }, "Open for ", since(incident.since),
      incident.rack ? ` · ${incident.rack}` : "",
      incident.true_now ? "" : " · no longer true, it closes if it stays so",
      incident.acknowledged ? ` · acknowledged by ${incident.acknowledged_by || "an operator"}` : "",
      incident.times > 1 ? ` · happened ${count(incident.times, "time")}` : ""));
}

export function openIncidents(incidents, total, by) {
  const rows = sorted(incidents, by).slice(0, MAX_CARDS), pages = rows.filter((row) => row.severity === "page").length;
  say(byId("incidents-count"), total === 0 ? "" : String(total));
  byId("incidents-none").hidden = total > 0;
  byId("incidents-tools").hidden = total < 2;
  keyed(byId("incidents-list"), whole ? rows : rows.slice(0, FIRST), (row) => row.id, card);
  const all = byId("incidents-all"), more = byId("incidents-more");
  all.hidden = rows.length <= FIRST;
  say(all, whole ? `Show the first ${FIRST} only` : `Show ${total > rows.length ? "the first" : "all"} ${rows.length}${pages ? `, ${count(pages, "page")} among them` : ""}`);
  all.setAttribute("aria-expanded", whole);
  all.onclick = () => {
    whole = !whole;
    openIncidents(incidents, total, by);
  };
  more.hidden = total <= rows.length;
  say(more.firstElementChild, `${count(total - rows.length, "more", "more")} in the JSON`);
}

function closed(incident) {
  return el("tr", {},
    el("th", { scope: "row" }, icon(levelOf(incident)), el("a", { href: `#incident/${incident.id}` }, upper(incident.title || incident.device))),
    el("td", {}, incident.cause || incident.summary, incident.ended ? el("small", {}, incident.ended) : null),
    el("td", {}, reach(incident) || "–"),
    el("td", { class: "n" }, clock(incident.cleared), el("small", {}, `after ${between(incident.since, incident.cleared)}`)));
}

export function closedIncidents(incidents, total) {
  byId("closed").hidden = incidents.length === 0;
  say(byId("closed-count"), total > incidents.length ? `the newest ${incidents.length} of ${total}` : String(total));
  keyed(byId("closed-list"), incidents, (row) => row.id, closed);
}

export function links(incident) {
  const named = { runbook: "Runbook", dashboard: "Dashboard" };
  return Object.entries(incident.links ?? {}).filter(([, url]) => /^https?:\/\//.test(url)).map(([name, url]) => el("a", { href: url, rel: "noreferrer" }, named[name] ?? name));
}

