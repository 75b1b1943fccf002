"""The guide speaks of names that exist, and the example of the README runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dtree

ROOT = Path(dtree.__file__).parents[1]
PAGES = sorted((ROOT / "dtree" / "guide").rglob("[a-z]*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_names_in_the_guide_exist(page):
    for name in re.findall(r"`dtree\.(\w+)", page.read_text()):
        assert name in dir(dtree) or (ROOT / "dtree" / name).is_dir(), name
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


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (15, 2)) for c in (0, 6, 12, 20)])
    known = {"X": X, "X_new": X[:3], "names": [f"row {i}" for i in range(len(X))]}
    exec(code.group(1), known)
    assert known["model"].n_clusters_ == 4
