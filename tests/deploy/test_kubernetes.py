"""The Kubernetes manifests: valid by Kubernetes' own schemas, and as careful as the guide says they are."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.31", "1.34")
BUCKET = {"secretRef": {"name": "dtree-bucket"}}
SCHEMA = json.loads((Path(__file__).parent / "dask_cluster_schema.json").read_text())


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield f"{path.relative_to(FOLDER).as_posix()}:{document['kind']}", document


DOCUMENTS = dict(_documents())
BUILT_IN = {
    name: document for name, document in DOCUMENTS.items() if document["kind"] not in ("Kustomization", "DaskCluster")
}
CLUSTER = DOCUMENTS["dask-operator/cluster.yaml:DaskCluster"]


def _pods() -> dict[str, dict[str, Any]]:
    """Every pod spec by name."""
    pods = {
        name: document["spec"]["template"]["spec"]
        for name, document in DOCUMENTS.items()
        if document["kind"] in ("Deployment", "Job")
    }
    for role in ("scheduler", "worker"):
        pods[f"dask-operator/cluster.yaml:{role}"] = CLUSTER["spec"][role]["spec"]
    return pods


PODS = _pods()
CONTAINERS = {
    f"{name}:{container['name']}": container
    for name, pod in PODS.items()
    for container in [*pod["containers"], *pod.get("initContainers", [])]
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_manifests_follow_the_schemas_of_kubernetes(name, version):
    kubernetes_validate.validate(BUILT_IN[name], version, strict=True)


def test_the_check_is_able_to_fail():
    wrong = copy.deepcopy(DOCUMENTS["plain/workers.yaml:Deployment"])
    wrong["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_the_operators_cluster_has_its_structure():
    jsonschema.validate(CLUSTER, SCHEMA)
    wrong = copy.deepcopy(CLUSTER)
    wrong["spec"]["worker"]["replica"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_pods_and_service_inside_the_operators_cluster_are_valid(role):
    inside = CLUSTER["spec"][role]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role}, "spec": inside["spec"]}
    kubernetes_validate.validate(pod, VERSIONS[0], strict=True)
    if role == "scheduler":
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": role}, "spec": inside["service"]}
        kubernetes_validate.validate(service, VERSIONS[0], strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pods_are_not_root_and_hold_the_certificates(name):
    pod = PODS[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 1000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    secrets = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secrets == [{"secretName": "dtree-tls", "defaultMode": 0o440}]


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_bounded_and_take_the_shared_settings(name):
    container = CONTAINERS[name]
    assert "command" not in container  # it would bypass the image's entry point and with it the compiled kernels
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for kind in ("requests", "limits"):
        assert set(container["resources"][kind]) == {"cpu", "memory"}
    shared, *bucket = container["envFrom"]
    assert shared == {"configMapRef": {"name": "dtree-dask-config"}}
    assert bucket == ([BUCKET] if name == "bucket/job.yaml:Job:fit" else [])
    assert not any("tcp://" in word for word in container["args"])
    if container["name"] in ("scheduler", "worker"):
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
        assert "--protocol=tls" in container["args"]
    if container["name"] == "worker":
        assert "--nthreads=1" in container["args"]
        assert "--memory-limit=1GB" in container["args"]


def test_both_ways_run_the_same_scheduler_workers_and_job():
    plain = PODS["plain/scheduler.yaml:Deployment"]
    assert CLUSTER["spec"]["scheduler"]["spec"] == plain
    worker = copy.deepcopy(CLUSTER["spec"]["worker"]["spec"])
    worker["containers"][0]["args"].remove("--name=$(DASK_WORKER_NAME)")
    assert worker["containers"][0].pop("env") == [
        {"name": "DASK_SCHEDULER_ADDRESS", "value": "tls://dtree-scheduler:8786"}
    ]
    assert worker == PODS["plain/workers.yaml:Deployment"]
    assert DOCUMENTS["plain/job.yaml:Job"] == DOCUMENTS["dask-operator/job.yaml:Job"]


def test_the_job_with_a_bucket_is_the_plain_one_without_a_volume():
    job = copy.deepcopy(DOCUMENTS["plain/job.yaml:Job"])
    pod = job["spec"]["template"]["spec"]
    pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] != "data"]
    fit = pod["containers"][0]
    fit["volumeMounts"] = [mount for mount in fit["volumeMounts"] if mount["name"] != "data"]
    fit["envFrom"].append(BUCKET)
    fit["args"][-2:] = ["s3://bucket/big.zarr", "s3://bucket/run.zarr"]
    assert DOCUMENTS["bucket/job.yaml:Job"] == job


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_variant_with_a_bucket_has_no_volume_to_share():
    """What kustomize makes of the patches: workers without /data, but with the bucket's environment."""
    done = subprocess.run(["kubectl", "kustomize", FOLDER / "bucket"], capture_output=True, text=True, check=True)
    made = {document["metadata"]["name"]: document for document in yaml.safe_load_all(done.stdout)}
    assert "dtree-data" not in made
    for document in made.values():
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
    pod = made["dtree-worker"]["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["certificates", "scratch"]
    assert pod["containers"][0]["envFrom"][1:] == [BUCKET]
    assert "/data" not in {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}


def test_the_network_policy_knows_every_port_and_every_pod():
    policy = DOCUMENTS["common/network-policy.yaml:NetworkPolicy"]["spec"]
    open_ports = {entry["port"] for entry in policy["ingress"][0]["ports"]}
    words = CONTAINERS["plain/workers.yaml:Deployment:worker"]["args"]
    words = [*words, *CONTAINERS["plain/scheduler.yaml:Deployment:scheduler"]["args"]]
    listening = {
        int(word.split("=")[1]) for word in words if word.startswith(("--port=", "--worker-port=", "--nanny-"))
    }
    assert open_ports == listening
    chosen = policy["podSelector"]["matchLabels"].items()
    for document in DOCUMENTS.values():
        if document["kind"] in ("Deployment", "Job"):
            assert chosen <= document["spec"]["template"]["metadata"]["labels"].items()
    for role in ("scheduler", "worker"):
        assert chosen <= CLUSTER["spec"][role]["metadata"]["labels"].items()


@pytest.mark.parametrize("folder", ["common", "plain", "dask-operator"])
def test_kustomizations_name_files_that_are_there(folder):
    for resource in DOCUMENTS[f"{folder}/kustomization.yaml:Kustomization"]["resources"]:
        assert (FOLDER / folder / resource).exists()
