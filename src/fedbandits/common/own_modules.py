"""Modules that a file names, such as `my_package.algorithms`: found, imported, and their source.

Importing a module runs its code, so the caller must permit it. `looking_in` permits every module,
for a file that belongs to the user. `allowing` permits the modules that the user names, for a file
that others may change. Python looks for a module in installed packages and PYTHONPATH, and then in
the folder that `looking_in` gives. That folder stays on `sys.path`, since a function of the module
may import another one later.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .describe import Fresh


class OwnError(ValueError):
    """Something that a file names as `module:attribute` and that cannot be used."""


class Source(NamedTuple):
    """The file of a module as it was when the module was imported, or first asked for."""

    path: Path
    stamp: tuple[int, int]
    sha256: str


class Permission(NamedTuple):
    """The modules that may be imported.

    Attributes:
        names: names of the modules; None for every module.
        folder: folder that is searched after installed packages and PYTHONPATH, if any.
    """

    names: frozenset[str] | None
    folder: Path | None = None


NONE = Permission(frozenset())
"""No module: the default, so that a caller that permits nothing runs no code."""

_permission: ContextVar[Permission] = ContextVar("permission", default=NONE)
_sources: dict[str, Source] = {}


def looking_in(folder: Path) -> AbstractContextManager[None]:
    """Permit every module within the block, and look for modules in this folder too."""
    return _permitting(Permission(None, folder.resolve()))


def allowing(names: Iterable[str]) -> AbstractContextManager[None]:
    """Permit only these modules within the block; they must be installed or on PYTHONPATH.

    Example:
        >>> with allowing(["json"]):
        ...     load("json").__name__
        'json'
    """
    if isinstance(names, str):
        raise TypeError(f"allow_modules must be a list of names such as [{names!r}], not {names!r}")
    return _permitting(Permission(frozenset(names)))


@contextmanager
def _permitting(permission: Permission) -> Iterator[None]:
    before = _permission.set(permission)
    try:
        yield
    finally:
        _permission.reset(before)


def load(name: str) -> ModuleType:
    """Import the module of that name, and remember its source.

    Raises:
        OwnError: if it is not permitted, cannot be found or imported, is hidden by another one of
            its name, or was imported before its file was changed.
    """
    permitted, folder = _permission.get()
    if permitted is not None and name not in permitted:
        raise OwnError(
            f"the module {name!r} is not allowed here, since others may change this file; if you "
            f'trust its code, write allow_modules = ["{name}"] in agent.toml, and give other '
            f"commands --allow-module {name}"
        )
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    if name not in sys.modules:
        importlib.invalidate_caches()  # the file may be a second old
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise OwnError(_why(name, error, folder)) from error
    _refuse_hidden(name, module, folder)
    remember(name)
    return module


def remember(name: str) -> str | None:
    """Return the SHA-256 of the source of an imported module; None if it has no file.

    Raises:
        OwnError: if the file was changed since: what would be played is not what it says.
    """
    file = getattr(sys.modules[name], "__file__", None)
    if file is None:
        return None
    path = Path(file)
    now = _stamp(path)
    known = _sources.get(name)
    if known is None or known.path != path:
        known = _sources[name] = Source(path, now, _hash(path))
    elif known.stamp != now:
        if _hash(path) != known.sha256:
            raise OwnError(
                f"{path} was changed after this process had imported it; start the process again "
                "(a Dask worker too)"
            )
        known = _sources[name] = known._replace(stamp=now)
    return known.sha256


def sources_of(*values: Any) -> dict[str, str]:
    """Return the SHA-256 of the loaded modules that objects or their parts are from.

    Example:
        >>> from fedbandits.schedules import power
        >>> sources_of(power(0.01, 0.5))
        {}
    """
    modules = {name for value in values for name in _modules(value)}
    return {name: _sources[name].sha256 for name in sorted(modules & _sources.keys())}


def _modules(value: Any) -> Iterator[str]:
    """Yield the modules that define an object, its parts and the functions it calls."""
    if isinstance(value, Fresh):
        yield from _modules(value.function)
    elif isinstance(value, functools.partial):
        yield from _modules(value.func)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (kind.__module__ for kind in type(value).__mro__)
        for field in dataclasses.fields(value):
            yield from _modules(getattr(value, field.name))
    elif callable(value):
        yield str(getattr(value, "__module__", ""))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise OwnError(f"{path} is gone ({error.strerror}); put it back") from error
    return found.st_mtime_ns, found.st_size


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _why(name: str, error: BaseException, folder: Path | None) -> str:
    """Return why an import failed: the module is missing, or its code fails."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if name == error.name or name.startswith(f"{error.name}."):
            return _not_found(error.name, folder)
        return (
            f"{name} imports {error.name}, which is not installed{line_of(error)}; install it, or "
            "put it next to it"
        )
    words = f"{type(error).__name__}: {error}".strip(": ")
    return f"importing {name} fails: {words}{line_of(error)}"


def _not_found(name: str, folder: Path | None) -> str:
    here = Path.cwd()
    looked = f"in {folder} and " if folder is not None else ""
    fix = (
        "put it into that folder, install it, or name its folder in PYTHONPATH"
        if folder is not None
        else "install it, or name its folder in PYTHONPATH"
    )
    if here != folder and _is_in(name.partition(".")[0], here):
        fix = (
            f"it is in the current folder, which is not looked into: run with PYTHONPATH={here}"
            + ("" if folder is None else f', or write modules = "{os.path.relpath(here, folder)}"')
        )
    return f"there is no module {name} {looked}where Python looks ({_paths(folder)}); {fix}"


def _paths(folder: Path | None) -> str:
    """Return the folders on the path other than Python's own."""
    own = {str(Path(sys.prefix)), str(Path(sys.base_prefix))}
    others = [
        path
        for path in sys.path
        if path and path != str(folder) and not any(path.startswith(root) for root in own)
    ]
    return ", ".join(["installed packages", *others])


def _refuse_hidden(name: str, module: ModuleType, folder: Path | None) -> None:
    """Refuse a module that is not the one in the folder, where that has one of the name."""
    top = name.partition(".")[0]
    file = getattr(module, "__file__", None)
    if folder is None or file is None or not _is_in(top, folder):
        return
    # As it is called, too: a link in the folder may lead out of it.
    if folder not in (*Path(file).parents, *Path(file).resolve().parents):
        raise OwnError(
            f"{folder / top} is hidden by {file}, which Python found first or had imported before; "
            "give it another name"
        )


def _is_in(top: str, folder: Path) -> bool:
    return (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file()


def line_of(error: BaseException) -> str:
    """Return where user code, else a library, raised an error.

    Lines of libraries count only if there is no other: the caller is nearer to the fault.
    """
    if isinstance(error, SyntaxError):  # which names its place itself
        return ""
    others = {Path(importlib.__file__ or "").parent, Path(__file__).parents[1]}
    outside = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and others.isdisjoint(Path(frame.filename).parents)
    ]
    users = [frame for frame in outside if "site-packages" not in Path(frame.filename).parts]
    frames = users or outside
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
