"""What a release says of itself in several places is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import dtree

ROOT = Path(__file__).parents[1]
RANGE = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?\s*>=\s*([\w.]+)$")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def ranges(lines: list[str]) -> dict[str, str]:
    return {found[1]: found[2] for found in map(RANGE.match, lines) if found}


def test_there_is_one_version() -> None:
    assert "version" in project()["dynamic"]
    for name in (".github/CITATION.cff", "deploy/conda/meta.yaml"):
        text = (ROOT / name).read_text()
        assert dtree.__version__ in re.findall(r"^(?:version: |\{% set version = \")([\w.]+)", text, re.MULTILINE), name
    assert f"## {dtree.__version__}\n" in (ROOT / "dtree/guide/changes.py").read_text()


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = (ROOT / "deploy" / "conda" / "meta.yaml").read_text().split("  run:\n")[1].split("\ntest:")[0]
    lines = [line.strip(" -") for line in recipe.splitlines()]
    assert ranges(lines) == ranges(project()["dependencies"]) | {"python": project()["requires-python"][2:]}
