"""The pages of the guide and the reference build without a warning, and the guide speaks of names that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dtree
from dtree.guide.__main__ import entries_as_list

ROOT = Path(dtree.__file__).parents[1]
PAGES = sorted((ROOT / "dtree" / "guide").rglob("[a-z]*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_names_in_the_guide_exist(page):
    for name in re.findall(r"`dtree\.(\w+)", page.read_text()):
        assert name in dtree.__all__ or (ROOT / "dtree" / name).is_dir(), name
    for path in re.findall(r"`dtree\.guide\.([\w.]+)`", page.read_text()):
        assert any(
            (ROOT / "dtree" / "guide" / path.replace(".", "/")).with_suffix(end).exists() for end in (".py", "")
        ), path


def test_every_promise_names_a_test_that_is_there():
    from dtree.guide import promises

    rows = [line for line in (promises.__doc__ or "").splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for row in rows:
        file, _, name = row.split("|")[-2].strip().strip("`").partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert f"def {name}(" in text if name else "def test_" in text, row


def test_pages_build(tmp_path):
    pytest.importorskip("pdoc")
    command = [sys.executable, "-W", "error", "-m", "dtree.guide", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Choose a family" in (tmp_path / "dtree" / "guide" / "families.html").read_text()
    assert "phi_t" in (tmp_path / "dtree" / "guide" / "algorithms" / "bhc.html").read_text()
    reference = (tmp_path / "dtree.html").read_text()
    assert "BayesKMeansBHC" in reference
    assert "<strong>coarsening</strong>: zeta" in reference


def test_parameters_become_a_list():
    docstring = (
        "Count.\n\nParameters\n----------\nrows : how many,\n    at least 1.\nseed : of chance.\n\nA : b.\n\n---\nx : y"
    )
    assert entries_as_list(docstring).splitlines() == [
        "Count.", "", "**Parameters**", "", "- **rows**: how many,", "    at least 1.", "- **seed**: of chance.", "", "A : b.", "", "---", "x : y",  # noqa: E501
    ]  # fmt: skip


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (15, 2)) for c in (0, 6, 12, 20)])
    known = {"X": X, "X_new": X[:3], "names": [f"row {i}" for i in range(len(X))]}
    exec(code.group(1), known)
    assert known["model"].n_clusters_ == 4
