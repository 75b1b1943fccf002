"""The command line: what it prints, what it writes, and that it says the same as the Python API."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
from rich.console import Console
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner, Result

import dtree
from dtree.cli import console
from dtree.cli.app import COMMANDS, app
from dtree.core.progress import report
from dtree.datasets import nested_creatures

ROOT = Path(__file__).resolve().parents[1]


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `dtree demo` has run."""
    folder = tmp_path_factory.mktemp("demo")
    _run("demo", "--out", f"{folder}/dtree-demo.zarr", "--rows", "180")
    return folder


def test_demo_writes_a_run_a_picture_and_the_data(folder: Path) -> None:
    assert {"dtree-demo.zarr", "dtree-demo.png", "dtree-demo.csv"} <= {path.name for path in folder.iterdir()}
    assert (folder / "dtree-demo.png").read_bytes().startswith(b"\x89PNG")
    model = dtree.open(folder / "dtree-demo.zarr")
    data = nested_creatures(180)
    assert isinstance(model, dtree.TreeClustering)
    assert adjusted_rand_score(data.kind, model.labels_) == 1.0
    assert model.n_clusters_ == 9


def test_demo_prints_clusters_bound_and_agreement(tmp_path: Path) -> None:
    output = _run("demo", "--out", f"{tmp_path}/a.zarr", "--rows", "180").stdout
    model = dtree.open(tmp_path / "a.zarr")
    assert "9 clusters" in output
    assert f"log evidence at least {model.log_evidence_bound_:.6g}" in output
    assert "adjusted Rand index: 1.000 for the nine kinds, 1.000 for the three orders" in output
    assert f"why this level: {model.level_reason_}" in output
    assert "owl 1, owl 2" in output


