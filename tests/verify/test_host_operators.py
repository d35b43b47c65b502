"""Operators whose results the data decide: the host runs them, kernels run before, between and behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.reference import input_values
from engine.export import harness
from engine.fusion.host_program import LaunchCondition, host_program
from engine.support.errors import BadInput
from engine.verify.model_run import ModelRun
from tests.support.commands import document, refused
from tests.support.emulated_driver import EmulatedDriver

Arrays = dict[str, np.ndarray]
Nodes = list[onnx.NodeProto]
make = helper.make_node
SHAPE = (6, 8)
CONSTANTS: Arrays = {
    "zero": np.array(0, np.float32), "half": np.array(0.5, np.float32), "twelve": np.array([12]),
    "one": np.array([1]), "none": np.array([0]), "two": np.array([2]), "five": np.array(5), "yes": np.array(True),
    "most": np.array([4]), "overlap": np.array([0.3], np.float32), "boxed": np.array([1, 12, 4]),
    "scored": np.array([1, 1, 48]),
}  # fmt: skip


def body(name: str, nodes: Nodes, inputs: list[str], outputs: list[str]) -> onnx.GraphProto:
    def value(each: str) -> onnx.ValueInfoProto:
        kind = {"i": TensorProto.INT64, "go": TensorProto.BOOL, "go_in": TensorProto.BOOL}.get(each, TensorProto.FLOAT)
        return helper.make_tensor_value_info(each, kind, () if each in ("i", "go_in", "go") else None)

    return helper.make_graph(nodes, name, [value(each) for each in inputs], [value(each) for each in outputs])


def branches(then: Nodes, other: Nodes) -> onnx.NodeProto:
    """An If on the sign of the sum of x; both branches end in r."""
    return make("If", ["positive"], ["c"], name="choice", then_branch=body("t", then, [], ["r"]),
                else_branch=body("e", other, [], ["r"]))  # fmt: skip


SIGN = [make("ReduceSum", ["x"], ["sum"], keepdims=0), make("Greater", ["sum", "zero"], ["positive"])]
WHERE = [make("Greater", ["x", "zero"], ["mask"]), make("NonZero", ["mask"], ["places"], name="where")]
CHOICE = branches([make("Exp", ["x"], ["r"])], [make("Tanh", ["x"], ["t"]), make("Neg", ["t"], ["r"])])
UNEQUAL = branches([make("Exp", ["x"], ["r"])], [make("ReduceMax", ["x"], ["r"], keepdims=1)])
LOOP = make(
    "Loop", ["five", "yes", "x"], ["last", "all"], name="loop",
    body=body(
        "b", [make("Mul", ["s", "half"], ["m"]), make("ReduceMax", ["m"], ["top"], keepdims=0),
              make("Greater", ["top", "half"], ["go"]), make("Identity", ["s"], ["was"])],
        ["i", "go_in", "s"], ["go", "m", "was"],
    ),
)  # fmt: skip
MODELS: dict[str, tuple[Nodes, list[str]]] = {
    "branches of one shape": ([*SIGN, CHOICE, make("Add", ["c", "x"], ["y"])], ["y"]),
    "branches of two shapes": ([*SIGN, UNEQUAL, make("Mul", ["c", "half"], ["y"])], ["y"]),
    "a loop that the data end": ([LOOP, make("Exp", ["last"], ["y"]), make("Neg", ["all"], ["z"])], ["y", "z"]),
    "places": ([*WHERE, make("Transpose", ["places"], ["rows"]), make("GatherND", ["x", "rows"], ["g"]),
                make("Exp", ["g"], ["y"])], ["y"]),
    "unique": ([make("Cast", ["x"], ["f"], to=TensorProto.INT64),
                make("Unique", ["f"], ["u", "", "inverse"], name="unique"),
                make("Cast", ["u"], ["y"], to=TensorProto.FLOAT), make("Gather", ["y", "inverse"], ["z"])], ["y", "z"]),
    "compressed": ([make("ReduceMax", ["x", "one"], ["top"], keepdims=0), make("Greater", ["top", "half"], ["mask"]),
                    make("Compress", ["x", "mask"], ["k"], axis=0, name="keep"), make("Exp", ["k"], ["y"])], ["y"]),
    "as many as the data say": (
        [make("ReduceMax", ["x"], ["top"], keepdims=1), make("Cast", ["top"], ["n"], to=TensorProto.INT64),
         make("Reshape", ["n", "one"], ["k"]), make("TopK", ["x", "k"], ["v", "at"], name="best"),
         make("Exp", ["v"], ["y"])], ["y"],
    ),
    "boxes": (
        [make("Reshape", ["x", "boxed"], ["boxes"]), make("Sigmoid", ["x"], ["s"]),
         make("Reshape", ["s", "scored"], ["long"]), make("Slice", ["long", "none", "twelve", "two"], ["scores"]),
         make("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["kept"], name="nms"),
         make("Cast", ["kept"], ["y"], to=TensorProto.FLOAT)], ["y"],
    ),
}  # fmt: skip


def save(folder: Path, nodes: Nodes, outputs: list[str]) -> Path:
    graph = helper.make_graph(
        nodes, "decided", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()],
    )  # fmt: skip
    path = folder / "decided.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def by_runtime(path: Path, x: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(one) for one in onnxruntime.InferenceSession(path).run(None, {"x": x})]


@pytest.mark.few(4)
@pytest.mark.parametrize("case", MODELS)
def test_a_model_runs_with_its_host(case: str, tmp_path: Path) -> None:
    """Nothing is unsupported, every group is right at assumed sizes, and the whole at those that the data decide."""
    graph = engine.load(save(tmp_path, *MODELS[case]))
    plan = engine.fuse(graph)
    assert graph.host and not graph.unsupported and not plan.unsupported
    for group in plan.groups:
        assert engine.check(engine.compile(group)).status == "pass", group.name
    for seed in (0, 1, 2):
        found = engine.check_model(graph, plan, seed=seed)
        assert found.status == "pass", [check.message for check in found.checks]
        assert set(found.by_reference) <= graph.host.keys()


@pytest.mark.parametrize(("sign", "left_out"), [(1.0, 2), (-1.0, 1)])
def test_launches_of_the_branch_that_is_not_taken_are_left_out(sign: float, left_out: int, tmp_path: Path) -> None:
    """Tanh and Neg where the sum is positive, else Exp: each is a launch of its own here."""
    path = save(tmp_path, *MODELS["branches of one shape"])
    graph = engine.load(path)
    plan = engine.fuse(graph, policy="none")
    conditions = {
        plan.group(launch.group).instances[launch.instance].operators: needed
        for launch, needed in zip(plan.launches, host_program(plan).conditions, strict=True)
    }
    exp, tanh = (next(v for ops, v in conditions.items() if any(w in o for o in ops)) for w in ("then", "else"))
    assert exp == (LaunchCondition("positive", True),) and tanh == (LaunchCondition("positive", False),)
    assert sum(map(bool, conditions.values())) == 3  # Exp; Tanh and Neg
    x = (np.random.default_rng(3).uniform(0.1, 1, SHAPE) * sign).astype(np.float32)
    values = {"x": x} | {name: constant.value for name, constant in graph.constants.items()}
    run = ModelRun(plan, engine.default_recipe(plan), values, lambda kernel: emulate, timeout=60)
    for number in range(len(plan.launches)):
        run.launch(number)
    assert len(run.launched) == len(plan.launches) - left_out
    np.testing.assert_allclose(run.value("y"), by_runtime(path, x)[0], rtol=1e-6, atol=1e-6)


def test_a_branch_in_a_branch_is_asked_for_only_where_it_is_reached(tmp_path: Path) -> None:
    """The condition inside is computed by a launch that is itself left out where the outer one does not hold."""
    inner = branches([make("Exp", ["x"], ["r"])], [make("Sin", ["x"], ["r"])])
    inner.input[0], inner.output[0], inner.name = "large", "r", "within"
    then = [make("ReduceMax", ["x"], ["top"], keepdims=0), make("Greater", ["top", "half"], ["large"]), inner]
    path = save(tmp_path, [*SIGN, branches(then, [make("Neg", ["x"], ["r"])])], ["c"])
    plan = engine.fuse(engine.load(path), policy="none")
    assert max(map(len, host_program(plan).conditions)) == 2
    for low, high in ((-1.0, 0.0), (0.0, 0.4), (0.0, 1.0)):
        x = np.random.default_rng(3).uniform(low, high, SHAPE).astype(np.float32)
        x[0, 0] = high
        found = engine.run(plan, {"x": x}, device="cpu")
        np.testing.assert_allclose(found["c"], by_runtime(path, x)[0], rtol=1e-6, atol=1e-6)


def test_a_size_that_the_data_decide_is_a_dimension(tmp_path: Path) -> None:
    """Its largest where none is given; the given one; and what is none is refused."""
    path = save(tmp_path, *MODELS["places"])
    assert engine.load(path).tensors["places"].shape == (2, 48)
    assert engine.load(path, {"where.count": 5}).tensors["y"].shape == (5,)
    assert engine.load(path, {"where.count": 0}).tensors["y"].shape == (0,)
    with pytest.raises(BadInput, match="the data can make it 0 to 48"):
        engine.load(path, {"where.count": 49})
    with pytest.raises(BadInput, match=r"its open dimensions: where\.count"):
        engine.load(path, {"elsewhere.count": 5})
    choice = save(tmp_path, *MODELS["branches of two shapes"])
    assert engine.load(choice, {"choice.branch": 0}).tensors["y"].shape == (1, 1)
    with pytest.raises(BadInput, match="the data can make it 0 to 1"):
        engine.load(choice, {"choice.branch": 2})
    with pytest.raises(BadInput, match="the data can make it 0 to 1"):
        engine.load(choice, {"choice.branch": -1})


def test_the_command_line_takes_the_branch_that_is_not_the_first(tmp_path: Path) -> None:
    """0 is a number that the data decide, but no size of an input."""
    path = str(save(tmp_path, *MODELS["branches of two shapes"]))
    (row,) = document("inspect", path, "--dim", "choice.branch=0")["host"]
    assert row["sizes"] == {"choice.branch": {"made_for": 0, "largest": 1}} and row["type"] == "If"
    assert "the data can make it 0 to 1" in refused("inspect", path, "--dim", "choice.branch=2")


def test_data_that_decide_otherwise_than_the_plan_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, *MODELS["places"])
    x = np.full(SHAPE, -1, np.float32)
    x[1, 2] = x[3, 4] = x[5, 6] = 2
    found = engine.run(engine.fuse(engine.load(path, {"where.count": 3})), {"x": x}, device="cpu")
    np.testing.assert_allclose(found["y"], by_runtime(path, x)[0], rtol=1e-6, atol=1e-6)
    with pytest.raises(BadInput, match=r"where: gives \[2, 3\], the plan is for \[2, 4\].*--dim where\.count=3"):
        engine.run(engine.fuse(engine.load(path, {"where.count": 4})), {"x": x}, device="cpu")


def test_a_loop_ends_where_the_data_say(tmp_path: Path) -> None:
    path = save(tmp_path, *MODELS["a loop that the data end"])
    for top, steps in ((0.5, 1), (3.0, 3), (1e9, 5)):
        x = np.linspace(0, top, 48).astype(np.float32).reshape(SHAPE)
        expected = by_runtime(path, x)
        assert len(expected[1]) == steps
        found = engine.run(engine.fuse(engine.load(path, {"all.count": steps})), {"x": x}, device="cpu")
        for name, value in zip(("y", "z"), expected, strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_a_branch_that_does_not_fit_is_no_error_but_unsupported(tmp_path: Path) -> None:
    """Exporters leave branches for shapes that an input never has."""
    other = [make("MatMul", ["x", "x"], ["r"])]
    graph = engine.load(save(tmp_path, [*SIGN, branches([make("Exp", ["x"], ["r"])], other)], ["c"]))
    assert list(graph.unsupported) == ["choice"] and not graph.host


@pytest.mark.parametrize("case", ["branches of one shape", "places", "a loop that the data end"])
def test_the_exported_program_does_what_the_host_does(case: str, tmp_path: Path) -> None:
    """The manifest says it, and the harness runs it; data of another size end it with what to do."""
    path = save(tmp_path, *MODELS[case])
    graph = engine.load(path)
    given = input_values(graph, 0)
    runtime = by_runtime(path, given["x"])
    sizes = {"places": {"where.count": len(runtime[0])}, "a loop that the data end": {"all.count": len(runtime[-1])}}
    options = [f"--dim={name}={size}" for name, size in sizes.get(case, {}).items()]
    document("generate", str(path), *options, "-o", str(tmp_path / "made"), "--with", "harness")
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text(encoding="utf-8"))
    assert {row["operator"] for row in manifest["host"]} == engine.load(path, sizes.get(case)).host.keys()
    assert not manifest["unsupported"]
    values = {**np.load(tmp_path / "made" / "constants.npz"), "x": given["x"]}
    driver = EmulatedDriver(tmp_path / "made", manifest)
    found = harness.FolderRun(driver, tmp_path / "made", values).all(samples=1)
    for name, value in zip(MODELS[case][1], runtime, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-5)
    if case == "places":
        with pytest.raises(SystemExit, match=r"where gives .* the kernels are for where.count"):
            harness.FolderRun(driver, tmp_path / "made", values | {"x": -np.abs(given["x"])}).all(samples=1)
