"""What a release says of itself in several places is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dtree

ROOT = Path(__file__).parents[1]
RANGE = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?\s*>=\s*([\w.]+)$")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def ranges(lines: list[str]) -> dict[str, str]:
    return {found[1]: found[2] for found in map(RANGE.match, lines) if found}


def test_there_is_one_version() -> None:
    assert "version" in project()["dynamic"]
    for name in (".github/CITATION.cff", "deploy/conda/recipe.yaml"):
        text = (ROOT / name).read_text()
        assert re.search(r"^ *version: ([\w.]+)$", text, re.MULTILINE)[1] == dtree.__version__, name
    assert f"## {dtree.__version__}\n" in (ROOT / "dtree/guide/changes.py").read_text()


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = (ROOT / "deploy" / "conda" / "recipe.yaml").read_text().split("  run:\n")[1].split("\ntests:")[0]
    lines = [line.strip(" -") for line in recipe.splitlines()]
    assert ranges(lines) == ranges(project()["dependencies"]) | {"python": project()["requires-python"][2:]}


def test_the_recipe_is_one_to_the_program_that_builds_it() -> None:
    rattler = pytest.importorskip("rattler_build")
    recipe = rattler.Stage0Recipe.from_file(ROOT / "deploy" / "conda" / "recipe.yaml")
    (made,) = recipe.render(rattler.VariantConfig(), rattler.RenderConfig())
    found = made.recipe.to_dict()
    assert found["package"] == {"name": "dtree", "version": dtree.__version__}
    assert found["build"]["noarch"] == "python"