def test_fit_without_a_method_is_the_class_without_settings(folder: Path, tmp_path: Path) -> None:
    words = ["--labels-column", "kind", "--seed", "3", "--out", f"{tmp_path}/run.zarr"]
    assert "adjusted Rand index against 'kind': 1.000" in _run("fit", f"{folder}/dtree-demo.csv", *words).stdout
    model = dtree.open(tmp_path / "run.zarr")
    data = nested_creatures(180)
    expected = dtree.TreeClustering(random_state=3).fit(pandas.DataFrame(data.X, columns=data.feature_names))
    assert model.n_clusters_ == 9
    for name in ("labels_", "component_labels_", "confidence_", "outlier_score_", "cluster_stability_", "linkage_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    told = _run("info", f"{tmp_path}/run.zarr").stdout
    assert f"why this level: {model.level_reason_}" in told
    assert "components: 9" in told
    assert "shallowest valley" in told


def test_levels_of_a_run(folder: Path, tmp_path: Path) -> None:
    run, out = f"{folder}/dtree-demo.zarr", tmp_path / "three.csv"
    model = dtree.open(run)
    assert model.level_reason_ in _run("levels", run).stdout
    assert "3 clusters of 60, 60, 60 rows" in _run("levels", run, "--clusters", "3", "--out", str(out)).stdout
    table = pandas.read_csv(out)
    np.testing.assert_array_equal(table["label"], model.at_clusters(3))
    assert table["row"].tolist() == nested_creatures(180).row_names
    assert "1 clusters of 180 rows" in _run("levels", run, "--level", "1000").stdout
    for words in (["--clusters", "3", "--level", "1"], ["--level", "deep"], ["--clusters", "99"]):
        assert CliRunner().invoke(app, ["levels", run, *words]).exit_code == 2


@pytest.mark.parametrize("level", ["components", "1000"])
def test_fit_takes_a_level(folder: Path, tmp_path: Path, level: str) -> None:
    words = ["--labels-column", "kind", "--level", level, "--out", f"{tmp_path}/run.zarr"]
    _run("fit", f"{folder}/dtree-demo.csv", *words)
    model = dtree.open(tmp_path / "run.zarr")
    assert model.n_clusters_ == (1 if level == "1000" else model.n_components_)


def test_an_option_of_another_method_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    words = ["fit", f"{folder}/dtree-demo.csv", "--labels-column", "kind", "--optimize", "--out", f"{tmp_path}/a.zarr"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "--optimize is not an option of --method tree, the default" in refused.output
    assert "--method exact" in refused.output


def test_fit_equals_python(folder: Path, tmp_path: Path) -> None:
    output = _run(
        "fit", f"{folder}/dtree-demo.csv", "--labels-column", "kind", "--method", "exact", "--family", "gaussian-diag",
        "--alpha", "2.5", "--coarsening", "0.7", "--seed", "3", "--out", f"{tmp_path}/run.zarr",
    ).stdout  # fmt: skip
    assert "purity of the tree against 'kind'" in output
    model = dtree.open(tmp_path / "run.zarr")
    data = nested_creatures(180)
    frame = pandas.DataFrame(data.X, columns=data.feature_names)
    expected = dtree.BHC("gaussian-diag", dtree.DirichletProcess(2.5), coarsening=0.7, random_state=3).fit(frame)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.tree_.log_phi_t, expected.tree_.log_phi_t)
    assert model.log_evidence_bound_ == expected.log_evidence_bound_
    assert list(model.feature_names_in_) == data.feature_names
    assert model.get_params()["coarsening"] == 0.7


@pytest.mark.parametrize(
    "options",
    [
        ["--family", "poisson", "--prior", "nggp", "--method", "exact"],
        ["--family", "multinomial", "--optimize", "--method", "exact"],
        ["--family", "gaussian-diag", "--method", "randomized", "--seed", "1"],
        ["--family", "gaussian-diag", "--method", "approximate", "--seed", "1"],
    ],
)
def test_fit_takes_its_options(tmp_path: Path, options: list[str]) -> None:
    counts = np.random.default_rng(0).poisson([[9, 1, 1]] * 8 + [[1, 1, 9]] * 8)
    np.savez(tmp_path / "counts.npz", X=counts, y=np.repeat([0, 1], 8))
    _run("fit", f"{tmp_path}/counts.npz", *options, "--out", f"{tmp_path}/run.zarr")
    parameters = dtree.open(tmp_path / "run.zarr").get_params()
    assert parameters["family"] == options[1]
    assert parameters["optimize"] == ("--optimize" in options)


def test_overwrite(folder: Path, tmp_path: Path) -> None:
    command = ["fit", f"{folder}/dtree-demo.csv", "--labels-column", "kind", "--method", "exact"]
    command += ["--out", f"{tmp_path}/run.zarr"]
    _run(*command, "--alpha", "1")
    assert CliRunner().invoke(app, command).exit_code == 2
    _run(*command, "--alpha", "7", "--overwrite")
    assert dtree.open(tmp_path / "run.zarr").prior_.alpha == 7.0
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]


def test_info_says_where_a_run_came_from(folder: Path) -> None:
    output = _run("info", f"{folder}/dtree-demo.zarr").stdout
    for word in (
        "9 clusters",
        "method: tree-clustering",
        "prior: DirichletProcess",
        "data fingerprint: ",
        "seed: 0",
        "numpy",
        "owl 1",
    ):
        assert word in output


