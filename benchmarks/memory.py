"""Peak memory of a run beyond the graph and the problem, in a process of its own.

    python -m benchmarks.memory SIDE HORIZON

prints the bytes. On an accelerator they are the allocator's own peak, less the graph, which is kept
there, and the problem's arrays, which are copied there. On a CPU they are the peak of resident
memory less what is resident before the call; ru_maxrss will not do, since a process inherits it
from the one that started it.
"""

from __future__ import annotations

import gc
import resource
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from benchmarks.processes import python

_STATUS = Path("/proc/self/status")


def peak_states(side: int, horizon: int) -> float:
    """In multiples of the state, K·N float32 numbers."""
    from benchmarks import million

    ended = python("-m", "benchmarks.memory", str(side), str(horizon))
    return float(ended.output) / (4 * million.ARMS * side**2)


def main(side: int, horizon: int) -> None:
    """Build, play and print the bytes."""
    import jax

    import fedbandits as fb
    from benchmarks import million

    gossip = million.grid(side)
    problem = million.problem(side**2, horizon)
    # One round first: the graph is then there in the form in which it is used, and kept.
    fb.simulate(million.problem(side**2, 1), fb.FedExp3(0.1), gossip, runs=1, progress=False)
    gc.collect()
    device = jax.devices()[0]
    on_device = jax.default_backend() != "cpu"
    if on_device:
        arrays = (getattr(problem, field.name) for field in fields(problem))  # type: ignore[arg-type]
        before = sum(int(getattr(array, "nbytes", 0)) for array in arrays)
        before += device.memory_stats()["bytes_in_use"]
    else:
        _forget_peak()
        before = _resident("VmRSS")
    fb.simulate(problem, fb.FedExp3(0.1), gossip, runs=1, progress=False)
    peak = device.memory_stats()["peak_bytes_in_use"] if on_device else _resident("VmHWM")
    sys.stdout.write(f"{peak - before}\n")


def _forget_peak() -> None:
    """Start the kernel's peak anew; where it will not, building the graph may hide the run's."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _resident(name: str) -> int:
    """Bytes of resident memory: VmRSS now, VmHWM at the peak; the peak for both outside Linux."""
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(x for x in _STATUS.read_text().splitlines() if x.startswith(name))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
