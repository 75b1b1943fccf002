"""The site builds without a warning, and what it makes from docstrings reads as meant."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dtree

ROOT = Path(dtree.__file__).parents[1]

pytest.importorskip("sphinx")


@pytest.fixture
def made_pages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import made_pages

    return made_pages


def test_the_site_builds(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(tmp_path / "site")]
    # Stories are run by their own tests; here only their text is built.
    surroundings = {**os.environ, "DTREE_DOCS_STORIES": "off"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=surroundings)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "site" / "_made"
    assert "Choose a family" in (made / "guide" / "families.html").read_text()
    assert "phi_t" in (made / "guide" / "algorithms" / "bhc.html").read_text()
    assert "nothing is joined" in (made / "reference" / "dtree.TreeClustering.html").read_text()
    performance = (made / "performance.html").read_text()
    for row in json.loads((ROOT / "benchmarks" / "scoreboard.json").read_text()).values():
        assert f"{row['date']}, {row['commit']}, load {row['load']}" in performance
    for page in (tmp_path / "site").rglob("*.html"):
        for link in re.findall(r'href="([^"#:?]+\.html)', page.read_text()):
            assert (page.parent / link).resolve().exists(), f"{page.name} leads to {link}, which is not there"


def test_the_reference_lists_every_public_name():
    listed = (ROOT / "docs" / "reference" / "index.md").read_text()
    for name in dtree.__all__:
        assert name == "__version__" or re.search(rf"^   {name}$", listed, re.MULTILINE), name


def test_meanings_of_parameters_get_lines_of_their_own(made_pages):
    docstring = (
        "Count.\n\nParameters\n----------\nrows : how many,\n    at least 1.\nseed : of chance.\n\nA : b.".splitlines()
    )
    assert made_pages.docstring_to_numpydoc(docstring) == [
        "Count.", "", "Parameters", "----------",
        "rows", "    how many,", "    at least 1.", "seed", "    of chance.", "", "A : b.",
    ]  # fmt: skip


def test_examples_are_fenced_and_names_are_linked(made_pages):
    text = "Look:\n\n>>> 1 + 1\n2\n\nSee `dtree.guide.trust` and `dtree.BHC`."
    fenced = made_pages.fenced_examples(text)
    assert "```pycon\n>>> 1 + 1\n2\n```\n" in fenced
    linked = made_pages.linked(fenced, depth=1)
    assert "](../guide/trust.md)" in linked
    assert "{py:obj}`dtree.BHC`" in linked
