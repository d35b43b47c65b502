"""Concatenations whose parts are made by different kernels, in any order, and read by what makes later parts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionPlan
from engine.fusion.stitching.nodes import POLICIES, Fixed
from engine.present.model import model_doc
from engine.support.errors import BadInput
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

ROWS, PIXELS = 6, 6
WRITERS = ("matmul", "relu matmul", "softmax", "mean", "exp", "transposed")
MAKERS = ("conv", "relu conv", "depthwise", "exp", "pooled", "small")


class Drawn:
    """A seeded graph of concatenations: of matrices along rows or columns, or of images along channels."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.values = np.random.default_rng(seed)
        self.images = self.draw.random() < 0.5
        shape = (1, self.draw.choice([2, 4, 5]), PIXELS, PIXELS) if self.images else (ROWS, self.draw.choice([4, 7, 8]))
        self.inputs = {"x": ("float32", shape)}
        self.tensors = {"x": shape}
        self.parts()

    def write(self, folder: Path) -> Path:
        read = {name for _, inputs, _, _ in self.nodes for name in inputs}
        outputs = [name for _, _, made, _ in self.nodes for name in made if name not in read]
        return write_model(folder / "drawn.onnx", self.nodes, self.inputs, outputs, self.constants, opset=17)

    def parts(self) -> None:
        """Two to four concatenations of earlier tensors, each read by a producer of a later one."""
        made = ["x"]
        for _ in range(self.draw.randint(2, 4)):
            for _ in range(self.draw.randint(2, 3)):
                source = self.draw.choice(made[-3:])
                made.append(self.image(source) if self.images else self.matrix(source))
            chosen = self.draw.sample(made, min(len(made), self.draw.randint(2, 5)))  # late ones first, too
            made.append(self.concat(chosen))
        self.node("Neg", [made[-1]], self.tensors[made[-1]])

    def node(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append((kind, inputs, [name], attributes))
        self.tensors[name] = shape
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        deep = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        self.constants[name] = (self.values.standard_normal(shape) / np.sqrt(deep)).astype(np.float32)
        return name

    def concat(self, parts: list[str]) -> str:
        axis = 1
        shape = list(self.tensors[parts[0]])
        shape[axis] = sum(self.tensors[p][axis] for p in parts)
        return self.node("Concat", parts, tuple(shape), axis=axis)

    def matrix(self, source: str) -> str:
        kind, (rows, columns) = self.draw.choice(WRITERS), self.tensors[source]
        match kind:
            case "matmul" | "relu matmul":
                wide = self.draw.choice([3, 4, 8, 16])
                product = self.node("MatMul", [source, self.weight(columns, wide)], (rows, wide))
                return product if kind == "matmul" else self.node("Relu", [product], (rows, wide))
            case "softmax":
                return self.node("Softmax", [source], (rows, columns), axis=1)
            case "mean":
                return self.node("ReduceMean", [source], (rows, 1), axes=[1])
            case "transposed":
                turned = self.node("Transpose", [source], (columns, rows), perm=[1, 0])
                product = self.node("MatMul", [self.weight(rows, columns), turned], (rows, rows))
                return self.node("Tanh", [product], (rows, rows))
            case _:
                return self.node("Tanh", [source], (rows, columns))

    def image(self, source: str) -> str:
        kind, shape = self.draw.choice(MAKERS), self.tensors[source]
        channels = shape[1]
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        match kind:
            case "conv" | "relu conv":
                made = (1, self.draw.choice([2, 4, 8]), PIXELS, PIXELS)
                product = self.node("Conv", [source, self.weight(made[1], channels, 3, 3)], made, **window)
                return product if kind == "conv" else self.node("Relu", [product], made)
            case "depthwise":
                return self.node("Conv", [source, self.weight(channels, 1, 3, 3)], shape, group=channels, **window)
            case "pooled":
                return self.node("MaxPool", [source], shape, **window)
            case "small":  # down and up again, as the pyramids of detectors do
                half = (1, 4, PIXELS // 2, PIXELS // 2)
                down = self.node(
                    "Conv", [source, self.weight(4, channels, 3, 3)], half, strides=[2, 2], **window
                )
                self.constants["twice"] = np.array([1, 1, 2, 2], np.float32)
                return self.node("Resize", [down, "", "twice"], (1, 4, PIXELS, PIXELS), mode="nearest")
            case _:
                return self.node("Tanh", [source], shape)


def reads_what_is_not_there(plan: FusionPlan) -> list[str]:
    """Launches that read a tensor of which a later launch still writes a part."""
    groups = {group.name: group for group in plan.groups}
    last: dict[str, int] = {}
    for number, launch in enumerate(plan.launches):
        group = groups[launch.group]
        last |= {group.instances[launch.instance].arrays[array]: number for array in group.program.outputs}
    found = []
    for number, launch in enumerate(plan.launches):
        group = groups[launch.group]
        for array in group.program.inputs:
            tensor = group.instances[launch.instance].arrays[array]
            if last.get(tensor, -1) >= number:
                found.append(f"launch {number} reads {tensor}, which launch {last[tensor]} writes")
    return found


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_launch_reads_only_what_is_complete(policy: str, tmp_path: Path) -> None:
    for seed in range(40):
        plan = engine.fuse(engine.load(Drawn(seed).write(tmp_path)), policy=policy)
        assert not plan.unsupported and not reads_what_is_not_there(plan), seed


@pytest.mark.few(3)
@needs_compiler
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_all_launches_together_agree_with_onnxruntime(policy: str, seed: int, tmp_path: Path) -> None:
    check(policy, seed, tmp_path)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3, 40))
