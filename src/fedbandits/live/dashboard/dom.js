// Helpers for the document. Names are untrusted, so text is never inserted as markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svgElement(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Leave unchanged text alone, so that live regions announce only changes.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

const childrenByKey = new WeakMap();

// Give `parent` one child per key, in this order. A child stays the same element while its key
// exists, so that focus and scroll positions survive an update.
export function keyed(parent, keys, make) {
  const before = childrenByKey.get(parent) ?? new Map();
  const now = new Map();
  for (const key of keys) now.set(key, before.get(key) ?? make(key));
  for (const [key, child] of before) if (!now.has(key)) child.remove();
  let place = parent.firstChild;
  for (const child of now.values()) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  childrenByKey.set(parent, now);
  return now;
}

// Show facts as a list of <dt> and <dd>.
export function showFacts(list, facts) {
  const made = keyed(list, Object.keys(facts), (label) =>
    element("div", {}, element("dt", {}, label), element("dd")));
  for (const [label, child] of made) setText(child.lastChild, facts[label]);
}

// Set the texts of a row's cells; null leaves a cell unchanged.
export function showCells(row, texts) {
  texts.forEach((text, i) => text === null || setText(row.children[i], text));
}

// A row whose first cell is its header; `kinds` are the classes of the cells.
export function tableRow(kinds) {
  const cells = kinds.map((kind, i) =>
    element(i ? "td" : "th", i ? { class: kind } : { class: kind, scope: "row" }));
  return element("tr", {}, ...cells);
}

const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };

// One Tab stop for many elements; arrow keys, Home and End move among them.
export function makeRoving(container, selector) {
  const all = () => [...container.querySelectorAll(selector)];
  const stopAt = (chosen) => {
    for (const one of all()) setAttributes(one, { tabindex: one === chosen ? 0 : -1 });
  };
  container.addEventListener("focusin", (event) => {
    const chosen = event.target.closest(selector);
    if (chosen) stopAt(chosen);
  });
  container.addEventListener("keydown", (event) => {
    const here = event.target.closest(selector);
    if (!here) return;
    const others = all();
    const last = others.length - 1;
    const at = others.indexOf(here);
    const to = { Home: 0, End: last }[event.key] ?? at + (STEPS[event.key] ?? NaN);
    if (Number.isNaN(to)) return;
    event.preventDefault();
    others[Math.min(last, Math.max(0, to))].focus();
  });
  // Call this function after the elements change.
  return () => {
    const others = all();
    if (!others.some((one) => one.getAttribute("tabindex") === "0")) stopAt(others[0]);
  };
}

export function colourOf(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

// The width inside a node's padding, in px; 0 while it is hidden.
export function contentWidth(node) {
  const style = getComputedStyle(node);
  return Math.floor(node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}
