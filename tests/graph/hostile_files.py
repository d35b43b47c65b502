"""Small files that ask for much: `python -m tests.graph.hostile_files FOLDER NAME...` opens some under a memory limit.

Each is loaded and fused, and its first groups are compiled.  A line tells how it ended, and what it took.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import engine

MEMORY = 2 << 30
"""Bytes of memory that a file may cost; address space is limited to twice as much, which libraries reserve alone."""
GROUPS = 3
Array = tuple[str, object]
"""Name and value of an initializer."""


def value(name: str, shape: Sequence[int] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    arrays: Sequence[Array] = (),
) -> onnx.ModelProto:
    constants = [numpy_helper.from_array(np.array(data), name) for name, data in arrays]
    graph = helper.make_graph(nodes, "hostile", inputs, [value(name, None) for name in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operator(kind: str, inputs: Sequence[str], arrays: Sequence[Array] = (), **attributes: object) -> onnx.ModelProto:
    """One operator on x, a matrix of 8 by 8 unless it is an array."""
    return model([helper.make_node(kind, inputs, ["y"], **attributes)], [value("x", [8, 8])], ["y"], arrays)


def many_operands(kind: str, count: int, **attributes: object) -> onnx.ModelProto:
    names = [f"x{number}" for number in range(count)]
    node = helper.make_node(kind, names, ["y"], **attributes)
    return model([node], [value(name, [4]) for name in names], ["y"])


def ranged(last: int, step: int = 1) -> onnx.ModelProto:
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Cast", ["r"], ["f"], to=1),
             helper.make_node("Add", ["x", "f"], ["y"])]  # fmt: skip
    return model(nodes, [value("x", [1])], ["y"], [("a", np.int64(0)), ("b", np.int64(last)), ("c", np.int64(step))])


def tiled(times: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Tile", ["k", "r"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])]
    return model(nodes, [value("x", [1])], ["y"], [("k", np.ones(1, "f")), ("r", np.array([times]))])


def chain(count: int) -> onnx.ModelProto:
    """Reshapes and transposes in turn: composed one after the other, index maps double."""
    shapes = ((6, 35, 22), (15, 14, 22), (10, 21, 22), (30, 7, 22), (42, 5, 22), (70, 3, 22), (11, 20, 21))
    rng = np.random.default_rng(1)
    nodes, arrays, last = [], [], "x"
    for number in range(count // 2):
        arrays.append((f"s{number}", np.array(shapes[rng.integers(len(shapes))])))
        nodes.append(helper.make_node("Reshape", [last, f"s{number}"], [f"r{number}"]))
        order = [int(axis) for axis in rng.permutation(3)]
        nodes.append(helper.make_node("Transpose", [f"r{number}"], [f"t{number}"], perm=order))
        last = f"t{number}"
    return model([*nodes, helper.make_node("Relu", [last], ["y"])], [value("x", [6, 35, 22])], ["y"], arrays)


def recurrence(steps: int) -> onnx.ModelProto:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8)
    weights = np.ones((1, 32, 8), "f")
    return model([node], [value("x", [steps, 1, 8])], ["y"], [("w", weights), ("r", weights)])


def scans(count: int, steps: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["f"])], "body",
        [value("s", [4]), value("e", [4])], [value("t", [4]), value("f", [4])],
    )  # fmt: skip
    nodes = [
        helper.make_node("Scan", [f"x{n}", "e"], [f"x{n + 1}", f"z{n}"], body=body, num_scan_inputs=1)
        for n in range(count)
    ]
    return model(nodes, [value("x0", [4]), value("e", [steps, 4])], [f"x{count}"])


def loop(times: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])], "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("v", [4])],
        [value("d", [], TensorProto.BOOL), value("w", [4])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["n", "go", "x"], ["y"], body=body)
    return model([node], [value("x", [4])], ["y"], [("n", np.int64(times)), ("go", np.array(True))])


def wide(inputs: int, outputs: int) -> onnx.ModelProto:
    names = [f"x{number}" for number in range(inputs)]
    share = max(1, inputs // outputs)
    nodes = [
        helper.make_node("Sum", names[n * share % inputs :][:share], [f"y{n}"]) for n in range(outputs)
    ]  # fmt: skip
    return model(nodes, [value(name, [4]) for name in names], [f"y{n}" for n in range(outputs)])


def external(location: str, length: int = 64) -> onnx.ModelProto:
    """A weight of 64 bytes in another file."""
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [4, 4])], ["y"],
                 [("w", np.ones((4, 4), "f"))])  # fmt: skip
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", str(length))):
        weight.external_data.add(key=key, value=text)
    return made


def duplicate() -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", [4]), value("x", [8])], ["y"])


FILES: dict[str, Callable[[], onnx.ModelProto]] = {
    "group 0": lambda: operator(
        "Conv", ["i", "w"], [("i", np.ones((1, 4, 8, 8), "f")), ("w", np.ones((4, 4, 3, 3), "f"))], group=0
    ),
    "brackets for axes": lambda: operator("Einsum", ["x", "x"], equation="ij,jk->((("),
    "step 0": lambda: ranged(5, 0),
    "range to 1e12": lambda: ranged(10**12),
    "range to 2^31": lambda: ranged(2**31),
    "tile 1e9": lambda: tiled(10**9),
    "recurrence of 5,000 steps": lambda: recurrence(5000),
    "300 scans of 9,000": lambda: scans(300, 9000),
    "loop of 1e7": lambda: loop(10**7),
    "input twice": duplicate,
    "link to itself": lambda: external("a"),
    "weights too short": lambda: external("w.bin", 16),
    "chain of 44": lambda: chain(44),
    "chain of 120": lambda: chain(120),
    "chain of 400": lambda: chain(400),
    "concatenation of 3,000": lambda: many_operands("Concat", 3000, axis=0),
    "sum of 3,000": lambda: many_operands("Sum", 3000),
    "10,000 outputs": lambda: wide(1, 10_000),
    "20,000 inputs": lambda: wide(20_000, 2_000),
}  # fmt: skip


def write(folder: Path) -> None:
    """What the files refer to."""
    (folder / "w.bin").write_bytes(bytes(64))
    for link, to in (("a", "b"), ("b", "a")):
        (folder / link).symlink_to(to)


def outcome(path: Path) -> str:
    """How a file ended: "compiled", or the error of the engine that refused it."""
    try:
        plan = engine.fuse(engine.load(path))
        for group in plan.groups[:GROUPS]:
            engine.compile(group)
        refused = next(iter(plan.unsupported.values()), "")
        return f"compiled{f', {refused}' if refused else ''}"
    except engine.EngineError as error:
        return f"{type(error).__name__} {error.exit_code}: {error}"


def main(folder: Path, names: Sequence[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY, 2 * MEMORY))
    write(folder)
    for name in names:
        path = folder / "file.onnx"
        path.write_bytes(FILES[name]().SerializeToString())
        start = time.process_time()
        ended = outcome(path).replace("\n", " ")
        spent, most = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        print(name, f"{spent:.2f}", most, ended, sep="\t", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
