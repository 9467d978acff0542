// The state of a link, in words and as a class of style.css: never by colour alone.

import { element, svgElement } from "./dom.js";
import { duration } from "./format.js";

const LATELY = 20; // gossip periods; this many messages in a row are hardly lost by chance

// period: seconds between two exchanges, from the status that contains the neighbour.
export function linkState(neighbour, period) {
  if (!neighbour) return "unknown";
  if (neighbour.left) return "left";
  if (neighbour.silent_for == null) return "never";
  return neighbour.silent_for > LATELY * period ? "silent" : "heard";
}

export function linkWords(neighbour, period) {
  const seconds = neighbour?.silent_for;
  return {
    unknown: "unknown",
    left: "left",
    never: "never heard",
    silent: `silent for ${duration(seconds)}`,
    heard: "heard lately",
  }[linkState(neighbour, period)];
}

const WORSE = ["heard", "unknown", "never", "silent", "left"];

// The state of an edge is the worse of its two ends.
export function worseState(one, other) {
  return WORSE[Math.max(WORSE.indexOf(one), WORSE.indexOf(other))];
}

const LEGEND = {
  heard: `heard in the last ${LATELY} gossip periods`,
  silent: "silent for longer",
  never: "never heard",
  left: "left",
};

export function showLegends() {
  for (const list of document.querySelectorAll("[data-legend=links]")) {
    for (const [state, words] of Object.entries(LEGEND)) {
      const line = svgElement("line", { x1: 0, y1: 6, x2: 34, y2: 6, class: `link ${state}` });
      const picture = svgElement("svg", { width: 34, height: 12, "aria-hidden": "true" }, line);
      list.append(element("li", {}, picture, ` ${words}`));
    }
    const unknown = element("span", { class: "disc unknown" }, "?");
    list.append(element("li", {}, unknown, "leading arm not known here"));
    list.append(element("li", {}, element("span", { class: "refusals" }, "✕3"), " messages refused"));
  }
}
