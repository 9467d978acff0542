"""The reference: every public name of a module with its docstring, found by itself.

    .. public-names:: fedbandits.problems

documents all that the module makes public; with `:of: algorithms engine`, what comes from those
rooms of the package alone.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.docutils import SphinxDirective

NAPOLEON: Any = Config(napoleon_use_rtype=False, napoleon_use_ivar=True)


def public_names(module: ModuleType) -> list[str]:
    """What a module makes public: its `__all__`, else what it defines without an underscore."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )


def public_modules() -> list[str]:
    """The modules that users reach as `fb.NAME`, and the package itself."""
    package = import_module("fedbandits")
    inside = [name for name in package.__all__ if inspect.ismodule(getattr(package, name))]
    return ["fedbandits", *(f"fedbandits.{name}" for name in inside)]


def entry(name: str, value: Any) -> list[str]:
    """The lines that let autodoc describe a name."""
    if inspect.isclass(value):
        if issubclass(value, BaseException):
            return [f".. autoexception:: {name}", "   :members:", "   :show-inheritance:", ""]
        if value.__name__ != name.rpartition(".")[2]:  # a class that users call by another name
            return [f".. autofunction:: {name}", ""]
        return [f".. autoclass:: {name}", "   :members:", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {name}", ""]
    listed = ", ".join(f"`{key}`" for key in value)
    return [f".. py:data:: {name}", "", f"   What can be named in a configuration: {listed}.", ""]


def first_line(value: Any) -> str:
    """What a thing is, in a line."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return "What can be named in a configuration."
    return plain((inspect.getdoc(value) or "").partition("\n")[0])


def plain(line: str) -> str:
    """A line of a docstring as reStructuredText: bars and stars outside code are but characters."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"([|*])", r"\\\1", part) for part in parts
    )


def readable(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: indented formulas outside sections stay as they are."""
    found: list[str] = []
    section = formula = False
    for line in lines:
        if line and not line.startswith(" "):
            section, formula = bool(re.fullmatch(r"[A-Z]\w+:", line)), False
        starts = line.startswith("    ") and not section and not formula
        if starts and found and not found[-1]:
            formula = True
            found += ["::", ""]
        code = formula or line.lstrip().startswith((">>>", "..."))
        found.append(line if code else plain(line))
    return found


def resolve(module: str) -> Any:
    """A module by the name that users know it by."""
    package, _, inside = module.partition(".")
    found = import_module(package)
    return getattr(found, inside) if inside else found


def home(module: str, name: str, value: Any) -> str:
    """The one name under which a thing is described: the shortest that users have for it."""
    package = import_module("fedbandits")
    same = name in package.__all__ and getattr(package, name) is value
    return f"fedbandits.{name}" if same else f"{module}.{name}"


def room(thing: Any) -> str:
    """The room of the package that a thing comes from."""
    return f"{getattr(thing, '__module__', '')}..".split(".")[1]


class PublicNames(SphinxDirective):
    """See the top of the file."""

    required_arguments = 1
    option_spec: ClassVar = {"of": str.split}

    def run(self) -> list[nodes.Node]:
        """A table of the names, then each."""
        module = resolve(self.arguments[0])
        things = {name: getattr(module, name) for name in public_names(module)}
        if rooms := self.options.get("of"):
            things = {name: thing for name, thing in things.items() if room(thing) in rooms}
        homes = {name: home(self.arguments[0], name, value) for name, value in things.items()}
        lines = [".. list-table::", "   :widths: auto", ""]
        for name, value in things.items():
            lines += [f"   * - :py:obj:`{name} <{homes[name]}>`", f"     - {first_line(value)}"]
        lines.append("")
        for name, value in things.items():
            if homes[name] == f"{self.arguments[0]}.{name}":
                lines += entry(homes[name], value)
        found = nodes.container()
        self.state.nested_parse(StringList(lines, self.arguments[0]), 0, found)
        return list(found.children)


def described(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make reStructuredText of a docstring, with Google's sections."""
    # Napoleon takes what stands before a colon in an attribute's docstring for its type.
    kind: Any = "function" if what in ("attribute", "data", "property") else what
    said = GoogleDocstring(readable(lines), NAPOLEON, app, kind, name, thing, options)
    lines[:] = [*str(said).splitlines(), ""]


def setup(app: Any) -> dict[str, bool]:
    """Let Sphinx know the directive, and how docstrings are written."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", described)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
