"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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


def sequence(changes: int | None, parts: int | None) -> dict[str, int]:
    """The arguments of `Result.regret_against` that were given: one, or none for a fixed arm."""
    from fedbandits.results.dynamic_regret import given_sequence

    if changes is not None and parts is not None:
        raise ValueError(
            f"regret is against one sequence of arms: give --changes {changes} or --parts {parts}, "
            "not both"
        )
    return given_sequence(changes, parts)
