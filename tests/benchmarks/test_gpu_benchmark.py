"""The GPU benchmark without a GPU: what it lists, its budget, how it goes on, and what a bad peer costs."""

from __future__ import annotations

import importlib.util
import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import engine
from engine.execution.measure import gpu_name
from engine.measurements import read_measurements
from engine.measurements.nodes import OURS
from engine.suite import read_suite
from engine.suite.operators import model_of
from engine.support.errors import BadInput, Unsupported
from tests.benchmarks import gpu, prepared
from tests.benchmarks.gpu_process import GpuProcess
from tests.benchmarks.gpu_worker import lacking_memory
from tests.benchmarks.peers import PEERS, walk
from tests.suite.test_operators import ROWS

SUITE = read_suite("alcop")
WORD = """
    def entry(name, time):
        say(event="entry", system=name, entry={"microseconds": time, "origin": "synthetic"})
"""


def worker(body: str) -> tuple[str, ...]:
    """A process in the place of the one that has the GPU."""
    head = "import json, sys, time, os\n"
    text = head + "say = lambda **m: print(json.dumps(m), flush=True)\n" + textwrap.dedent(WORD) + textwrap.dedent(body)
    return (sys.executable, "-c", text)


GOOD = worker("""
    for line in sys.stdin:
        print("a library says hello")
        request = json.loads(line)
        for name in request["systems"]:
            say(event="begin", system=name)
            entry(name, 4.0 if name == "loomscope" else 8.0)
        say(event="done")
""")


def plan(tmp_path: Path, **changes: Any) -> gpu.Plan:
    made = gpu.Plan(SUITE.name, tuple((SUITE, row) for row in SUITE.rows[:3]), (OURS, *PEERS), tmp_path / "out.json")
    return replace(made, **changes)


def run(plan: gpu.Plan, command: tuple[str, ...] = GOOD, device: str = "a test GPU", **options: Any) -> dict[str, Any]:
    process = GpuProcess(worker=command)
    try:
        return gpu.run([plan], device, process, **{"seconds": 3600.0, **options})[0]
    finally:
        process.close()


def test_a_dry_run_lists_rows_floors_and_missing_peers(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--suite", "alcop", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "suite:alcop/MM_Square_2k" in out and "21.7" in out and "compute" in out
    assert "on one H200; floors hold for that GPU only" in out
    for name, version in gpu.versions(tuple(PEERS)).items():
        assert version or f"{name:16} missing" in out


def test_without_a_gpu_it_ends_with_3_and_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    if gpu_name() is not None:
        pytest.skip("this machine has a GPU")
    assert gpu.main(["--suite", "alcop", "--minutes", "1"]) == 3
    assert "pip install pycuda" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--suite", "alcopp"], ["--suite", "alcop", "--row", "x"], ["--suite", "alcop", "--systems", "numpy"]]
)
def test_bad_arguments_end_with_2(arguments: list[str]) -> None:
    assert gpu.main([*arguments, "--dry-run"]) == 2


def test_one_file_with_environment_rows_and_summary(tmp_path: Path) -> None:
    run(plan(tmp_path))
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["name"] == "gpu" and found["environment"]["device"] == "a test GPU"
    assert [row["row"] for row in found["rows"]] == [SUITE.reference(row) for row in SUITE.rows[:3]]
    summary = found["summary"]
    assert summary["best_peer_over_ours"] == summary["peers_over_ours"]["xla"] == pytest.approx(2.0)
    assert (summary["left"], summary["behind"], summary["rows_without_ours"]) == ([], [], 0)
    assert [row.ours.microseconds for row in read_measurements(tmp_path / "out.json").rows if row.ours] == [4.0] * 3


def test_rows_that_do_not_fit_the_minutes_are_left_and_taken_next_time(tmp_path: Path) -> None:
    ticks = iter(range(0, 10_000, 25))  # every look at the clock is 25 seconds later
    found = run(plan(tmp_path), seconds=100.0, clock=lambda: float(next(ticks)))
    assert 0 < len(found["rows"]) < 3
    assert len(found["summary"]["left"]) == 3 - len(found["rows"])
    # A worker that would fail shows that the first rows are not measured again.
    first = found["rows"][0]
    again = run(plan(tmp_path), worker("print('no luck', file=sys.stderr, flush=True); os._exit(7)"))
    assert again["rows"][0] == first and again["summary"]["left"] == []
    assert again["rows"][-1]["systems"][OURS]["message"] == "the process ended with status 7: no luck"
    assert again["summary"]["rows_without_ours"] == 3 - len(found["rows"])


