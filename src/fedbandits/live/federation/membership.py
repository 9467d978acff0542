"""Changes of membership: members join and leave a federation's file, which keeps its comments.

The operator changes the file and copies it to the sites. Agents read it when they start. Neighbours
whose files disagree about their edge refuse each other until both have the same file.
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

from .federation import Federation, unreachable
from .federation_file import federation_of


class Change(NamedTuple):
    """A change of a file.

    Attributes:
        before: the federation before the change.
        after: the federation after it.
        concerned: members of both whose neighbours, or the weights or addresses of these, changed.
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
    """Add a member to a federation's file.

    Args:
        path: of the file, which is replaced as a whole or not at all.
        name: of the new member.
        links: the members that become its neighbours.
        address: `host:port` where its neighbours reach it; None if they cannot.
        allow_modules: names of the modules that the file may name.

    Raises:
        ConfigError: if it is a member already, neither end could open one of its links, or the new
            file would be invalid.
    """

    def add(document: Any, before: Federation) -> None:
        if name in before.members:
            raise ConfigError(f"{path}: {name} is a member already; a new one needs another name")
        if not links:
            raise ConfigError(
                f"{path}: {name} would have no neighbours; link it to a member with --link "
                f"{before.members[0]}"
            )
        for other in links:
            require_member(path, before, other)
            if before.addresses and address is None and other not in before.addresses:
                raise ConfigError(
                    f"{path}: neither {name} nor {other} would have an address, so neither could "
                    f"open their link; add --address {name}.example.org:7447"
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
    """Remove a member from a federation's file.

    Args:
        path: of the file, which is replaced as a whole or not at all.
        name: of the member that leaves.
        allow_modules: names of the modules that the file may name.

    Raises:
        ConfigError: if it is not a member, the last member, or the only path between two others.
    """

    def remove(document: Any, before: Federation) -> None:
        require_member(path, before, name)
        staying = [member for member in before.members if member != name]
        if not staying:
            raise ConfigError(f"{path}: {name} is the last member; stop its agent instead")
        if apart := unreachable(staying, [link for link in _links(before) if name not in link]):
            raise ConfigError(
                f"{path}: without {name} no path leads from {staying[0]} to {', '.join(apart)}; "
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
    """Reject unknown members, and list the members."""
    if name not in federation.members:
        meant = did_you_mean(name, federation.members)
        known = ", ".join(federation.members)
        raise ConfigError(f"{path}: no member {name!r}{meant} The members are {known}")


def _changed(
    path: Path, change: Callable[[Any, Federation], None], allow_modules: Sequence[str]
) -> Change:
    """Change the members in a file, unless the new file would be invalid."""
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
    target = path.resolve()  # a symbolic link stays a link
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


def _links(federation: Federation) -> list[tuple[str, str]]:
    """Return all links, including those with weight zero."""
    members = federation.members
    return [(members[u], members[v]) for u, v in federation.network.edges.tolist()]


def _with_first_key(text: str, line: str) -> str:
    """Return a text with one more line, before the first key and below the first comments."""
    lines = text.splitlines(keepends=True)
    first = next(i for i, each in enumerate(lines) if each.strip() and each.strip()[0] != "#")
    return "".join([*lines[:first], f"{line}\n", *lines[first:]])


def _instead_of_network(path: Path, federation: Federation) -> ConfigError:
    """Return an error whose notes are the lines to write instead of a [network]."""
    members = ", ".join(f'"{name}"' for name in federation.members)
    links = ", ".join(f'["{u}", "{v}"]' for u, v in _links(federation))
    error = ConfigError(
        f"{path}: a [network] cannot gain or lose a member; replace it by these two lines above "
        "the first [section], and try again:"
    )
    error.add_note(f"members = [{members}]")
    error.add_note(f"links = [{links}]")
    return error
