"""The programs that a simulation asks for, lowered but neither compiled nor run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np
import pytest

from fedbandits.common.backend import playing_on
from fedbandits.engine import chunk_runner, group, preparation
from fedbandits.engine.mixing import gather_kernel, mixer
from fedbandits.engine.recording import finish

from .normal_form import normal_form

Kind = Literal["rounds", "look", "recommend"]
Platform = Literal["cpu", "cuda"]
Asked = Callable[[Kind, Any, tuple[Any, ...], dict[str, Any]], Any]


class _CapturedError(Exception):
    """Carries a lowered program out of the simulation that asked for it."""


def captured(simulate: Callable[[], object], kind: Kind, platform: Platform) -> str:
    """Return the normal form of the first program of a kind that a simulation asks for.

    Args:
        simulate: starts the simulation.
        kind: rounds, the look at agents between two chunks, or the final recommendation.
        platform: for which the program is lowered; `cuda` needs no GPU.
    """

    def asked(of: Kind, function: Any, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        traced = function.trace(*args, **static)
        if of == kind:
            raise _CapturedError(traced.lower(lowering_platforms=(platform,)))
        return _made_up(traced.out_info, args)

    try:
        with _intercepted(asked, platform):
            simulate()
    except _CapturedError as found:
        return normal_form(found.args[0])
    raise AssertionError(f"the simulation asked for no program of kind {kind!r}")


@contextmanager
def never_compiled() -> Iterator[None]:
    """A scope in which programs are traced as usual, and return made-up numbers."""

    def asked(_: Kind, function: Any, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        return _made_up(function.trace(*args, **static).out_info, args)

    with _intercepted(asked, "cpu"):
        yield


@contextmanager
def _intercepted(asked: Asked, platform: Platform) -> Iterator[None]:
    """A scope in which `asked` answers every request of the engine for a compiled program.

    This is the only place that names parts of the engine: it alone follows when they change. For
    `cuda` the engine is made to believe that a GPU with Triton plays.
    """

    def instead(kind: Kind, function: Any) -> Any:
        return lambda *args, **static: asked(kind, function, args, static)

    inside: Any = group
    compiled, look, sums = inside.compiled, inside.look, gather_kernel.neighbour_sums
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group, "compiled", lambda *a, **k: instead("rounds", compiled(*a, **k)))
        patch.setattr(group, "look", instead("look", look))
        for name in ("_recommend", "_recommend_in_tiles"):
            patch.setattr(finish, name, instead("recommend", getattr(finish, name)))
        if platform == "cuda":
            for module in (chunk_runner, group, preparation, finish):
                patch.setattr(module, "playing_on", lambda _: playing_on("gpu"))

            def for_triton(lists: Any) -> Any:
                made = sums(lists)
                return None if made is None else replace(made, interpreted=False)

            patch.setattr(mixer, "neighbour_sums", for_triton)
        yield


def _made_up(shapes: Any, args: tuple[Any, ...]) -> Any:
    """Return arrays of these shapes that results accept: zeros, and true for flags.

    Each lies where an argument of its shape does, so that the next chunk has arguments like these.
    """
    given = [x for x in jax.tree.leaves(args) if isinstance(x, jax.Array)]
    placed = {(x.shape, x.dtype): x.sharding for x in reversed(given)}

    def array(x: Any) -> Any:
        values = np.full(x.shape, x.dtype == bool, x.dtype)
        there = placed.get((x.shape, x.dtype))
        return values if there is None else jax.device_put(values, there)

    return jax.tree.map(array, shapes)
