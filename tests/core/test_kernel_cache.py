"""Machine code on disk: an edit compiles anew what it touches, and only that; old code is never served."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import dtree
from dtree.core.kernel_sources import PACKAGE, sources_of

ROOMS = ("core", "hierarchy", "kmeans", "mcmc", "variational", "diffusion")


def _python(code: str, home: Path, cache: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(home), "DTREE_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=home, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def kernels() -> list[Dispatcher]:
    for room in ROOMS:
        package = importlib.import_module(f"dtree.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"dtree.{room}."):
            importlib.import_module(module.name)
    found = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
    ours = [kernel for kernel in found if (kernel.py_func.__module__ or "").startswith("dtree.")]
    return [kernel for kernel in ours if _file(kernel).exists()]  # not those of examples in docstrings


def _file(function: object) -> Path:
    return Path(getattr(function, "py_func", function).__code__.co_filename).resolve()


def _room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0]


def test_every_kernel_that_a_kernel_calls_is_among_its_sources(kernels):
    assert len(kernels) > 100
    for kernel in kernels:
        sources = set(sources_of(_file(kernel)))
        for name in kernel.py_func.__code__.co_names:
            called = kernel.py_func.__globals__.get(name)
            called = list(called.implementations.values()) if hasattr(called, "implementations") else [called]
            for callee in called:
                if not isinstance(callee, Dispatcher) or not callee.py_func.__module__.startswith("dtree."):
                    continue
                assert _file(callee) in sources, f"{kernel.py_func.__name__} calls {callee.py_func.__name__}"


def test_implementations_stand_in_the_room_of_their_verb(kernels):
    verbs = {}
    for kernel in kernels:
        for value in kernel.py_func.__globals__.values():
            if hasattr(value, "implementations"):
                verbs[value.__qualname__] = value
    assert len(verbs) > 5
    for verb in verbs.values():
        home = verb.__module__.split(".")[1]
        for implementation in verb.implementations.values():
            if implementation.__module__.startswith("dtree."):
                assert _room(_file(implementation)) == home, (verb.__name__, implementation)


HASHES = """
import json
from pathlib import Path
from dtree.core.kernel_sources import PACKAGE, source_hash
names = [file for room in {rooms!r} for file in sorted((PACKAGE / room).rglob("*.py"))]
print(json.dumps({{file.relative_to(PACKAGE).as_posix(): source_hash(file) for file in names}}))
"""


def test_an_edit_changes_the_names_of_what_it_touches_only(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "dtree", ignore=shutil.ignore_patterns("__pycache__"))

    def changed_by(edited: str) -> set[str]:
        file = tmp_path / "dtree" / edited
        before = json.loads(_python(HASHES.format(rooms=ROOMS), tmp_path, tmp_path / "cache"))
        text = file.read_text()
        file.write_text(text + "\n# edited\n")
        after = json.loads(_python(HASHES.format(rooms=ROOMS), tmp_path, tmp_path / "cache"))
        file.write_text(text)
        return {name for name in before if before[name] != after[name]}

    assert {name.split("/")[0] for name in changed_by("kmeans/scoring/gaussian.py")} == {"kmeans"}
    assert changed_by("core/families/profile.py") == {"core/families/profile.py"}  # no kernels in it
    touched = changed_by("core/families/gaussian_kernels.py")
    assert {"core/model.py", "hierarchy/bhc.py", "kmeans/scoring/gaussian.py", "mcmc/tgmcmc.py"} <= touched
    assert not {"core/tree.py", "core/valleys.py", "variational/sweeps.py"} & touched


def test_code_of_an_edited_callee_in_another_room_is_never_served(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "dtree", ignore=shutil.ignore_patterns("__pycache__"))
    callee, caller = tmp_path / "dtree/core/callee.py", tmp_path / "dtree/kmeans/caller.py"
    text = "from dtree.core.jit import kernel\n\n\n@kernel\ndef answer():\n    return {}\n"
    caller.write_text(
        "from dtree.core.callee import answer\nfrom dtree.core.jit import kernel\n\n\n"
        "@kernel\ndef ask():\n    return 10 * answer()\n"
    )
    for value in (1, 2):
        callee.write_text(text.format(value))
        code = "from dtree.kmeans.caller import ask; print(ask(), len(ask.stats.cache_hits))"
        assert _python(code, tmp_path, tmp_path / "cache") == f"{10 * value} 0"
        assert _python(code, tmp_path, tmp_path / "cache") == f"{10 * value} 1"


FAMILY = """
from typing import NamedTuple
import numpy as np
from dtree.core.families.base import Family
from dtree.core.jit import kernel
from dtree.core.verbs import implements, log_marginal

class Compiled(NamedTuple):
    scale: float
    other: int

@implements(log_marginal, Compiled)
@kernel
def _value(family, statistics):
    return {} * family.scale * statistics[0]

class Mine(Family):
    def statistics(self, X):
        return np.ones((len(X), 1))
    def compile(self, total, coarsening=1.0):
        return Compiled(1.0, 1)
"""


def test_code_of_an_edited_family_of_ones_own_is_never_served(tmp_path):
    for value in (1.0, 2.0):
        (tmp_path / "mine.py").write_text(FAMILY.format(value))
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from mine import Mine"
        code += "; print(Mine().log_marginal([[0]]))"
        assert _python(code, Path(dtree.__file__).parents[1], tmp_path / "cache") == str(value)


def test_processes_side_by_side_keep_what_each_of_them_compiled(tmp_path):
    (tmp_path / "shared.py").write_text(
        "from dtree.core.jit import kernel\n\n\n@kernel\ndef same(value):\n    return value\n"
    )
    home = str(Path(dtree.__file__).parents[1])
    environment = {
        **os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{home}", "DTREE_CACHE_DIR": str(tmp_path / "cache")
    }  # fmt: skip
    values = ["1", "1.0", "1j", "True"]
    code = "import sys; from shared import same; print(same({}), len(same.stats.cache_hits))"

    def start(value: str) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-c", code.format(value)], env=environment, stdout=subprocess.PIPE)

    for hits in (0, 1):
        running = [start(value) for value in values]
        printed = [process.communicate()[0].decode().strip() for process in running]
        assert printed == [f"{eval(value)} {hits}" for value in values]


def test_the_same_sources_elsewhere_or_installed_again_compile_nothing(tmp_path):
    source = "from dtree.core.jit import kernel\n\n\n@kernel\ndef half(x):\n    return x / 2\n"
    code = "from dtree.core.again import half; print(half(3.0), len(half.stats.cache_hits))"
    for hits, place in enumerate(("one", "other")):
        home = tmp_path / place
        shutil.copytree(PACKAGE, home / "dtree", ignore=shutil.ignore_patterns("__pycache__"))
        file = home / "dtree" / "core" / "again.py"
        file.write_text(source)
        os.utime(file, (1e9 + hits, 1e9 + hits))
        assert _python(code, home, tmp_path / "cache") == f"1.5 {hits}"
