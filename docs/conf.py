"""Sphinx's settings: `make docs` builds the site with warnings as errors."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import made_pages  # noqa: E402

import dtree  # noqa: E402

project = "dtree"
author = "the dtree developers"
copyright = f"2026, {author}"
version = release = dtree.__version__

extensions = [
    "made_docstrings",  # before numpydoc, which reads what it leaves
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
root_doc = "index"

default_role = "py:obj"  # `name` in a docstring: a link where there is something to link to, else code
autosummary_generate = True
autodoc_typehints = "none"  # the parameters are described in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Stories are run once and kept; DTREE_DOCS_STORIES=off leaves their pictures out, for a quick look at the text.
nb_execution_mode = os.environ.get("DTREE_DOCS_STORIES", "cache")
nb_execution_cache_path = str(HERE.parent / "docs-html" / ".stories")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "dtree"
html_static_path = ["static"]
html_css_files = ["dtree.css"]
html_theme_options = {
    "logo": {"text": "dtree"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system has it
html_sidebars = {"index": [], "which_method": [], "coming_from": [], "papers": [], "glossary": []}
html_show_sourcelink = False
html_copy_source = False
linkcheck_timeout = 10
suppress_warnings = ["myst.header"]  # the results begin some sections two levels down

made_pages.make_pages()
