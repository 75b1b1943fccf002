"""A Sphinx extension for the reference: docstrings in the shape of numpydoc, and members of dtree's own only."""

from typing import Any

from made_pages import docstring_to_numpydoc


def _reshape(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = docstring_to_numpydoc(lines)


def _skip_what_scikit_learn_adds(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Its own pages describe `get_params`, `set_fit_request` and the like; None leaves the choice to others."""
    return True if str(getattr(thing, "__module__", "")).startswith("sklearn") else None


def setup(app: Any) -> dict[str, bool]:
    """Ask for docstrings before numpydoc does (its priority is 500)."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _reshape, priority=400)
    app.connect("autodoc-skip-member", _skip_what_scikit_learn_adds)
    return {"parallel_read_safe": True}
