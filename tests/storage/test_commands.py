"""Every command on a run in a bucket, and not a trace of a credential anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dtree.cli.app import app
from dtree.engine.drive import Place, resume
from dtree.runs.kept import store_at
from dtree.runs.run import Run
from dtree.storage import located, with_options
from tests.engine.test_features import bits, fit, frame
from tests.storage.server import KEY, SECRET, Server, error, now_and_then

ROOT = Path(__file__).resolve().parents[2]


def table() -> str:
    rows = frame(90).round(3)
    rows.iloc[5, 0] = np.nan
    rows["kind"] = np.where(np.arange(90) % 2 == 0, "odd", "even")
    return rows.to_csv(index_label="name")


def test_every_command_and_no_credential_anywhere(server: Server, folder: str, tmp_path: Path) -> None:
    said: list[str] = []
    options = [word for name, value in server.options.items() for word in ("--storage-option", f"{name}={value}")]

    def dtree(*words: str, code: int = 0) -> str:
        found = CliRunner().invoke(app, [*words, *options])
        said.append(found.output)
        if found.exception is not None:
            said.append(repr(found.exception))
        assert found.exit_code == code, found.output
        return found.output

    run, data = f"{folder}/run.zarr", f"{folder}/rows.csv"
    with with_options(server.options):
        located(data).write_bytes(table().encode())
    dtree("fit", data, "--labels-column", "kind", "--out", run)
    assert "already holds a run" in dtree("fit", data, "--out", run, code=2)
    assert run in dtree("resume", run)
    assert data in dtree("info", run)
    dtree("verify", run, "--data")
    dtree("levels", run, "--clusters", "2", "--out", str(tmp_path / "two.csv"))
    dtree("export", run, "--labels", str(tmp_path / "labels.csv"), "--newick", str(tmp_path / "tree.nwk"))
    dtree("report", run, "--out", str(tmp_path / "report.html"))
    dtree("impute", run, data, "--out", str(tmp_path / "filled.csv"))
    dtree("predict", run, data, "--out", str(tmp_path / "new.csv"))
    dtree("predict", run, data, "--out", f"{folder}/labels.zarr")
    assert "exists already" in dtree("predict", run, data, "--out", f"{folder}/labels.zarr", code=2)
    dtree("predict", run, data, "--out", f"{folder}/labels.zarr", "--overwrite")
    assert "there is no run" in dtree("info", f"{folder}/nothing.zarr", code=2)
    server.proxy.rules = [now_and_then(1, error(403, "SignatureDoesNotMatch"))]
    assert "the secret key is wrong" in dtree("info", run, code=1)
    server.quiet()
    import zarr

    from dtree.storage.zarr_places import zarr_at

    with with_options(server.options):
        group: Any = zarr.open_group(zarr_at(located(f"{folder}/labels.zarr")), mode="r")
        assert group["labels"].shape == (90,)
        header = Run.open(run).header
        contents = {name: (located(folder) / name).read_bytes() for name, _ in located(folder).sizes()}
    assert "aws_secret_access_key=***" in " ".join(header.command) or "--storage-option" not in header.command
    contents |= {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(contents) > 20
    for secret in (SECRET, KEY):
        assert not [name for name, content in contents.items() if secret.encode() in content]
        assert not [words for words in said if secret in words]


def test_credentials_are_in_no_description_and_no_traceback(server: Server, folder: str) -> None:
    import traceback

    import dtree as package
    from dtree.data import open_source

    model = package.TreeClustering(storage_options=server.options)
    words = [repr(model), str(model.get_params())]
    with with_options(server.options):
        place, store = located(f"{folder}/rows.npy"), store_at(f"{folder}/run.zarr")
        place.write_bytes(b"nothing")
        words += [repr(place), repr(store), repr(place.objects.options)]
        server.proxy.rules = [now_and_then(1, error(403, "InvalidAccessKeyId"))]
        for attempt in (place.read_bytes, lambda: open_source(str(place)), lambda: store.put("settings", {"a": 1})):
            with pytest.raises(PermissionError) as caught:
                attempt()
            words += traceback.format_exception(caught.value)
    assert not [text for text in words if SECRET in text or KEY in text]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    found = CliRunner().invoke(app, ["info", "s3://some-other-bucket/run.zarr"])
    assert found.exit_code == 2
    assert "pip install 'dtree[cloud]'" in found.output


FIT = """
import sys
from tests.engine.test_features import Place, fit
workers = int(sys.argv[4])
if workers:
    from dtree.engine.cluster import cluster_client
    with cluster_client(n_workers=workers, warm=False) as client:
        print(*[info["pid"] if "pid" in info else 0 for info in client.run(lambda: {"pid": __import__("os").getpid()}).values()], flush=True)
        fit(sys.argv[1], sys.argv[2], Place(sys.argv[3], client=client), lambda event: __import__("time").sleep(0.2))
else:
    fit(sys.argv[1], sys.argv[2], Place(sys.argv[3]), lambda event: __import__("time").sleep(0.2))
"""  # noqa: E501


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("bayes-kmeans", 0),
        pytest.param("bayes-kmeans-bhc", 2, marks=pytest.mark.slow),
        pytest.param("chains", 2, marks=pytest.mark.slow),
        pytest.param("vb", 0, marks=pytest.mark.slow),
        pytest.param("tree-clustering", 2, marks=pytest.mark.slow),
    ],
)
def test_killed_while_writing_then_resumed_elsewhere(
    name: str, workers: int, server: Server, folder: str, in_environment: None, tmp_path: Path
) -> None:
    """Workers and client are killed in the middle of a put; another machine knows nothing but the address."""
    np.save(tmp_path / "rows.npy", np.ascontiguousarray(frame().to_numpy()))
    expected = bits(fit(name, tmp_path / "rows.npy", Place(tmp_path / "run")))
    located(f"{folder}/rows.npy").write_bytes((tmp_path / "rows.npy").read_bytes())
    out = f"{folder}/run.zarr"
    process = subprocess.Popen(
        [sys.executable, "-c", FIT, name, f"{folder}/rows.npy", out, str(workers)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    pids: list[int] = []

    def kill(request: Any) -> Any:
        step = "gen-00000002" if name != "chains" else "gen-0000000"
        if process.poll() is None and request.method == "PUT" and step in request.path:
            for pid in [*pids, process.pid]:
                os.kill(pid, signal.SIGKILL)
            return "cut"
        return None

    try:
        if workers:
            assert process.stdout is not None
            pids += [int(word) for word in process.stdout.readline().split()]
            os.kill(pids.pop(), signal.SIGKILL)  # one dies at once: the others go on
        server.proxy.rules = [kill]
        process.wait(timeout=300)
    finally:
        for pid in pids if process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
    server.quiet()
    assert process.returncode == -signal.SIGKILL
    assert not Run.open(out).header.done
    time.sleep(0.5)
    assert bits(resume(out, progress=lambda event: None)) == expected
    assert not [found for found, _ in located(out).sizes() if found.startswith(("checkpoints", "parts", "passes"))]
