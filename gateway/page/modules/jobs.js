// Jobs, the worst first, with their state and verdict.

import { byId, el, keyed, say, state } from "./dom.js";
import { compare, count, number, spaced, span } from "./words.js";

const SHOWN = 12;
const STATES = ["stalled", "suspect", "crawl", "slow", "running"];
const LEVEL = { stalled: "bad", suspect: "warn", crawl: "warn", slow: "warn", running: "ok" };
let whole = false;

export function sortedJobs(jobs, levels) {
  return [...jobs].sort((one, other) => STATES.indexOf(one.state) - STATES.indexOf(other.state)
    || levels.indexOf(one.level) - levels.indexOf(other.level) || compare(one.id, other.id));
}

export const stateOf = (job) => state(LEVEL[job.state] ?? "blind", job.stalled_seconds >= 1 ? `${job.state}, ${span(job.stalled_seconds)}` : job.state);

function row(job) {
  return el("tr", {},
    el("th", { scope: "row" }, el("a", { href: `#job/${encodeURIComponent(job.id)}` }, job.id), el("small", {}, [job.name, job.user].filter(Boolean).join(" · "))),
    el("td", {}, stateOf(job), job.verdicts.length ? el("small", {}, job.verdicts.map(spaced).join(", ")) : null),
    el("td", {}, state(job.level)),
    el("td", { class: "n" }, number(job.gpus), el("small", {}, count(job.nodes.length, "node"))),
    el("td", { class: "n" }, job.incidents.length ? number(job.incidents.length) : "–"));
}

export function showJobs(jobs, total) {
  byId("jobs").hidden = jobs.length === 0;
  const trouble = jobs.filter((job) => job.state !== "running").length;
  say(byId("jobs-count"), trouble ? `${number(total)}, ${number(trouble)} without normal progress` : number(total));
  keyed(byId("jobs-list"), whole ? jobs : jobs.slice(0, SHOWN), (job) => job.id, row);
  const more = byId("jobs-more");
  more.hidden = jobs.length <= SHOWN;
  say(more, whole ? "Show the first only" : `Show all ${number(jobs.length)}`);
  more.setAttribute("aria-expanded", whole);
  more.onclick = () => {
    whole = !whole;
    showJobs(jobs, total);
  };
}
