// The dashboard of a live agent or of a federation, depending on the events of /v1/events.

import { AgentView } from "./agent.js";
import { byId, setText } from "./dom.js";
import { FederationView } from "./federation.js";
import { clock, duration } from "./format.js";
import { AgentHistory } from "./history.js";
import { showLegends } from "./links.js";
import { connect } from "./stream.js";
import { FRAGMENT, forgetToken, keepToken, takeToken } from "./token.js";

const histories = new Map(); // AgentHistory by name
const lastSeen = new Map(); // of a federation's agents: { status, time }
const agentView = new AgentView();
const federationView = new FederationView(choose);

let stream = null;
let latest = null; // the newest event
let chosen = null; // { name, opener }, in a federation
let cutOff = null; // { since, next }, in seconds since 1970
let heardAt = null;
let connectedSince = null;

// A clock that never jumps back, because curves need ordered times.
const now = () => (performance.timeOrigin + performance.now()) / 1000;

const isFederation = (event) => event !== null && typeof event.agents === "object";

// An agent of another version may send events that this page cannot show; the connection is fine.
function receive(event) {
  try {
    take(event);
    showConnection("connected", `Connected since ${clock(connectedSince ??= heardAt)}`);
  } catch (error) {
    reportError(error);
    const why = `This page cannot show the events of the agent (${error.message}).`;
    showConnection("broken", `${why} Reload the page.`);
  }
}

function take(event) {
  latest = event;
  heardAt = now();
  cutOff = null;
  const statuses = isFederation(event) ? Object.values(event.agents).filter(Boolean) : [event];
  for (const status of statuses) {
    if (!histories.has(status.name)) histories.set(status.name, new AgentHistory());
    histories.get(status.name).add(status, heardAt);
    lastSeen.set(status.name, { status, time: heardAt });
  }
  if (isFederation(event)) federationView.add(event, heardAt);
  render();
}

function render() {
  if (!latest || document.hidden) return;
  if (isFederation(latest)) renderFederation();
  else agentView.show(latest, histories.get(latest.name));
  showTitle();
}

function renderFederation() {
  federationView.show(latest, histories, chosen?.name ?? null);
  if (!chosen) return agentView.hide();
  const seen = lastSeen.get(chosen.name);
  const leading = new Map(
    Object.entries(latest.agents).filter(([, status]) => status)
      .map(([name, status]) => [name, status.recommended]));
  const reached = latest.agents[chosen.name];
  const notice = reached ? "" : `Not reached since ${clock(seen.time)}. The numbers are older.`;
  agentView.show(seen.status, histories.get(chosen.name), leading, notice);
}

// Show an agent of the federation; `opener` gets the focus back afterwards.
function choose(name, opener) {
  if (!lastSeen.has(name)) return; // the agent was never reached
  chosen = { name, opener };
  byId("agent-close").hidden = false;
  render();
  byId("agent-name").focus();
}

byId("agent-close").addEventListener("click", () => {
  const { opener } = chosen;
  chosen = null;
  render();
  opener.focus();
});

function showConnection(state, words) {
  byId("connection").dataset.state = state;
  setText(byId("connection-text"), words);
  byId("retry").hidden = state !== "lost";
  showAge();
}

// Outside the live region, so that screen readers do not announce every second.
function showAge() {
  const wait = cutOff ? Math.ceil(cutOff.next - now()) : 0;
  const again = wait > 0 ? `next attempt in ${duration(wait)}` : "trying";
  setText(byId("connection-age"), cutOff ? `${duration(now() - cutOff.since)} ago; ${again}` : "");
}

function showTitle() {
  const what = !latest ? "fedbandits" : isFederation(latest) ? "federation" : latest.name;
  document.title = cutOff ? `Cut off: ${what}` : `${what} · fedbandits`;
}

function lost(why, pause) {
  const since = cutOff?.since ?? heardAt ?? now();
  cutOff = { since, next: now() + pause / 1000 };
  connectedSince = null;
  showConnection("lost", `Cut off since ${clock(since)}: ${why}`);
  showTitle();
}

function start(token) {
  stream?.stop();
  byId("token-form").hidden = true;
  stream = connect(token, {
    receive,
    lost,
    trying: () => cutOff || showConnection("waiting", "Connecting"),
    refused: () => {
      forgetToken();
      cutOff = null;
      askForToken("The agent refused this token.");
    },
  });
}

function askForToken(why) {
  showConnection("waiting", "Not connected");
  byId("token-form").hidden = false;
  setText(byId("token-why"), why);
  byId("token").value = "";
  byId("token").focus();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  start(keepToken(byId("token").value));
});

function begin() {
  const token = takeToken();
  if (token) start(token);
  else askForToken("This agent requires its token.");
}

byId("retry").addEventListener("click", () => stream.retry());
addEventListener("online", () => stream?.retry());
addEventListener("hashchange", () => location.hash.startsWith(FRAGMENT) && begin());
document.addEventListener("visibilitychange", render);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
setInterval(showAge, 1000);
showLegends();
begin();
