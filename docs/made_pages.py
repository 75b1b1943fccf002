"""Pages that are made from what stands elsewhere, so that nothing is written twice.

The text of the guide lives in the docstrings of `dtree.guide`, where `pydoc` finds it; notebooks live in `notebooks/`;
measured figures in `benchmarks/RESULTS.md`, seconds in the kept rows of its scoreboard. `make_pages` writes all of
them, as Markdown and notebooks, into `docs/_made/` before Sphinx reads its sources. `docstring_to_numpydoc` brings the
docstrings of the reference into the shape that numpydoc wants.
"""

import importlib
import json
import pkgutil
import re
import shutil
from pathlib import Path

import decision_picture

DOCS = Path(__file__).parent
ROOT = DOCS.parent
MADE = DOCS / "_made"
ENTRIES = ("Parameters", "Attributes", "Returns")


def guide_modules() -> list[str]:
    """Names of all modules of the guide, the page of contents first."""
    guide = importlib.import_module("dtree.guide")
    found = pkgutil.walk_packages(guide.__path__, "dtree.guide.")
    return ["dtree.guide", *sorted(module.name for module in found if not module.name.endswith("__main__"))]


def page_of(module: str) -> str:
    """Where the page of a module of the guide goes, below `_made/`: `dtree.guide.trust` is `guide/trust`."""
    tail = module.removeprefix("dtree.").replace(".", "/")
    return f"{tail}/index" if hasattr(importlib.import_module(module), "__path__") else tail


def fenced_examples(text: str) -> str:
    """The text with its doctests in fences: Markdown would take `>>>` for a quotation."""
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>") and not inside:
            out.append("```pycon")
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)


def short(title: str) -> str:
    """The first line of a docstring as a heading: what stands before the colon, without a full stop."""
    return title.partition(":")[0].rstrip(".")


def linked(text: str, depth: int) -> str:
    """Names of guide pages and public names become links; `depth` is how many folders the page lies below `_made/`."""
    import dtree

    up = "../" * depth

    def of_page(found: re.Match[str]) -> str:
        path = page_of(found[1])
        title = (importlib.import_module(found[1]).__doc__ or "").strip().splitlines()[0]
        return f"[{short(title)}]({up}{path}.md)"

    text = re.sub(r"`(dtree\.guide(?:\.\w+)*)`", of_page, text)
    public = "|".join(sorted(set(dtree.__all__) - {"__version__"}, key=len, reverse=True))
    return re.sub(rf"`dtree\.({public})`", r"{py:obj}`dtree.\1`", text)


def guide_page(module: str) -> str:
    """Markdown of one page: its first line is the title; a package lists its pages."""
    text = (importlib.import_module(module).__doc__ or "").strip()
    title, _, body = text.partition("\n")
    path = page_of(module)
    body = "".join(
        part if i % 2 else linked(part, path.count("/"))
        for i, part in enumerate(re.split(r"(```pycon\n.*?```)", fenced_examples(body), flags=re.DOTALL))
    )
    page = f"# {short(title)}\n{body}\n"
    if path.endswith("/index"):
        below = [name for name in guide_modules() if name.rpartition(".")[0] == module]
        names = [page_of(name).removeprefix(path.removesuffix("index")) for name in below]
        page += "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
    return page


def with_links_to_files(text: str, folder: str) -> str:
    """Relative links of a file in `folder`: to pictures they stay links, of other files the path is named."""

    def mended(found: re.Match[str]) -> str:
        target = (ROOT / folder / found[2]).resolve().relative_to(ROOT.resolve())
        if target.suffix in (".png", ".svg"):
            return f"[{found[1]}](/_made/pictures/{target.name})"
        return f"{found[1]} (`{target}`)"

    return re.sub(r"\[([^\]]*)\]\((?!http|#|/)([^)#]+)[^)]*\)", mended, text)


PERFORMANCE = """# Performance

What a person waits for: seconds of the processor here, and of a peer in the same run.

{table}

On {machines}. Seconds of the last release passed on a quiet machine of two cores; under load (how many programs wanted
the two cores) a second of the processor does less. `python -m benchmarks scoreboard --record` measures the rows again;
every row checks its answer before it is timed. [All tables, answers too, and where dtree loses](measured.md).

```{{toctree}}
:hidden:

measured
```
"""


def performance_page() -> str:
    """Markdown of the rows that the scoreboard kept."""
    rows = json.loads((ROOT / "benchmarks" / "scoreboard.json").read_text())
    last = json.loads((ROOT / "benchmarks" / "last_release.json").read_text())

    def shown(spent: dict[str, float | None] | None) -> str:
        """Seconds of the processor, or those that passed where the former are not known."""
        if spent is None:
            return ""
        return f"{spent['seconds']:.2f} passed" if spent["processor"] is None else f"{spent['processor']:.2f}"

    table = ["| what | dtree | peer | peer's | last release | measured |", "| --- | ---: | --- | ---: | ---: | --- |"]
    for name, row in rows.items():
        when = f"{row['date']}, {row['commit']}, load {row['load']}"
        cells = [row["what"], shown(row["here"]), row["peer"], shown(row["there"]), last.get(name, ""), when]
        table.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    machines = " and ".join(sorted({row["machine"] for row in rows.values()}))
    return PERFORMANCE.format(table="\n".join(table), machines=machines)


def make_pages() -> None:
    """Write all made pages anew."""
    shutil.rmtree(MADE, ignore_errors=True)
    shutil.copytree(ROOT / "notebooks" / "pictures", MADE / "pictures")
    for module in guide_modules():
        path = (MADE / page_of(module)).with_suffix(".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(guide_page(module))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        (MADE / "stories").mkdir(exist_ok=True)
        shutil.copy(notebook, MADE / "stories" / notebook.name)
    decision_picture.write(MADE / "which_method.html")
    (MADE / "performance.md").write_text(performance_page())
    for source, page in ((ROOT / "benchmarks" / "RESULTS.md", "measured"), (ROOT / "deploy" / "README.md", "deploy")):
        text = with_links_to_files(source.read_text(), source.parent.name)
        (MADE / f"{page}.md").write_text(text)


def docstring_to_numpydoc(lines: list[str]) -> list[str]:
    """Entries `name : meaning` of a section get their meaning on lines of its own, as numpydoc reads it."""
    out: list[str] = []
    section = ""
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip() or "x") and line.strip():
            section = line.strip()
        name, colon, meaning = line.partition(" : ")
        if section in ENTRIES and colon and not line.startswith(" "):
            out += [name, f"    {meaning}"]
        else:
            out.append(line)
        if section and not line.strip():
            section = ""
    return out
