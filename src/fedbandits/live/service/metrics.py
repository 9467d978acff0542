"""The agent and its service in numbers, for Prometheus: in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedbandits.live.agent.agent import Agent
from fedbandits.live.agent.group_commit import StoppedError
from fedbandits.live.protocol.messages import REASONS

if TYPE_CHECKING:
    from prometheus_client import Metric

    from .events import Events

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
"""That are counted by name; all others as `other`, since strangers make up as many as they like."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Between which latencies are counted."""


class Metrics:
    """What /metrics tells.

    Args:
        agent: whose numbers.
        baseline: the arm that an apprentice plays.
    """

    def __init__(self, agent: Agent, baseline: str | None = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.agent = agent
        self.baseline = baseline
        self.events: Events | None = None
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(self))
        self._seconds = Histogram(
            "fedbandits_http_request_seconds",
            "How long requests took, events left out.",
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
            "Connections that were ended, by reason: malformed, slow, too many, or no handshake.",
            ["reason"],
            registry=self._registry,
        )
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count one."""
        path = path if path in PATHS else "other"
        children = self._children.get((path, status))
        if children is None:
            children = (self._seconds.labels(path), self._answers.labels(path, str(status)))
            self._children[path, status] = children
        if path != "/v1/events":
            children[0].observe(seconds)
        children[1].inc()

    def cut(self, reason: str) -> None:
        """Count a connection that was ended."""
        self._connections.labels(reason).inc()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)


class _Collector:
    """The agent's own numbers, read when they are asked for."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        """Nothing beforehand: the agent may not run yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One moment of the agent; whether it runs, if it does not."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def gauge(name: str, help: str, value: float) -> Metric:
            return GaugeMetricFamily(f"fedbandits_{name}", help, value=value)

        def counter(name: str, help: str, value: float) -> Metric:
            return CounterMetricFamily(f"fedbandits_{name}", help, value=value)

        def by(kind: Any, name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
            family: Metric = kind(f"fedbandits_{name}", help, labels=[label])
            for key, value in values.items():
                family.add_metric([key], value)  # type: ignore[attr-defined]
            return family

        metrics = self._metrics
        agent = metrics.agent
        if metrics.events is not None:
            yield gauge("listeners", "Who listens to events now.", metrics.events.listening)
            yield counter(
                "listeners_dropped", "Listeners that did not keep up.", metrics.events.dropped
            )
        try:
            status = agent.status()
        except StoppedError:
            yield gauge("up", "Whether the agent runs and its store works.", 0)
            return
        yield gauge("up", "Whether the agent runs and its store works.", 1)
        yield counter("choices", "Choices made.", status.rounds)
        yield counter("observations", "Choices observed.", status.observed)
        yield counter("expired", "Tickets that expired.", status.expired)
        yield gauge("open_tickets", "Choices that wait for their loss.", status.open_tickets)
        yield gauge(
            "disagreement",
            "The largest difference to what a neighbour last sent.",
            status.disagreement,
        )
        yield gauge("uptime_seconds", "Since the start.", status.uptime)
        if agent.expiries is not None:
            yield by(
                GaugeMetricFamily,
                "certificate_expires_seconds",
                "When a certificate expires, in seconds since 1970: the member's, the authority's.",
                "certificate",
                agent.expiries._asdict(),
            )
        if status.epsilon is not None:
            yield gauge(
                "privacy_epsilon",
                "Per round for the losses of this agent (event level), even if all others collude; "
                "arms are public. Absent for no guarantee.",
                status.epsilon,
            )
        yield from _losses(agent)
        shares = dict(zip(status.arms, status.probabilities, strict=True))
        yield by(
            GaugeMetricFamily,
            "probability",
            "What the next choice is drawn from.",
            "arm",
            shares,
        )
        silent = {
            name: each.silent_for
            for name, each in status.neighbours.items()
            if each.silent_for is not None
        }
        yield by(
            GaugeMetricFamily,
            "neighbour_silent_seconds",
            "Since a neighbour was last heard; absent if it never was.",
            "neighbour",
            silent,
        )
        refused = CounterMetricFamily(
            "fedbandits_messages_refused",
            "Messages of a neighbour that were not believed, by reason.",
            labels=["neighbour", "reason"],
        )
        for name, each in status.neighbours.items():
            for reason in REASONS:
                refused.add_metric([name, reason], each.reasons.get(reason, 0))
        yield refused
        if metrics.baseline is not None:
            yield by(
                CounterMetricFamily,
                "apprentice_choices",
                "Choices of the baseline, by the arm the agent would have played.",
                "would",
                agent.would,
            )
            yield counter(
                "apprentice_agreed",
                "Choices in which it would have played the baseline itself.",
                agent.would[metrics.baseline],
            )
        counts = getattr(agent.transport, "counts", None)
        if counts is not None:
            yield by(
                CounterMetricFamily,
                "transport",
                "What the transport counts.",
                "what",
                counts() if callable(counts) else counts,
            )


def _losses(agent: Agent) -> Iterator[Metric]:
    """Sums of losses in [0, 1], or of noisy bits, since the journal began."""
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
        "The smallest and the largest loss or reward there can be.",
        labels=["end"],
    )
    for end, value in agent._range._asdict().items():
        loss_range.add_metric([end], value)
    yield loss_range
