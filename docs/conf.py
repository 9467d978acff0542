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
warnings.filterwarnings("error", module="fedbandits")

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
nitpicky = True
# Docstrings name things of other libraries, and of ours below the public names, as types.
nitpick_ignore_regex = [(r"py:.*", r".*")]

# Docstrings have code between single backticks; public_names.py reads them.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = f"fedbandits {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it asks for pages, which browsers refuse to files
html_context = {"default_mode": "auto"}
html_sidebars = {"operations": [], "contributing": ["sidebar-nav-bs"], "index": []}
html_theme_options: dict[str, Any] = {
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": f"fedbandits {release}"},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_baseurl = ""
copyright = "the fedbandits authors; Apache-2.0"

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
    "show_memory": False,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "abort_on_example_error": True,
    "min_reported_time": 1e9,
    "plot_gallery": "True",
}
