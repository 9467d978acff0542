"""The reference of the command line: what every command says with `--help`.

.. command-help::
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command below a group, groups themselves left out."""
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        inside = hasattr(command, "commands")
        found += commands(command, (*path, name)) if inside else [(*path, name)]
    return found


class CommandHelp(SphinxDirective):
    """See the top of the file."""

    def run(self) -> list[nodes.Node]:
        """A section for each command."""
        import typer
        from typer.testing import CliRunner

        from fedbandits.cli import app

        runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
        sections: list[nodes.Node] = []
        for words in commands(typer.main.get_command(app)):
            said = runner.invoke(app, [*words, "--help"], prog_name="fedbandits").output
            name = f"fedbandits {' '.join(words)}"
            section = nodes.section(ids=[nodes.make_id(name)], names=[name])
            section += nodes.title("", name)
            section += nodes.literal_block("", said.strip("\n"), language="none")
            sections.append(section)
        return sections


def setup(app: Any) -> dict[str, bool]:
    """Let Sphinx know the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
