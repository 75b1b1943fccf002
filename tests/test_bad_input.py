"""Whatever the user does, the answer is right or one clear sentence, and nothing half-written is left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from dtree.cli.app import app
from dtree.estimators.bhc import BHC

ROOT = Path(__file__).resolve().parents[1]
RIGHT = None  # in the place of a sentence: this input is unusual, but there is a right answer
GOOD = np.array([[0.0, 0.1], [0.2, 0.0], [5.0, 5.1], [5.2, 4.9], [0.1, 0.1]])
BITS = np.array([[0, 1, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]])


def _with(value: Any) -> np.ndarray:
    X = GOOD.copy()
    X[1, 1] = value
    return X


# Rows that a file can hold as well as an array: both ways in are tried.
ROWS: dict[str, tuple[str, np.ndarray, str | None]] = {
    "NaN": ("gaussian", _with(np.nan), "NaN|missing"),
    "infinity": ("gaussian", _with(np.inf), "inf"),
    "minus infinity": ("gaussian-diag", _with(-np.inf), "inf"),
    "NaN among counts": ("multinomial", _with(np.nan), "NaN|missing"),
    "no rows": ("gaussian", np.empty((0, 2)), "empty|0 sample|no rows|0 rows"),
    "no columns": ("gaussian", np.empty((3, 0)), "empty|0 feature|no columns|0 features"),
    "one row": ("gaussian", GOOD[:1], "one row"),
    "one row of bits": ("bernoulli", BITS[:1], "one row"),
    "one column": ("gaussian", GOOD[:, :1], RIGHT),
    "two rows": ("gaussian", GOOD[:2], RIGHT),
    "a constant column": ("gaussian", np.column_stack([GOOD, np.full(5, 3.7)]), RIGHT),
    "a constant column, diagonal": ("gaussian-diag", np.column_stack([GOOD, np.full(5, 3.7)]), RIGHT),
    "only constant columns": ("gaussian", np.full((4, 2), 0.1), RIGHT),
    "a column twice": ("gaussian", GOOD[:, [0, 1, 0]], RIGHT),
    "duplicate rows": ("gaussian", GOOD[[0, 0, 0, 2, 2, 2, 2]], RIGHT),
    "duplicate bits": ("bernoulli", BITS[[0, 0, 0, 2, 2, 2]], RIGHT),
    "zeros only": ("multinomial", np.zeros((4, 3), dtype=int), RIGHT),
    "more features than rows": ("gaussian", np.random.default_rng(0).normal(size=(4, 9)), RIGHT),
    "more features than rows, diagonal": ("gaussian-diag", np.random.default_rng(0).normal(size=(4, 9)), RIGHT),
    "huge values": ("gaussian", _with(1e300), "beyond|too large"),
    "huge values, diagonal": ("gaussian-diag", _with(1e300), "beyond|too large"),
    "tiny values": ("gaussian", GOOD * 1e-100, RIGHT),
    "far from zero": ("gaussian", GOOD + 1e6, RIGHT),
    "single precision": ("gaussian", GOOD.astype(np.float32), RIGHT),
    "whole numbers": ("gaussian", np.array([[0, 1], [9, 8], [1, 1]], dtype=np.uint8), RIGHT),
    "truth values": ("bernoulli", BITS.astype(bool), RIGHT),
    "negative counts, multinomial": ("multinomial", np.array([[1, -2], [3, 4]]), "negative|count"),
    "negative counts, Poisson": ("poisson", np.array([[1, -2], [3, 4]]), "negative|count"),
    "fractions for counts, multinomial": ("multinomial", np.array([[1, 0.5], [3, 4]]), "whole|integer|count"),
    "fractions for counts, Poisson": ("poisson", np.array([[1, 0.5], [3, 4]]), "whole|integer|count"),
    "not binary": ("bernoulli", np.array([[0, 2], [1, 1]]), "0 and 1|zeros and ones|binary"),
    "not binary, a fraction": ("bernoulli", np.array([[0, 0.5], [1, 1]]), "0 and 1|zeros and ones|binary"),
}  # fmt: skip


def _assert_right(model: BHC, X: np.ndarray) -> None:
    n = X.shape[0]
    model.tree_.validate()
    assert model.labels_.shape == (n,)
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert model.tree_.size[-1] == n
    assert np.isfinite(model.log_evidence_bound_)
    assert np.all(np.isfinite(model.score_samples(X)))
    assert model.predict(X).shape == (n,)


def _assert_one_sentence(text: str) -> None:
    assert text.strip()
    assert "Traceback" not in text
    assert len(text) < 600


@pytest.mark.parametrize("case", ROWS)
def test_rows_in_python(case: str) -> None:
    family, X, sentence = ROWS[case]
    if sentence is RIGHT:
        _assert_right(BHC(family=family).fit(X), X)
        return
    with pytest.raises(ValueError, match=f"(?i){sentence}") as caught:
        BHC(family=family).fit(X)
    _assert_one_sentence(str(caught.value))


@pytest.mark.parametrize("case", ROWS)
def test_rows_on_the_command_line(case: str, tmp_path: Path) -> None:
    family, X, sentence = ROWS[case]
    np.save(tmp_path / "rows.npy", X)
    arguments = ["fit", f"{tmp_path}/rows.npy", "--family", family, "--out", f"{tmp_path}/run.zarr"]
    result = CliRunner().invoke(app, arguments)
    left = sorted(path.name for path in tmp_path.iterdir())
    if sentence is RIGHT:
        assert result.exit_code == 0, result.output
        assert left == ["rows.npy", "run.zarr"]
        return
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    _assert_one_sentence(result.stderr)
    assert left == ["rows.npy"]


PYTHON_ONLY: dict[str, tuple[dict[str, Any], Any, str]] = {
    "text": ({}, np.array([["a", "b"], ["c", "d"]]), "."),
    "objects": ({"family": "gaussian"}, np.array([[1.0, None], [2.0, 3.0]], dtype=object), "."),
    "objects that are not numbers": ({}, np.array([[{}, 1], [2, 3]], dtype=object), "."),
    "complex numbers": ({}, GOOD * 1j, "(?i)complex"),
    "dates": ({}, np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[D]"), "."),
    "one dimension": ({}, GOOD[:, 0], "(?i)1D|one dimension|2D|two dimension"),
    "three dimensions": ({}, GOOD[None], "(?i)dim"),
    "a ragged list": ({}, [[1.0, 2.0], [3.0]], "."),
    "sparse rows for a Gaussian": ({}, sparse.csr_array(GOOD), "(?i)sparse"),
    "NaN in sparse rows": ({"family": "poisson"}, sparse.csr_array(_with(np.nan)), "(?i)NaN|missing"),
    "negative sparse counts": ({"family": "multinomial"}, sparse.csr_array([[1, -2], [3, 4]]), "(?i)negative|count"),
    "an unknown family": ({"family": "gauss"}, GOOD, "(?i)famil.*gauss"),
    "an unknown prior": ({"prior": "pitman"}, GOOD, "(?i)prior"),
    "an unknown method": ({"method": "fast"}, GOOD, "(?i)method"),
    "a coarsening above one": ({"coarsening": 1.5}, GOOD, "coarsening"),
    "a coarsening of zero": ({"coarsening": 0.0}, GOOD, "coarsening"),
    "a coarsening that is not a number": ({"coarsening": float("nan")}, GOOD, "coarsening"),
    "a cut above one": ({"cut": 1.5}, GOOD, "(?i)cut|threshold"),
}  # fmt: skip


@pytest.mark.parametrize("case", PYTHON_ONLY)
def test_arguments_in_python(case: str) -> None:
    parameters, X, sentence = PYTHON_ONLY[case]
    error: tuple[type[Exception], ...] = (ValueError,)
    if "object" in case or "sparse rows for" in case:
        error = (ValueError, TypeError)  # scikit-learn's own convention for what is not an array of numbers
    with pytest.raises(error, match=sentence) as caught:
        BHC(**parameters).fit(X)
    _assert_one_sentence(str(caught.value))


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([1, 1, 1], "(?i)weight|length|shape|inconsistent"),
        ([1, 1, 1, 1, -1], "(?i)weight"),
        ([1, 1, 1, 1, 0.5], "(?i)weight"),
        ([1, 1, 1, 1, np.nan], "(?i)weight|NaN"),
    ],
)
def test_sample_weights(weight: list[float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        BHC().fit(GOOD, sample_weight=weight)


def test_predicting_before_fitting() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        BHC().predict(GOOD)


def test_predicting_with_another_number_of_features() -> None:
    with pytest.raises(ValueError, match="features"):
        BHC().fit(GOOD).predict(GOOD[:, :1])


# The command line ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a good run."""
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "good.csv").write_text(
        "name,a,b,kind\n" + "".join(f"r{i},{a},{b},k{i % 2}\n" for i, (a, b) in enumerate(GOOD))
    )
    (folder / "text.csv").write_text("a,b\n1,4\n2,5\nx,6\n")
    (folder / "narrow.csv").write_text("a\n1\n2\n")
    (folder / "damaged.npy").write_bytes(b"\x93NUMPY nonsense")
    np.save(folder / "objects.npy", np.array([[1, None]], dtype=object))
    np.save(folder / "wide.npy", np.ones((3, 5)))
    result = CliRunner().invoke(
        app, ["fit", f"{folder}/good.csv", "--labels-column", "kind", "--out", f"{folder}/run.zarr"]
    )
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def fitted(fitted_once: Path, tmp_path: Path) -> Path:
    """The same folder, one copy for each test."""
    return Path(shutil.copytree(fitted_once, tmp_path / "fitted"))


