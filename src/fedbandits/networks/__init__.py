"""Networks: undirected simple graphs of agents, with the numbers the theory needs.

Everything is sparse: a ring, grid or random geometric graph of a million agents builds in
seconds. Eigenvalues come from a closed form, a dense solver (few agents) or a multigrid one.
"""

from collections.abc import Callable

from .base import Network
from .conversion import from_adjacency, from_edges, from_networkx, read_graphml
from .families import (
    complete,
    erdos_renyi,
    grid,
    path,
    preferential_attachment,
    random_geometric,
    ring,
    square_grid,
    star,
    two_clusters,
)

REGISTRY: dict[str, Callable[..., Network]] = {
    make.__name__: make
    for make in (
        complete,
        grid,
        square_grid,
        ring,
        path,
        star,
        random_geometric,
        erdos_renyi,
        two_clusters,
        preferential_attachment,
        from_edges,
        read_graphml,
    )
}
"""The constructors a configuration can name."""

__all__ = [
    "Network",
    "complete",
    "erdos_renyi",
    "from_adjacency",
    "from_edges",
    "from_networkx",
    "grid",
    "path",
    "preferential_attachment",
    "random_geometric",
    "read_graphml",
    "ring",
    "square_grid",
    "star",
    "two_clusters",
]


def __dir__() -> list[str]:
    return __all__