def test_many_more_agree_with_onnxruntime(policy: str, seed: int, tmp_path: Path) -> None:
    check(policy, seed, tmp_path)


def check(policy: str, seed: int, folder: Path) -> None:
    graph = engine.load(Drawn(seed).write(folder))
    report = engine.check_model(graph, engine.fuse(graph, policy=policy))
    assert report.status == "pass", [check for check in report.checks if check.status != "pass"]


CROSSED: list[Node] = [
    ("MatMul", ["x", "w"], ["a"], {}),
    ("MatMul", ["x", "v"], ["b"], {}),
    ("Slice", ["b", "first", "column"], ["c"], {}),
    ("Add", ["a", "c"], ["y"], {}),
    ("Transpose", ["a"], ["t"], {"perm": [1, 0]}),
    ("Slice", ["t", "first", "last"], ["e"], {}),
    ("Add", ["b", "e"], ["z"], {}),
]
"""Each of two products has the shape of a sum that needs the other product, too."""


@pytest.fixture
def crossed(tmp_path: Path) -> engine.OperatorGraph:
    constants = {
        "w": np.ones((64, 512), np.float32), "v": np.ones((64, 8), np.float32),
        "first": np.array([0, 0]), "column": np.array([64, 1]), "last": np.array([64, 8]),
    }  # fmt: skip
    inputs = {"x": ("float32", (64, 64))}
    return engine.load(write_model(tmp_path / "crossed.onnx", CROSSED, inputs, ["y", "z"], constants))


@pytest.mark.parametrize("policy", POLICIES)
def test_products_do_not_wait_for_each_others_epilogues(crossed: engine.OperatorGraph, policy: str) -> None:
    plan = engine.fuse(crossed, policy=policy)
    assert not reads_what_is_not_there(plan)
    assert any({"n0", "n3"} <= set(i.operators) for g in plan.groups for i in g.instances), "one of them may"


def test_groups_that_wait_for_each_other_are_refused(crossed: engine.OperatorGraph) -> None:
    engine.fuse(crossed, fixed=Fixed(groups=(("n0", "n3"), ("n6",))))
    with pytest.raises(BadInput, match="another of your groups") as refused:
        engine.fuse(crossed, fixed=Fixed(groups=(("n0", "n3"), ("n1", "n6"))))
    assert "n1 + n6" in refused.value.subject


