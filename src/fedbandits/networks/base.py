"""Networks: undirected simple graphs of agents, with the numbers that the theory needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedbandits.common.checks import INT32, fits, whole
from fedbandits.common.describe import label
from fedbandits.common.files import save_figure

from .searches import (
    Floats,
    Ints,
    bounded_diameter,
    count_components,
    hops,
    joined_parts,
    laplacian_of,
    near_by_steps,
    symmetric,
)
from .spectra import rough_modes, smooth_modes

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

    from .searches import Sparse

_FEW_EDGES = 1_000
"""Up to so many edges SciPy is not loaded; live agents do not have it."""

_FEW = 4
"""If an agent reaches fewer than one in so many agents, steps are faster than searches."""

_LABELLED_AGENTS = 60
_SPRING_AGENTS = 500
_SPECTRAL_AGENTS = 20_000


class ClosedForm(NamedTuple):
    """Spectrum and diameter of a connected network by a formula.

    Attributes:
        connectivity: λ_{N-1}, the second smallest eigenvalue of L.
        largest: λ_1, the largest.
        diameter: the largest distance, in hops.
    """

    connectivity: float
    largest: float
    diameter: int


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """An undirected simple graph; agents are 0 … N-1. Made by the functions of this module.

    Arguments:
        agents: N.
        edges: [E, 2], each row u < v, rows sorted and unique.
        family: the constructor's name.
        parameters: its arguments as plain data; a hash stands for edges that were given.
        positions: [N, 2] where to draw the agents, or None.
        names: names of the agents, if the network has them, or None.
        closed_form: its spectrum and diameter where they are known without computing, or None.

    Example:
        >>> from fedbandits.networks import grid
        >>> network = grid(2, 3)
        >>> network
        grid(rows=2, cols=3)
        >>> network.degrees
        array([2, 3, 2, 2, 3, 2])
        >>> network.diameter
        3
    """

    agents: int
    edges: Ints
    family: str
    parameters: Mapping[str, Any]
    positions: Floats | None = None
    names: tuple[str, ...] | None = None
    closed_form: ClosedForm | None = None

    @cached_property
    def name(self) -> str:
        """The call that made it, without hashes."""
        return call(self.family, self.parameters)

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def degrees(self) -> Ints:
        """[N] numbers of neighbours."""
        return np.bincount(self.edges.ravel(), minlength=self.agents)

    @cached_property
    def max_degree(self) -> int:
        """d_max."""
        return int(self.degrees.max())

    @cached_property
    def adjacency(self) -> Sparse:
        """A: [N, N] sparse, 1.0 at both (u, v) and (v, u) of every edge."""
        return symmetric(self.agents, self.edges, np.ones(len(self.edges)))

    @cached_property
    def laplacian(self) -> Sparse:
        """L = D - A: [N, N] sparse."""
        return laplacian_of(self.adjacency)

    @cached_property
    def components(self) -> int:
        """The number of connected parts."""
        if self.closed_form is not None:
            return 1
        if len(self.edges) <= _FEW_EDGES:
            return joined_parts(self.agents, self.edges)
        return count_components(self.adjacency)

    @property
    def connected(self) -> bool:
        """True if every agent reaches every other; one agent alone is connected."""
        return self.components == 1

    @cached_property
    def algebraic_connectivity(self) -> float:
        """λ_{N-1}, the second smallest eigenvalue of L; 0 when disconnected or N = 1."""
        if self.closed_form is not None:
            return self.closed_form.connectivity
        return float(smooth_modes(self.laplacian)[0][0]) if self.connected else 0.0

    @cached_property
    def largest_laplacian_eigenvalue(self) -> float:
        """λ_1, the largest eigenvalue of L; 0 without edges."""
        if self.closed_form is not None:
            return self.closed_form.largest
        return float(rough_modes(self.laplacian)[0][0]) if len(self.edges) else 0.0

    @cached_property
    def diameter(self) -> int:
        """The largest distance between two agents, in hops."""
        if self.closed_form is not None:
            return self.closed_form.diameter
        if not self.connected:
            raise ValueError(
                f"{self.name} has {self.components} components, so no diameter; "
                "take a connected network (`network.connected`)"
            )
        return bounded_diameter(self.adjacency)

    def distances(self, agent: int | None = None) -> npt.NDArray[np.int32]:
        """Return the hops between all agents, or from one agent; -1 if there is no path.

        Arguments:
            agent: the source; None for all agents.

        Returns:
            [N, N], or [N] for one agent.

        Example:
            >>> from fedbandits.networks import ring
            >>> ring(5).distances(0)
            array([0, 1, 2, 2, 1], dtype=int32)
        """
        if agent is None:
            return np.stack([hops(self.adjacency, v) for v in range(self.agents)])
        source = whole(agent, "agent", least=0)
        if source >= self.agents:
            raise ValueError(f"agent must be below {self.agents} on {self.name}, not {source}")
        return hops(self.adjacency, source)

    def within(self, hops: int) -> Sparse:
        """Return which agents, themselves included, are within so many hops: [N, N] of ones.

        Example:
            >>> from fedbandits.networks import path
            >>> path(4).within(2).toarray()[0]
            array([1., 1., 1., 0.])
        """
        from scipy.sparse import csr_array

        if not self._reaches_many(hops):
            return near_by_steps(self.adjacency, hops)
        rows = [np.flatnonzero(_near(self.distances(v), hops)) for v in range(self.agents)]
        ends = np.cumsum([0, *map(len, rows)])
        ones = np.ones(ends[-1])
        return csr_array((ones, np.concatenate(rows), ends), shape=(self.agents, self.agents))

    def reached(self, hops: int) -> npt.NDArray[np.int64]:
        """Return the number of agents within so many hops, each counting itself: [N].

        Example:
            >>> from fedbandits.networks import path
            >>> path(4).reached(2)
            array([3, 4, 4, 3])
        """
        if not self._reaches_many(hops):
            return np.diff(near_by_steps(self.adjacency, hops).indptr).astype(np.int64)
        counts = (_near(self.distances(v), hops).sum() for v in range(self.agents))
        return np.fromiter(counts, np.int64, self.agents)

    def _reaches_many(self, hops: int) -> bool:
        """Return whether one search per agent is faster than steps of all agents at once."""
        busiest = int(np.argmax(self.degrees))
        return hops > 1 and int(_near(self.distances(busiest), hops).sum()) * _FEW > self.agents

    def to_networkx(self) -> nx.Graph[int]:
        """Return the graph for networkx, with nodes 0 … N-1."""
        import networkx as nx

        graph: nx.Graph[int] = nx.empty_graph(self.agents)
        graph.add_edges_from(self.edges.tolist())
        return graph

    def draw(
        self,
        path: str | Path | None = None,
        ax: Axes | None = None,
        *,
        colours: Sequence[str] | None = None,
    ) -> Axes:
        """Draw agents and edges; numbers on the agents where there is room.

        Arguments:
            path: a file to save to (.svg, .pdf, .png, …); None saves nothing.
            ax: matplotlib axes to draw on; None makes new ones.
            colours: of the agents, which are then as large as there is room for; None for one.

        Returns:
            the matplotlib axes.
        """
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure

        if ax is None and path is None:
            from matplotlib import pyplot as plt

            ax = plt.subplots(figsize=(5, 5))[1]
        elif ax is None:  # a figure that is only saved needs no window
            ax = Figure(figsize=(5, 5)).subplots()
        where = self.layout()
        lines = LineCollection(
            list(where[self.edges]),
            colors="0.6",
            linewidths=min(1.0, max(0.05, 120 / max(len(self.edges), 1))),
        )
        lines.set_rasterized(len(self.edges) > 20_000)  # keeps vector files small
        ax.add_collection(lines)
        labelled = self.agents <= _LABELLED_AGENTS
        room = 4_000 if colours is None else 30_000
        size = 160.0 if labelled else min(160.0, max(0.2, room / self.agents))
        look: dict[str, Any] = {"zorder": 2, "rasterized": self.agents > 20_000}
        if colours is not None:
            look |= {"c": colours, "linewidths": 0}
        ax.scatter(where[:, 0], where[:, 1], s=size, **look)
        if labelled:
            for v, (x, y) in enumerate(where):
                if self.names is None:
                    ax.text(x, y, str(v), ha="center", va="center", fontsize=7, color="white")
                else:
                    ax.annotate(
                        self.names[v], (x, y), (0, 7), textcoords="offset points", ha="center",
                        fontsize=7,
                    )  # fmt: skip
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_axis_off()
        ax.set_title(self.name, fontsize=9)
        if path is not None:
            figure = ax.get_figure(root=True)
            assert figure is not None
            save_figure(figure, path)
        return ax

    def layout(self) -> Floats:
        """Return [N, 2] positions for a drawing, computed if the network has none.

        Up to 500 agents by springs. Up to 20,000 connected ones by the two smoothest modes, whose
        ranks spread the agents evenly; all others stand on a circle.
        """
        if self.positions is not None:
            return self.positions
        if self.agents > _SPRING_AGENTS:  # spring layouts are quadratic
            if self.agents > _SPECTRAL_AGENTS or not self.connected:
                return circle(self.agents)
            try:
                modes = smooth_modes(self.laplacian, 2)[1]
            except RuntimeError:  # not found: a picture is not worth more
                return circle(self.agents)
            return modes.argsort(axis=0).argsort(axis=0).astype(np.float64)
        import networkx as nx

        spots = nx.spring_layout(self.to_networkx(), seed=0)
        return np.array([spots[v] for v in range(self.agents)], np.float64)


# Bytes of an agent and of an edge while a network is built, at least: two numbers and five; and of
# either where networkx builds it.
_AGENT, _EDGE, _NETWORKX = 16, 40, 200


def check_size(
    agents: Any, edges: Callable[[int], float] = lambda _: 0, *, in_networkx: bool = False
) -> int:
    """Return N >= 1; reject numbers that cannot be counted or held.

    Args:
        agents: N.
        edges: of so many agents, at least.
        in_networkx: whether networkx builds it.
    """
    n = whole(agents, "agents", least=1, most=INT32)
    links = max(0, edges(n))
    needed = _NETWORKX * (n + links) if in_networkx else _AGENT * n + _EDGE * links
    fits(needed, f"a network of {n:,} agents and {links:,.0f} edges")
    return n


def build(
    family: str,
    agents: int,
    edges: npt.NDArray[Any],
    parameters: Mapping[str, Any],
    positions: Floats | None = None,
    closed_form: ClosedForm | None = None,
) -> Network:
    """Return a network from valid edges, in any order."""
    check_size(agents, lambda _: len(edges))
    pairs = np.sort(edges.astype(np.int64).reshape(-1, 2), axis=1)
    keys = np.sort(pairs[:, 0] * agents + pairs[:, 1])  # one sort of numbers, not of pairs
    ordered = np.column_stack(np.divmod(keys, agents))
    ordered.flags.writeable = False
    known = ClosedForm(0.0, 0.0, 0) if agents == 1 else closed_form
    return Network(agents, ordered, family, parameters, positions, closed_form=known)


def call(name: str, parameters: Mapping[str, Any]) -> str:
    """Return `name(key=value, …)`, without hashes; a table inside is a call too.

    Example:
        >>> call("from_edges", {"agents": 3, "edges": 2, "edges_sha256": "0123456789abcdef"})
        'from_edges(agents=3, edges=2)'
    """
    shown = (f"{k}={_shown(value)}" for k, value in parameters.items() if not k.endswith("sha256"))
    return f"{name}({', '.join(shown)})"


def _shown(value: Any) -> Any:
    """Return a table as a call, and numbers by their range."""
    if isinstance(value, list):
        return f"{min(value):g}…{max(value):g}"
    if isinstance(value, Mapping):
        return label(value) if "name" in value else "…"
    return value


def _near(distances: npt.NDArray[np.int32], hops: int) -> npt.NDArray[np.bool_]:
    """Return which agents are at most so many hops away."""
    return (distances >= 0) & (distances <= hops)


def circle(agents: int) -> Floats:
    """Return [N, 2] points on the unit circle."""
    angle = np.arange(agents) * (2 * math.pi / max(agents, 1))
    return np.column_stack([np.cos(angle), np.sin(angle)])
