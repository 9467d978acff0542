"""The network over time as a GIF, or as an MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.common.files import atomic_write
from fedbandits.results.plots import figure_of

from .leaders import Leaders
from .network import add_legend, drawn, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

FRAMES = 60
"""At most: each is drawn anew, a few in a second."""

PER_SECOND = 12
DPI = 100
SHADES = 16
"""Of each colour, towards white: edges of dots are smooth."""


def save_film(found: Leaders, path: Path) -> None:
    """Write all snapshots, or some of them evenly spread, whole or not at all."""
    import matplotlib.pyplot as plt

    save = {".gif": _save_gif, ".mp4": _save_mp4}[path.suffix]
    ax = drawn(found, 0, None)
    figure = figure_of(ax)
    try:
        add_legend(ax, {name: colour for name, colour, _ in found.shares(-1)})
        figure.set_layout_engine("none")  # as it is: no frame moves against another
        save(found, ax, path)
    finally:
        plt.close(figure)


def _frames(found: Leaders) -> list[int]:
    last = len(found.rounds) - 1
    spread = np.linspace(0, last, min(FRAMES, last + 1)).round()
    return [int(snapshot) for snapshot in spread]


def _save_gif(found: Leaders, ax: Axes, path: Path) -> None:
    from PIL.Image import Dither

    palette = _palette([colour for _, colour, _ in found.shares(-1)])

    def images() -> Iterator[Image]:
        for snapshot in _frames(found):
            show(found, snapshot, ax)
            # One palette for all: one for each frame would change colours on the way.
            yield _image(figure_of(ax)).quantize(palette=palette, dither=Dither.NONE)

    first, *others = images()
    with atomic_write(path) as file:
        film = {"save_all": True, "append_images": others, "loop": 0, "optimize": False}
        first.save(file, "GIF", duration=round(1000 / PER_SECOND), **film)


def _image(figure: Figure) -> Image:
    from PIL import Image

    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=DPI)
    return Image.open(held).convert("RGB")


def _palette(colours: Sequence[str]) -> Image:
    """Return the colours and greys, each in shades from itself to white."""
    from PIL import Image

    plain = np.array([[0, 0, 0], *(list(bytes.fromhex(c[1:])) for c in colours)], float)
    towards = np.linspace(0, 1, SHADES)[:, None, None]
    shades = (plain + (255 - plain) * towards).round().astype(np.uint8)
    image = Image.new("P", (1, 1))
    image.putpalette(shades.reshape(-1).tobytes())
    return image


def _save_mp4(found: Leaders, ax: Axes, path: Path) -> None:
    from matplotlib.animation import writers

    if not writers.is_available("ffmpeg"):
        raise ValueError(
            f"{path.name} needs ffmpeg, which is not installed; install it, or end the name in "
            ".html or .gif"
        )
    writer = writers["ffmpeg"](fps=PER_SECOND)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, path.name)  # ffmpeg recognises a format by the ending
        try:
            with writer.saving(figure_of(ax), str(whole), DPI):
                for snapshot in _frames(found):
                    show(found, snapshot, ax)
                    writer.grab_frame()
        except subprocess.CalledProcessError as error:
            why = (error.stderr or str(error)).strip()
            raise OSError(f"ffmpeg failed in the temporary folder {folder}: {why}") from error
        with atomic_write(path) as file:
            file.write(whole.read_bytes())
