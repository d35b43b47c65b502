"""Sizes that the data decide and nothing bounds: Range, shapes that are computed, loops without a largest number of
steps.  Who gives them has kernels, and is told of data that ask for other sizes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.execution.reference import input_values
from engine.export import harness
from engine.support.errors import BadInput
from tests.support.commands import document
from tests.support.emulated_driver import EmulatedDriver
from tests.verify.test_host_operators import SHAPE, Nodes, body, by_runtime, make

CONSTANTS = {
    "half": np.array(0.5, np.float32), "zero": np.array(0), "one": np.array(1), "single": np.array([1]),
    "rest": np.array([-1]), "eight": np.array([8]), "yes": np.array(True),
}  # fmt: skip
NUMBER = [
    make("ReduceMax", ["x"], ["top"], keepdims=0), make("Abs", ["top"], ["above"]), make("Ceil", ["above"], ["whole"]),
    make("Cast", ["whole"], ["n"], to=TensorProto.INT64), make("Reshape", ["n", "single"], ["row"]),
]  # fmt: skip
"""n: the largest element, rounded up."""
HALVE = [make("Mul", ["s", "half"], ["m"]), make("ReduceMax", ["m"], ["most"], keepdims=0)]


@dataclass(frozen=True)
class Model:
    """Nodes behind x [6, 8], and the dimensions that have to be given."""

    nodes: Nodes
    sizes: dict[str, int]
    outputs: tuple[str, ...] = ("y",)

    def save(self, folder: Path) -> Path:
        """The model in a file."""
        graph = helper.make_graph(
            self.nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs],
            [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()],
        )  # fmt: skip
        path = folder / "open.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        return path


def shaped(kind: str, sizes: list[str], operands: list[str], **attributes: object) -> Nodes:
    shape = make("Concat", sizes, ["shape"], axis=0)
    node = make(kind, [*operands, "shape"], ["r"], name=f"/{kind}", **attributes)
    return [*NUMBER, shape, node, make("Exp", ["r"], ["y"])]


FILL = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.25])
WHILE = make(
    "Loop", ["", "yes", "x"], ["last"], name="/Loop",
    body=body("b", [*HALVE, make("Greater", ["most", "half"], ["go"])], ["i", "go_in", "s"], ["go", "m"]),
)  # fmt: skip
FOR = make(
    "Loop", ["n", "", "x"], ["last", "all"], name="/Loop",
    body=body("b", [*HALVE, make("Identity", ["go_in"], ["go"]), make("Neg", ["m"], ["was"])], ["i", "go_in", "s"],
              ["go", "m", "was"]),
)  # fmt: skip
MODELS = {
    "range": Model(
        [*NUMBER, make("Range", ["zero", "n", "one"], ["r"], name="/Range"),
         make("Cast", ["r"], ["f"], to=TensorProto.FLOAT), make("Exp", ["f"], ["y"])], {"/Range.count": 3},
    ),
    "reshape": Model(shaped("Reshape", ["row", "rest"], ["x"]), {"/Reshape.axis0": 3}),
    "reshape of a known part": Model(shaped("Reshape", ["row", "rest", "eight"], ["x"]), {"/Reshape.axis1": 2}),
    "expand": Model(shaped("Expand", ["row", "single", "single"], ["x"]), {"/Expand.axis0": 3}),
    "tile": Model(shaped("Tile", ["single", "row"], ["x"]), {"/Tile.axis1": 24}),
    "constant of a shape": Model(
        shaped("ConstantOfShape", ["row", "eight"], [], value=FILL), {"/ConstantOfShape.axis0": 3}
    ),
    "while": Model([WHILE, make("Exp", ["last"], ["y"])], {"/Loop.count": 5}),
    "for": Model([*NUMBER, FOR, make("Exp", ["last"], ["y"]), make("Exp", ["all"], ["z"])], {"/Loop.count": 4},
                 ("y", "z")),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS)
def test_sizes_that_nothing_bounds_are_asked_for(case: str, tmp_path: Path) -> None:
    """Without them the operator is refused with what to give; with them nothing is."""
    path = MODELS[case].save(tmp_path)
    refused, (name, size) = engine.load(path).unsupported, next(iter(MODELS[case].sizes.items()))
    assert f"--dim {name.rpartition('.')[0]}." in refused[name.rpartition(".")[0]]
    graph = engine.load(path, {name: size})
    assert not graph.unsupported and not engine.fuse(graph).unsupported
    assert any(name in {one.name for one in step.decisions} for step in graph.host.values())


@pytest.mark.few(4)
@pytest.mark.parametrize("case", MODELS)
def test_a_model_runs_at_the_sizes_of_its_data(case: str, tmp_path: Path) -> None:
    """Every group at the given sizes; the whole at those that the data decide, beside ONNX Runtime."""
    path = MODELS[case].save(tmp_path)
    graph = engine.load(path, MODELS[case].sizes)
    plan = engine.fuse(graph)
    for group in plan.groups:
        assert engine.check(engine.compile(group)).status == "pass", group.name
    for seed in (0, 1):
        found = engine.check_model(graph, plan, seed=seed)
        assert found.status == "pass", [check.message for check in found.checks]


@pytest.mark.parametrize("case", ["while", "for"])
def test_a_loop_ends_by_itself_or_is_told_that_it_does_not(case: str, tmp_path: Path) -> None:
    path, given = MODELS[case].save(tmp_path), MODELS[case].sizes["/Loop.count"]
    for top, most in ((0.4, given), (3.5, given), (1e4, given)):
        x = np.linspace(0, top, 48).astype(np.float32).reshape(SHAPE)
        expected = by_runtime(path, x)
        sizes = {"/Loop.count": most} | ({"all.count": len(expected[1])} if case == "for" and top < 1e4 else {})
        plan = engine.fuse(engine.load(path, sizes))
        if top == 1e4:
            told = rf"more than the {most} steps that the plan has.*/Loop.count={2 * most}"
            with pytest.raises(BadInput, match=told):
                engine.run(plan, {"x": x}, device="cpu")
            continue
        found = engine.run(plan, {"x": x}, device="cpu")
        for name, value in zip(MODELS[case].outputs, expected, strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-5)


def test_sizes_that_do_not_multiply_to_what_there_is_are_refused(tmp_path: Path) -> None:
    path = MODELS["reshape"].save(tmp_path)
    with pytest.raises(BadInput, match="5 x 9 are not the 48 elements that there are"):
        engine.load(path, {"/Reshape.axis0": 5})
    x = np.full(SHAPE, 4, np.float32)
    with pytest.raises(BadInput, match=r"gives \[4, 12\], the plan is for \[3, 16\].*axis0=4 --dim /Reshape.axis1=12"):
        engine.run(engine.fuse(engine.load(path, {"/Reshape.axis0": 3})), {"x": x}, device="cpu")


def asked_shape(kind: str, operands: list[str], folder: Path) -> Path:
    """A model whose second input is the shape that an operator is to give."""
    nodes = [make(kind, [*operands, "shape"], ["r"], name=f"/{kind}"), make("Exp", ["r"], ["y"])]
    inputs = [helper.make_tensor_value_info("shape", TensorProto.INT64, [2])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [6, 1]) for name in operands]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph(nodes, "asked", inputs, [result]), ir_version=9)
    onnx.save(model, folder / "asked.onnx")
    return folder / "asked.onnx"


@pytest.mark.parametrize(
    ("kind", "operands", "size", "shape"),
    [
        ("Expand", ["x"], "axis1", (5, 8)), ("Reshape", ["x"], "axis0", (-1, -1)),
        ("ConstantOfShape", [], "axis0", (2, -3)),
    ],
)  # fmt: skip
def test_data_that_no_result_can_have_are_named(
    kind: str, operands: list[str], size: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    path = asked_shape(kind, operands, tmp_path)
    sizes = {f"/{kind}.{size}": 2} | ({"/ConstantOfShape.axis1": 3} if kind == "ConstantOfShape" else {})
    plan = engine.fuse(engine.load(path, sizes))
    given = {"shape": np.array(shape), **{name: np.ones((6, 1), np.float32) for name in operands}}
    with pytest.raises(BadInput, match=f"operator /{kind}: {kind} cannot be of these data"):
        engine.run(plan, given, device="cpu")


def test_an_output_without_elements_is_not_compared(tmp_path: Path) -> None:
    """Values that are drawn may ask for nothing: there is nothing to compare then."""
    path = asked_shape("ConstantOfShape", [], tmp_path)
    graph = engine.load(path, {"/ConstantOfShape.axis0": 2, "/ConstantOfShape.axis1": 3})
    seed = next(seed for seed in range(50) if 0 in input_values(graph, seed)["shape"])
    (check,) = engine.check_model(graph, engine.fuse(graph), seed=seed).checks
    assert check.status == "unsupported" and "no elements" in check.message
    found = engine.run(engine.fuse(graph), {"shape": np.array((2, 3))}, device="cpu")
    np.testing.assert_array_equal(found["y"], np.ones((2, 3), np.float32))


def test_a_single_open_size_of_a_reshape_follows(tmp_path: Path) -> None:
    """The data decide one of two sizes, and the elements the other way round."""
    model = Model(shaped("Reshape", ["row", "eight"], ["x"]), {})
    graph = engine.load(model.save(tmp_path))
    assert graph.tensors["r"].shape == (6, 8) and not graph.unsupported


@pytest.mark.parametrize("case", ["range", "constant of a shape", "for"])
def test_the_exported_program_does_what_the_host_does(case: str, tmp_path: Path) -> None:
    model = MODELS[case]
    path = model.save(tmp_path)
    x = input_values(engine.load(path, model.sizes), 0)["x"]
    runtime, n = by_runtime(path, x), int(np.ceil(x.max()))
    sizes = {"/Loop.count": 4, "all.count": n} if case == "for" else dict.fromkeys(model.sizes, n)
    options = [f"--dim={name}={size}" for name, size in sizes.items()]
    document("generate", str(path), *options, "-o", str(tmp_path / "made"), "--with", "harness")
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text(encoding="utf-8"))
    values = {**np.load(tmp_path / "made" / "constants.npz"), "x": x}
    run = harness.FolderRun(EmulatedDriver(tmp_path / "made", manifest), tmp_path / "made", values)
    for name, value in run.all(samples=1).items():
        np.testing.assert_allclose(value, dict(zip(model.outputs, runtime, strict=True))[name], rtol=1e-5)
    if case == "for":
        with pytest.raises(SystemExit, match="data ask for more steps, the kernels are for 4"):
            harness.FolderRun(run.driver, tmp_path / "made", values | {"x": x + 9}).all(samples=1)
