"""Formulas: z_t^v, W_uv and T^(2/3) are set with their indices below and above.

The pages and docstrings hold them as plain text, as everybody reads them in a terminal. Code stays
as it is, but for indented blocks with signs that no program has.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

WORD = "[A-Za-z0-9α-ωΑ-Ω]+"
INDEX = re.compile(
    r"(?P<base>(?<![\w`])(?:min|max|[^\W\d_][\u0300-\u036f]?)|[‖)'’])"
    rf"_(?:\{{(?P<braced>[^{{}}]+)\}}|(?P<sub>{WORD}|∞))"
    rf"|\^(?:\{{(?P<curled>[^{{}}]+)\}}|\((?P<round>[^()]+)\)|(?P<sup>-?{WORD}))"
)
"""An index below a letter or a bracket, or an exponent."""
SIGNS = re.compile("[Σηλγωℓ∝≤≥⟨]")
"""A block with one of these is a formula."""


def pieces(text: str) -> list[nodes.Node]:
    """A text with its indices as nodes of their own."""
    found: list[nodes.Node] = []
    end = 0
    for match in INDEX.finditer(text):
        found.append(nodes.Text(text[end : match.start()] + (match["base"] or "")))
        below = match["braced"] or match["sub"]
        above = match["curled"] or match["round"] or match["sup"]
        found.append(nodes.subscript("", below) if below else nodes.superscript("", above))
        end = match.end()
    return [*found, nodes.Text(text[end:])]


class Formulas(SphinxPostTransform):
    """Sets the indices of all pages."""

    default_priority = 900
    code: ClassVar = (nodes.literal, nodes.literal_block, nodes.raw, nodes.reference, nodes.title)

    def run(self, **_: Any) -> None:
        """Blocks first, then every text that is no code."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language", "none") in ("none", "default") and is_formula(block.astext()):
                lines = (nodes.line("", "", *pieces(line)) for line in block.astext().split("\n"))
                block.replace_self(nodes.line_block("", *lines, classes=["formula"]))
        for text in list(self.document.findall(nodes.Text)):
            if INDEX.search(text) and not self.is_code(text):
                text.parent.replace(text, pieces(text))

    def is_code(self, text: nodes.Text) -> bool:
        """Whether a text stands in code, in an address, or in a signature."""
        node = text.parent
        while node is not None:
            signature = node.tagname.startswith("desc_") and node.tagname != "desc_content"
            if signature or isinstance(node, self.code) or "formula" in node.get("classes", ()):
                return True
            node = node.parent
        return False


def is_formula(block: str) -> bool:
    """Whether an indented block is a formula, and no listing."""
    return bool(INDEX.search(block) and SIGNS.search(block))


def setup(app: Any) -> dict[str, bool]:
    """Let Sphinx do so."""
    app.add_post_transform(Formulas)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
