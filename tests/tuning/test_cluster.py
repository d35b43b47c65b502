"""Programs on a Dask cluster: two workers of this machine, and clusters that cannot be used."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.records.store import RecordStore
from engine.support.errors import BadInput, MissingCapability
from engine.tuning.cluster import cluster, identity, same_everywhere
from tests.support.commands import refused
from tests.tuning.runs import ROW, Synthetic, run, search

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed: pip install 'loomscope[cluster]'"
)


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """A cluster of two processes with one thread each."""
    from distributed import LocalCluster

    made = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50)
    made.wait_for_workers(2)  # of two processes that start, one may come after the other is asked
    yield made
    made.close()


@pytest.mark.slow(sentinel=True)
@needs_dask
def test_a_cluster_finds_what_one_process_finds(two: Any, tmp_path: Path) -> None:
    alone = {(a.mapping, a.values): a.microseconds for a in run(tmp_path / "one.db", 8, runner=Synthetic())[1]}
    workers = cluster(two.scheduler_address, "h200", one_at_a_time=False)
    assert workers.slots == 4
    _, attempts = run(tmp_path / "two.db", 8, runner=Synthetic(), workers=workers)
    assert {(a.mapping, a.values): a.microseconds for a in attempts} == alone
    assert all(str(os.getpid()) not in a.worker for a in attempts) and all(a.worker for a in attempts)


@pytest.mark.slow(sentinel=True)
@needs_dask
def test_a_lost_worker_loses_no_trial_and_its_programs_go_elsewhere(two: Any, tmp_path: Path) -> None:
    alone = {(a.mapping, a.values): a.microseconds for a in run(tmp_path / "one.db", 10, runner=Synthetic())[1]}
    workers = cluster(two.scheduler_address, "h200", one_at_a_time=True)
    assert workers.slots == 2
    with RecordStore(tmp_path / "two.db") as store:
        attempts = []
        for attempt in search(store, 10, runner=Synthetic(), workers=workers).run():
            attempts.append(attempt)
            if len(attempts) == 3:
                os.kill(int(attempt.worker.rpartition(":")[2]), signal.SIGKILL)
    assert {(a.mapping, a.values): a.microseconds for a in attempts} == alone
    assert len({a.worker for a in attempts}) > 1


@pytest.mark.slow(sentinel=True)
@needs_dask
def test_workers_that_differ_are_refused_by_name(two: Any) -> None:
    from distributed import Client

    with Client(two.scheduler_address, set_as_default=False) as client:
        mine = identity("h200")
        assert same_everywhere(client, "here", "h200", mine).keys() == client.nthreads().keys()
        other = f"Loomscope {mine['Loomscope']} instead of another, calibration none instead of fitted"
        with pytest.raises(BadInput, match=other) as caught:
            same_everywhere(client, "here", "h200", {**mine, "Loomscope": "another", "calibration": "fitted"})
        assert caught.value.subject.startswith("worker tcp://")


@needs_dask
def test_a_cluster_without_workers_is_refused() -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty:
        with pytest.raises(BadInput, match="has no workers") as caught:
            cluster(empty.scheduler_address, "h200", one_at_a_time=True)
        assert "dask worker tcp://" in caught.value.hint


@pytest.mark.few(1)
@needs_dask
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "no such host:1", "nonsense://here", ""])
def test_an_address_that_nobody_answers_at_is_refused(address: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(BadInput, match="does not answer as a Dask scheduler"):
        cluster(address.format(port=port), "h200", one_at_a_time=False, patience=1.0)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of Dask with one certificate that signs itself, for all roles."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificates")
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    settings = {"ca-file": certificate}
    for role in ("client", "scheduler", "worker"):
        settings |= {f"{role}.cert": certificate, f"{role}.key": key}
    return {f"distributed.comm.tls.{name}": value for name, value in settings.items()}


@pytest.mark.slow(sentinel=True)
@needs_dask
def test_a_cluster_with_tls_by_dasks_own_settings(certificates: dict[str, str]) -> None:
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    shape = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with dask.config.set(certificates):
        made = LocalCluster(processes=True, protocol="tls://", security=Security(), **shape)
    with made:
        address = made.scheduler_address
        with pytest.raises(BadInput, match=r"asks for TLS, and Dask's settings here name no certificates"):
            cluster(address, "h200", one_at_a_time=False)
        with dask.config.set(certificates):
            workers = cluster(address, "h200", one_at_a_time=False)
            assert workers.executor.submit(os.getpid).result(timeout=60) != os.getpid()
            workers.close()


@needs_dask
def test_settings_of_encryption_that_do_not_fit_are_told(certificates: dict[str, str]) -> None:
    import dask

    with (
        dask.config.set({**certificates, "distributed.comm.tls.ca-file": "/no/such/file"}),
        pytest.raises(BadInput, match=r"cannot be used: No such file.*distributed\.comm\.tls"),
    ):
        cluster("tls://127.0.0.1:1", "h200", one_at_a_time=False)
    with (
        dask.config.set({**certificates, "distributed.comm.require-encryption": True}),
        pytest.raises(BadInput, match=r"is not encrypted.*tls://"),
    ):
        cluster("tcp://127.0.0.1:1", "h200", one_at_a_time=False)


def test_without_dask_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    told = refused("tune", ROW, "--records", str(tmp_path / "r.db"), "--cluster", "localhost:8786", code=3)
    assert "loomscope[cluster]" in told
    with pytest.raises(MissingCapability):
        cluster("localhost:8786", "h200", one_at_a_time=False)