@pytest.mark.parametrize("ending", ["csv", "npy", "npz"])
def test_predict_writes_labels_and_log_densities(folder: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"labels.{ending}"
    _run(
        "predict",
        f"{folder}/dtree-demo.zarr",
        f"{folder}/dtree-demo.csv",
        "--labels-column",
        "kind",
        "--out",
        str(path),
    )
    model = dtree.open(folder / "dtree-demo.zarr")
    data = nested_creatures(180)
    frame = pandas.DataFrame(data.X, columns=data.feature_names)
    if ending == "csv":
        table = pandas.read_csv(path, dtype=str)  # of numbers pandas 2 reads the last bit wrong
        assert table["row"].tolist() == data.row_names
        found = {name: table[name].to_numpy(dtype=float) for name in ("label", "log_density")}
    else:
        loaded = np.load(path, allow_pickle=False)
        found = {name: loaded[name] for name in ("label", "log_density")}
    np.testing.assert_array_equal(found["label"], model.predict(frame))
    np.testing.assert_array_equal(found["log_density"], model.score_samples(frame))


def test_predict_finds_the_columns_by_name(folder: Path, tmp_path: Path) -> None:
    written = pandas.read_csv(folder / "dtree-demo.csv", dtype=str)
    shuffled = written[["kind", "speed", "weight", "row", "lifespan", "length"]]
    shuffled.assign(extra=1.0).to_csv(tmp_path / "shuffled.csv", index=False)
    for name, data in (("a", folder / "dtree-demo.csv"), ("b", tmp_path / "shuffled.csv")):
        _run(
            "predict",
            f"{folder}/dtree-demo.zarr",
            str(data),
            "--labels-column",
            "kind",
            "--out",
            f"{tmp_path}/{name}.npz",
        )
    a, b = (np.load(tmp_path / f"{name}.npz") for name in "ab")
    np.testing.assert_array_equal(a["log_density"], b["log_density"])


def test_predict_remembers_the_labels_column(folder: Path, tmp_path: Path) -> None:
    data = f"{folder}/dtree-demo.csv"
    _run("fit", data, "--labels-column", "kind", "--out", f"{tmp_path}/run.zarr")
    _run("predict", f"{tmp_path}/run.zarr", data, "--out", f"{tmp_path}/labels.csv")


def test_export(folder: Path, tmp_path: Path) -> None:
    targets = {"newick": "a.nwk", "linkage": "a.npy", "labels": "a.csv", "picture": "a.svg"}
    options = [word for name, file in targets.items() for word in (f"--{name}", f"{tmp_path}/{file}")]
    _run("export", f"{folder}/dtree-demo.zarr", *options)
    model = dtree.open(folder / "dtree-demo.zarr")
    names = nested_creatures(180).row_names
    assert (tmp_path / "a.nwk").read_text() == model.tree_.to_newick() + "\n"  # whose leaves are components
    exact = f"{tmp_path}/exact.zarr"
    _run("fit", f"{folder}/dtree-demo.csv", "--labels-column", "kind", "--method", "exact", "--out", exact)
    _run("export", exact, "--newick", f"{tmp_path}/b.nwk")
    assert (tmp_path / "b.nwk").read_text() == dtree.open(exact).tree_.to_newick(names) + "\n"
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), model.linkage_)
    assert pandas.read_csv(tmp_path / "a.csv")["label"].tolist() == model.labels_.tolist()
    assert "<svg" in (tmp_path / "a.svg").read_text()
    _run("export", f"{folder}/dtree-demo.zarr", "--linkage", f"{tmp_path}/b.csv")
    np.testing.assert_array_equal(pandas.read_csv(tmp_path / "b.csv", dtype=str).to_numpy(dtype=float), model.linkage_)


def test_the_demo_works_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtree.cli.demo.can_draw", lambda: False)
    assert "Matplotlib is not installed" in _run("demo", "--out", f"{tmp_path}/a.zarr").stdout
    monkeypatch.setattr("dtree.cli.output.can_draw", lambda: False)
    result = CliRunner().invoke(app, ["export", f"{tmp_path}/a.zarr", "--picture", f"{tmp_path}/a.png"])
    assert result.exit_code == 2
    assert "needs Matplotlib" in result.stderr


def test_what_a_file_holds_cannot_redraw_the_terminal() -> None:
    assert console.printable("a\x1b[2Jb\x07\nc") == "a?[2Jb? c"


