"""Seeded mistakes, and whether the tests nearest to them find each.

    python tools/mutants.py                 every mutant; about an hour on two cores
    python tools/mutants.py 3 ledger        mutants 3, and those whose name has "ledger"
    python tools/mutants.py --check         only that every mutant still applies

A mutant replaces one text in one file of `src/fedbandits`. It names no file: the text is found
wherever it stands, so that rows survive a move. The runner changes a copy of HEAD in a temporary
worktree, runs the tests of `make test` in the folders of the row until one fails, and reports
`found` or `SURVIVED`. It exits with 1 if a mutant survived or does not apply.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


class Mutant(NamedTuple):
    """One mistake.

    Attributes:
        name: what is wrong then.
        old: the text that is replaced; it stands in one place of the package.
        new: what replaces it.
        tests: files and folders below `tests` that are nearest.
    """

    name: str
    old: str
    new: str
    tests: str


MUTANTS = [
    Mutant(
        "max-degree weights too large by one neighbour",
        "weight = 1 / ((2 if lazy else 1) * (1 + network.max_degree))",
        "weight = 1 / ((2 if lazy else 1) * network.max_degree)",
        "gossip",
    ),
    Mutant(
        "unreliable links without their faults",
        "parameters, weights, faults=faults)",
        "parameters, weights)",
        "gossip engine/test_bad_links.py",
    ),
    Mutant(
        "the gap instead of the second eigenvalue",
        "return 1 - self.gap",
        "return self.gap",
        "gossip",
    ),
    Mutant(
        "feedback of FedExp3 not divided by its probability",
        "state._replace(z=known + importance_weighted(feedback, action, p))",
        "state._replace(z=known + importance_weighted(feedback, action, p * 0 + 1))",
        "algorithms/test_contract.py",
    ),
    Mutant(
        "FedExp3 remembers what it should forget",
        "known = (1.0 - 1.0 / self.memory) * known",
        "known = (1.0 + 1.0 / self.memory) * known",
        "algorithms",
    ),
    Mutant(
        "FedHedge keeps its own estimate and drops what it received",
        'return state._replace(z=received["z"] + feedback)',
        "return state._replace(z=state.z + feedback)",
        "algorithms/test_contract.py",
    ),
    Mutant(
        "GossipUCB explores one round too few",
        "first, catching_up)",
        "first, tied)",
        "algorithms/test_contract.py",
    ),
    Mutant(
        "GossipUCB takes the smallest count of its neighbours",
        'n_most=xp.maximum(n, received["n_most"])',
        'n_most=xp.minimum(n, received["n_most"])',
        "algorithms/test_contract.py engine/test_engine.py",
    ),
    Mutant(
        "the theorem's learning rate without its logarithm",
        "TheoremRates(math.log(arms) / (horizon * at_horizon)",
        "TheoremRates(1.0 / (horizon * at_horizon)",
        "theory",
    ),
    Mutant(
        "the lower order term of the bound",
        "return (c_w + 0.5) * arms**2 * math.log(arms)",
        "return (c_w - 0.5) * arms**2 * math.log(arms)",
        "theory",
    ),
    Mutant(
        "a rotation of Threefry the other way",
        "(second << turn | second >> np.uint32(32 - turn)) ^ first",
        "(second >> turn | second << np.uint32(32 - turn)) ^ first",
        "algorithms/test_contract.py test_arrays.py",
    ),
    Mutant(
        "uniforms of a block without the runs before it",
        "place = run * np.uint32(agents) + agent",
        "place = run * np.uint32(sizes[1]) + agent",
        "engine/test_tiled_round.py engine/test_fused_round.py",
    ),
    Mutant(
        "the first round of the next chunk is played twice",
        "first = np.int32(run.done + 1)",
        "first = np.int32(max(run.done, 1))",
        "engine/test_trajectory.py engine/test_engine.py",
    ),
    Mutant(
        "losses on the host are of the round before",
        "losses = self._problem.block(first, first + rounds - 1)",
        "losses = self._problem.block(max(first - 1, 1), max(first + rounds - 2, rounds))",
        "engine problems",
    ),
    Mutant(
        "a fair coin where a loss should be blurred less",
        "(uniform < flip + (1 - 2 * flip) * loss)",
        "(uniform < flip + (1 - flip) * loss)",
        "privacy",
    ),
    Mutant(
        "regret of liars counts in the worst",
        "stages.recorded(excesses).max(axis=1)",
        "excesses.max(axis=1)",
        "engine/test_liars.py engine/test_summing_up.py",
    ),
    Mutant(
        "the best agent is called the worst",
        "by_agent.mean(axis=0), -np.inf).argmax())",
        "by_agent.mean(axis=0), np.inf).argmin())",
        "results",
    ),
    Mutant(
        "tuning chooses the worst candidate",
        "best = int(means.argmin())",
        "best = int(means.argmax())",
        "tuning",
    ),
    Mutant(
        "a file with secrets that others may read is not noticed",
        "Path(path).stat().st_mode & 0o007)",
        "Path(path).stat().st_mode & 0o002)",
        "common live/test_keys.py live/test_agent_file.py",
    ),
    Mutant(
        "a full disk is reported as another error",
        "if error.errno not in FULL:",
        "if error.errno in FULL:",
        "common/test_files.py",
    ),
    Mutant(
        "the flow of an edge moves towards the larger sum",
        "flow = edge.flow[name] + edge.weight * difference",
        "flow = edge.flow[name] - edge.weight * difference",
        "live/test_ledger.py live/test_histories.py",
    ),
    Mutant(
        "a received flow keeps its sign",
        "negated = {name: -value for name, value in flow.items()}",
        "negated = dict(flow)",
        "live/test_ledger.py live/test_histories.py",
    ),
    Mutant(
        "a flow that was lost once is never taken",
        "if exchange and message.sequence > edge.sequence:",
        "if exchange and message.sequence == edge.sequence + 1 and edge.sequence > 0:",
        "live/test_ledger.py live/test_histories.py",
    ),
    Mutant(
        "an edge of another incarnation is believed",
        "if message.receiver_incarnation in (0, edge.incarnation):",
        "if message.receiver_incarnation >= 0:",
        "live/test_ledger.py live/test_histories.py",
    ),
    Mutant(
        "terms of another federation file are accepted",
        "        if not ours.agree(theirs):",
        "        if False:",
        "live/test_ledger.py live/test_membership.py",
    ),
    Mutant(
        "messages leave before the commit",
        "        self._outbox.update(messages)\n        self._pending.set()",
        "        for to, message in messages:\n            self._send(to, message)",
        "live/test_histories.py live/test_agent.py",
    ),
    Mutant(
        "the noisy bit is never flipped from 0",
        "return self._flips + int(span * Fraction(loss))",
        "return int(span * Fraction(loss))",
        "live privacy",
    ),
    Mutant(
        "a neighbour may flood",
        "self._waiting_of[sender] >= self._most_waiting",
        "self._waiting_of[sender] < 0",
        "live/test_inbox.py",
    ),
    Mutant(
        "links without the neighbour's certificate",
        "context.verify_mode = ssl.CERT_REQUIRED",
        "context.verify_mode = ssl.CERT_NONE",
        "live/test_tls_strangers.py live/test_tls_transport.py",
    ),
    Mutant(
        "liars send the truth",
        "            message = condition.outgoing(leaf, message, t)",
        "            condition.outgoing(leaf, message, t)",
        "engine/test_liars.py",
    ),
]


def places(mutant: Mutant, root: Path) -> list[Path]:
    """Return the files of the package that have the text, one for each time it stands there."""
    sources = sorted((root / "src" / "fedbandits").rglob("*.py"))
    return [path for path in sources for _ in range(path.read_text("utf-8").count(mutant.old))]


def missing(mutant: Mutant, root: Path) -> str | None:
    """Return why a mutant does not apply, or None."""
    found = places(mutant, root)
    if len(found) != 1:
        where = ", ".join(str(path.relative_to(root)) for path in found) or "nowhere"
        return f"its text should stand in one place and stands in {len(found)}: {where}"
    absent = [each for each in mutant.tests.split() if not (root / "tests" / each).exists()]
    return f"there is no {', '.join(absent)} in tests" if absent else None


def outcome(mutant: Mutant, root: Path) -> str:
    """Apply a mutant, run its tests, take it back, and return what happened."""
    [path] = places(mutant, root)
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(mutant.old, mutant.new), "utf-8")
    tests = [f"tests/{each}" for each in mutant.tests.split()]
    environment = os.environ | {
        "PYTHONPATH": str(root / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",  # a file is changed and changed back within a second
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}",
        "MPLBACKEND": "agg",
    }
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not soak and not optimised"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(whole, "utf-8")
    lines = done.stdout.splitlines()
    by = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "")
    if done.returncode == 0:
        return "SURVIVED"
    if done.returncode in (1, 2) and by:
        return f"found by {by.split(' - ')[0]}"
    return f"ERROR {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"


def main() -> int:
    """Run the mutants that the command names; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("chosen", nargs="*", help="numbers, or parts of names; all without")
    parser.add_argument("--check", action="store_true", help="only whether each still applies")
    given = parser.parse_args()
    chosen = [
        (number, mutant)
        for number, mutant in enumerate(MUTANTS, 1)
        if not given.chosen
        or any(each == str(number) or each in mutant.name for each in given.chosen)
    ]
    if given.check:
        return report(chosen, ROOT, play=False)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "mutants")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(root)], check=True)
        try:
            return report(chosen, root, play=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


def report(chosen: list[tuple[int, Mutant]], root: Path, *, play: bool) -> int:
    """Print one line for each mutant; return the exit status."""
    bad = 0
    for number, mutant in chosen:
        began = time.monotonic()
        why = missing(mutant, root)
        if why is not None:
            result = f"DOES NOT APPLY: {why}"
        else:
            result = outcome(mutant, root) if play else "applies"
        bad += result.split()[0] not in ("found", "applies")
        took = f" ({time.monotonic() - began:.0f} s)" if play else ""
        sys.stdout.write(f"{number:2} {mutant.name}: {result}{took}\n")
        sys.stdout.flush()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
