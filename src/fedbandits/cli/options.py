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
Out = Annotated[Path, typer.Option("--out", help="Folder for the files written.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]
