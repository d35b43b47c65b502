"""Run programs on a Dask cluster, with one GPU for each worker where times are measured.

A scheduler runs what anyone sends it that can reach it.  TLS, by Dask's own settings (`distributed.comm.tls`), lets in
only who has a certificate; without it, the network of the cluster is trusted.

Dask reruns the tasks of a lost worker on another one.  Workers must have the same Loomscope, NVRTC and calibration as
the search, so that they compile and predict the same.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.cost.calibration import calibration_of
from engine.execution.nvrtc import nvrtc_version
from engine.support.cache import digest, digest_of_files
from engine.support.child_processes import ROOT
from engine.support.errors import BadInput, MissingCapability
from engine.tuning.executors import Workers
from engine.tuning.worker_loss import RESUME

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 10.0
"""Seconds to wait for the scheduler."""
AHEAD = 2
"""Programs for each thread of a worker, so that none waits for the network."""
TLS_HINT = "set distributed.comm.tls ca-file, and cert and key of client, in Dask's configuration"
ATTEMPTS = 3
"""Workers that may die with a program before it is to blame."""


def cluster(address: str, target: str, one_at_a_time: bool, patience: float = PATIENCE) -> Workers:
    """The workers of a Dask cluster.

    address: of its scheduler, "tcp://host:8786", "tls://host:8786" or "host:8786".  target: of the search, whose
    calibration all must share.  one_at_a_time: whether a worker has a GPU that it must not share.
    Raises MissingCapability without Dask; BadInput where nobody answers, no worker is there, or versions differ.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        reason = "Dask's distributed is not installed"
        raise MissingCapability("tune", "--cluster", reason, "pip install 'loomscope[cluster]'") from error
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL + 1)  # distributed logs every lost connection to the terminal
    _check_encryption(address)
    try:
        client = Client(address, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = f"does not answer as a Dask scheduler within {patience:g} s"
        raise BadInput("tune", f"cluster {address}", reason, "start one with `dask scheduler`") from error
    try:
        threads = same_everywhere(client, address, target, identity(target))
    except BaseException:
        client.close()
        raise
    slots = len(threads) if one_at_a_time else AHEAD * sum(threads.values())

    def share(value: Any) -> Any:
        try:
            return client.scatter(value, broadcast=True)
        except (OSError, TimeoutError) as error:
            raise MissingCapability("tune", f"cluster {address}", "lost its workers just now", RESUME) from error

    def end(executor: Executor) -> None:
        executor.shutdown(wait=False)
        client.close()

    def is_staffed() -> bool:
        try:
            return bool(client.nthreads())
        except (OSError, TimeoutError) as error:
            raise MissingCapability("tune", f"cluster {address}", "does not answer any more", RESUME) from error

    executor = client.get_executor(pure=False, retries=ATTEMPTS - 1)
    return Workers(executor, slots, share, None, (KilledWorker,), end, is_staffed)


def _check_encryption(address: str) -> None:
    """BadInput where an address asks for TLS without usable certificates in Dask's settings, or they require TLS."""
    from distributed.security import Security

    subject, is_encrypted = f"cluster {address}", address.startswith("tls://")
    settings = Security()
    try:
        context = settings.get_connection_args("client")["ssl_context"]
    except OSError as error:
        reason = f"the certificates of Dask's settings cannot be used: {error.strerror or error}"
        raise BadInput("tune", subject, reason, TLS_HINT) from error
    if is_encrypted and context is None:
        raise BadInput("tune", subject, "asks for TLS, and Dask's settings here name no certificates", TLS_HINT)
    if settings.require_encryption and not is_encrypted:
        hint = "name a scheduler at tls://"
        raise BadInput("tune", subject, "is not encrypted, which Dask's settings here require", hint)


def same_everywhere(client: Client, address: str, target: str, mine: Mapping[str, str]) -> dict[str, int]:
    """Threads of each worker by address.  mine: what identity all must have.

    Raises BadInput where there is no worker, or one has another identity.
    """
    threads: dict[str, int] = client.nthreads()
    if not threads:
        reason, hint = "has no workers", f"start some, one for each GPU: `dask worker {address} --nthreads 1`"
        raise BadInput("tune", f"cluster {address}", reason, hint)
    try:
        theirs = client.run(identity, target)
    except (ImportError, AttributeError) as error:
        reason = f"a worker cannot run Loomscope: {error}"
        raise BadInput("tune", f"cluster {address}", reason, "install the same version in its environment") from error
    for worker, found in sorted(theirs.items()):
        other = [f"{what} {found.get(what)} instead of {own}" for what, own in mine.items() if found.get(what) != own]
        if other:
            hint = "install the same version everywhere, and copy the calibration"
            raise BadInput("tune", f"worker {worker}", f"differs from this machine: {', '.join(other)}", hint)
    return threads


@cache
def identity(target: str) -> dict[str, str]:
    """Versions that every worker of one search must share, by name."""
    import distributed

    fitted = calibration_of(target)
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": str(distributed.__version__),
        "Loomscope": digest_of_files([*ROOT.glob("engine/**/*.py"), *ROOT.glob("engine/**/*.cuh")])[:12],
        "NVRTC": nvrtc_version() or "none",
        "calibration": digest(repr(fitted))[:12] if fitted else "none",
    }
