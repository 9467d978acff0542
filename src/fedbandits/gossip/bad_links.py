"""Links that lose messages, deliver them late, or are down, and the rules for missing messages.

A message from u to v is lost in a round with probability l_uv, independently of all others. The
rule defines what an agent does without it:

    symmetric   an edge counts in a round if both its messages arrive, else at neither end
    receiver    an agent uses its own value in place of a missing message
    flow        the ledger of live agents: later messages make up for lost ones
    lost        Σ_u W_uv z^u over the messages that arrived

The first and the third rule keep the sum of all values. The second does not if losses differ by
direction. The last one never does: it is here for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common import checks
from fedbandits.networks import Network
from fedbandits.networks.searches import Floats, count_components, laplacian_of, symmetric
from fedbandits.networks.spectra import connectivity, gap_of_square, rough_modes, smooth_modes

if TYPE_CHECKING:
    from fedbandits.networks.searches import Sparse

RULES = ("symmetric", "receiver", "flow", "lost")
DELAYED_RULES = ("receiver", "lost")
"""The rules that accept old messages."""

Loss = float | list[float] | Floats | Mapping[tuple[int, int], float] | Callable[[int, int], float]
"""The forms in which users give losses."""


@dataclass(frozen=True, eq=False)
class BadLinks:
    """The faults of the links of a network.

    Attributes:
        rule: the rule for messages that do not arrive.
        loss: of every message, `[2E]`: those from the first to the second end of the network's
            edges, in their order, then those from the second to the first.
        delay: messages are up to so many rounds old.
        up: rounds for which all links of an agent are up at a time; None where they always are.
        down: rounds for which they are down then.
        active: the probability that an edge is used in a round at all.
    """

    rule: str
    loss: Floats
    delay: int = 0
    up: int | None = None
    down: int | None = None
    active: float = 1.0

    @property
    def nothing(self) -> bool:
        """True if every message arrives in its round."""
        return not (self.loss.any() or self.delay or self.up or self.active < 1)

    @property
    def theorem_holds(self) -> bool:
        """True if rounds are independent symmetric doubly stochastic matrices.

        Then σ2 bounds the remaining disagreement in the mean square, which the theorems about plain
        averages need; docs/howto/hostile.md has the argument.
        """
        return self.rule == "symmetric" and self.up is None

    @property
    def what(self) -> str:
        """The setting that a theorem would need, in words."""
        churn = "" if self.up is None else " and links that go down for several rounds"
        return f"this algorithm over bad links with rule {self.rule}{churn}"

    def gap(self, network: Network, weights: Floats) -> float:
        """Return 1 - σ2 of edges with these weights, `[E]`, over such links.

        If a theorem holds, σ2² is the second largest eigenvalue of E WᵀW. Otherwise σ2 is that of
        the expected matrix, in which an edge has the mean weight of its two directions. Delays do
        not count.
        """
        agents, edges = network.agents, network.edges
        there, back = (1 - self.loss.reshape(2, -1)) * self.active
        both = there * back / self.active
        if self.theorem_holds:
            return gap_of_square(connectivity(mean_square(agents, edges, weights, both)))
        arrives = (there + back) / 2 if self.rule in DELAYED_RULES else both
        if self.up is not None and self.down is not None:
            arrives = arrives * (self.up / (self.up + self.down)) ** 2  # of both ends
        expected = laplacian_of(symmetric(agents, edges, weights * arrives))
        if count_components(expected) > 1:
            return 0.0
        slowest, fastest = (float(modes(expected)[0][0]) for modes in (smooth_modes, rough_modes))
        return max(0.0, min(slowest, 2 - fastest, 1.0))


def mean_square(agents: int, edges: Any, weights: Floats, survives: Floats) -> Sparse:
    """Return E WᵀW if edge e independently has its weight w_e with probability q_e, else 0.

    (I - L)² + 2 Σ_e w_e² q_e (1 - q_e) B_e, with L the Laplacian of the weights w q and B_e that of
    the edge alone: B_e² = 2 B_e.

    Example:
        >>> mean_square(2, np.array([[0, 1]]), np.array([0.5]), np.array([0.5])).toarray()
        array([[0.75, 0.25],
               [0.25, 0.75]])
    """
    from scipy.sparse import csr_array, eye_array

    expected = eye_array(agents) - laplacian_of(symmetric(agents, edges, weights * survives))
    spread = 2 * weights**2 * survives * (1 - survives)
    return csr_array(expected @ expected + laplacian_of(symmetric(agents, edges, spread)))


def checked_loss(loss: Any, network: Network) -> Floats:
    """Return the loss of every message, `[2E]`, in any form that users may give.

    A number is of all messages; `[N]` is by sender; `[2E]` as in `BadLinks`; a mapping has some
    (sender, receiver), the others lose nothing; a function is called with each.

    Example:
        >>> from fedbandits import networks
        >>> checked_loss({(1, 0): 0.5}, networks.path(3)).tolist()
        [0.0, 0.0, 0.5, 0.0]
        >>> checked_loss([0.1, 0.2, 0.3], networks.path(3)).tolist()
        [0.1, 0.2, 0.2, 0.3]
    """
    pairs = np.concatenate([network.edges, network.edges[:, ::-1]])
    if isinstance(loss, Mapping):
        known = {tuple(pair) for pair in pairs.tolist()}
        for pair in loss:
            if not isinstance(pair, tuple):
                raise TypeError(f"loss of {pair!r}: give pairs {{(sender, receiver): loss}}")
            if pair not in known:
                raise ValueError(f"loss of {pair}: {network.name} has no such pair of neighbours")
        found = np.array([loss.get(tuple(pair), 0.0) for pair in pairs.tolist()], np.float64)
    elif callable(loss):
        found = np.array([checks.number(loss(u, v), f"loss({u}, {v})") for u, v in pairs.tolist()])
    elif isinstance(loss, Sequence | np.ndarray) and not isinstance(loss, str):
        given = np.asarray(loss, np.float64)
        if given.shape not in ((network.agents,), (len(pairs),)):
            raise ValueError(
                f"loss has shape {given.shape}; give a number, one for each of the "
                f"{network.agents} senders, or one for each of the {len(pairs)} directed edges"
            )
        found = given if len(given) == len(pairs) else given[pairs[:, 0]]
    else:
        found = np.full(len(pairs), checks.number(loss, "loss"))
    for i in np.flatnonzero(~((found >= 0) & (found < 1)))[:1]:  # NaN too
        u, v = pairs[i].tolist()
        where = "" if np.ndim(loss) == 0 and not callable(loss) else f" of messages {u} → {v}"
        raise ValueError(f"loss{where} must be in [0, 1), not {found[i]:g}")
    return found


def checked_rule(rule: Any, delay: int) -> str:
    """Return a valid rule; with delays it must accept messages of earlier rounds."""
    if rule not in RULES:
        meant = checks.did_you_mean(rule, RULES)
        raise ValueError(f"rule {rule!r}{meant} The rules are {', '.join(RULES)}")
    if delay and rule not in DELAYED_RULES:
        raise ValueError(
            f"delay is {delay}, but rule {rule!r} is an exchange of both ends within a round; "
            f"messages that are late take rule {' or '.join(map(repr, DELAYED_RULES))}"
        )
    return str(rule)


def checked_churn(up: Any, down: Any) -> tuple[int | None, int | None]:
    """Return rounds up and rounds down: both, or neither."""
    if up is None and down is None:
        return None, None
    if up is None or down is None:
        raise ValueError(f"up={up} and down={down}: links that go down and up again need both")
    most = checks.INT32 // 4
    return (
        checks.whole(up, "up", least=1, most=most),
        checks.whole(down, "down", least=1, most=most),
    )
