// The view of one agent: its facts, its distribution over arms and its neighbours.

import { armColour } from "./colours.js";
import { Chart } from "./chart.js";
import { byId, contentWidth, element, keyed, setText, showCells, showFacts, tableRow } from "./dom.js";
import * as format from "./format.js";
import { drawGraph } from "./graph.js";
import { HeatMap } from "./heatmap.js";
import { around } from "./layout.js";
import { linkState, linkWords } from "./links.js";

const WARN = 30 * 86400; // seconds before a certificate expires
const MOST_NAMED = { wide: 16, narrow: 6 }; // neighbours with names in the picture

export class AgentView {
  constructor() {
    this.heat = new HeatMap(byId("heat"), byId("heat-readout"), byId("heat-most"));
    this.disagreement = new Chart(byId("disagreement"), "Disagreement");
    this.rate = new Chart(byId("rate"), "Choices per second");
    new ResizeObserver(() => this.status && this.drawNeighbourhood()).observe(
      byId("neighbourhood").parentElement);
  }

  // leading: the leading arms of other agents by name, if known.
  // notice: a warning about this agent, or "".
  show(status, history, leading = new Map(), notice = "") {
    Object.assign(this, { status, history, leading });
    byId("agent").hidden = false;
    this.showFacts(notice);
    this.showArms();
    showLosses(status);
    this.showNeighbours();
    this.redraw();
  }

  redraw() {
    if (!this.status) return;
    const { status, history } = this;
    this.heat.show(history, status.arms, status.recommended);
    this.disagreement.show(history.window, history.times, history.disagreement);
    this.rate.show(history.window, history.times, history.rate);
    this.drawNeighbourhood();
  }

  hide() {
    this.status = null;
    byId("agent").hidden = true;
  }

  showFacts(notice) {
    const { status, history } = this;
    setText(byId("agent-name"), status.name);
    setText(byId("agent-kind"), [
      status.algorithm, `fedbandits ${status.version}`, `one of ${format.plural(status.agents, "agent")}`,
      `up for ${format.duration(status.uptime)}`,
    ].join(" · "));
    byId("agent-notice").hidden = !notice;
    setText(byId("agent-notice"), notice);
    showCertificate(byId("certificate"), status);
    setText(byId("recommended"), status.recommended);
    const likeliest = status.probabilities[status.arms.indexOf(status.recommended)];
    const plays = status.baseline ? `; an apprentice, it plays ${status.baseline} each time` : "";
    setText(byId("recommended-probability"), `with probability ${format.probability(likeliest)}${plays}`);
    showFacts(byId("agent-facts"), {
      Choices: format.count(status.rounds),
      "Choices per second": format.measure(history.rate.at(-1)),
      Observed: format.count(status.observed),
      Expired: format.count(status.expired),
      "Open tickets": format.count(status.open_tickets),
      Disagreement: format.measure(status.disagreement),
      "Privacy of losses": status.epsilon == null ? "no guarantee"
        : `ε = ${status.epsilon} per round for the losses of this agent (event level), even if all `
          + "others collude; arms are public",
    });
  }

  showArms() {
    const { status, history } = this;
    const before = history.distributions[history.at(history.times.at(-1) - 60)];
    const rows = keyed(byId("arms"), status.arms, () => tableRow(["number", "", "number", "number"]));
    status.arms.forEach((arm, i) => {
      showCells(rows.get(arm), [
        String(i + 1), arm, format.probability(status.probabilities[i]), format.probability(before?.[i]),
      ]);
    });
  }

  showNeighbours() {
    const { neighbours: all, gossip_period: period } = this.status;
    const neighbours = Object.entries(all);
    const names = neighbours.map(([name]) => name);
    const rows = keyed(byId("neighbours"), names, () => tableRow(["", "", "number", "number", ""]));
    for (const [name, neighbour] of neighbours) {
      rows.get(name).dataset.state = linkState(neighbour, period);
      showCells(rows.get(name), [
        name,
        heard(neighbour, period),
        format.measure(neighbour.disagreement),
        format.measure(neighbour.weight),
        refusals(neighbour),
      ]);
    }
  }