@pytest.fixture
def halves(tmp_path: Path) -> engine.OperatorGraph:
    """Two products side by side, which a third multiplies."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("MatMul", ["a", "w"], ["b"], {}),
        ("Concat", ["b", "a"], ["c"], {"axis": 1}),
        ("MatMul", ["c", "v"], ["y"], {}),
    ]
    inputs = {"x": ("float32", (16, 64)), "w": ("float32", (64, 64)), "v": ("float32", (128, 64))}
    return engine.load(write_model(tmp_path / "halves.onnx", nodes, inputs, ["y"]))


def test_every_writer_of_a_part_is_a_producer(halves: engine.OperatorGraph) -> None:
    plan = engine.fuse(halves, policy="xla")  # which gives every product a launch
    writers = []
    for launch in plan.launches:
        group = plan.group(launch.group)
        if "c" in [group.instances[launch.instance].arrays[array] for array in group.program.outputs]:
            writers.append(f"{launch.group}#{launch.instance}")
    assert len(writers) == 2
    assert {b.producer for b in plan.boundaries if b.tensor == "c"} == {w.partition("#")[0] for w in writers}
    assert [edge.source for edge in model_doc(halves, plan).edges if edge.tensor == "c"] == writers


def test_a_convolution_of_parts_that_one_kernel_makes_is_planned(tmp_path: Path) -> None:
    """The parts of what is concatenated are written by statements of their own, in front of what reads all of them."""
    random = np.random.default_rng(0)
    nodes: list[Node] = [
        ("Conv", ["x", "w1"], ["a"], {"pads": [1, 1, 1, 1]}), ("Conv", ["a", "w2"], ["r"], {"pads": [2, 0, 1, 1]}),
        ("GlobalAveragePool", ["r"], ["g"], {}), ("Sigmoid", ["g"], ["s"], {}), ("Mul", ["r", "s"], ["e"], {}),
        ("Concat", ["e", "r"], ["c"], {"axis": 1}), ("Conv", ["c", "w3"], ["y"], {"pads": [1, 1, 1, 1]}),
    ]  # fmt: skip
    shapes = {"w1": (32, 16, 3, 3), "w2": (32, 32, 3, 3), "w3": (32, 64, 3, 3)}
    weights = {name: (random.standard_normal(shape) * 0.1).astype(np.float16) for name, shape in shapes.items()}
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float16", (2, 16, 8, 8))}, ["y"], weights)
    assert not engine.fuse(engine.load(path)).unsupported


PARTS = 6
"""More than one statement chooses among."""


def nested(folder: Path, between: list[Node], outputs: list[str], shape: tuple[int, ...]) -> engine.OperatorGraph:
    """Rows of several tables side by side, what `between` makes of them ("f"), and another operand beside that.

    shape: of "f".
    """
    nodes: list[Node] = [("Gather", [f"t{n}", f"n{n}"], [f"g{n}"], {}) for n in range(PARTS)]
    nodes += [("Unsqueeze", [f"g{n}", "one"], [f"u{n}"], {}) for n in range(PARTS)]
    nodes += [("Concat", [f"u{n}" for n in range(PARTS)], ["c"], {"axis": 1}), *between]
    nodes.append(("Concat", ["f", "x"], ["y"], {"axis": 1}))
    inputs: dict[str, tuple[str, tuple[int, ...]]] = {f"t{n}": ("float32", (9, 4)) for n in range(PARTS)}
    inputs |= {f"n{n}": ("int64", (8,)) for n in range(PARTS)} | {"x": ("float32", (8, 3))}
    constants = {"one": np.array([1]), "rows": np.array(shape)}
    return engine.load(write_model(folder / "nested.onnx", nodes, inputs, outputs, constants))


FLAT: list[Node] = [("Reshape", ["c", "rows"], ["f"], {})]
TURNED: list[Node] = [("Transpose", ["c"], ["r"], {"perm": [0, 2, 1]}), ("Reshape", ["r", "rows"], ["f"], {})]
HALF: list[Node] = [
    ("Reshape", ["c", "rows"], ["w"], {}), ("Split", ["w"], ["f", "rest"], {"axis": 1, "num_outputs": 2}),
]  # fmt: skip
USED: list[Node] = [*FLAT, ("ReduceMax", ["c"], ["z"], {"keepdims": 0})]


@needs_compiler
@pytest.mark.parametrize(
    ("between", "outputs", "stays"),
    [(FLAT, ["y"], False), (FLAT, ["y", "c"], True), (USED, ["y", "z"], True), (TURNED, ["y"], True),
     (HALF, ["y", "rest"], True)],
    ids="flat given used turned half".split(),
)  # fmt: skip
def test_parts_of_what_another_concatenation_takes_whole_are_written_there(
    between: list[Node], outputs: list[str], stays: bool, tmp_path: Path
) -> None:
    graph = nested(tmp_path, between, outputs, (8, 4 * PARTS))
    plan = engine.fuse(graph)
    stored = {tensor for group in plan.groups for one in group.instances for tensor in one.arrays.values()}
    assert ("c" in stored) == stays
    report = engine.check_model(graph, plan)
    assert report.status == "pass", [check for check in report.checks if check.status != "pass"]


@needs_compiler
def test_a_chain_of_concatenations_is_written_at_once(tmp_path: Path) -> None:
    nodes: list[Node] = [("Tanh", [f"x{n}"], [f"t{n}"], {}) for n in range(PARTS)]
    nodes.append(("Concat", [f"t{n}" for n in range(PARTS)], ["a"], {"axis": 1}))
    nodes += [("Concat", ["a", *(f"x{n}" for n in range(PARTS))], ["b"], {"axis": 1})]
    nodes.append(("Concat", [*(f"x{n}" for n in range(PARTS)), "b"], ["y"], {"axis": 1}))
    inputs = {f"x{n}": ("float32", (8, 4 + n)) for n in range(PARTS)}
    graph = engine.load(write_model(tmp_path / "chain.onnx", nodes, inputs, ["y"]))
    plan = engine.fuse(graph)
    written = {one.arrays[array] for g in plan.groups for one in g.instances for array in g.program.outputs}
    assert "y" in written and written.isdisjoint("ab")
    assert engine.check_model(graph, plan).status == "pass"