@pytest.mark.parametrize("watched", [True, False])
def test_a_bar_is_drawn_only_where_someone_watches(monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", lambda: Console(file=screen, force_terminal=watched, width=100))
    monkeypatch.setattr(console, "_PATIENCE", 0.0)
    with console.progress_bar():
        time.sleep(0.3)  # the bar comes up by itself
        for done in range(11):
            report("merging", done, 10)
    assert ("preparing" in screen.getvalue()) == watched
    assert ("merging" in screen.getvalue()) == watched
    assert ("100%" in screen.getvalue()) == watched


def test_a_quick_command_draws_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", lambda: Console(file=screen, force_terminal=True, width=100))
    monkeypatch.setattr(console, "_PATIENCE", 1000.0)
    with console.progress_bar():
        report("merging", 1, 10)
    assert screen.getvalue() == ""


# Real processes ------------------------------------------------------------------------------------------------------


def _process(*arguments: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "TERM": "dumb"}
    command = [sys.executable, "-m", "dtree.cli", *arguments]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == code, result.stderr
    return result


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_in_the_help_works(
    command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(_run(command, "--help").stdout.split())
    found = re.search(r"Example: (dtree .*?)(?: \(| ╭| ┌|$)", text)
    assert found, text
    arguments = found.group(1).split()[1:]
    if command == "demo":  # once in a real process, which costs seconds of imports
        result = _process(*arguments, folder=tmp_path)
        assert result.stderr == ""
        assert "9 clusters" in result.stdout
        return
    if command == "resume":  # of the run that the example of `ddt` makes
        few = ["--steps", "5", "--permutations", "1", "--sweeps", "0"]
        out = f"{tmp_path}/creatures-ddt.zarr"
        _run("ddt", f"{folder}/dtree-demo.csv", "--labels-column", "kind", *few, "--out", out)
    if command == "impute":  # by the run that the example of `vb` makes
        kind = ["--labels-column", "kind", "--family", "gaussian-diag"]
        _run("vb", f"{folder}/dtree-demo.csv", *kind, "--out", f"{tmp_path}/mixture.zarr")
    if command == "convert":
        with tarfile.open(ROOT / "tests" / "runs" / "old" / "runs.tar.xz") as runs:
            runs.extractall(tmp_path, filter="data")
        (tmp_path / "exact.zarr").rename(tmp_path / "old.zarr")
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert _run(*arguments).stdout


def test_every_command_of_the_design_is_there() -> None:
    wanted = "demo fit sample vb ddt levels predict impute resume status info verify report convert export warm bench"
    assert set(COMMANDS) == set(wanted.split())


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from dtree.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'scipy', 'pandas', 'zarr', 'sklearn', 'matplotlib', 'dask'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("[]")


def test_version() -> None:
    assert re.match(r"dtree \S+ \(python 3", _run("--version").stdout)


def test_completion_can_be_shown(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_DTREE_COMPLETE": "complete_bash", "COMP_WORDS": "dtree ex"}
    script = "import sys; sys.argv[0] = 'dtree'; from dtree.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.split() == ["export"]


def test_many_rows_go_through_the_engine_and_can_be_resumed_and_predicted(tmp_path: Path) -> None:
    """One real cluster of two worker processes, from the command line."""
    run, data = tmp_path / "large.zarr", tmp_path / "large-data.zarr"
    done = _process(
        "demo", "--rows", "12000", "--out", str(run), "--workers", "2", "--memory-limit", "1GB", folder=tmp_path
    )
    assert "12 clusters" in done.stdout
    assert "log evidence at least" in done.stdout
    again = _process("resume", str(run), "--workers", "1", folder=tmp_path)
    assert "12 clusters" in again.stdout
    assert "12 clusters" in _process("info", str(run), folder=tmp_path).stdout
    _process("predict", str(run), str(data), "--out", str(tmp_path / "labels.csv"), folder=tmp_path)
    assert len(pandas.read_csv(tmp_path / "labels.csv")) == 12000
    refused = _process("predict", str(run), str(data), "--out", str(tmp_path / "labels.txt"), folder=tmp_path, code=2)
    assert ".zarr" in refused.stderr
    assert "Traceback" not in refused.stderr
    nothing = _process("resume", str(data), folder=tmp_path, code=2)
    assert "nothing to resume" in nothing.stderr


def test_randomised_trees_of_many_rows_go_through_the_engine(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", np.concatenate([rng.normal(c, 1.0, (400, 2)) for c in (0.0, 12.0, 40.0)]))
    command = ["fit", f"{tmp_path}/x.npy", "--method", "randomized", "--family", "gaussian-diag", "--workers", "1"]
    done = _run(*command, "--out", f"{tmp_path}/run.zarr")
    assert "3 clusters" in done.stdout
    assert "3 clusters" in _run("info", f"{tmp_path}/run.zarr").stdout
    assert dtree.open(tmp_path / "run.zarr").n_clusters_ == 3
