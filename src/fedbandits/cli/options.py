"""Options that several commands take."""

from __future__ import annotations

import difflib
import inspect
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to simulate.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key; may be repeated."),
]
SequenceChanges = Annotated[
    int | None,
    typer.Option(
        "--changes",
        metavar="S",
        help="Regret against the best sequence with at most S changes.",
    ),
]
SequenceParts = Annotated[
    int | None,
    typer.Option(
        "--parts",
        metavar="S",
        help="Regret against the best arm of each of S equal parts of the horizon.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder for the files written.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]


class Command(TyperCommand):
    """A command that answers the unknown option `--seed 3` with `--set seed=3`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; name the `--set` of an option that is a key of the configuration."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            settable = any("--set" in option.opts for option in self.params)
            if settable and hasattr(error, "possibilities"):  # an unknown option
                options = [option for option in error.possibilities or () if option != "--set"]
                error.possibilities = _settings(given, error.option_name) or options
            raise


UsageError: Any = typer.BadParameter.__base__
"""The class in Typer or in the click package, depending on the version of Typer."""


def _settings(given: list[str], option: str) -> list[str]:
    """Return the `--set` options that an unknown option such as `--seed` may have meant."""
    from fedbandits.config.building import SETTINGS
    from fedbandits.config.catalogue import REGISTRIES, SECTIONS

    paths: dict[str, set[str]] = {}
    for section in SECTIONS:
        for make in REGISTRIES[section].values():
            for key in inspect.signature(make).parameters:
                paths.setdefault(key, set()).add(f"{section}.{key}")
    paths |= {key: {key} for key in SETTINGS}
    name = option.lstrip("-").replace("-", "_")
    near = difflib.get_close_matches(name, paths, n=1, cutoff=0.8)
    word = next(place for place, word in enumerate(given) if word.partition("=")[0] == option)
    value = given[word].partition("=")[2] or "".join(given[word + 1 : word + 2]) or "VALUE"
    return [shlex.join(["--set", f"{path}={value}"]) for key in near for path in sorted(paths[key])]


def sequence(changes: int | None, parts: int | None) -> dict[str, int]:
    """Return the given arguments of `Result.regret_against`: one, or none for a fixed arm."""
    from fedbandits.results.dynamic_regret import given_sequence

    if changes is not None and parts is not None:
        raise ValueError(
            f"regret is against one sequence of arms: give --changes {changes} or --parts {parts}, "
            "not both"
        )
    return given_sequence(changes, parts)
