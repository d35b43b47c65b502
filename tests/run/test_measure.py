"""The measuring process seen from outside: stand-ins answer, crash and hang in its place, since CI has no GPU."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.codegen.nodes import Buffer, CudaSource
from engine.errors import BadInput, MissingCapability
from engine.run.measure import Measurement, gpu_name, measure_kernel, require_pycuda
from engine.run.nodes import Failure

SOURCE = CudaSource(
    text="", entry="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, lines=(),
    buffers=(
        Buffer("x", "x", "float32", 4, read=True, written=False),
        Buffer("y", "y", "float32", 4, read=False, written=True),
    ),
)  # fmt: skip
ARRAYS = {"x": np.arange(4, dtype=np.float32)}


def stand_in(body: str) -> tuple[str, ...]:
    """A process that reads the request and then does `body`."""
    text = "import json, sys, time, pathlib, os\nrequest = json.loads(sys.stdin.readline())\n"
    return (sys.executable, "-c", text + "say = lambda **m: print(json.dumps(m), flush=True)\n" + textwrap.dedent(body))


def test_samples_and_results_come_back() -> None:
    worker = stand_in("""
        folder = pathlib.Path(request["folder"])
        assert (folder / "kernel.cubin").read_bytes() == b"cubin"
        (folder / "1.out").write_bytes((folder / "0.in").read_bytes())
        for t in (4.0, 1.0, 3.0, 2.0, 90.0):
            say(event="sample", microseconds=t)
        say(event="done", environment={"device": "stand-in"})
    """)
    seen: list[float] = []
    found = measure_kernel(SOURCE, b"cubin", ARRAYS, worker=worker, on_sample=seen.append)
    assert isinstance(found, Measurement)
    timing = found.timing
    assert seen == list(timing.samples) == [4.0, 1.0, 3.0, 2.0, 90.0]
    assert (timing.origin, timing.microseconds) == ("measured", 3.0)
    assert (timing.low, timing.high) == pytest.approx((1.8, 21.2))
    assert timing.environment == {"device": "stand-in"}
    np.testing.assert_array_equal(found.outputs["y"], ARRAYS["x"])


def test_a_crash_costs_one_trial() -> None:
    worker = stand_in("print('lost', file=sys.stderr, flush=True); os.abort()")
    found = measure_kernel(SOURCE, b"", ARRAYS, worker=worker)
    assert isinstance(found, Failure)
    assert found.kind == "crash"
    assert "lost" in found.message


def test_a_process_that_ends_before_reading_is_a_crash() -> None:
    found = measure_kernel(SOURCE, b"", ARRAYS, worker=(sys.executable, "-c", "raise SystemExit(7)"))
    assert isinstance(found, Failure)
    assert "status 7" in found.message


def test_a_hang_is_ended_at_its_time() -> None:
    worker = stand_in('say(event="sample", microseconds=1.0); time.sleep(60)')
    found = measure_kernel(SOURCE, b"", ARRAYS, worker=worker, timeout=1.0)
    assert isinstance(found, Failure)
    assert found.kind == "hang"


def test_a_fault_of_the_kernel_keeps_its_kind() -> None:
    worker = stand_in('say(event="failure", kind="out of memory", message="too large")')
    assert measure_kernel(SOURCE, b"", ARRAYS, worker=worker) == Failure("out of memory", "too large")


def test_a_missing_gpu_says_what_to_install() -> None:
    worker = stand_in('say(event="missing", message="there is no CUDA device")')
    with pytest.raises(MissingCapability) as caught:
        measure_kernel(SOURCE, b"", ARRAYS, worker=worker)
    assert "loomscope[gpu]" in caught.value.hint
    assert caught.value.exit_code == 3


def test_the_real_process_says_that_it_lacks_a_gpu() -> None:
    if gpu_name() is not None:
        pytest.skip("this machine has a GPU; tests/gpu measures with it")
    with pytest.raises(MissingCapability, match="CUDA"):
        measure_kernel(SOURCE, b"", ARRAYS)


def test_a_missing_pycuda_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingCapability, match="PyCUDA is not installed"):
        require_pycuda()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    require_pycuda()


@pytest.mark.parametrize("arrays", [{}, {"x": np.zeros(3, np.float32)}])
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(BadInput, match="x"):
        measure_kernel(SOURCE, b"", arrays, worker=stand_in(""))


def with_stand_in_driver(source: CudaSource, monkeypatch: pytest.MonkeyPatch) -> Measurement | Failure:
    """The real measuring process over a stand-in for PyCUDA."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "stand_in"))
    return measure_kernel(source, b"cubin", ARRAYS, samples=7)


def test_the_real_process_runs_every_step_over_a_stand_in_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_stand_in_driver(SOURCE, monkeypatch)
    assert isinstance(found, Measurement)
    np.testing.assert_array_equal(found.outputs["y"], ARRAYS["x"])
    assert len(found.timing.samples) == 7
    environment = found.timing.environment
    assert environment is not None
    assert (environment["device"], environment["compute capability"]) == ("stand-in", "9.0")
    # 32 bytes of buffers cannot fill three times an L2 cache of 1 MiB with 512 copies.
    assert environment["cache"].startswith("warm")
    assert environment["launches per sample"] == "8"


def test_large_buffers_are_rotated_past_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = tuple(replace(buffer, elements=65536) for buffer in SOURCE.buffers)
    monkeypatch.setitem(ARRAYS, "x", np.ones(65536, np.float32))
    found = with_stand_in_driver(replace(SOURCE, buffers=buffers), monkeypatch)
    assert isinstance(found, Measurement)
    assert found.timing.environment is not None
    # 512 KiB each: 3 MiB takes 6, and one more.
    assert found.timing.environment["cache"] == "cold, 7 copies in rotation"


def test_a_faulting_kernel_is_a_crash_with_the_driver_s_words(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_stand_in_driver(replace(SOURCE, entry="fault"), monkeypatch)
    assert found == Failure("crash", "an illegal memory access was encountered")
