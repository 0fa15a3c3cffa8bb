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

document.addEventListener("visibilitychange", look);
say("");
timer = setTimeout(look, EVERY_MS);
