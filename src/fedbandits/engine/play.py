"""Playing simulations: in groups, draw by draw of the losses, chunk by chunk of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedbandits import results
from fedbandits.common.interrupts import calm, requested
from fedbandits.simulation.grouping import groups
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation

from .checkpoint import Checkpoint
from .chunk_runner import play_chunks, stopped
from .draws import KeptDraws, joined, without_round_losses
from .group import identity_of
from .preparation import precision, prepare
from .recording.finish import finish
from .recording.progress import reporter


def play(simulations: Sequence[Simulation], options: Options | None = None) -> list[results.Result]:
    """Play simulations and return their results, in order.

    Simulations that differ in numbers of their algorithms alone share one compiled program. They
    then face the same losses with the same randomness, computed once for all of them. Rounding may
    differ from a simulation alone in the last bit, which in float32 flips one arm in millions.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> rates = [Simulation(problem, fb.FedExp3(rate), gossip, runs=2) for rate in (0.1, 0.3)]
        >>> [result.config["algorithm"]["learning_rate"]["value"] for result in play(rates)]
        [0.1, 0.3]
    """
    options = options or Options()
    if options.callback is not None and len(simulations) > 1:
        raise ValueError("a callback reports one simulation; play several without it")
    found: dict[int, results.Result] = {}
    for places in groups(simulations):
        members = [simulations[place] for place in places]
        draws = members[0].draws
        played = _play_group(members, options) if draws is None else _play_draws(members, options)
        found |= dict(zip(places, played, strict=True))
    return [found[place] for place in range(len(simulations))]


def _play_group(
    simulations: Sequence[Simulation], options: Options, draw: int | None = None, draws: int = 1
) -> list[results.Result]:
    """Play a group by one program; `draw` is the place of this group among several draws."""
    with precision(simulations[0].dtype):
        group = prepare(simulations, options, draws)
        kept = (
            None if options.checkpoint is None else Checkpoint(options.checkpoint, group.identity)
        )
        with calm():
            report = reporter(options.callback, group, draw)
            carry = play_chunks(group, kept, options.progress, report=report)
            found = [finish(group, place, carry.state) for place in range(len(simulations))]
            if kept is None or options.keep_checkpoint:
                return found
            if requested():
                horizon = group.first.problem.horizon
                kept.save(horizon, carry, [*group.records, *group.snapshots])
                raise KeyboardInterrupt(stopped(horizon, group.first.problem))
            kept.discard()
            return found


def _play_draws(simulations: Sequence[Simulation], options: Options) -> list[results.Result]:
    """Play several draws of the losses, one after another by one program.

    Each draw is bit-identical to a separate simulation, and is saved as soon as it is done. One
    program for all draws would round differently in float32, and for some hundred agents it would
    take longer.
    """
    draws = len(simulations[0].loss_seeds)
    kept = None
    if options.checkpoint is not None:
        whole = _checkpoint(simulations, options, draws)
        kept = KeptDraws(whole.path.with_suffix(""))
    played: list[Sequence[results.Result]] = []
    for d in range(draws):
        found = None if kept is None else kept.load(d)
        if found is None:
            with calm():  # a Ctrl-C waits until the draw is saved
                drawn = [simulation.draw(d) for simulation in simulations]
                fresh = _play_group(drawn, replace(options, keep_checkpoint=True), d, draws)
                found = [without_round_losses(result, draws) for result in fresh]
                if kept is not None:
                    kept.save(d, found)
                    _checkpoint(drawn, options, draws).discard()
        played.append(found)
    each = zip(*played, strict=True)
    result = [
        replace(joined(of_one, simulation), gossip=simulation.gossip)
        for of_one, simulation in zip(each, simulations, strict=True)
    ]
    if kept is not None and not options.keep_checkpoint:
        kept.discard()
    return result


def _checkpoint(simulations: Sequence[Simulation], options: Options, draws: int) -> Checkpoint:
    """Return the checkpoint of simulations, which are one of so many draws or all of them."""
    assert options.checkpoint is not None
    snapshots = options.snapshots(simulations[0], draws)
    times = None if snapshots is None else len(snapshots.times)
    each = [identity_of(simulation, times) for simulation in simulations]
    return Checkpoint(options.checkpoint, each[0] if len(each) == 1 else {"batch": each})
