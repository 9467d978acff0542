// Nodes and links in an SVG element, changed in place so that focus stays.

import { keyed, setAttributes, setText, svgElement } from "./dom.js";

function makeNode(key) {
  return svgElement("g", { "data-key": key },
    svgElement("title"), svgElement("circle"),
    svgElement("text", { class: "mark" }), svgElement("text", { class: "name" }));
}

function makeLink() {
  return svgElement("g", {}, svgElement("line"), svgElement("text", { class: "words" }));
}

// nodes: [{ key, x, y, radius, kind, mark, name, words, pressed }], `pressed` only for buttons;
// links: [{ key, from, to, state, words, wordsAt }], with the indices of both ends; `wordsAt` is the
// position of the words between the ends, in [0, 1].
export function drawGraph(svg, { width, height, nodes, links }) {
  setAttributes(svg, { width, height, viewBox: `0 0 ${width} ${height}` });
  const layers = keyed(svg, ["links", "nodes"], () => svgElement("g"));
  const lines = keyed(layers.get("links"), links.map(({ key }) => key), makeLink);
  for (const { key, from, to, ...looks } of links) {
    drawLink(lines.get(key), nodes[from], nodes[to], looks);
  }
  const circles = keyed(layers.get("nodes"), nodes.map(({ key }) => key), makeNode);
  for (const node of nodes) drawNode(circles.get(node.key), node);
}

function drawLink(group, from, to, { state, words, wordsAt = 0.5 }) {
  const [line, text] = group.children;
  setAttributes(line, { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: `link ${state}` });
  const along = (a, b) => a + (b - a) * wordsAt;
  setAttributes(text, { x: along(from.x, to.x), y: along(from.y, to.y) + 4 });
  setText(text, words ?? "");
}

function drawNode(group, { x, y, radius, kind, mark, name, words, pressed }) {
  const [title, circle, marking, label] = group.children;
  setAttributes(group, { class: `node ${kind}`, transform: `translate(${x} ${y})` });
  if (pressed !== undefined) {
    setAttributes(group, { role: "button", "aria-label": words, "aria-pressed": pressed });
  }
  setText(title, words);
  setAttributes(circle, { r: radius });
  setAttributes(marking, { "font-size": Math.max(9, Math.min(14, radius * 0.95)), y: "0.35em" });
  setText(marking, mark);
  setAttributes(label, { y: radius + 13 });
  setText(label, name);
}
