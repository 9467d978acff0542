"""Processes that cannot import some packages, as if these had never been installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

import fedbandits
from fedbandits.common.extras import PACKAGES

OPTIONAL = tuple(package.name for package in PACKAGES if package.extra) + tuple(
    package.installed_as.replace("-", "_") for package in PACKAGES if package.installed_as
)


def run_without(
    packages: Iterable[str], folder: Path, arguments: Sequence[str | Path]
) -> subprocess.CompletedProcess[str]:
    """Python with these arguments in an empty environment that lacks some packages.

    Args:
        packages: what is missing.
        folder: an empty one, for links to what is there.
        arguments: of Python.
    """
    hidden = set(packages)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name.partition("-")[0] not in hidden:  # scipy/, and scipy-1.17.1.dist-info/
            (folder / path.name).symlink_to(path)
    search = os.pathsep.join([str(Path(fedbandits.__file__).parents[1]), str(folder)])
    # -S: no site-packages but those of the links.
    return subprocess.run(
        [sys.executable, "-S", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": search, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
