"""Metrics of one agent and its service, for Prometheus, in their own registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedbandits.live.agent.agent import Agent
from fedbandits.live.agent.group_commit import StoppedError
from fedbandits.live.protocol.messages import REASONS

if TYPE_CHECKING:
    from prometheus_client import Metric

    from .events import EventStream

PATHS = frozenset(
    [
        "/v1/choose",
        "/v1/observe",
        "/v1/status",
        "/v1/events",
        "/healthz",
        "/metrics",
        "/openapi.json",
    ]
)
"""Paths with their own labels. All others share the label `other`, so that labels stay bounded."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Buckets of request times."""


class Metrics:
    """The metrics under /metrics.

    Args:
        agent: the agent to report.
        baseline: the arm that an apprentice plays.
    """

    def __init__(self, agent: Agent, baseline: str | None = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.agent = agent
        self.baseline = baseline
        self.events: EventStream | None = None
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(self))
        self._seconds = Histogram(
            "fedbandits_http_request_seconds",
            "Time of requests, except event streams.",
            ["path"],
            registry=self._registry,
            buckets=SECONDS,
        )
        self._answers = Counter(
            "fedbandits_http_answers",
            "Requests by status; 0 if the client went away first.",
            ["path", "status"],
            registry=self._registry,
        )
        self._connections = Counter(
            "fedbandits_http_connections_cut",
            "Connections that the service closed, by reason.",
            ["reason"],
            registry=self._registry,
        )
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        path = path if path in PATHS else "other"
        children = self._children.get((path, status))
        if children is None:
            children = (self._seconds.labels(path), self._answers.labels(path, str(status)))
            self._children[path, status] = children
        if path != "/v1/events":
            children[0].observe(seconds)
        children[1].inc()

    def cut(self, reason: str) -> None:
        """Count a connection that the service closed."""
        self._connections.labels(reason).inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)


class _Collector:
    """Metrics of the agent, read at each request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        """Return nothing: the agent may not run yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; only whether the agent runs, if it does not."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def metric(kind: Any, name: str, help: str, value: float) -> Metric:
            family: Metric = kind(f"fedbandits_{name}", help, value=value)
            return family

        def by(kind: Any, name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
            family: Metric = kind(f"fedbandits_{name}", help, labels=[label])
            for key, value in values.items():
                family.add_metric([key], value)  # type: ignore[attr-defined]
            return family

        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        agent, baseline, events = self._metrics.agent, self._metrics.baseline, self._metrics.events
        if events is not None:
            yield metric(gauge, "listeners", "Current listeners to events.", events.listening)
            text = "Listeners that were dropped because they did not read."
            yield metric(counter, "listeners_dropped", text, events.dropped)
        try:
            status = agent.status()
        except StoppedError:
            status = None
        yield metric(gauge, "up", "Whether the agent runs and its store works.", status is not None)
        if status is None:
            return
        yield metric(counter, "choices", "Choices made.", status.rounds)
        yield metric(counter, "observations", "Choices observed.", status.observed)
        yield metric(counter, "expired", "Tickets that expired.", status.expired)
        text = "Choices that wait for an observation."
        yield metric(gauge, "open_tickets", text, status.open_tickets)
        text = "Largest difference between the agent's estimates and a neighbour's last ones."
        yield metric(gauge, "disagreement", text, status.disagreement)
        yield metric(gauge, "uptime_seconds", "Seconds since the start.", status.uptime)
        if agent.expiries is not None:
            text = "Expiry of the member's and the authority's certificate, in seconds since 1970."
            ends = agent.expiries._asdict()
            yield by(gauge, "certificate_expires_seconds", text, "certificate", ends)
        if status.epsilon is not None:
            text = (
                "ε per round for the losses of this agent (event level), even if all others "
                "collude; arms are public. Absent for no guarantee."
            )
            yield metric(gauge, "privacy_epsilon", text, status.epsilon)
        yield from _losses(agent)
        shares = dict(zip(status.arms, status.probabilities, strict=True))
        yield by(gauge, "probability", "Distribution of the next choice.", "arm", shares)
        silent = {
            name: each.silent_for
            for name, each in status.neighbours.items()
            if each.silent_for is not None
        }
        text = "Seconds since a neighbour's last message; absent before the first."
        yield by(gauge, "neighbour_silent_seconds", text, "neighbour", silent)
        refused = CounterMetricFamily(
            "fedbandits_messages_refused",
            "Rejected messages of a neighbour, by reason.",
            labels=["neighbour", "reason"],
        )
        for name, each in status.neighbours.items():
            for reason in REASONS:
                refused.add_metric([name, reason], each.reasons.get(reason, 0))
        yield refused
        if baseline is not None:
            text = "Choices of the baseline, by the arm that the agent drew."
            yield by(counter, "apprentice_choices", text, "would", agent.would)
            text = "Choices in which the agent drew the baseline itself."
            yield metric(counter, "apprentice_agreed", text, agent.would[baseline])
        counts = getattr(agent.transport, "counts", None)
        if counts is not None:
            yield by(counter, "transport", "Events of the transport.", "what", counts)


def _losses(agent: Agent) -> Iterator[Metric]:
    """Yield sums of losses in [0, 1], or of noisy bits, since the journal began."""
    from prometheus_client.core import GaugeMetricFamily, SummaryMetricFamily

    what, words = "loss", "Losses in [0, 1]"
    if agent.epsilon is not None:
        what, words = "noisy_bit", "Noisy bits instead of losses"
    counts, totals = agent._running().losses.total.tolist()
    yield SummaryMetricFamily(
        f"fedbandits_played_{what}", f"{words} of the arms played.", counts[0], totals[0]
    )
    by_arm = SummaryMetricFamily(
        f"fedbandits_arm_{what}", f"{words} of each arm, where they are observed.", labels=["arm"]
    )
    for arm, count, total in zip(agent.part.arms, counts[1:], totals[1:], strict=True):
        by_arm.add_metric([arm], count, total)
    yield by_arm
    loss_range = GaugeMetricFamily(
        "fedbandits_loss_range",
        "Smallest and largest possible loss or reward.",
        labels=["end"],
    )
    for end, value in agent._range._asdict().items():
        loss_range.add_metric([end], value)
    yield loss_range
