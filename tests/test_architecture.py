"""The house rules: who may import whom, what importing costs, what public names carry."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dtree
from dtree.methods import METHODS, method_named
from dtree.methods.settings import options_of

PACKAGE = Path(dtree.__file__).parent
# Each room may import what stands before it, never what stands after it. Rooms in one row may not import each other;
# all numerics may stand on hierarchy, where trees are built.
ROWS = [
    {"core"},
    {"storage"},
    {"hierarchy"},
    {"kmeans", "mcmc", "variational", "diffusion"},
    {"methods"},
    {"data", "runs"},
    {"engine"},
    {"estimators", "reporting", "datasets", "guide"},
    {"cli", "scverse"},
]
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row}
CORE_ONLY = {
    "data",
    "runs",
}  # with places; methods get sources, workers and runs as arguments
# The faces of the last rooms know each other: an estimator is drawn by the report.
FREE_ROWS = {7}
MOST_PARAMETERS = 9  # more are a record that has no name yet
# Settings that are no parameters of the estimator: how often a run commits, and what only the command asks for.
ONLY_SETTINGS = {"randomized": {"subset"}, "ddt": {"checkpoint_seconds"}, "chains": {"block_draws"}}
# None means what the run has whose clusters are sampled; with rows it is the estimator's default.
OF_ANOTHER_RUN = {"chains": {"family": "auto", "prior": "dp", "coarsening": 1.0}}
MOST_LINES = 400  # of a file: one idea is said in less


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def _sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", _sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_go_one_way(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert room in RANK, f"tell this test where {room} stands"
    for module in _imports(path):
        parts = module.split(".")
        if parts[0] in ("dask", "distributed"):
            assert room == "engine", f"only the engine may import {parts[0]}"
        if parts[0] != "dtree" or len(parts) < 2:
            continue
        other = parts[1]
        if other not in RANK:  # a name of the package itself, such as __version__
            continue
        allowed = RANK[other] < RANK[room] or other == room or (RANK[other] == RANK[room] and RANK[room] in FREE_ROWS)
        assert allowed, f"{room} may not import {other}"
        allowed = room not in CORE_ONLY or other in (room, "core", "storage")
        assert allowed, f"{room} may import core and storage only, not {other}"


@pytest.mark.parametrize("path", _sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_files_and_lists_of_parameters_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        # scikit-learn wants every parameter of an estimator in its constructor
        if node.name == "__init__" and path.parent.name == "estimators":
            continue
        arguments = node.args
        names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
        count = len([name for name in names if name not in ("self", "cls")])
        assert count <= MOST_PARAMETERS, f"{node.name} has {count} parameters"


@pytest.mark.parametrize("name", METHODS)
def test_settings_and_parameters_have_the_same_defaults(name):
    method = method_named(name)
    parameters = inspect.signature(getattr(dtree, method.estimator)).parameters
    options = options_of(method.Settings)
    shared = [option for option in options if option.name in parameters]
    for option in shared:
        default = OF_ANOTHER_RUN.get(name, {}).get(option.name, option.default)
        assert parameters[option.name].default == default, option.name
    missing = {option.name for option in options} - set(parameters)
    assert missing == ONLY_SETTINGS.get(name, set())


def _public_objects() -> list[tuple[str, object]]:
    return [(name, getattr(dtree, name)) for name in dtree.__all__ if not name.startswith("__")]


@pytest.mark.parametrize(
    ("name", "thing"), _public_objects(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_public_names_are_documented_with_an_example_and_typed(name, thing):
    assert inspect.getdoc(thing), f"{name} has no docstring"
    module = sys.modules[thing.__module__]
    examples = [test for test in doctest.DocTestFinder().find(thing, name, module=module) if test.examples]
    assert examples, f"{name} has no example"
    functions = (
        [thing]
        if inspect.isfunction(thing)
        else [member for key, member in vars(thing).items() if inspect.isfunction(member) and not key.startswith("_")]
    )
    for function in functions:
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, f"{name}.{function.__name__}: no return type"
        for parameter in signature.parameters.values():
            typed = parameter.annotation is not inspect.Parameter.empty
            assert typed or parameter.name in ("self", "cls"), f"{name}.{function.__name__}({parameter.name})"
        assert inspect.getdoc(function), f"{name}.{function.__name__} has no docstring"


def test_every_public_name_is_where_it_is_said_to_be():
    for name in dtree.__all__:
        if not name.startswith("__"):
            assert getattr(importlib.import_module(dtree._HOME[name]), name) is getattr(dtree, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dtree.nonsense


def test_type_checkers_find_every_public_name_in_the_same_place():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert {name.asname: node.module for node in imports for name in node.names} == {
        **dtree._HOME,
        **{name: home.rpartition(".")[0] for name, home in dtree._ROOMS.items()},
    }


def _python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_is_light():
    heavy = ["numba", "scipy", "sklearn", "dask", "distributed", "zarr", "pandas", "matplotlib", "numpy", "anndata"]
    code = f"import sys, dtree; print(*[m for m in {heavy!r} if m in sys.modules])"
    assert _python(code) == ""


FIT = """
import numpy as np, dtree
from numba.core.dispatcher import Dispatcher
import gc
rng = np.random.default_rng(0)
dtree.BHC(dtree.Gaussian([0, 0], 0.1, 4.0, np.eye(2)), dtree.DirichletProcess(1.0)).fit(rng.normal(size=(20, 2)))
kernels = [k for k in gc.get_objects() if isinstance(k, Dispatcher)]
kernels = [k for k in kernels if (k.py_func.__module__ or "").startswith("dtree")]  # numba makes some without
hits = sum(sum(k.stats.cache_hits.values()) for k in kernels)
misses = sum(sum(k.stats.cache_misses.values()) for k in kernels)
print(hits, misses)
"""


def test_a_second_process_compiles_nothing():
    """What happens where nothing was compiled before is in core/test_kernel_cache."""
    assert sum(map(int, _python(FIT).split())) > 0
    hits, misses = map(int, _python(FIT).split())
    assert hits > 0
    assert misses == 0


AGREE = """
import numpy as np, dtree
from dtree.core.families import FAMILIES, moments_of
from dtree.core.model import Model
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.bounds import tree_bounds
from dtree.hierarchy.exact import log_evidence_by_recursion
rng = np.random.default_rng(0)
X = {"real": rng.normal(size=(9, 2)), "binary": rng.integers(0, 2, (9, 2)), "count": rng.poisson(3, (9, 2))}
X["category"], X["mixed"] = X["binary"], X["real"]
for family in FAMILIES.values():
    rows = X[family.value_kind].astype(float)
    for prior in (dtree.DirichletProcess(1.0), dtree.GeneralizedGamma(1.0, 0.5, 1.0)):
        model = Model(family.defaults(moments_of(rows)), prior, 0.8)
        atoms = model.atoms(rows)
        tree = build_tree(model, atoms)
        bounds, exact = tree_bounds(tree, model, atoms), log_evidence_by_recursion(model, atoms)
        values = [tree.log_phi_t[-1], *bounds.values(), exact]
        print(tree.merges.tolist(), *[f"{value:.9f}" for value in values])
"""


def test_kernels_agree_with_the_jit_off():
    assert _python(AGREE, NUMBA_DISABLE_JIT="1") == _python(AGREE)


def test_a_cache_with_types_that_a_program_lacks_does_not_stop_it(tmp_path):
    """A family of one's own is named in the cache of every kernel that met it; other programs cannot import it."""
    (tmp_path / "shared.py").write_text(
        "from dtree.core.jit import kernel\n\n\n@kernel\ndef first(pair):\n    return pair.a\n"
    )
    for name in ("mine", "yours"):
        pair = "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    a: float\n    b: int\n"
        (tmp_path / f"{name}.py").write_text(pair)
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{PACKAGE.parent}", "DTREE_CACHE_DIR": str(tmp_path / "cache")}
    code = "from {0} import Pair; from shared import first; print(first(Pair(2.0, 1)))"
    assert _python(code.format("mine"), **environment) == "2.0"
    (tmp_path / "mine.py").unlink()
    assert _python(code.format("yours"), **environment) == "2.0"
