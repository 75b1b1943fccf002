"""Cases of the command line: a data file, a fitting command with options at random, and every command that follows."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import zarr
from scipy import sparse
from scipy.cluster.hierarchy import is_valid_linkage
from typer.testing import CliRunner

import dtree
from tests.soak.checks import Broken, Refused, require
from tests.soak.models import SAMPLERS, VARIANTS, pick
from tests.soak.rows import Drawn, draw_rows

MOST_ROWS = 60


def run_commands(rng: np.random.Generator) -> str:
    """One case; what it was."""
    from dtree.cli.app import app  # typer and rich are slow to import

    def call(*arguments: Any) -> str:
        return _call(app, [str(argument) for argument in arguments])

    drawn = draw_rows(rng, MOST_ROWS)._replace(weight=None)
    if rng.random() < 0.05:
        return _without_data(rng, call)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = _written(rng, drawn, folder)
        words, given = _fitting(rng, drawn, data, folder / "run.zarr")
        what = f"dtree {shlex.join(words)} on {drawn.words}"
        try:
            call(*words, "--dry-run")
            require(not (folder / "run.zarr").exists(), "a dry run writes a run")
            call(*words)
        except Refused as sentence:
            return f"{what}: refused, {sentence}"
        except Broken as broken:
            raise Broken(f"{what}: {broken}") from broken
        try:
            _afterwards(rng, call, folder, data)
            _same_as_python(given, data, folder / "run.zarr")
        except (Broken, Refused) as broken:
            raise Broken(f"{what}: {broken}") from broken
    return what


def _without_data(rng: np.random.Generator, call: Any) -> str:
    """A command that makes its own rows."""
    rows, seed = int(rng.integers(9, 300)), int(rng.integers(100))
    with tempfile.TemporaryDirectory() as name:
        if rng.random() < 0.3:
            what = f"dtree bench --rows {max(rows, 10)} --features 2 --seed {seed}"
            call(*shlex.split(what)[1:])
            return what
        what = f"dtree demo --rows {rows} --seed {seed}"
        call(*shlex.split(what)[1:], "--out", f"{name}/demo.zarr")
        require(dtree.open(f"{name}/demo.zarr").labels_.shape == (rows,), "the demo has another number of rows")
    return what


def _call(app: Any, arguments: list[str]) -> str:
    """What a command prints; `Refused` with its sentence, or `Broken` when it ends in any other way."""
    with contextlib.redirect_stderr(io.StringIO()):
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exit_code == 0:
        return result.output
    said = result.output.strip()
    if (
        result.exit_code == 2
        and said
        and "Traceback" not in said
        and (result.exception is None or isinstance(result.exception, SystemExit))
    ):
        raise Refused(said.splitlines()[-1])
    raise Broken(f"dtree {shlex.join(arguments)} ends with {result.exit_code}: {said[-300:]!r} {result.exception!r}")


def _written(rng: np.random.Generator, drawn: Drawn, folder: Path) -> Path:
    """The rows in a file."""
    rows = drawn.rows
    if sparse.issparse(rows):
        sparse.save_npz(folder / "data.npz", rows.tocsr())
        return folder / "data.npz"
    ending = str(
        rng.choice(["csv", "parquet"] if isinstance(rows, pd.DataFrame) else ["csv", "npy", "parquet", "zarr"])
    )
    path = folder / f"data.{ending}"
    if ending == "zarr":
        chunks = tuple(int(rng.integers(1, size + 1)) for size in rows.shape)
        zarr.create_array(path, data=np.ascontiguousarray(rows), chunks=chunks, config={"write_empty_chunks": True})
        return path
    if ending == "npy":
        np.save(path, rows)
        return path
    frame = (
        rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])
    )
    frame.columns = frame.columns.astype(str)
    if ending == "csv":
        frame.to_csv(path, index=frame.index.dtype.kind == "O")
    else:
        frame.to_parquet(path)
    return path


def _fitting(rng: np.random.Generator, drawn: Drawn, data: Path, out: Path) -> tuple[list[str], dict[str, Any]]:
    """The words of a fitting command, and the estimator with the settings it must agree with."""
    family = str(rng.choice(drawn.families))
    seed = int(rng.integers(100))
    ends = [str(data), "--out", str(out), "--seed", str(seed)]
    command = str(rng.choice(["fit", "exact", "randomized", "bayes-kmeans", "sample", "vb", "ddt"]))
    if command == "ddt":
        bits = "bernoulli" in drawn.families
        settings = {"likelihood": "probit" if bits else "gaussian", "n_permutations": 1, "search_steps": 5}
        words = ["--likelihood", settings["likelihood"], "--permutations", "1", "--steps", "5", "--sweeps", "2"]
        return ["ddt", *ends, *words], {"DiffusionTree": settings | {"posterior_sweeps": 2, "random_state": seed}}
    ends += ["--family", family]
    settings = {"family": family, "random_state": seed}
    if command == "sample":
        sampler = pick(rng, *SAMPLERS)
        words = ["--sampler", sampler, "--chains", "2", "--draws", "10", "--warmup", "5"]
        return ["sample", *ends, *words], {
            "DPMixtureMCMC": settings | {"sampler": sampler, "chains": 2, "draws": 10, "warmup": 5}
        }
    if command == "vb":
        variant = str(rng.choice(VARIANTS))
        return ["vb", *ends, "--variant", variant], {"DPMixtureVB": settings | {"variant": variant}}
    if command == "fit":
        return ["fit", *ends], {"TreeClustering": settings}
    words = ["fit", *ends, "--method", command]
    if command == "bayes-kmeans":
        return words, {"BayesKMeansBHC": settings}
    return words, {"BHC": settings | {"method": command}}


def _afterwards(rng: np.random.Generator, call: Any, folder: Path, data: Path) -> None:
    run = folder / "run.zarr"
    require("cluster" in call("info", run), "info says nothing of clusters")
    call("verify", run)
    call("report", run, "-o", folder / "report.html")
    page = (folder / "report.html").read_text(encoding="utf-8")
    require("<html" in page, "the report is no page")
    cells = page.replace("<td>NaN</td><td>left out</td>", "")  # a column of that name, which may not be a feature
    require(">nan<" not in cells.lower() or "NaN" in (dtree.open(run)._features()[0]), "the report shows NaN")
    call("predict", run, data, "--out", folder / "labels.csv")
    table = pd.read_csv(folder / "labels.csv", keep_default_na=False)
    labels = dtree.open(run).labels_
    require(len(table) == labels.shape[0], "predict gives another number of rows")
    require(np.all(np.isfinite(table["log_density"].astype(float))), "a log density is not finite")
    call("export", run, "--labels", folder / "rows.csv")
    exported = pd.read_csv(folder / "rows.csv", keep_default_na=False)["label"].to_numpy()
    require(np.array_equal(exported, labels), "export gives other labels")
    call("resume", run) if rng.random() < 0.3 else None
    require(json.loads(call("status", run, "--json"))["state"] == "done", "status does not say that it is done")
    for command in (
        ["levels", run],
        ["levels", run, "--clusters", 2, "--out", folder / "two.csv"],
        ["impute", run, data, "--out", folder / "filled.csv"],
        ["predict", run, data, "--surprisal", "--out", folder / "odd.csv"],
        ["export", run, "--newick", folder / "tree.nwk", "--linkage", folder / "tree.npy"],
        ["convert", run, folder / "converted.zarr"],
    ):
        with contextlib.suppress(Refused):  # not every run can
            call(*command)
    if (folder / "tree.npy").exists():
        linkage = np.load(folder / "tree.npy")
        require(linkage.shape[0] == 0 or is_valid_linkage(linkage), "SciPy does not take the exported linkage")


def _same_as_python(given: dict[str, Any], data: Path, run: Path) -> None:
    """The class with the same settings and seed gives the same labels."""
    ((name, settings),) = given.items()
    model = getattr(dtree, name)(**settings).fit(str(data))
    require(np.array_equal(model.labels_, dtree.open(run).labels_), f"{name} with the same seed gives other labels")
