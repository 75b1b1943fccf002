"""Clients for this machine, for a running scheduler, and over TLS."""

from __future__ import annotations

import os

import dask
import pytest
from distributed import Client, LocalCluster, Security

from dtree.engine import cluster, on_cluster
from dtree.engine.cluster import cluster_client, local_size, security, worker_memory
from dtree.engine.on_cluster import OnCluster
from dtree.engine.workers import Here


def test_address_of_a_running_scheduler(client):
    with cluster_client(scheduler=client.scheduler.address) as second:
        assert second.submit(os.getpid).result() != os.getpid()
    assert worker_memory(client) == 1_500_000_000
    assert worker_memory(None) is None


def test_tls():
    with cluster_client(n_workers=1, memory_limit="1GB", warm=False, tls=Security.temporary()) as client:
        assert client.scheduler.address.startswith("tls://")
        assert client.submit(sum, [1, 2]).result() == 3


def test_a_plain_client_of_a_tls_scheduler_and_one_of_nobody_get_a_sentence():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        cluster_client(n_workers=1, processes=False, warm=False, tls=Security.temporary(), protocol="tls://") as client,
    ):
        plain = client.scheduler.address.replace("tls://", "tcp://")
        for address in (plain, "tcp://127.0.0.1:9", "nonsense://x"):
            with (
                pytest.raises(ValueError, match="no Dask scheduler answers at"),
                cluster_client(scheduler=address),
            ):
                pass


def test_a_scheduler_without_workers_gets_a_sentence(monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0", protocol="tcp://") as idle,
        pytest.raises(ValueError, match="has no workers: start some"),
        cluster_client(scheduler=idle.scheduler_address),
    ):
        pass


def test_a_run_whose_workers_are_all_gone_ends_with_a_sentence(monkeypatch):
    monkeypatch.setattr(on_cluster, "_LOOK_EVERY", 0.1)
    monkeypatch.setattr(on_cluster, "_ALONE", 0.3)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as idle,
        Client(idle, set_as_default=False) as client,
    ):
        for act in (
            lambda: OnCluster(client).run(abs, [(1,)]),
            lambda: OnCluster(client).map_reduce(abs, [(1,)], sum),
            lambda: list(OnCluster(client).streams(abs, [(1,)], bool)),
        ):
            with pytest.raises(RuntimeError, match="there have been no workers for"):
                act()


def test_sizes_and_sentences(tmp_path):
    workers, memory = local_size()
    assert workers >= 1
    assert memory > 0
    assert local_size(3, "2GB") == (3, 2_000_000_000)
    with pytest.raises(ValueError, match="a worker needs at least 400 MB of memory"):
        local_size(1, "100MB")
    with pytest.raises(ValueError, match="'much' is not an amount of memory"):
        local_size(1, "much")
    with pytest.raises(ValueError, match="the TLS certificate authority file"):
        security(str(tmp_path / "ca.pem"), "cert.pem", "key.pem")


def test_here_and_there_add_in_the_same_order(client):
    arguments = [(text,) for text in "abcdefghijk"]
    there = OnCluster(client).map_reduce(str.upper, arguments, "".join)
    assert there == Here().map_reduce(str.upper, arguments, "".join) == "ABCDEFGHIJK"
    assert OnCluster(client).run(str.upper, arguments) == list("ABCDEFGHIJK")
