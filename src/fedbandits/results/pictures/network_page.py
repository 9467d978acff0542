"""The network over time as one page that needs nothing else: data, script and style in one file."""

from __future__ import annotations

import base64
import html
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .leaders import OTHERS, Leaders

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_BYTES = 3_300_000
"""Of all frames before they are packed: a page that is no larger than 5 MB whatever they hold."""

MOST_AGENTS = 100_000
"""Of a page: more dots than a screen has room for."""

MOST_LINKS = 50_000
"""That are drawn: more are one grey surface."""

_TEMPLATE = Path(__file__).with_name("network.html")


def page(found: Leaders) -> str:
    """Return the page in HTML."""
    agents = found.arm.shape[1]
    if agents > MOST_AGENTS:
        raise ValueError(
            f"a page shows up to {MOST_AGENTS:,} agents, not {agents:,}; end the name in .png for "
            "the last snapshot"
        )
    frames = max(2, MOST_BYTES // (agents * found.arm.itemsize))
    last = len(found.rounds) - 1
    chosen = np.unique(np.linspace(0, last, min(frames, last + 1)).round().astype(int))
    links = found.network.edges
    drawn = links if len(links) <= MOST_LINKS else links[:0]
    spots, wide = _fitted(found.network.layout())
    arms = found.arm[chosen]
    names = found.agent_names
    data = {
        "horizon": found.horizon,
        "agents": agents,
        "wide": wide,
        "names": None if names == [str(v) for v in range(agents)] else names,
        "arms": found.arm_names,
        "coloured": found.coloured,
        "colours": found.colours,
        "others": OTHERS,
        "rounds": found.rounds[chosen].tolist(),
        "disagreement": [round(float(x), 4) for x in found.disagreement[chosen]],
        "bytes": arms.itemsize,
        "frames": _packed(arms),
        "spots": _packed(spots),
        "links": _packed(drawn.astype(np.uint32)),
        "left_out": len(links) - len(drawn),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    # No value may end the script that holds it.
    held = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(found.title).replace("run 0", "run&nbsp;0")
    return text.replace("{{title}}", title).replace("{{data}}", held)


def _fitted(where: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.uint16], float]:
    """Return places in a box with sides from 0 to 65535, y downwards, and its aspect ratio.

    A box is at most four times as wide as high, or as high as wide: a path would have no height.
    """
    low, high = where.min(axis=0), where.max(axis=0)
    side = high - low
    room = np.maximum(side, max(float(side.max()) / 4, 1e-9))
    share = (where - (low + high) / 2) / room + 0.5
    share[:, 1] = 1 - share[:, 1]
    return (share * 65535).round().astype(np.uint16), float(room[0] / room[1])


def _packed(array: npt.NDArray[Any]) -> str:
    """Return an array in little-endian order, deflated, as text."""
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return base64.b64encode(zlib.compress(plain)).decode()
