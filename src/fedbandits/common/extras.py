"""Optional packages, the extras that install them, and an error that names the extra.

`pip install fedbandits` installs NumPy and the command line. All other packages are in extras, and
the functions that need them import them. If such an import fails, the error names the extra.
"""

from __future__ import annotations

import importlib.util
import sys
from types import FrameType
from typing import NamedTuple

OURS = __name__.partition(".")[0]


class Package(NamedTuple):
    """A package that this one imports.

    Attributes:
        name: name of the import, and of the installed package unless `installed_as` is given.
        extra: the extra that installs it; empty for packages that are always installed.
        needed_for: what needs it.
        installed_as: its name on PyPI, if it differs.
    """

    name: str
    extra: str
    needed_for: str
    installed_as: str = ""


PACKAGES = (
    Package("numpy", "", "everything"),
    Package("typer", "", "the command line"),
    Package("rich", "", "tables and progress on the command line"),
    Package("platformdirs", "", "the folders for caches and data"),
    Package("msgspec", "", "the messages and the journal of live agents"),
    Package("filelock", "", "files that one process writes at a time"),
    Package("jax", "sim", "simulations and losses"),
    Package("scipy", "sim", "networks, gossip and intervals"),
    Package("networkx", "sim", "some networks and pictures of them"),
    Package("xarray", "sim", "results"),
    Package("h5netcdf", "sim", "files of results"),
    Package("h5py", "sim", "files of results"),
    Package("pandas", "sim", "tables of losses, results and bounds"),
    Package("pyarrow", "sim", "MovieLens releases and Parquet files"),
    Package("matplotlib", "sim", "figures"),
    Package("tomlkit", "sim", "the configuration that tuning writes"),
    Package("cvxpy", "solvers", "the fastest gossip of up to 50 agents"),
    Package("clarabel", "solvers", "the fastest gossip of up to 50 agents"),
    Package("pyamg", "solvers", "the eigenvalues of very large networks (SciPy takes more memory)"),
    Package("cryptography", "live", "keys and certificates"),
    Package("starlette", "live", "the service of a live agent"),
    Package("uvicorn", "live", "the service of a live agent"),
    Package("httptools", "live", "the service of a live agent (without it requests cost more)"),
    Package("tomlkit", "live", "changes of a federation's file that keep its comments"),
    Package("prometheus_client", "live", "the metrics of a live agent", "prometheus-client"),
    Package("distributed", "cluster", "sweeps on many machines (--scheduler)"),
)
_BY_NAME = {package.name: package for package in PACKAGES}


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, or the package itself.

    Example:
        >>> install_command("sim"), install_command("")
        ("pip install 'fedbandits[sim]'", 'pip install fedbandits')
    """
    return f"pip install '{OURS}[{extra}]'" if extra else f"pip install {OURS}"


def advice(error: ImportError) -> str | None:
    """Return what to install after a failed import; None for other packages.

    Example:
        >>> print(advice(ModuleNotFoundError("No module named 'xarray'", name="xarray")))
        xarray is not installed; it is needed for results: pip install 'fedbandits[sim]'
    """
    package = _BY_NAME.get(error.name or "")
    if package is None or not isinstance(error, ModuleNotFoundError):
        return None
    return _advice(package)


def _advice(package: Package) -> str:
    return (
        f"{package.name} is not installed; it is needed for {package.needed_for}: "
        f"{install_command(package.extra)}"
    )


class _LastFinder:
    """The last import finder: it raises an error with the extra for each missing package.

    So every import of an optional package fails with the same error, and functions need no `try`
    around their imports. Imports by other packages pass: they may have a fallback.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name in _BY_NAME:
            importer = _importer(sys._getframe(1))
            if importer.partition(".")[0] == OURS and importer != __name__:
                raise MissingExtraError(_advice(_BY_NAME[name]), name=name)


def _importer(frame: FrameType | None) -> str:
    """Return the name of the importing module: the innermost outside of the import system."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib", "_frozen_importlib")):
            return name
        frame = frame.f_back
    return ""


def installed(name: str) -> bool:
    """Return whether a package can be imported."""
    return importlib.util.find_spec(name) is not None


def version(name: str) -> str | None:
    """Return the version of an installed package, or None.

    Example:
        >>> version("no-such-package") is None
        True
    """
    from importlib import metadata  # slow to load, and asked for by few

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if not any(isinstance(finder, _LastFinder) for finder in sys.meta_path):
    sys.meta_path.append(_LastFinder())
