"""How Sphinx makes the site: `make docs`. Nothing on it is loaded from elsewhere."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import matplotlib as mpl

from fedbandits import __version__

mpl.use("agg")
warnings.filterwarnings("error", module="fedbandits")  # of the gallery's scripts

project = "fedbandits"
version = release = __version__
author = "the fedbandits authors"
extensions = [
    "command_help",
    "elsewhere",
    "formulas",
    "myst_parser",
    "public_names",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["results", "gallery/*.py", "gallery/*.ipynb"]

# Docstrings have code between single backticks; public_names.py reads them.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = f"fedbandits {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it asks for pages, which browsers refuse to files
html_context = {"default_mode": "auto"}
html_sidebars: dict[str, list[str]] = {"operations": [], "index": []}
html_theme_options: dict[str, Any] = {
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": f"fedbandits {release}"},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copyright = "the fedbandits authors; Apache-2.0"

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib", "animations"),
    "write_computation_times": False,  # a page that asks for scripts outside
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "min_reported_time": 1e9,  # times of a busy machine say nothing
}