def test_a_row_is_taken_again_for_a_system_that_it_lacks(tmp_path: Path) -> None:
    few = plan(tmp_path, rows=((SUITE, SUITE.rows[0]),), systems=(OURS, "torch"))
    assert run(few)["rows"][0]["systems"].keys() == {OURS, "torch"}
    more = run(replace(few, systems=(OURS, "torch", "xla")))
    assert more["rows"][0]["systems"].keys() == {OURS, "torch", "xla"}
    seeds = {entry["seed"] for entry in more["rows"][0]["systems"].values()}
    assert len(seeds) == 1, "all of a row work on the same values"
    other = run(replace(few, systems=("cudnn",)))
    assert other["rows"][0]["systems"].keys() == {OURS, "torch", "xla", "cudnn"}, "nothing that was measured is lost"
    more = other
    kept = run(few, worker("os._exit(7)"))
    assert kept["rows"] == more["rows"], "nothing is lacking, so nothing runs"


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("body", ["time.sleep(60)", "os.abort()"])
def test_a_peer_that_hangs_or_crashes_is_left_out_and_the_rest_goes_on(body: str) -> None:
    bad = worker(f"""
        for line in sys.stdin:
            for name in json.loads(line)["systems"]:
                say(event="begin", system=name)
                if name == "torch":
                    {body}
                entry(name, 4.0)
            say(event="done")
    """)
    process = GpuProcess(quiet=1.5, worker=bad)
    for row in SUITE.rows[:2]:  # it is started anew for the next row
        found = process.measure_row(SUITE.reference(row), (OURS, *PEERS))
        assert found[OURS]["microseconds"] == found["torch.compile"]["microseconds"] == 4.0
        assert found["torch"]["failure"] == ("hang" if "sleep" in body else "crash")
    process.close()


def test_a_process_that_does_not_start_is_told_once() -> None:
    process = GpuProcess(worker=worker("sys.exit('no driver')"))
    found = process.measure_row("suite:alcop/MM_Square_1k", (OURS, "torch"))
    process.close()
    assert {entry["message"] for entry in found.values()} == {"the process ended with status 1: no driver"}


def test_a_file_of_another_device_suite_or_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = plan(tmp_path, rows=((SUITE, SUITE.rows[0]),))
    run(one)
    with pytest.raises(BadInput, match="another device: a test GPU, not another GPU"):
        run(one, device="another GPU")
    with pytest.raises(BadInput, match="another suite"):
        run(replace(one, name="gta"))
    with monkeypatch.context() as changed, pytest.raises(BadInput, match="another version of xla"):
        known = gpu.versions
        changed.setattr(gpu, "versions", lambda systems: {**known(systems), "xla": "99"})
        run(replace(one, systems=("xla",)))
    one.output.write_text("{}", encoding="utf-8")
    with pytest.raises(BadInput, match="no file of this benchmark"):
        run(one)


@pytest.mark.parametrize("lost", ["*.json", "*.cubin"])
def test_what_was_prepared_and_is_broken_is_told(lost: str, tmp_path: Path) -> None:
    row = "suite:gta/gemv-512x16"
    made, code = prepared.prepare(row, "h200")
    prepared.write(made, code, tmp_path)
    assert prepared.read(row, "h200", tmp_path) == (made, code) and prepared.read(row, "a100", tmp_path) is None
    for path in tmp_path.rglob(lost):
        path.write_text("{", encoding="utf-8") if path.suffix == ".json" else path.unlink()
    with pytest.raises(BadInput, match="is broken"):
        prepared.read(row, "h200", tmp_path)


NUMPY = {
    "MatMul": np.matmul, "Add": np.add, "Mul": np.multiply, "Neg": np.negative,
    "Split": lambda x, axis=0, num_outputs=2: tuple(np.split(x, num_outputs, axis)),
    "Concat": lambda *x, axis: np.concatenate(x, axis),
    "Reshape": lambda x, shape: x.reshape(shape), "Transpose": lambda x, perm: x.transpose(perm),
}  # fmt: skip


@pytest.mark.parametrize("name", ["matmul-bias-residual", "rope", "qkv-split"])
def test_the_walk_over_a_row_is_what_onnx_runtime_says(name: str) -> None:
    model = model_of(replace(ROWS[name], dtype="float32"))
    stream = np.random.default_rng(0)
    values = {
        one.name: stream.normal(size=[d.dim_value for d in one.type.tensor_type.shape.dim]).astype(np.float32)
        for one in model.graph.input
    }
    found = walk(model, NUMPY, lambda value: value)(values)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(found, session.run(None, values), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_an_adapter_that_lacks_a_word_says_which() -> None:
    with pytest.raises(Unsupported, match="Softmax: this peer's adapter has no word"):
        walk(model_of(ROWS["softmax"]), NUMPY, lambda value: value)


@pytest.mark.parametrize("file", ["torch_operators.py", "xla.py"])
def test_a_library_has_a_word_for_every_operator_of_the_suites(file: str) -> None:
    """Read as text, since neither PyTorch nor JAX need be installed where these tests run."""
    text = (Path(gpu.__file__).parent / file).read_text(encoding="utf-8")
    kinds = {node.op_type for row in ROWS.values() for node in model_of(row).graph.node}
    assert {kind for kind in kinds if f'"{kind}":' not in text} == set()


def test_a_row_that_does_not_fit_into_memory_is_told_in_gigabytes() -> None:
    graph = engine.load("suite:alcop/MM_Square_4k")  # 100.7 MB
    for free, short in ((400_000_000, False), (200_000_000, True)):
        said = lacking_memory(SimpleNamespace(free_bytes=lambda free=free: free), graph)
        assert said == ("the row needs 0.3 GB, 0.2 GB are free" if short else "")


def test_the_worker_without_pytorch_says_what_every_system_lacks() -> None:
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("this machine has PyTorch")
    process = GpuProcess()
    found = process.measure_row("suite:gta/gemv-512x16", (OURS, *PEERS))
    process.close()
    assert {entry["failure"] for entry in found.values()} == {"missing"}
    assert "loomscope measure" in found[OURS]["message"]
