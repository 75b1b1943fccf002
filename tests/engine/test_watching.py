"""Watching a run: `dtree status` of runs in every state, stages as spans, logs of events, and what a fit would do."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree.runs.lease as leases
from dtree.cli.app import app
from dtree.cli.cluster import Cluster
from dtree.core.progress import also_listening, listening, report
from dtree.engine.cluster import cluster_client, dashboard_of
from dtree.engine.drive import Place
from dtree.engine.status import Status, status_of
from dtree.methods import method_named
from dtree.runs.folder import FolderStore
from dtree.runs.lease import Doing, Lease, holder_in
from tests.engine.test_features import IN_PASSES, METHODS, ROOT, fit, frame
from tests.faults.methods import half_done, save_rows
from tests.faults.test_leases import dead


def said(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


# Status ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_status_of_a_run_that_goes_on_is_stopped_dead_and_done(name: str, tmp_path: Path) -> None:
    data, run, seen = save_rows(tmp_path), tmp_path / "run", []
    fit(name, data, Place(tmp_path / "watched"), lambda event: seen.append(status_of(tmp_path / "watched")))
    first = seen[0]
    assert (first.state, first.method, first.rows, first.features) == ("running", name, 120, 2)
    assert first.owner is not None
    assert f"process {os.getpid()} of" in first.owner
    assert first.last_commit is not None
    assert first.done
    if name in IN_PASSES:
        assert first.unit == "pass"
        assert first.objective is not None
        assert first.clusters is not None
        assert first.rows_per_second is not None
    if name in ("chains", "ddt"):
        assert first.objective is not None
        assert first.total is not None
        assert 0 < first.done <= first.total

    half_done(name, data, run)
    stopped = status_of(run)
    assert (stopped.state, stopped.owner, stopped.seconds_left_at_most) == ("stopped", None, None)
    assert any("dtree resume" in line for line in stopped.lines())
    dead(run)
    assert status_of(run).state == "dead"

    done = json.loads(said("status", str(tmp_path / "watched"), "--json"))
    assert (done["state"], done["method"], done["clusters"]) == ("done", name, 3) or name == "ddt"
    assert done["found"]
    assert set(done) == set(Status.__struct_fields__)
    assert "done" in said("status", str(tmp_path / "watched"))


def test_status_from_another_process_while_a_run_is_written(tmp_path: Path) -> None:
    """Checkpoints come and go all the time; whoever looks never stumbles and never disturbs."""
    data = save_rows(tmp_path)
    program = (
        "import sys, time; from tests.engine.test_features import *\n"
        "METHODS['bayes-kmeans'].update(patience=30, max_iter=30)\n"
        "looks = Path(sys.argv[2] + '-looks')\n"
        "def wait(event):\n"  # until somebody has looked at it, however busy the machine is
        "    looked, limit = looks.read_text(), time.monotonic() + 30\n"
        "    while looks.read_text() == looked and time.monotonic() < limit: time.sleep(0.01)\n"
        "fit('bayes-kmeans', sys.argv[1], Place(sys.argv[2]), wait)"
    )
    looks = tmp_path / "run-looks"
    looks.write_text("0")
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(data), str(tmp_path / "run")], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    states, passes = set(), set()
    for number in itertools.count(1):
        if process.poll() is not None:
            break
        looks.write_text(str(number))
        if not (tmp_path / "run" / "zarr.json").exists():
            time.sleep(0.01)
            continue
        found = status_of(tmp_path / "run")
        states.add(found.state)
        passes.add(found.done)
    assert process.returncode == 0
    assert "running" in states
    assert len(passes) > 3
    assert status_of(tmp_path / "run").state == "done"


def test_a_run_that_is_prepared_has_an_owner_and_a_stage(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    lease = Lease(FolderStore(tmp_path / "run"))
    lease.take()
    lease.tell("first reading: rows", 300, 1000)
    limit = time.monotonic() + 30
    while status_of(tmp_path / "run").stage is None:  # told when the lease is renewed, a second later at most
        assert time.monotonic() < limit
        time.sleep(0.05)
    found = status_of(tmp_path / "run")
    assert (found.state, found.stage_done, found.stage_total) == ("preparing", 300, 1000)
    assert found.rows_per_second is not None
    assert found.seconds_left_of_stage is not None
    assert any(line.startswith("now: first reading: rows 300 of 1,000, ") for line in found.lines())
    lease.release()
    with pytest.raises(ValueError, match="is not a complete dtree run"):
        status_of(tmp_path / "run")


def test_a_lease_says_what_its_owner_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_TELL_EVERY", 0.01)
    stages: set[str] = set()

    def look(event: Any) -> None:
        time.sleep(0.1)
        holder = holder_in(FolderStore(tmp_path / "run").read_lease() or b"")
        if holder is not None and holder.doing is not None:
            stages.add(holder.doing.stage)

    fit("bayes-kmeans", save_rows(tmp_path), Place(tmp_path / "run"), look)
    assert "pass 1: rows" in stages
    assert Doing("x", 0, 10, 3.0).seconds_left is None
    assert Doing("x", 5, 10, 2.0).seconds_left == 2.0


def test_an_old_lease_without_a_stage_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    dead(tmp_path / "run")
    stored = json.loads((tmp_path / "run" / ".lease").read_bytes())
    del stored["doing"]
    assert holder_in(json.dumps(stored).encode()) is not None


def test_where_there_is_no_run_there_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(tmp_path / "nothing")])
    assert done.exit_code == 2
    assert "there is no run" in done.output


def test_listeners_add_up() -> None:
    heard: list[str] = []
    with listening(lambda stage, *_: heard.append(f"outer {stage}")):
        with also_listening(lambda stage, *_: heard.append(f"inner {stage}")):
            report("a", 0, 1)
        report("b", 0, 1)
    assert heard == ["inner a", "outer a", "outer b"]


# The dashboard of Dask ------------------------------------------------------------------------------------------------


def test_stages_are_spans_and_a_dashboard_is_named(tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    with cluster_client(n_workers=1, processes=False, warm=False) as client:
        for name in ("bayes-kmeans-bhc", "chains"):  # trees over single rows are grown in this process
            fit(name, data, Place(tmp_path / name, client=client))
        spans = {span.name for span in client.cluster.scheduler.extensions["spans"].spans.values()}
        assert dashboard_of(client) is None  # an HTTP server is there, and no page on it
    kmeans = ("dtree bayes-kmeans-bhc",)
    assert {(*kmeans, "preparation"), (*kmeans, "pass 1"), (*kmeans, "pass 2"), (*kmeans, "the end")} <= spans
    assert ("dtree chains", "parts") in spans


def test_the_address_is_printed_when_there_is_a_dashboard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    method = method_named("bayes-kmeans")
    with cluster_client(n_workers=1, processes=False, warm=False) as client:
        monkeypatch.setattr("dtree.engine.cluster.dashboard_of", lambda client: "http://there:8787/status")
        with Cluster(scheduler=client.scheduler.address).client_for(method, method.Settings(), 9):
            pass
    assert "Dask's dashboard: http://there:8787/status" in capsys.readouterr().err
    monkeypatch.setattr("dtree.cli.cluster.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install bokeh"), Cluster(dashboard=True).client_for(method, None, 9):
        pass


@pytest.mark.slow
def test_stages_are_seen_on_a_dashboard(tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="Dask's dashboard is drawn by bokeh, which is not installed")
    import urllib.request

    from dtree.engine.cluster import DASHBOARD

    with cluster_client(n_workers=1, warm=False, **DASHBOARD) as client:
        address = dashboard_of(client)
        assert address is not None
        fit("bayes-kmeans", save_rows(tmp_path), Place(tmp_path / "run", client=client))
        for page in ("status", "individual-fine-performance-metrics"):  # where Dask lets spans be chosen
            with urllib.request.urlopen(address.replace("status", page)) as answer:
                assert answer.status == 200


# Logs -----------------------------------------------------------------------------------------------------------------

FITS = {
    "fit": ["--method", "bayes-kmeans", "--family", "gaussian-diag"], "vb": ["--variant", "FSD", "--truncation", "5"],
    "sample": ["--sampler", "gibbs", "--chains", "1", "--draws", "5", "--warmup", "5", "--family", "gaussian-diag"],
    "ddt": ["--permutations", "1", "--steps", "2", "--sweeps", "1"],
}  # fmt: skip


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("command", FITS)
def test_every_fitting_command_writes_a_log(command: str, tmp_path: Path) -> None:
    data, log = tmp_path / "x.npy", tmp_path / "log.jsonl"
    np.save(data, frame().to_numpy()[:60])
    said(command, str(data), "--out", str(tmp_path / "run"), "--log-file", str(log), *FITS[command])
    lines = lines_of(log)
    assert [lines[0]["event"], lines[-1]["event"]] == ["begin", "done"]
    assert lines[0]["data"] == str(data)
    assert all(line["time"] <= after["time"] for line, after in itertools.pairwise(lines))
    if command != "vb":  # so few rows are fitted whole
        assert any(line["event"] == "step" for line in lines)


def test_a_log_goes_on_where_a_run_is_resumed_and_tells_of_failures(tmp_path: Path) -> None:
    data, log, run = save_rows(tmp_path), tmp_path / "log.jsonl", str(tmp_path / "run")
    words = ["fit", str(data), "--out", run, "--log-file", str(log), "--method", "bayes-kmeans"]
    assert CliRunner().invoke(app, [*words, "--time-limit", "0.00001s"]).exit_code == 124
    assert lines_of(log)[-1] | {"time": ""} == {"time": "", "event": "stopped", "code": 124}
    np.save(data, frame().to_numpy() + 1.0)
    assert CliRunner().invoke(app, ["resume", run, "--log-file", str(log)]).exit_code == 2
    failed = lines_of(log)[-1]
    assert failed["event"] == "failed"
    assert "are not what they were" in failed["words"]
    assert "Traceback" in failed["traceback"]
    save_rows(tmp_path)
    said("resume", run, "--log-file", str(log))
    events = [line["event"] for line in lines_of(log)]
    assert [event for event in events if event not in ("stage", "step")] == [
        "begin", "stopped", "begin", "failed", "begin", "done",
    ]  # fmt: skip
    step = next(line for line in lines_of(log) if line["event"] == "step")
    assert {"number", "objective", "n_clusters", "rows", "seconds"} <= set(step)


def test_a_log_that_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    done = CliRunner().invoke(
        app, ["fit", str(data), "--out", str(tmp_path / "run"), "--log-file", str(tmp_path / "no" / "log.jsonl")]
    )
    assert done.exit_code == 2
    assert "log.jsonl cannot be written: No such file or directory" in done.output
    assert not (tmp_path / "run").exists()


# What would be done ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--method", "exact"], ["--method", "randomized", "--workers", "2"], ["--method", "bayes-kmeans"]])  # fmt: skip  # noqa: E501
def test_a_dry_run_says_what_would_be_done_and_does_nothing(more: list[str], tmp_path: Path) -> None:
    table = frame().assign(site=np.array(["north", "south"], dtype=object)[np.arange(120) % 2])
    table.to_csv(tmp_path / "x.csv", index_label="name")
    output = said("fit", f"{tmp_path}/x.csv", "--out", f"{tmp_path}/run", "--dry-run", *more)
    assert "site" in output
    assert "category" in output
    assert "would fit 120 rows, 3 features" in output
    assert "of memory" in output
    assert "all rows would be read" in output
    assert "expected time: " in output
    assert "dry run: nothing was written" in output
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_dry_run_refuses_what_a_fit_would_refuse(tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    fit("bhc", data, Place(tmp_path / "run"))
    for words in (["--out", f"{tmp_path}/run"], ["--out", f"{tmp_path}/no/run"], ["--out", f"{tmp_path}/x", "--tol", "-1"]):  # fmt: skip  # noqa: E501
        assert CliRunner().invoke(app, ["fit", str(data), "--dry-run", *words]).exit_code == 2


def test_methods_without_a_model_of_time_say_so(tmp_path: Path) -> None:
    for command in ("sample", "ddt"):
        output = said(command, str(save_rows(tmp_path)), "--out", f"{tmp_path}/run", "--dry-run")
        assert "cannot be told beforehand" in output


@pytest.mark.parametrize("name", METHODS)
def test_rows_are_read_as_often_as_was_said(name: str, tmp_path: Path) -> None:
    from tests.chaos.episode import CountedReads, reading
    from tests.engine.test_features import settings

    counted = CountedReads()
    with reading(counted):
        run = fit(name, save_rows(tmp_path), Place(tmp_path / "run"))
    chunks = -(-run.header.n_rows // run.header.chunk_rows)
    least, most = method_named(name).readings(settings(name), 120)
    times = counted.done / chunks if name in IN_PASSES else counted.done
    assert least <= times <= (most or times)
