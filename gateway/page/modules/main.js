// The cluster's page: reads everything, shows it, and keeps it so.

import { Refused, get, getAll } from "./api.js";
import { Cluster } from "./cluster.js";
import { Detail, path } from "./detail.js";
import { byId, icon, say, word } from "./dom.js";
import { showEnded } from "./ended.js";
import { age, closedIncidents, openIncidents } from "./incidents.js";
import { showJobs, sortedJobs } from "./jobs.js";
import { Legend } from "./legend.js";
import { Live } from "./live.js";
import { ClusterMap } from "./map.js";
import { search } from "./search.js";
import { verdict } from "./summary.js";
import { clock, moment } from "./words.js";

const MAX_OPEN = 500, MAX_CLOSED = 30, MAX_JOBS = 10000, MAX_ENDED = 100;
const ENDED_MS = 300000; // as often as the gateway reads its store

const root = document.documentElement;
const agentUrl = root.dataset.agentUrl;
const page = {
  cluster: new Cluster(),
  incidents: new Map(), // open ones, by id
  openTotal: 0,
  past: [],
  pastTotal: 0,
  jobs: new Map(),
  jobsTotal: 0,
  stored: false, // whether the gateway reads jobs from a store
  leads: true,
  time: "",
  agent: agentUrl ? (host) => agentUrl.replaceAll("{host}", encodeURIComponent(host)) : null,
};

const open = (kind, name) => { location.hash = path(kind, name); };
const map = new ClusterMap(page.cluster, open);
const legend = new Legend((level) => map.show(level));
const detail = new Detail(page, (rows) => map.point(rows));

async function load() {
  const { cluster } = page;
  const [topology, opened, past, jobs] = await Promise.all([
    get("topology", { layout: cluster.layout }),
    get("incidents", { state: "open", limit: MAX_OPEN }),
    get("incidents", { state: "closed", limit: MAX_CLOSED }),
    getAll("jobs", "jobs", MAX_JOBS),
    readEnded(),
  ]);
  const before = cluster.node.length && topology.static === null ? [cluster.node, cluster.gpu, cluster.port] : null;
  const fresh = cluster.adopt(topology);
  page.time = topology.time;
  page.incidents = new Map(opened.incidents.map((one) => [one.id, one]));
  page.openTotal = opened.total;
  page.past = past.incidents;
  page.pastTotal = past.total;
  page.jobs = new Map(jobs.jobs.map((job) => [job.id, job]));
  page.jobsTotal = jobs.total;
  legend.show(cluster);
  if (fresh || !before) map.lay();
  else map.change(differing(before));
  showAll();
  if (detail.looked) detail.ask();
  else detail.look();
  const ofIncidents = opened.time < past.time ? opened.time : past.time;
  return { layout: topology.layout, times: { levels: topology.time, incidents: ofIncidents, jobs: jobs.time } };
}

// Jobs that are over change when the gateway has read its store. Without them the rest is shown.
async function readEnded() {
  try {
    const ended = await get("jobs/ended", { limit: MAX_ENDED });
    page.stored = ended.read !== null;
    showEnded(ended.jobs, ended.total);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
}

// Rows of nodes of which anything differs between two answers about one layout.
function differing([node, gpu, port]) {
  const { cluster } = page, rows = [];
  const same = (old, now, first, row) => {
    for (let at = first[row]; at < first[row + 1]; at += 1) if (old[at] !== now[at]) return false;
    return true;
  };
  for (let row = 0; row < cluster.nodes.length; row += 1) {
    if (node[row] !== cluster.node[row] || !same(gpu, cluster.gpu, cluster.gpuFirst, row) || !same(port, cluster.port, cluster.portFirst, row)) rows.push(row);
  }
  return rows;
}

const TAKE = {
  levels(event) {
    map.change(page.cluster.change(event));
    legend.show(page.cluster);
  },
  incidents({ changed, gone }) {
    for (const row of changed) {
      const known = page.incidents.delete(row.id);
      if (row.state === "open") {
        page.incidents.set(row.id, row);
        page.openTotal += known ? 0 : 1;
      } else {
        page.openTotal -= known ? 1 : 0;
        page.pastTotal += page.past.some((one) => one.id === row.id) ? 0 : 1;
        page.past = [row, ...page.past.filter((one) => one.id !== row.id)];
      }
    }
    page.past = page.past.sort((one, other) => Date.parse(other.cleared) - Date.parse(one.cleared)).slice(0, MAX_CLOSED);
    for (const id of gone) {
      page.openTotal -= page.incidents.delete(id) ? 1 : 0;
      page.past = page.past.filter((one) => one.id !== id);
    }
    detail.ask();
  },
  jobs({ changed, gone }) {
    for (const row of changed) {
      page.jobsTotal += page.jobs.has(row.id) ? 0 : 1;
      page.jobs.set(row.id, row);
    }
    for (const id of gone) page.jobsTotal -= page.jobs.delete(id) ? 1 : 0;
  },
  tick({ leads }) {
    page.leads = leads;
    detail.ask();
  },
};

function take(kind, event) {
  TAKE[kind](event);
  page.time = event.time;
  showAll(kind);
}

function showAll(what = "") {
  const { cluster } = page;
  say(byId("cluster"), cluster.name);
  if (what !== "jobs" && what !== "tick") {
    openIncidents([...page.incidents.values()], page.openTotal, byId("incidents-order").value);
    closedIncidents(page.past, page.pastTotal);
    showVerdict();
  }
  if (what !== "incidents" && what !== "tick") showJobs(sortedJobs(page.jobs.values(), cluster.levels), page.jobsTotal);
  byId("standby").hidden = page.leads;
  if (what !== "tick") detail.render();
  age(page.time);
}

function showVerdict() {
  const { level, text } = verdict(page.cluster, [...page.incidents.values()], page.openTotal), sentence = byId("verdict-text");
  if (sentence.textContent !== text || root.dataset.level !== level) {
    byId("verdict-icon").replaceChildren(icon(level));
    say(byId("verdict-level"), text.startsWith(word(level)) ? "" : `${word(level)}: `);
    say(sentence, text);
  }
  root.dataset.level = byId("verdict").dataset.level = level;
  document.title = `${word(level)}: ${page.cluster.name} - Tocsin`;
  document.querySelector("link[rel=icon]").href = byId(`shape-${level}`).dataset.tab;
}

function manner(how, why) {
  const known = page.time !== "", at = byId("live-time");
  document.body.classList.toggle("silent", how === "silent");
  say(byId("manner"), { live: "Live, read ", asking: "Asked every 5 s, read ", silent: known ? "Last read " : "" }[how]);
  say(at, known ? clock(page.time) : "");
  if (known) at.dateTime = page.time;
  say(byId("silence"), how === "silent" ? `${why}${known ? ` This page shows the state of ${moment(page.time)}.` : ""}` : "");
}

byId("incidents-order").addEventListener("change", () => showAll("incidents"));
for (const [id, by] of [["zoom-out", -1], ["zoom-fit", 0], ["zoom-in", 1]]) byId(id).addEventListener("click", () => map.zoom(by));
setInterval(() => document.hidden || readEnded(), ENDED_MS);
search(page);
new Live({ load, take, manner }).start();

export { map, page };