BAD_COMMANDS: dict[str, tuple[str, str]] = {
    "missing data": ("fit nowhere.csv --out new.zarr", "there is no file nowhere.csv"),
    "unknown ending": ("fit run.txt --out new.zarr", "unknown ending"),
    "damaged data": ("fit damaged.npy --out new.zarr", "cannot be read"),
    "objects": ("fit objects.npy --out new.zarr", "holds Python objects"),
    "text": ("fit text.csv --out new.zarr", "the column 'a' holds text"),
    "a folder for data": ("fit . --out new.zarr", "unknown ending"),
    "no such labels": ("fit good.csv --labels-column species --out new.zarr", "has no column 'species'"),
    "existing output": ("fit good.csv --labels-column kind --out run.zarr", "already holds a run"),
    "output that is not a run": ("fit good.csv --labels-column kind --out good.csv --overwrite", "is not a dtree run"),
    "output in no folder": ("fit good.csv --labels-column kind --out nowhere/run.zarr", "does not exist"),
    "output below a file": ("fit good.csv --labels-column kind --out good.csv/run.zarr", "is not a folder"),
    "no output": ("fit good.csv", "--out"),
    "unknown family": ("fit good.csv --labels-column kind --family gauss --out new.zarr", "gauss"),
    "unknown prior": ("fit good.csv --method exact --prior pitman --out new.zarr", "unknown prior 'pitman'"),
    "unknown method": ("fit good.csv --labels-column kind --method fast --out new.zarr", "method"),
    "negative alpha": ("fit good.csv --method exact --alpha -1 --out new.zarr", "alpha must be positive"),
    "alpha that is no number": ("fit good.csv --alpha many --out new.zarr", "--alpha"),
    "coarsening too large": ("fit good.csv --method exact --coarsening 2 --out new.zarr", "coarsening"),
    "negative seed": ("fit good.csv --labels-column kind --seed -3 --out new.zarr", "seed"),
    "info on nothing": ("info nowhere.zarr", "there is no run nowhere.zarr"),
    "info on data": ("info good.csv", "a run is a folder"),
    "info on another folder": ("info .", "zarr.json"),
    "predict with nothing": ("predict nowhere.zarr good.csv --out new.csv", "there is no run"),
    "predict with too few features": ("predict run.zarr narrow.csv --out new.csv", "lack features .*'b'"),
    "predict with too many features": (
        "predict run.zarr wide.npy --out new.csv",
        "have 5 columns but the run was fitted on 2",
    ),
    "predict into an unknown ending": ("predict run.zarr good.csv --out new.doc", "unknown ending"),
    "predict into an existing file": ("predict run.zarr good.csv --out good.csv", "exists already"),
    "predict into a folder": ("predict run.zarr good.csv --out run.zarr/x.csv/y.csv", "does not exist"),
    "export nothing": ("export run.zarr", "nothing to export"),
    "export over a file": ("export run.zarr --newick good.csv", "exists already"),
    "export one file twice": ("export run.zarr --newick new.csv --labels new.csv", "same file name"),
    "export into no folder": ("export run.zarr --labels nowhere/new.csv", "does not exist"),
    "demo with too few rows": ("demo --rows 3 --out new.zarr", "rows must be at least 9"),
    "unknown command": ("cluster good.csv", "cluster"),
}  # fmt: skip