  drawNeighbourhood() {
    const { status, leading } = this;
    const svg = byId("neighbourhood");
    const width = contentWidth(svg.parentElement);
    if (width <= 0) return;
    const neighbours = Object.entries(status.neighbours);
    const period = status.gossip_period;
    const height = Math.max(260, Math.min(400, Math.round(width * 0.75)));
    const named = neighbours.length <= (width < 480 ? MOST_NAMED.narrow : MOST_NAMED.wide);
    const points = around(neighbours.length, width, height, named ? [54, 32] : [16, 16]);
    const radius = neighbours.length > 36 ? 9 : 15;
    const nodes = [[status.name, null], ...neighbours].map(([name, neighbour], i) => {
      const arm = i ? leading.get(name) : status.recommended;
      const words = neighbour ? `${name}: ${linkWords(neighbour, period)}` : name;
      return {
        key: `${i ? "n" : "a"} ${name}`,
        x: points[i][0],
        y: points[i][1],
        radius: i ? radius : 20,
        mark: arm ? String(status.arms.indexOf(arm) + 1) : "?",
        kind: `${arm ? `colour-${armColour(arm, status.arms)}` : "unknown"} ${i ? linkState(neighbour, period) : ""}`,
        name: named && i ? format.shorten(name, width < 480 ? 10 : 14) : "",
        words: arm ? `${words}, leading arm ${arm}` : words,
      };
    });
    const links = neighbours.map(([name, neighbour], i) => ({
      key: name,
      from: 0,
      to: i + 1,
      state: linkState(neighbour, period),
      words: shortWords(neighbour, period, named),
      wordsAt: named ? 0.55 : 0.8, // with many neighbours, words are near the neighbour
    }));
    drawGraph(svg, { width, height, nodes, links });
  }
}

function heard(neighbour, period) {
  const state = linkState(neighbour, period);
  if (state === "heard") return `${format.duration(neighbour.silent_for)} ago`;
  return linkWords(neighbour, period);
}

function refusals({ refused, last_refusal: why, no_link: missing }) {
  const said = refused ? [`${format.count(refused)}: ${why}`] : [];
  if (missing) said.push(`no link: ${missing}`);
  return said.join("; ") || "none";
}

// The words on a link.
function shortWords(neighbour, period, room) {
  const said = [];
  const state = linkState(neighbour, period);
  if (room && state === "silent") said.push(format.duration(neighbour.silent_for, 1));
  if (room && (state === "left" || state === "never")) said.push(state);
  if (neighbour.refused) said.push(`✕${format.count(neighbour.refused)}`);
  return said.join(" ");
}

// Mean losses, or rewards if the application reports these, by arm and window.
function showLosses({ losses, arms, time, baseline }) {
  byId("losses").hidden = !losses;
  if (!losses) return;
  const { low, high, rewards, noise } = losses;
  const windows = Object.entries(losses.windows);
  setText(byId("losses-title"), rewards ? "Mean reward" : "Mean loss");
  const notes = [noise === null ? "In brackets: number of observations."
    : "Estimated from noisy bits: ± is a standard error, and an estimate may be outside the range."];
  notes.push("Each column also covers the previous hour, day or week (UTC).");
  if (baseline) notes.push(`This apprentice plays ${baseline} each time.`);
  setText(byId("losses-note"), notes.join(" "));
  const titles = ["Arm", ...windows.map(([name]) => name[0].toUpperCase() + name.slice(1))];
  const heads = keyed(byId("losses-windows"), titles, (title) =>
    element("th", { scope: "col", class: title === "Arm" ? "" : "number" }, title,
      element("div", { class: "muted" })));
  windows.forEach(([, window], i) =>
    setText(heads.get(titles[i + 1]).lastChild, `since ${format.moment(window.since, time)}`));
  const mean = (loss, observed) => {
    if (loss == null) return format.NOTHING;
    const value = format.measure(rewards ? low + high - loss : loss);
    if (noise === null) return `${value} (${format.count(observed)})`;
    return `${value} ± ${format.measure(noise / Math.sqrt(observed))}`;
  };
  const all = windows.map(([, window]) => window);
  const shown = { played: ["Played", ...all.map((one) => mean(one.loss, one.observed))] };
  arms.forEach((arm, i) => {
    shown[`a ${arm}`] = [arm, ...all.map((one) => mean(one.arm_loss[i], one.arm_observed[i]))];
  });
  const rows = keyed(byId("losses-rows"), Object.keys(shown), () => tableRow(["", ...all.map(() => "number")]));
  for (const [key, cells] of Object.entries(shown)) showCells(rows.get(key), cells);
}

// The agent's certificate or the authority's, whichever expires first.
function showCertificate(line, { certificate_expires: own, authority_expires: authority, time }) {
  line.hidden = own == null;
  if (own == null) return;
  const expires = Math.min(own, authority ?? own);
  const name = expires < own ? "authority's certificate" : "certificate";
  const left = expires - time;
  line.className = left < WARN ? "notice" : "muted";
  const until = `on ${format.day(expires)}, in ${format.duration(left)}`;
  if (left <= 0) setText(line, `Warning: the ${name} expired on ${format.day(expires)}. Renew it.`);
  else if (left < WARN) setText(line, `Warning: the ${name} expires ${until}. Renew it.`);
  else setText(line, `The ${name} expires ${until}.`);
}
