// Elements from names and texts. No text ever becomes markup: there is no way to here.

// What a reader cannot see and a browser obeys, as in collector/web/page/markup.py.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const SVG = "http://www.w3.org/2000/svg";

export const clean = (value) => String(value).toWellFormed().replace(UNSEEN, "\ufffd");
export const byId = (id) => document.getElementById(id);

// Children that are null, undefined or false are left out; so are such attributes. `true`: without a value.
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : clean(value));
  }
  made.append(...nodes(children));
  return made;
}

function nodes(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : clean(child)));
}

export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
}

// Details that stay as the reader left them when they are made again: `unfolded` has the keys of those that are open.
export function fold(key, unfolded, ...children) {
  const made = el("details", { open: unfolded.has(key) }, ...children);
  made.addEventListener("toggle", () => (made.open ? unfolded.add(key) : unfolded.delete(key)));
  return made;
}

export function say(element, text) {
  const cleaned = clean(text);
  if (element.textContent !== cleaned) element.textContent = cleaned;
}

// The shape of a level; the words beside it say the same.
export function icon(level) {
  const svg = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#shape-${level}`);
  svg.append(use);
  return svg;
}

export const word = (level) => byId(`shape-${level}`).dataset.word;
export const shape = (level) => byId(`shape-${level}`).firstElementChild.getAttribute("d");

export const state = (level, text = word(level)) =>
  el("span", { class: "state", "data-level": level }, icon(level), text);

// Children of a list by key: only those whose row has changed are made again, and the focus stays in its place.
export function keyed(list, rows, key, make) {
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const place = focused(list);
  rows.forEach((row, index) => {
    const name = clean(key(row)), known = JSON.stringify(row), before = old.get(name);
    old.delete(name);
    let item = before;
    if (!before || before.known !== known) {
      item = make(row);
      item.dataset.key = name;
      item.known = known;
      before?.replaceWith(item);
    }
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
  });
  for (const gone of old.values()) gone.remove();
  refocus(list, place);
}

const FOCUSABLE = "a[href], button, summary, [tabindex]";

function focused(list) {
  const item = [...list.children].find((child) => child.contains(document.activeElement));
  return item && { key: item.dataset.key, at: [...item.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement) };
}

function refocus(list, place) {
  if (!place || list.contains(document.activeElement)) return;
  const item = [...list.children].find((child) => child.dataset.key === place.key);
  item?.querySelectorAll(FOCUSABLE)[place.at]?.focus();
}
