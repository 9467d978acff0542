"""Losses that exist: a tensor, or a memory map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedbandits.arrays import Array

from .base import Check, Problem, check_sizes


@dataclass(frozen=True, eq=False, repr=False)
class Stored(Problem):
    """Losses read from an array, a block of rounds at a time."""

    agents: int
    arms: int
    horizon: int
    tensor: np.ndarray[Any, Any]
    """`[T, N, K]`, possibly a memory map."""
    agent_names: tuple[str, ...] | None = None  # type: ignore[misc]
    arm_names: tuple[str, ...] | None = None  # type: ignore[misc]

    traced: ClassVar[bool] = False

    @property
    def check(self) -> Check:
        """All of it, before the run."""
        return "before"

    def losses(self, t: Array) -> Array:
        """Return row t - 1 of the tensor, `[N, K]`."""
        if not 1 <= t <= self.horizon:
            raise ValueError(f"rounds are 1 to {self.horizon}, not {t}")
        return self.tensor[t - 1]

    def block(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Return rows first - 1 to last - 1, `[C, N, K]`."""
        return np.asarray(self.tensor[first - 1 : last])

    def describe(self) -> dict[str, Any]:
        """Return sizes, names and a hash of the losses."""
        import hashlib

        digest = hashlib.sha256(self.tensor.dtype.str.encode())
        for t in range(self.horizon):  # row by row: a memory map is never read whole
            digest.update(np.ascontiguousarray(self.tensor[t]).data)
        description: dict[str, Any] = {
            "name": "from_tensor",
            "agents": self.agents,
            "arms": self.arms,
            "horizon": self.horizon,
            "sha256": digest.hexdigest(),
        }
        for key, names in (("agent_names", self.agent_names), ("arm_names", self.arm_names)):
            if names is not None:
                description[key] = list(names)
        return description


def from_tensor(tensor: npt.ArrayLike | str | Path) -> Stored:
    """Read losses from an array by round, agent and arm, or from a `.npy` file of one.

    A file, or a NumPy memory map, is read block by block and never whole. Losses outside [0, 1] or
    NaN are refused before a run starts, naming round, agent and arm.

    Example:
        >>> problem = from_tensor(np.full((10, 3, 2), 0.5))
        >>> problem.horizon, problem.agents, problem.arms
        (10, 3, 2)
    """
    array = _map(Path(tensor)) if isinstance(tensor, str | Path) else _array(tensor)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("the tensor is masked; fill it first, for example with tensor.filled(0.0)")
    if array.ndim != 3:
        raise ValueError(f"the tensor has shape {array.shape}; expected (horizon, agents, arms)")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the tensor holds {array.dtype}; expected numbers")
    horizon, agents, arms = array.shape
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    return Stored(agents, arms, horizon, array)


def _array(tensor: npt.ArrayLike) -> np.ndarray[Any, Any]:
    try:
        return np.asanyarray(tensor)
    except ValueError as error:
        raise ValueError(
            "the tensor's rows have different lengths; expected (horizon, agents, arms)"
        ) from error


def _map(path: Path) -> np.ndarray[Any, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no tensor at {path}")
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file of numbers ({error})") from error
