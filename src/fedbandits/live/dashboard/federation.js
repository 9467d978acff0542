// The view of a federation: its agents, their links, leading arms and disagreement.

import { armColour } from "./colours.js";
import { Chart } from "./chart.js";
import {
  byId, contentWidth, element, keyed, makeRoving, setAttributes, setText, showCells, showFacts,
  tableRow,
} from "./dom.js";
import * as format from "./format.js";
import { drawGraph } from "./graph.js";
import { Track } from "./history.js";
import { fit, place } from "./layout.js";
import { linkState, worseState } from "./links.js";

const MOST_NAMED = { wide: 40, narrow: 12 }; // agents with names in the picture

export class FederationView {
  // choose(name): function that shows an agent.
  constructor(choose) {
    this.choose = choose;
    this.track = new Track("largest");
    this.disagreement = new Chart(byId("federation-disagreement"), "Largest disagreement");
    const graph = byId("federation-graph");
    // An SVG element that listens for focus would be a Tab stop itself, so its parent listens.
    this.roveGraph = makeRoving(graph.parentElement, ".node");
    this.roveTable = makeRoving(byId("agents"), "button");
    const pick = (event) => {
      const node = event.target.closest(".node");
      if (node) choose(node.dataset.key, node);
    };
    graph.addEventListener("click", pick);
    graph.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      pick(event);
    });
    new ResizeObserver(() => this.agents && this.drawMap()).observe(graph.parentElement);
  }

  // histories: History by the agent's name. chosen: the name of the agent that is shown, or null.
  show({ agents, edges }, histories, chosen) {
    this.agents = new Map(Object.entries(agents));
    this.edges = edges;
    this.histories = histories;
    this.chosen = chosen;
    byId("federation").hidden = false;
    this.showFacts();
    this.showArms();
    this.showAgents();
    this.redraw();
  }

  redraw() {
    if (!this.agents) return;
    this.drawMap();
    this.disagreement.show(this.track.window, this.track.times, this.track.largest);
  }

  // Store the disagreement of an event, also while the view is hidden.
  add({ agents }, time) {
    const all = Object.values(agents).filter(Boolean).map(({ disagreement }) => disagreement);
    this.track.push(time, all.length ? Math.max(...all) : null);
  }

  get present() {
    return [...this.agents.values()].filter(Boolean);
  }

  // Number of agents by leading arm, most first.
  get leaders() {
    const counts = new Map();
    for (const { recommended } of this.present) counts.set(recommended, (counts.get(recommended) ?? 0) + 1);
    return [...counts].sort(([, a], [, b]) => b - a);
  }

  showFacts() {
    const { present } = this;
    const [first] = this.leaders;
    const all = this.agents.size;
    setText(byId("federation-leads"), first
      ? `${first[0]} leads at ${first[1] === all ? `all ${all}` : `${first[1]} of ${all}`} agents`
      : "No agent can be reached");
    const farthest = present.reduce((a, b) => (b.disagreement > (a?.disagreement ?? -1) ? b : a), null);
    const sum = (name) => present.reduce((total, status) => total + status[name], 0);
    const rates = present.map(({ name }) => this.histories.get(name)?.rate.at(-1) ?? 0);
    showFacts(byId("federation-facts"), {
      "Agents reached": `${present.length} of ${all}`,
      "Largest disagreement": farthest
        ? `${format.measure(farthest.disagreement)} (${farthest.name})` : format.NOTHING,
      Choices: format.count(sum("rounds")),
      "Choices per second": format.measure(rates.reduce((total, rate) => total + rate, 0)),
      "Open tickets": format.count(sum("open_tickets")),
      "Silent links": format.count(this.edges.filter(([a, b]) => this.edgeState(a, b) !== "heard").length),
    });
  }

  showArms() {
    const arms = this.present[0]?.arms ?? [];
    const leaders = this.leaders;
    const items = keyed(byId("federation-arms"), leaders.map(([arm]) => arm), () =>
      element("li", {}, element("span", { class: "disc" }), element("span")));
    for (const [arm, agents] of leaders) {
      const [disc, words] = items.get(arm).children;
      setAttributes(disc, { class: `disc colour-${armColour(arm, arms)}` });
      setText(disc, String(arms.indexOf(arm) + 1));
      setText(words, `${arm}: ${format.plural(agents, "agent")}`);
    }
  }

  showAgents() {
    const rows = keyed(byId("agents"), this.agents.keys(), (name) => {
      const row = tableRow(["", "", "number", "number", "number", "number", ""]);
      const button = element("button", { type: "button", class: "plain", tabindex: "-1" }, name);
      button.addEventListener("click", () => this.choose(name, button));
      row.firstChild.append(button);
      return row;
    });
    for (const [name, status] of this.agents) {
      const row = rows.get(name);
      setAttributes(row.querySelector("button"), { "aria-pressed": name === this.chosen });
      const likeliest = status?.probabilities[status.arms.indexOf(status.recommended)];
      showCells(row, [
        null,
        status ? `${status.arms.indexOf(status.recommended) + 1} ${status.recommended}` : "not reached",
        format.probability(likeliest),
        format.measure(status?.disagreement),
        format.count(status?.rounds),
        format.count(status?.open_tickets),
        status ? linksInWords(status) : format.NOTHING,
      ]);
    }
    this.roveTable();
  }

  edgeState(a, b) {
    const seen = (from, to) => {
      const status = this.agents.get(from);
      return linkState(status?.neighbours[to], status?.gossip_period);
    };
    return worseState(seen(a, b), seen(b, a));
  }

  drawMap() {
    const svg = byId("federation-graph");
    const width = contentWidth(svg.parentElement);
    if (width <= 0) return;
    const names = [...this.agents.keys()];
    const named = names.length <= (width < 480 ? MOST_NAMED.narrow : MOST_NAMED.wide);
    const { points, height, radius } = this.layOut(names, width, named ? 34 : 22);
    const nodes = names.map((name, i) => {
      const status = this.agents.get(name);
      const arm = status?.recommended;
      const colour = arm === undefined ? "unknown left" : `colour-${armColour(arm, status.arms)}`;
      return {
        key: name,
        x: points[i][0],
        y: points[i][1],
        radius,
        mark: arm === undefined ? "?" : String(status.arms.indexOf(arm) + 1),
        kind: `${colour} ${name === this.chosen ? "chosen" : ""}`,
        name: named ? format.shorten(name, 14) : "",
        words: arm === undefined ? `${name}: not reached` : `${name}: leading arm ${arm}`,
        pressed: name === this.chosen,
      };
    });
    const number = new Map(names.map((name, i) => [name, i]));
    const links = this.edges.map(([a, b]) => ({
      key: JSON.stringify([a, b]), from: number.get(a), to: number.get(b), state: this.edgeState(a, b),
      words: refusals(this.agents.get(a)?.neighbours[b], this.agents.get(b)?.neighbours[a]),
    }));
    drawGraph(svg, { width, height, nodes, links });
    this.roveGraph();
  }

  // Recomputed only when the graph or the width changes.
  layOut(names, width, margin) {
    const graph = JSON.stringify([names, this.edges]);
    if (graph !== this.laidOut?.graph) {
      const number = new Map(names.map((name, i) => [name, i]));
      const edges = this.edges.map(([a, b]) => [number.get(a), number.get(b)]);
      this.laidOut = { graph, shape: place(names.length, edges) };
    }
    if (this.laidOut.width !== width) {
      const height = Math.round(Math.max(300, Math.min(620, width * (width < 480 ? 1.3 : 0.6))));
      const { points, apart } = fit(this.laidOut.shape, width, height, margin);
      Object.assign(this.laidOut, { width, height, points, radius: Math.min(18, apart * 0.38) });
    }
    return this.laidOut;
  }
}

function linksInWords({ neighbours, gossip_period: period }) {
  const all = Object.values(neighbours);
  const heard = all.filter((one) => linkState(one, period) === "heard").length;
  const refused = all.reduce((sum, one) => sum + one.refused, 0);
  return `${heard} of ${all.length} heard${refused ? `, ${format.count(refused)} refused` : ""}`;
}

function refusals(...ends) {
  const refused = ends.reduce((sum, end) => sum + (end?.refused ?? 0), 0);
  return refused ? `✕${format.count(refused)}` : "";
}
