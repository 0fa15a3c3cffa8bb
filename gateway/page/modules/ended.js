// Jobs that are over, the newest first, each with the page of its life.

import { byId, el, keyed, say } from "./dom.js";
import { between, count, moment, number } from "./words.js";

const SHOWN = 12;
let whole = false;

// The page of a job's life: of one of its runs, or of the newest.
export const lifeOf = (id, run = null) =>
  `api/v1/jobs/explanation.html?${new URLSearchParams({ job: id, ...(run === null ? {} : { run }) })}`;

function row(job) {
  return el("tr", {},
    el("th", { scope: "row" }, el("a", { href: lifeOf(job.id, job.run) }, job.id), el("small", {}, [job.name, job.owner, job.run > 1 && `run ${job.run}`].filter(Boolean).join(" · "))),
    el("td", {}, moment(job.end)),
    el("td", {}, between(job.begin, job.end)),
    el("td", { class: "n" }, number(job.gpus), el("small", {}, count(job.nodes, "node"))));
}

export function showEnded(jobs, total) {
  byId("ended").hidden = jobs.length === 0;
  say(byId("ended-count"), total > jobs.length ? `the newest ${number(jobs.length)} of ${number(total)}` : number(total));
  keyed(byId("ended-list"), whole ? jobs : jobs.slice(0, SHOWN), (job) => `${job.id} ${job.begin}`, row);
  const more = byId("ended-more");
  more.hidden = jobs.length <= SHOWN;
  say(more, whole ? "Show the first only" : `Show all ${number(jobs.length)}`);
  more.setAttribute("aria-expanded", whole);
  more.onclick = () => {
    whole = !whole;
    showEnded(jobs, total);
  };
}
