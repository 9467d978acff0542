"""The Hilbert curve: a path through a square that keeps near points near each other.

A curve of order k visits the 2^k × 2^k cells of a square, each once, each next to the last. It
consists of four curves of order k - 1, one in each quarter; the first and the last are turned. So
the first binary digits of x and y give the quarter, and the other digits are read in its turned
coordinates.

Hilbert, "Über die stetige Abbildung einer Linie auf ein Flächenstück", Mathematische Annalen 38
(1891), 459-460.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .searches import Floats, Ints

_ORDER = 16
"""4 billion cells: two agents in one are rare, and near each other whichever is first."""


def along_hilbert_curve(positions: Floats) -> Ints:
    """Return the agents in the order of the curve.

    Args:
        positions: `[N, 2]`, in the unit square.

    Returns:
        `[N]`, agents, the first first.

    Example:
        >>> along_hilbert_curve(np.array([[0.9, 0.1], [0.1, 0.1], [0.9, 0.9], [0.1, 0.9]]))
        array([1, 3, 2, 0])
    """
    cells = np.minimum(positions * 2**_ORDER, 2**_ORDER - 1).astype(np.int64)
    return np.argsort(place_on_curve(cells[:, 0], cells[:, 1], _ORDER), kind="stable")


def place_on_curve(column: npt.ArrayLike, row: npt.ArrayLike, order: int) -> npt.NDArray[np.int64]:
    """Return the number of cells that the curve of this order visits before each of these.

    Quarters come as (0, 0), (0, 1), (1, 1), (1, 0): quarter (a, b) is number 3a xor b. Inside the
    first, x and y change places; inside the last too, and both run backwards.

    Args:
        column: x, whole numbers below 2^order.
        row: y, likewise.
        order: k.

    Returns:
        numbers below 4^order, of the same shape.

    Example:
        >>> place_on_curve([0, 0, 1, 1], [0, 1, 1, 0], order=1)
        array([0, 1, 2, 3])
    """
    x, y = np.asarray(column, np.int64), np.asarray(row, np.int64)
    place = np.zeros(x.shape, np.int64)
    for k in reversed(range(order)):
        right, upper = x >> k & 1, y >> k & 1
        place += (3 * right ^ upper) << 2 * k
        backwards = (1 - upper) * right * (2**k - 1)  # v xor 11…1 is what v is from the other end
        x, y = x & 2**k - 1 ^ backwards, y & 2**k - 1 ^ backwards
        x, y = np.where(upper, x, y), np.where(upper, y, x)
    return place
