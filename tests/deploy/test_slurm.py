"""The Slurm driver, without Slurm and without dask-jobqueue."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest

from deploy.slurm import run_on_slurm
from dtree.storage import with_options


def test_workers_have_one_thread_and_tls(tmp_path):
    options = run_on_slurm.parse(
        [
            "a.zarr",
            "run.zarr",
            "--cores",
            "4",
            "--memory",
            "6GB",
            "--folder",
            str(tmp_path),
            "--",
            "--family",
            "poisson",
        ]
    )
    settings = run_on_slurm.cluster_settings(options, tmp_path)
    assert settings["cores"] == settings["processes"] == 4
    assert settings["protocol"] == "tls://"
    assert settings["security"].require_encryption
    for role in ("client", "scheduler", "worker"):
        tls = settings["security"].get_tls_config_for_role(role)
        assert [tls["ca_file"], tls["cert"], tls["key"]] == [
            str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem")
        ]
    words = run_on_slurm.command(options, "tls://node1:8786", tmp_path)
    assert words[:5] == ["dtree", "fit", "a.zarr", "--out", "run.zarr"]
    assert words[-2:] == ["--family", "poisson"]


def test_a_run_that_has_begun_is_resumed(tmp_path):
    run = tmp_path / "run.zarr"
    (run / "checkpoints" / "gen-00000000").mkdir(parents=True)
    (run / "zarr.json").write_text("{}")
    _is_resumed(run, tmp_path)
    shutil.rmtree(run / "checkpoints")
    (run / "labels").mkdir()  # it is finished
    _is_resumed(run, tmp_path)


def _is_resumed(run, tmp_path):
    run_on_slurm.clear_unborn(str(run))
    options = run_on_slurm.parse(["a.zarr", str(run), "--", "--family", "poisson"])
    words = run_on_slurm.command(options, "tls://node1:8786", tmp_path)
    assert words[:3] == ["dtree", "resume", str(run)]
    assert "--family" not in words


def test_a_run_that_died_before_its_first_checkpoint_starts_over(tmp_path):
    run, other = tmp_path / "run.zarr", tmp_path / "other.zarr"
    for folder in (run, other):
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "zarr.json").write_text("{}")
    (other / "tree").mkdir()  # something else, and not ours to remove
    for folder in (run, other, tmp_path / "missing.zarr"):
        run_on_slurm.clear_unborn(str(folder))
    assert not run.exists()
    assert (other / "zarr.json").exists()
    options = run_on_slurm.parse(["a.zarr", str(run)])
    assert run_on_slurm.command(options, "tls://node1:8786", tmp_path)[:2] == ["dtree", "fit"]


def test_a_run_in_a_bucket_keeps_its_address(tmp_path):
    with with_options({}):
        options = run_on_slurm.parse(["s3://bucket/a.zarr", "memory://a-run-of-slurm/run.zarr"])
        run_on_slurm.clear_unborn(options.run)
        words = run_on_slurm.command(options, "tls://node1:8786", tmp_path)
    assert words[:5] == ["dtree", "fit", "s3://bucket/a.zarr", "--out", "memory://a-run-of-slurm/run.zarr"]


def test_workers_end_before_slurm_ends_them():
    assert run_on_slurm.lifetime("04:00:00") == 4 * 3600 - 300


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--cores", "16", "--memory", "8GB"], "too little for 16 workers"),
        (["--jobs", "0"], "at least 1"),
        (["--walltime", "1h"], "must look like 04:00:00"),
        (["--walltime", "00:05:00"], "at least 10 minutes"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        run_on_slurm.parse(["a.zarr", "run.zarr", *words])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_sigterm_ends_the_fit_first():
    fit = run_on_slurm.Fit()
    with pytest.raises(SystemExit) as ended:
        fit.stop()
    assert ended.value.code == 128 + signal.SIGTERM
    timer = threading.Timer(0.5, fit.stop)
    timer.start()
    assert fit.run([sys.executable, "-c", "import time; time.sleep(60)"]) == -signal.SIGTERM
    timer.join()


def test_without_dask_jobqueue_it_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    assert run_on_slurm.main(["a.zarr", "run.zarr", "--folder", str(tmp_path / "none")]) == 2
    assert "pip install dask-jobqueue" in capsys.readouterr().err
    assert not Path(tmp_path / "none").exists()
