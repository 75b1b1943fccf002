"""Build the pages: `python -W error -m dtree.guide OUT` (`make docs`) writes the guide and the API reference as HTML."""

import re
import sys
from pathlib import Path

import dtree

PAGES = ("dtree", "dtree.guide", "dtree.datasets", "dtree.engine.cluster")


def entries_as_list(docstring: str) -> str:
    """Markdown of a docstring: entries `name : meaning` under an underlined heading become a list."""
    lines: list[str] = []
    in_section = False
    for line in docstring.splitlines():
        if re.fullmatch(r"-{3,}", line) and lines and lines[-1].istitle():
            lines[-1:] = [f"**{lines[-1]}**", ""]
            in_section = True
            continue
        in_section = in_section and bool(line.strip())
        name, colon, meaning = line.partition(" : ")
        if in_section and colon and not line.startswith(" "):
            line = f"- **{name}**: {meaning}"
        lines.append(line)
    return "\n".join(lines)


def build(out: Path) -> None:
    """Write the pages of the public names and of the guide."""
    import pdoc

    for name in dtree.__all__:
        vars(dtree).setdefault(name, getattr(dtree, name))  # pdoc looks for names that are there already
    pdoc.render.configure(show_source=False)
    pdoc.render.env.filters["to_markdown"] = entries_as_list
    pdoc.pdoc(*PAGES, output_directory=out)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "docs-html"))
