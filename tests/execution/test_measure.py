"""The measuring process seen from outside: stand-ins answer, crash and hang in its place, since CI has no GPU."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import engine
from engine.execution.emulate.build import host_compiler
from engine.execution.measure import (
    Listeners,
    MeasureJob,
    Measurement,
    gpu_name,
    measure_kernel,
    measure_kernels,
    require_pycuda,
)
from engine.execution.measure_worker import unfit_device
from engine.execution.nodes import Compiled, Failure, GpuState
from engine.execution.nvrtc import nvrtc_version
from engine.support.errors import BadInput, MissingCapability
from engine.tile.source import CudaSource, GlobalWorkspace, KernelLaunch, Parameter

STAND_IN = Path(__file__).parent / "stand_in"
SOURCE = CudaSource(
    text="", entry="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, lines=(),
    buffers=(
        Parameter("x", "x", "float32", 4, read=True, written=False),
        Parameter("y", "y", "float32", 4, read=False, written=True),
    ),
)  # fmt: skip
ARRAYS = {"x": np.arange(4, dtype=np.float32)}
COMPILED = Compiled("sm_90a", registers=8, spill_bytes=0, static_shared_bytes=0, cubin=b"cubin", log="")
TRIAL = MeasureJob(SOURCE, COMPILED, ARRAYS)


def stand_in(body: str) -> tuple[str, ...]:
    """A process that reads the request and then does `body`."""
    text = "import json, sys, time, pathlib, os\nrequest = json.loads(sys.stdin.readline())\n"
    return (sys.executable, "-c", text + "say = lambda **m: print(json.dumps(m), flush=True)\n" + textwrap.dedent(body))


def test_samples_and_results_come_back() -> None:
    worker = stand_in("""
        folder = pathlib.Path(request["kernels"][0]["folder"])
        assert (folder / "kernel.cubin").read_bytes() == b"cubin"
        (folder / "1.out").write_bytes((folder / "0.in").read_bytes())
        for t in (4.0, 1.0, 3.0, 2.0, 90.0):
            say(event="sample", kernel=0, microseconds=t)
        for n, clock in enumerate((1980, 1400)):
            say(event="state", state=dict(seconds=n, sm_clock=clock, memory_clock=3201, temperature=41, power=300.5))
        say(event="done", environments=[{"device": "stand-in"}])
    """)
    seen: list[float] = []
    states: list[GpuState] = []
    found = measure_kernel(TRIAL, worker=worker, on_sample=seen.append, on_state=states.append)
    assert isinstance(found, Measurement)
    timing = found.timing
    assert timing.states == tuple(states) == (GpuState(0, 1980, 3201, 41, 300.5), GpuState(1, 1400, 3201, 41, 300.5))
    assert seen == list(timing.samples) == [4.0, 1.0, 3.0, 2.0, 90.0]
    assert (timing.origin, timing.microseconds) == ("measured", 3.0)
    assert (timing.low, timing.high) == pytest.approx((1.8, 21.2))
    assert timing.environment == {"device": "stand-in"}
    assert engine.time_doc(timing).note.startswith("stand-in; noisy: p20 to p80")
    assert timing.noise == "p20 to p80 is 647% of the median; the clock moved between 1400 and 1980 MHz"
    np.testing.assert_array_equal(found.outputs["y"], ARRAYS["x"])


def test_a_crash_costs_one_trial() -> None:
    worker = stand_in("print('lost', file=sys.stderr, flush=True); os.abort()")
    found = measure_kernel(TRIAL, worker=worker)
    assert isinstance(found, Failure)
    assert found.kind == "crash"
    assert "lost" in found.message


def test_a_process_that_ends_before_reading_is_a_crash() -> None:
    found = measure_kernel(TRIAL, worker=(sys.executable, "-c", "raise SystemExit(7)"))
    assert isinstance(found, Failure)
    assert "status 7" in found.message


def test_a_hang_is_ended_at_its_time() -> None:
    worker = stand_in('say(event="sample", kernel=0, microseconds=1.0); time.sleep(60)')
    found = measure_kernel(TRIAL, worker=worker, timeout=1.0)
    assert isinstance(found, Failure)
    assert found.kind == "hang"


def test_a_fault_of_the_kernel_keeps_its_kind() -> None:
    worker = stand_in('say(event="failure", kind="out of memory", message="too large")')
    assert measure_kernel(TRIAL, worker=worker) == Failure("out of memory", "too large")


def test_a_missing_gpu_says_what_to_install() -> None:
    worker = stand_in('say(event="missing", message="there is no CUDA device")')
    with pytest.raises(MissingCapability) as caught:
        measure_kernel(TRIAL, worker=worker)
    assert "pip install pycuda" in caught.value.hint
    assert caught.value.exit_code == 3


def test_the_real_process_says_that_it_lacks_a_gpu() -> None:
    if gpu_name() is not None:
        pytest.skip("this machine has a GPU; tests/gpu measures with it")
    with pytest.raises(MissingCapability, match="CUDA"):
        measure_kernel(TRIAL)


def test_a_missing_pycuda_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingCapability, match="PyCUDA is not installed"):
        require_pycuda()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    require_pycuda()


@pytest.mark.parametrize("arrays", [{}, {"x": np.zeros(3, np.float32)}])
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(BadInput, match="x"):
        measure_kernel(replace(TRIAL, arrays=arrays), worker=stand_in(""))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stand-ins for the two libraries of the NVIDIA driver."""
    compiler = host_compiler()
    if compiler is None:
        pytest.skip("this machine has no C++ compiler: the stand-ins for the driver's libraries cannot be built")
    folder = tmp_path_factory.mktemp("libraries")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        library = [
            compiler,
            "-x",
            "c",
            "-shared",
            "-fPIC",
            "-o",
            str(folder / name),
            str(STAND_IN / "driver_library.c"),
        ]
        subprocess.run(library, check=True, timeout=60)
    return folder