def _listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_mistakes_on_the_command_line(case: str, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, sentence = BAD_COMMANDS[case]
    monkeypatch.chdir(fitted)
    before = _listing(fitted)
    result = CliRunner().invoke(app, command.split(), env={"COLUMNS": "400", "TERM": "dumb"})
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert re.search(sentence, result.stderr), result.stderr
    assert "Traceback" not in result.output
    assert _listing(fitted) == before


def _dtree(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
    command = [sys.executable, "-m", "dtree.cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "case", ["missing data", "damaged data", "existing output", "info on another folder", "unknown command"]
)
def test_mistakes_in_a_real_process(case: str, fitted: Path) -> None:
    command, sentence = BAD_COMMANDS[case]
    before = _listing(fitted)
    result = _dtree(*command.split(), folder=fitted)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert sentence in result.stderr
    assert _listing(fitted) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_unwritable_folder(fitted: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    result = _dtree("fit", "good.csv", "--labels-column", "kind", "--out", f"{closed}/run.zarr", folder=fitted)
    assert result.returncode == 2
    assert "Permission denied" in result.stderr


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system on which nobody can write")
def test_an_unwritable_file_system(fitted: Path) -> None:
    result = _dtree("fit", "good.csv", "--labels-column", "kind", "--out", "/proc/self/run.zarr", folder=fitted)
    assert result.returncode == 2
    assert "cannot write /proc/self/run.zarr" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_numerical_failure_is_not_the_users_mistake(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: Any) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("dtree.methods.tree_clustering.TreeClustering.finish", singular)
    result = CliRunner().invoke(
        app, ["fit", f"{fitted}/good.csv", "--labels-column", "kind", "--out", f"{fitted}/new.zarr"]
    )
    assert result.exit_code == 1
    assert "The run failed: Singular matrix" in result.stderr


def test_a_failure_that_is_nobodys_mistake(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dtree.runs.commit.flush_to_disk", full_disk)
    before = _listing(fitted)
    result = CliRunner().invoke(
        app, ["fit", f"{fitted}/good.csv", "--labels-column", "kind", "--out", f"{fitted}/new.zarr"]
    )
    assert result.exit_code == 1
    assert "The run failed" in result.stderr
    assert "is full: free some space and fit again, nothing was kept" in result.stderr
    assert _listing(fitted) == before
