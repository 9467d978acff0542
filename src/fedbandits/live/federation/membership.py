"""Members join and leave: a federation's file changed by its operator, comments and all kept.

The file is the whole of the membership. It is changed here, copied to the sites, and taken by
agents when they start; those whose files disagree about their edge refuse each other meanwhile.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedbandits.common.checks import did_you_mean
from fedbandits.common.files import atomic_write
from fedbandits.config.experiment import ConfigError
from fedbandits.config.reading import read_config

from .definition import Federation
from .file import federation_of


class Change(NamedTuple):
    """What has changed in a file.

    Attributes:
        before: the federation as it was.
        after: as the file has it now.
        concerned: who was there, stays, and has other neighbours, weights or addresses of them now.
    """

    before: Federation
    after: Federation
    concerned: tuple[str, ...]


def join(
    path: str | Path,
    name: str,
    links: Sequence[str],
    address: str | None = None,
    allow_modules: Sequence[str] = (),
) -> Change:
    """Put a member into a federation's file.

    Args:
        path: of the file, which is replaced whole or not at all.
        name: of the new member.
        links: the members that it hears.
        address: `host:port`, where its neighbours reach it; None if nobody can.
        allow_modules: names of the modules that the file may name.

    Raises:
        ConfigError: if it is a member already, nobody could open one of its links, or no
            federation comes of it.
    """

    def add(document: Any, before: Federation) -> None:
        if name in before.members:
            raise ConfigError(f"{path}: {name} is a member already; a new one needs another name")
        if not links:
            raise ConfigError(
                f"{path}: {name} would hear nobody; link it to a member with --link "
                f"{before.members[0]}"
            )
        for other in links:
            require_member(path, before, other)
            if before.addresses and address is None and other not in before.addresses:
                raise ConfigError(
                    f"{path}: neither {name} nor {other} would have an address, so that nobody "
                    f"could open their link; add --address {name}.example.org:7447"
                )
        document["members"].append(name)
        for other in links:
            document["links"].append([name, other])
        if address is not None:
            if "addresses" not in document:
                document["addresses"] = {}
            document["addresses"][name] = address

    return _changed(Path(path), add, allow_modules)


def leave(path: str | Path, name: str, allow_modules: Sequence[str] = ()) -> Change:
    """Take a member out of a federation's file.

    Args:
        path: of the file, which is replaced whole or not at all.
        name: of the member that goes.
        allow_modules: names of the modules that the file may name.

    Raises:
        ConfigError: if it is no member, the last one, or the only way between two others.
    """

    def remove(document: Any, before: Federation) -> None:
        require_member(path, before, name)
        staying = [member for member in before.members if member != name]
        if not staying:
            raise ConfigError(f"{path}: {name} is the last member; stop its agent instead")
        if apart := _apart(before, name):
            raise ConfigError(
                f"{path}: without {name} no way leads from {staying[0]} to {', '.join(apart)}; "
                f'link them first, as in links = [..., ["{staying[0]}", "{apart[0]}"]]'
            )
        document["members"].remove(name)
        links = document["links"]
        for place in reversed(range(len(links))):
            if name in links[place]:
                del links[place]
        document.get("addresses", {}).pop(name, None)

    return _changed(Path(path), remove, allow_modules)


def require_member(path: str | Path, federation: Federation, name: str) -> None:
    """Refuse a name that is no member's, and say whose are."""
    if name not in federation.members:
        meant = did_you_mean(name, federation.members)
        known = ", ".join(federation.members)
        raise ConfigError(f"{path}: no member {name!r}{meant} There are {known}")


def _changed(
    path: Path, change: Callable[[Any, Federation], None], allow_modules: Sequence[str]
) -> Change:
    """Change a file's members; nothing is written unless a federation comes of it."""
    import tomlkit

    before = federation_of(read_config(path), path, allow_modules)
    text = path.read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    if "version" not in document:
        document = tomlkit.parse(_with_first_key(text, f"version = {before.version}"))
    if "network" in document:
        raise _instead_of_network(path, before)
    try:
        change(document, before)
    except ValueError as error:
        raise (
            error if isinstance(error, ConfigError) else ConfigError(f"{path}: {error}")
        ) from error
    document["version"] = before.version + 1
    new = tomlkit.dumps(document)
    after = federation_of(tomllib.loads(new), path, allow_modules)
    target = path.resolve()  # a link stays one
    mode = target.stat().st_mode & 0o777
    with atomic_write(target) as file:
        file.write(new.encode())
    target.chmod(mode)
    return Change(before, after, _concerned(before, after))


def _concerned(before: Federation, after: Federation) -> tuple[str, ...]:
    staying = [name for name in after.members if name in before.members]

    def known(federation: Federation, name: str) -> tuple[Any, ...]:
        part = federation.part(name)
        return part.neighbours, part.addresses

    return tuple(name for name in staying if known(before, name) != known(after, name))


def _apart(federation: Federation, gone: str) -> list[str]:
    """Who hears nothing of the first of those who stay, were a member gone."""
    staying = [name for name in federation.members if name != gone]
    edges = [edge for edge in _links(federation) if gone not in edge]
    heard = {staying[0]}
    for _ in staying:
        heard |= {name for edge in edges if heard & set(edge) for name in edge}
    return [name for name in staying if name not in heard]


def _links(federation: Federation) -> list[tuple[str, str]]:
    """All of them, those over which nothing is sent too."""
    members = federation.members
    return [(members[u], members[v]) for u, v in federation.network.edges.tolist()]


def _with_first_key(text: str, line: str) -> str:
    """A text with a key more, before the others and below what is said of the whole file."""
    lines = text.splitlines(keepends=True)
    first = next(i for i, each in enumerate(lines) if each.strip() and each.strip()[0] != "#")
    return "".join([*lines[:first], f"{line}\n", *lines[first:]])


def _instead_of_network(path: Path, federation: Federation) -> ConfigError:
    """An error whose notes are the lines to write."""
    members = ", ".join(f'"{name}"' for name in federation.members)
    links = ", ".join(f'["{u}", "{v}"]' for u, v in _links(federation))
    error = ConfigError(
        f"{path}: [network] has no place for one member more or less; write these two lines "
        "above the first [section] instead of it, and try again:"
    )
    error.add_note(f"members = [{members}]")
    error.add_note(f"links = [{links}]")
    return error