def with_stand_in_driver(
    monkeypatch: pytest.MonkeyPatch, *trials: MeasureJob, **environment: str
) -> tuple[Measurement, ...] | Failure:
    """The real measuring process over a stand-in for PyCUDA."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return measure_kernels(trials or (TRIAL,), rounds=4, samples=2)


def environment_of(found: tuple[Measurement, ...] | Failure, number: int = 0) -> Mapping[str, str]:
    assert not isinstance(found, Failure), found
    environment = found[number].timing.environment
    assert environment is not None
    return environment


def test_the_real_process_runs_every_step_over_a_stand_in_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_stand_in_driver(monkeypatch, LD_LIBRARY_PATH="")
    environment = environment_of(found)
    assert not isinstance(found, Failure)
    np.testing.assert_array_equal(found[0].outputs["y"], ARRAYS["x"])
    assert len(found[0].timing.samples) == 8 and found[0].timing.rounds == 4
    assert (environment["device"], environment["compute capability"]) == ("stand-in", "9.0")
    assert environment["rounds"] == "4 of 2, 1 interleaved"
    # 32 bytes of buffers cannot fill three times an L2 cache of 1 MiB with 512 copies; one sample uses all of them.
    assert environment["cache"] == "warm: the buffers cannot exceed the L2 cache, 512 copies in rotation"
    assert environment["method"].startswith("512 launches between two events, without a graph: libcuda.so.1")
    assert "SM clock" not in environment, "no management library, no clocks"


def test_short_kernels_are_replayed_as_a_graph(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    found = with_stand_in_driver(monkeypatch, LD_LIBRARY_PATH=str(libraries), STAND_IN_LOG=str(log))
    environment = environment_of(found)
    assert environment["method"] == "replay of a graph of 512 launches"
    calls = [line for line in log.read_text().split() if line.startswith("cu")]
    recording = ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy"]
    # One recording, then one launch a sample: four rounds of two.
    assert calls == [*recording, *["cuGraphLaunch"] * 8]


def test_clocks_and_temperature_are_read_while_it_runs(monkeypatch: pytest.MonkeyPatch, libraries: Path) -> None:
    found = with_stand_in_driver(monkeypatch, LD_LIBRARY_PATH=str(libraries))
    environment = environment_of(found)
    assert not isinstance(found, Failure)
    assert environment["SM clock"] == "1965 to 1980 MHz"
    assert (environment["memory clock"], environment["temperature"]) == ("3201 MHz", "41 °C")
    assert (environment["power"], environment["driver_version"]) == ("312 W", "580.0.stand-in")
    states = found[0].timing.states
    assert len(states) == 4, "one a round"
    assert [state.seconds for state in states] == sorted(state.seconds for state in states)


@pytest.mark.parametrize("call", ["cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"])
def test_a_driver_that_records_no_graph_costs_no_measurement(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, call: str
) -> None:
    found = with_stand_in_driver(monkeypatch, LD_LIBRARY_PATH=str(libraries), STAND_IN_REFUSES=call)
    assert environment_of(found)["method"].endswith(f"without a graph: {call} answers with status 999")


def test_kernels_of_one_process_are_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    order: list[int] = []
    listeners = Listeners(lambda kernel, _: order.append(kernel))
    found = measure_kernels([TRIAL, TRIAL], rounds=3, samples=2, listeners=listeners)
    assert not isinstance(found, Failure)
    # Every second round goes backwards.
    assert order == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1]
    assert [len(one.timing.samples) for one in found] == [6, 6]


def test_large_buffers_are_rotated_past_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = tuple(replace(buffer, elements=65536) for buffer in SOURCE.buffers)
    arrays = {"x": np.ones(65536, np.float32)}
    found = with_stand_in_driver(monkeypatch, replace(TRIAL, source=replace(SOURCE, buffers=buffers), arrays=arrays))
    # 512 KiB each: 3 MiB takes 6, and one more.
    assert environment_of(found)["cache"] == "cold, 7 copies in rotation"


def test_a_faulting_kernel_is_a_crash_with_the_driver_s_words(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_stand_in_driver(monkeypatch, replace(TRIAL, source=replace(SOURCE, entry="fault")))
    assert found == Failure("crash", "an illegal memory access was encountered")


OWN = (
    GlobalWorkspace("parts", "parts", "float32", 4, 16, False),
    GlobalWorkspace("arrivals", "arrivals", "int32", 2, 4, True),
)


def test_workspaces_are_given_after_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in counts the pointers; counters begin as zeros, what need not be zero is not."""
    source = replace(SOURCE, entry="workspaces", workspaces=OWN)
    found = with_stand_in_driver(monkeypatch, replace(TRIAL, source=source))
    assert not isinstance(found, Failure), found
    assert found[0].outputs["y"].view(np.uint8).tolist() == [0xFF] * 8 + [0] * 8


