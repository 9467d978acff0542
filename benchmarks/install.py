"""What an installation costs: wheels, seconds and megabytes, with each extra.

    python benchmarks/install.py [EXTRA ...]

builds the wheel and installs it into clean environments, without an extra and with each; uses it
there as `make wheel` does; and writes benchmarks/results/install.json, from which `python
docs/fill.py` fills the README. Wheels are downloaded first: the seconds are not the network's.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import ROOT

EXTRAS = ("", "live", "sim", "solvers", "cluster", "all")
KEPT = ROOT / "benchmarks" / "results" / "install.json"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))


def main(extras: tuple[str, ...]) -> None:
    """Measure and keep."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder) / "dist")
        rows = [measure(extra, wheel, Path(folder) / f"with_{extra}") for extra in extras]
        machine = f"{os.cpu_count()} × {platform.machine()}, Python {platform.python_version()}"
        found = {"machine": machine, "wheel": megabytes(wheel), "rows": rows}
    KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def build(folder: Path) -> Path:
    """The wheel of this source tree."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def measure(extra: str, wheel: Path, folder: Path) -> dict[str, Any]:
    """What the wheel with an extra costs; refused if it does not do what it should."""
    wheels, environment = folder / "wheels", folder / "venv"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    before = megabytes(environment)
    run(python, *PIP, "download", *CONSTRAINTS, "--dest", wheels, wanted)
    start = processor_seconds()
    run(python, *PIP, "install", "--no-index", "--find-links", wheels, *CONSTRAINTS, wanted)
    seconds = processor_seconds() - start
    run(python, ROOT / "tests" / "use_wheel.py", *([extra] if extra else []), cwd=folder)
    row = {
        "extra": extra,
        "packages": len(list(wheels.iterdir())),
        "wheels": megabytes(wheels),
        "installed": megabytes(environment) - before,
        "seconds": round(seconds, 1),
    }
    sys.stdout.write(f"{row}\n")
    return row


def processor_seconds() -> float:
    """That all processes run so far took; the clock would also count what else the machine does."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def megabytes(path: Path) -> float:
    """Of a file, or of all files in a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6, 2)


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """A process that must not fail; it prints only if it does."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or EXTRAS)
