"""Build the pages: `python -W error -m dtree.guide OUT` (`make docs`) writes the guide and the API reference as HTML."""

from __future__ import annotations

import sys
from pathlib import Path

import dtree

PAGES = ("dtree", "dtree.guide", "dtree.datasets", "dtree.engine.cluster")


def build(out: Path) -> None:
    """Write the pages of the public names and of the guide."""
    import pdoc

    for name in dtree.__all__:
        vars(dtree).setdefault(name, getattr(dtree, name))  # pdoc looks for names that are there already
    pdoc.render.configure(show_source=False)
    pdoc.pdoc(*PAGES, output_directory=out)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "docs-html"))
