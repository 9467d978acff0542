"""Where a simulation runs: runs, then agents, spread over devices by JAX's own sharding."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedbandits.common import checks
from fedbandits.common.backend import on_cpu


def one_per_core() -> None:
    """Have JAX see every core as a device, so that small simulations use them all.

    XLA gives a small array one core. Left alone where JAX has already started, or where the user
    has chosen a number of devices.
    """
    chosen = jax.config.jax_num_cpu_devices != -1  # type: ignore[attr-defined]
    if chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    except (RuntimeError, AttributeError):  # JAX has started; or not a system that can tell
        return


@dataclass(frozen=True)
class Spread:
    """How the arrays of a simulation lie on devices: a mesh with the axes `runs` and `agents`."""

    mesh: Mesh
    runs: int
    agents: int

    @property
    def platform(self) -> str:
        """What kind of devices these are, such as `cpu` or `gpu`."""
        kind: str = self.mesh.devices.flat[0].platform
        return kind

    def put(self, tree: Any) -> Any:
        """The arrays on the devices, those of runs and agents in parts and all others whole."""
        return jax.device_put(tree, jax.tree.map(self._sharding, tree))

    def put_whole(self, tree: Any) -> Any:
        """The arrays on the devices, each of which has all of them."""
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))

    def keep(self, tree: Any) -> Any:
        """The same for traced arrays: what a chunk hands to the next lies where it lay."""
        return jax.lax.with_sharding_constraint(tree, jax.tree.map(self._sharding, tree))

    def _sharding(self, leaf: Any) -> NamedSharding:
        shape = np.shape(leaf)
        axes: tuple[str | None, ...] = ()
        if shape[-2:] == (self.runs, self.agents):
            axes = (*[None] * (len(shape) - 2), "runs", "agents")
        elif shape == (self.agents,):
            axes = ("agents",)
        elif shape[:1] == (self.runs,):
            axes = ("runs",)
        return NamedSharding(self.mesh, PartitionSpec(*axes))


def spread(devices: int | Sequence[jax.Device] | None, runs: int, agents: int) -> Spread:
    """How R runs of N agents lie on these devices: as many as divide R, then N, evenly.

    Args:
        devices: how many of `jax.devices()`, or which. None is all cores of a CPU, by runs alone
            (agents apart have to be gathered in every round), or one accelerator.
        runs: R.
        agents: N.

    Example:
        >>> dict(spread(1, runs=10, agents=36).mesh.shape)
        {'runs': 1, 'agents': 1}
    """
    chosen = _chosen(devices)
    by_runs = _largest_divisor(runs, len(chosen))
    by_agents = 1 if devices is None else _largest_divisor(agents, len(chosen) // by_runs)
    used = np.array(chosen[: by_runs * by_agents]).reshape(by_runs, by_agents)
    return Spread(Mesh(used, ("runs", "agents")), runs, agents)


def _chosen(devices: int | Sequence[jax.Device] | None) -> list[jax.Device]:
    there_are = jax.devices()
    if devices is None:
        return there_are if on_cpu() else there_are[:1]
    if isinstance(devices, Sequence):
        if not devices or not all(isinstance(device, jax.Device) for device in devices):
            raise TypeError(f"devices must be a number or some of jax.devices(), not {devices!r}")
        if len(set(devices)) < len(devices):
            raise ValueError(f"devices has the same device twice: {devices!r}")
        return list(devices)
    count = checks.whole(devices, "devices", least=1)
    if count > len(there_are):
        raise ValueError(
            f"devices is {count}, but JAX has {len(there_are)} here: "
            f"{', '.join(str(device) for device in there_are)}. For more on a CPU: "
            f'jax.config.update("jax_num_cpu_devices", {count}) before JAX does anything else'
        )
    return there_are[:count]


def _largest_divisor(number: int, most: int) -> int:
    return max(d for d in range(1, most + 1) if number % d == 0)