def test_launches_run_in_order_on_grids_of_their_own(monkeypatch: pytest.MonkeyPatch, libraries: Path) -> None:
    """The second launch hands out what the first has left in a workspace; a graph holds both."""
    later = (KernelLaunch("take", (3, 1, 1), (32, 1, 1), 0),)
    source = replace(SOURCE, entry="leave", grid=(2, 1, 1), workspaces=OWN[:1], later=later)
    trial = replace(TRIAL, source=source)
    for found in (
        with_stand_in_driver(monkeypatch, trial, LD_LIBRARY_PATH=""),
        with_stand_in_driver(monkeypatch, trial, LD_LIBRARY_PATH=str(libraries)),
    ):
        assert not isinstance(found, Failure), found
        np.testing.assert_array_equal(found[0].outputs["y"], ARRAYS["x"])


def test_no_launch_is_made_at_a_wrong_address(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = (replace(SOURCE.buffers[0], alignment=8192), SOURCE.buffers[1])
    assert with_stand_in_driver(monkeypatch, replace(TRIAL, source=replace(SOURCE, buffers=buffers))) == Failure(
        "crash", "x lies at 0x1000, the kernel needs a multiple of 8192"
    )


def test_too_little_memory_is_told_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_stand_in_driver(monkeypatch, STAND_IN_FREE="16")
    assert found == Failure("out of memory", "its arrays take 0.00 GB, 0.00 GB are free")


@pytest.mark.parametrize(
    ("architecture", "capability", "fits"),
    [
        ("sm_90a", (9, 0), True), ("sm_90a", (8, 0), False), ("sm_90a", (10, 0), False),
        ("sm_80", (8, 0), True), ("sm_80", (8, 6), True), ("sm_80", (7, 5), False), ("sm_80", (9, 0), False),
    ],
)  # fmt: skip
def test_code_fits_its_own_chip_or_later_ones_of_the_generation(
    architecture: str, capability: tuple[int, int], fits: bool
) -> None:
    assert (why_unfit(architecture, capability, least_sms=1) is None) == fits


@pytest.mark.parametrize("least", [132, 133])
def test_blocks_that_wait_for_each_other_need_room_for_all(least: int) -> None:
    """Of a GPU with 132 SMs: a launch that has no room for all of its blocks would never end."""
    unfit = why_unfit("sm_90a", (9, 0), least)
    assert unfit is None if least == 132 else unfit and "132 SMs" in unfit[0] and "need 133" in unfit[0]


def why_unfit(architecture: str, capability: tuple[int, int], least_sms: int) -> tuple[str, str] | None:
    device = SimpleNamespace(
        compute_capability=lambda: capability, name=lambda: "a GPU", get_attribute=lambda name: {"SMs": 132}[name]
    )
    driver = SimpleNamespace(
        Device=lambda number: device, get_driver_version=lambda: 13000,
        device_attribute=SimpleNamespace(MULTIPROCESSOR_COUNT="SMs"),
    )  # fmt: skip
    kernel = {"architecture": architecture, "launches": [{"least_sms": least_sms}]}
    return unfit_device(driver, {"compiler": "13.0", "kernels": [kernel]})


def test_a_gpu_that_cannot_run_the_code_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingCapability, match=r"stand-in has compute capability 8.0; .* are for sm_90a") as caught:
        with_stand_in_driver(monkeypatch, STAND_IN_CAPABILITY="8.0")
    assert "--target" in caught.value.hint


def test_a_driver_older_than_the_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if nvrtc_version() is None:
        pytest.skip("NVRTC is not installed: there is no compiler to be older than")
    with pytest.raises(MissingCapability, match="knows CUDA 12, the kernels were compiled for CUDA 13") as caught:
        with_stand_in_driver(monkeypatch, STAND_IN_CUDA="12040")
    assert "CUDA 13" in caught.value.hint
