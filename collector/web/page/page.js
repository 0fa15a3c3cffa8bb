// Keeps the page live: fetches it again and applies what differs. The only renderer is the agent's.
"use strict";

const EVERY_MS = 2000, PATIENCE_MS = 5000;
let answered = Date.now(), waiting = null, timer = null;

// Makes an element like another one, touching only what differs: focus, selection and what is unfolded stay as they are.
function become(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const wanted = [...fresh.childNodes], named = new Set(wanted.map((child) => child.id));
  for (const child of [...old.children]) { // what goes, goes first: what stays need not move, for moving takes the focus away
    if (child.id && !named.has(child.id)) child.remove();
  }
  wanted.forEach((child, place) => {
    const here = counterpart(old, child, place);
    if (here === null) {
      old.insertBefore(document.importNode(child, true), old.childNodes[place] ?? null);
    } else {
      if (old.childNodes[place] !== here) old.insertBefore(here, old.childNodes[place]);
      if (child.nodeType === Node.ELEMENT_NODE) become(here, child);
      else if (here.nodeValue !== child.nodeValue) here.nodeValue = child.nodeValue;
    }
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

// The counterpart of a node in the old page: the one with its id, or else one of its kind without an id in its place.
function counterpart(parent, node, place) {
  if (node.id) return [...parent.children].find((child) => child.id === node.id && child.localName === node.localName) ?? null;
  const here = parent.childNodes[place];
  return here && here.nodeName === node.nodeName && !here.id ? here : null;
}

function refresh(fresh) {
  answered = Date.now();
  if (fresh.documentElement.dataset.version !== document.documentElement.dataset.version) {
    location.reload(); // another agent may have another script
    return;
  }
  document.title = fresh.title;
  document.documentElement.dataset.level = fresh.documentElement.dataset.level;
  document.querySelector("link[rel=icon]").href = fresh.querySelector("link[rel=icon]").getAttribute("href");
  for (const part of ["#live time", "main", "footer"]) become(document.querySelector(part), fresh.querySelector(part));
  show();
  say("");
}

function missed(why) {
  const seconds = Math.round((Date.now() - answered) / 1000);
  const last = document.querySelector("#live time").textContent;
  say(`${why} This page shows the state of ${last}${seconds < 60 ? "" : `, ${Math.floor(seconds / 60)} min ago`}.`);
}

function say(trouble) {
  const silence = document.getElementById("silence");
  document.body.classList.toggle("silent", trouble !== "");
  document.getElementById("manner").textContent = trouble === "" ? "Live, read " : "Last read ";
  if (silence.textContent !== trouble) silence.textContent = trouble;
}

function ask() {
  const request = new XMLHttpRequest(); // parses without running anything, where the page's policy forbids markup made from text
  waiting = request;
  request.open("GET", location.pathname);
  request.responseType = "document";
  request.timeout = PATIENCE_MS;
  request.onload = () => {
    if (request.status === 200 && request.response?.querySelector("main")) refresh(request.response);
    else missed(`The agent answered ${request.status} instead of the page.`);
  };
  request.onerror = request.ontimeout = () => missed("The agent does not answer.");
  request.onloadend = () => {
    waiting = null;
    timer = document.hidden ? null : setTimeout(ask, EVERY_MS);
  };
  request.send();
}

// A hidden page polls nothing; one that becomes visible polls at once.
function look() {
  clearTimeout(timer);
  timer = null;
  if (!document.hidden && waiting === null) ask();
}

// Charts: one moment for all of them, so that devices can be compared; null is now.
const BLOCK_MS = 5000;
let chosen = null, pointed = false;

const now = () => Date.parse(document.querySelector("#live time").dateTime);

// What the agent packed: values without their unit, "3*2" is 3 twice, nothing is a gap.
function unpacked(text) {
  return text.split(",").flatMap((run) => {
    const [value, count] = run.split("*");
    return Array(Number(count ?? 1)).fill(value);
  });
}

function ago(ms) {
  const seconds = Math.round(ms / 1000), minutes = Math.floor(seconds / 60);
  return minutes ? `${minutes} min ${seconds % 60} s ago` : `${seconds} s ago`;
}

function show() {
  const back = chosen === null ? 0 : Math.round((now() - chosen) / BLOCK_MS);
  const when = chosen === null ? "" : `${new Date(chosen).toISOString().slice(11, 19)} UTC, ${ago(back * BLOCK_MS)}`;
  for (const cell of document.querySelectorAll(".cell")) {
    const spoken = [];
    for (const chart of cell.querySelectorAll(".past")) {
      const past = unpacked(chart.dataset.past), at = Math.max(past.length - 1 - back, 0);
      const value = past[at] ? `${past[at]} ${chart.dataset.unit}` : "no data";
      chart.querySelector(".cursor").setAttribute("d", chosen === null ? "" : `M${at} 0V20`);
      chart.parentElement.querySelector(".then").textContent = chosen === null ? "" : value;
      spoken.push(`${chart.previousElementSibling.textContent} ${value}`);
    }
    const scrub = cell.querySelector(".scrub");
    scrub.value = scrub.max - back;
    scrub.setAttribute("aria-valuetext", chosen === null ? "now" : `${when}: ${spoken.join(", ")}`);
  }
  const label = document.getElementById("when");
  if (label.textContent !== when) label.textContent = when;
}

function choose(back, byPointer) {
  chosen = back > 0 ? now() - back * BLOCK_MS : null;
  pointed = byPointer;
  show();
}

function point(event) {
  const chart = event.target.closest?.(".past");
  if (chart) {
    const box = chart.getBoundingClientRect(), last = unpacked(chart.dataset.past).length - 1;
    choose(Math.round(last * Math.min(Math.max((box.right - event.clientX) / box.width, 0), 1)), true);
  } else if (pointed) choose(0, false);
}

document.addEventListener("pointermove", point);
document.addEventListener("pointerdown", point);
document.addEventListener("input", ({ target }) => { if (target.matches(".scrub")) choose(target.max - target.value, false); });
document.addEventListener("focusout", ({ target }) => { if (target.matches(".scrub")) choose(0, false); });
document.addEventListener("keydown", ({ key }) => { if (key === "Escape") choose(0, false); });
document.documentElement.classList.add("scripted");

document.addEventListener("visibilitychange", look);
say("");
timer = setTimeout(look, EVERY_MS);
