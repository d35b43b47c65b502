"""Products on this machine's CPU: which instruction multiplies, how factors are brought to it, and what comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.cpu.nodes import CpuKernel
from engine.cpu.tiles import DIRECT, PACKED, PREPARED, STAGED, _equal_blocks
from engine.target.host_cpu import host_cpu
from tests.semantics.single import TYPES, Node, write_model
from tests.support.needs import needs_compiler

pytestmark = needs_compiler
HAS_VNNI = "avx512_vnni" in host_cpu().features


def kernels_of(
    path: Path, node: Node, inputs: dict[str, tuple[str, tuple[int, ...]]],
    constants: dict[str, np.ndarray] | None = None,
    target: str = "cpu",
) -> list[CpuKernel]:  # fmt: skip
    """The kernels of a model of one operator, each executed and compared."""
    write_model(path / "model.onnx", [node], inputs, node[2], constants)
    found = []
    for group in engine.fuse(engine.load(path / "model.onnx"), target=target).groups:
        kernel = engine.compile(group)
        assert isinstance(kernel, CpuKernel)
        check = engine.check(kernel)
        assert check.status == "pass", check.message
        found.append(kernel)
    return found


def modes(kernel: CpuKernel) -> tuple[object, object]:
    return kernel.made.config["rows"], kernel.made.config["columns"]


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 40, 33), (5, 7, 3), (17, 33, 65), (64, 64, 64), (128, 300, 70), (200, 1000, 40), (96, 80, 3000)],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_products_of_any_size(tmp_path: Path, m: int, n: int, k: int, fixed: bool) -> None:
    weight = np.random.default_rng(1).standard_normal((k, n), "float32")
    inputs = {"x": ("float32", (m, k)), **({} if fixed else {"w": ("float32", (k, n))})}
    (kernel,) = kernels_of(tmp_path, ("MatMul", ["x", "w"], ["y"], {}), inputs, {"w": weight} if fixed else {})
    assert kernel.family == ("gemm" if m > 1 else "general")
    if m > 1:
        assert PREPARED in modes(kernel) if fixed else PREPARED not in modes(kernel)


@pytest.mark.parametrize(
    "shape", [((4, 20, 30), (4, 30, 50)), ((3, 5, 20, 30), (3, 5, 30, 17)), ((6, 20, 30), (30, 64))]
)
def test_batches(tmp_path: Path, shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    inputs = {"x": ("float32", shape[0]), "w": ("float32", shape[1])}
    (kernel,) = kernels_of(tmp_path, ("MatMul", ["x", "w"], ["y"], {}), inputs)
    assert kernel.family == "gemm"


@pytest.mark.parametrize(
    "attributes",
    [
        {}, {"pads": [1, 1, 1, 1]}, {"pads": [2, 0, 1, 3], "strides": [2, 1]},
        {"dilations": [2, 3], "pads": [2, 2, 2, 2]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    ],
)  # fmt: skip
@pytest.mark.parametrize(("channels", "filters", "size", "kernel"), [(3, 20, 15, 3), (40, 70, 14, 3), (32, 64, 9, 1)])
def test_convolutions(
    tmp_path: Path, attributes: dict[str, object], channels: int, filters: int, size: int, kernel: int
) -> None:
    weight = np.random.default_rng(2).standard_normal((filters, channels, kernel, kernel), "float32")
    node = ("Conv", ["x", "w"], ["y"], attributes)
    (found,) = kernels_of(tmp_path, node, {"x": ("float32", (2, channels, size, size))}, {"w": weight})
    assert found.family == "gemm" and PREPARED in modes(found)


@pytest.mark.parametrize(("m", "k"), [(5, 1024), (17, 2048), (33, 4096)])
def test_rows_that_lie_pages_apart_are_copied(tmp_path: Path, m: int, k: int) -> None:
    inputs = {"x": ("float32", (m, k)), "w": ("float32", (k, 70))}
    (kernel,) = kernels_of(tmp_path, ("MatMul", ["x", "w"], ["y"], {}), inputs)
    assert modes(kernel)[0] == PACKED and "ROW_WORDS = " in kernel.source.text


ONE_AROUND, ASKEW = {"pads": [1, 1, 1, 1]}, {"pads": [2, 0, 1, 3], "strides": [2, 1]}


@pytest.mark.parametrize(
    ("size", "attributes", "is_staged"),
    [(15, ONE_AROUND, True), (17, ONE_AROUND, False), (15, ASKEW, True), (16, ASKEW, False)],  # no tile divides 17
    ids=str,
)
def test_channels_that_are_neighbours_are_copied(
    size: int, attributes: dict[str, object], is_staged: bool, tmp_path: Path
) -> None:
    """The second convolution reads what the first one wrote with its channels last: staged, or packed as it lies."""
    draw = np.random.default_rng(4).standard_normal
    weights = {"a": draw((48, 32, 1, 1), "float32"), "b": draw((80, 48, 3, 3), "float32") / 20}
    nodes: list[Node] = [("Conv", ["x", "a"], ["h"], {}), ("Relu", ["h"], ["r"], {})]
    nodes.append(("Conv", ["r", "b"], ["y"], attributes))
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (2, 32, size, size))}, ["y"], weights)
    graph = engine.load(path)
    plan = engine.fuse(graph, target="cpu")
    texts = [kernel.source.text for group in plan.groups if isinstance(kernel := engine.compile(group), CpuKernel)]
    assert any("staged_kept" in text for text in texts) == is_staged
    assert any("ROW_WORDS = " in text for text in texts) != is_staged
    assert engine.check_model(graph, plan).status == "pass"


def test_columns_that_are_neighbours_are_multiplied_in_place(tmp_path: Path) -> None:
    weight = np.random.default_rng(3).standard_normal((64, 32, 1, 1), "float32")
    node = ("Conv", ["x", "w"], ["y"], {})
    (found,) = kernels_of(tmp_path, node, {"x": ("float32", (1, 32, 16, 16))}, {"w": weight})
    assert modes(found) == (PREPARED, DIRECT)
    (found,) = kernels_of(tmp_path, ("Conv", ["x", "w"], ["y"], {"pads": [1, 1, 1, 1]}),
                          {"x": ("float32", (1, 32, 16, 16)), "w": ("float32", (64, 32, 3, 3))})  # fmt: skip
    assert modes(found)[1] == STAGED


@pytest.mark.parametrize(("kernel", "is_joined"), [(1, True), (3, False)])
def test_images_without_edges_are_stored_as_one_row(tmp_path: Path, kernel: int, is_joined: bool) -> None:
    """Columns are pixels of three images; rows of an image have others between them where windows reach beyond."""
    TYPES.update(int8=3, uint8=2)
    where = {"strides": [2, 2], "pads": [kernel // 2] * 4}
    draw = np.random.default_rng(8)
    weights = {"w": draw.integers(-127, 128, (48, 32, kernel, kernel)).astype(np.int8), "z": np.array(99, "uint8")}
    node = ("ConvInteger", ["x", "w", "z"], ["y"], where)
    (found,) = kernels_of(tmp_path, node, {"x": ("uint8", (3, 32, 33, 33))}, weights)
    assert modes(found) == (PREPARED, STAGED)
    assert ("joined_of_run" in found.source.text) == is_joined


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize(
    ("size", "stride", "batch", "rows"),
    [
        (14, 1, 1, 14),  # a tile is a row of the image
        (28, 1, 2, 14),  # half of one
        (7, 1, 3, 7), (7, 1, 1, 14),  # one of an image that its tiles would not fill in pairs, and two
        (14, 2, 1, 14), (28, 2, 2, 14),
        (17, 1, 1, 0), (13, 1, 1, 13),  # no tile has a part of a row of 17
    ],
)  # fmt: skip
def test_rows_of_images_are_rows_of_tiles(
    tmp_path: Path, dtype: str, size: int, stride: int, batch: int, rows: int
) -> None:
    TYPES.update(int8=3, uint8=2)
    inner = stride * size - (stride == 2)
    shape, draw = (64, 32, 3, 3), np.random.default_rng(7)
    where = {"pads": [1, 1, 1, 1], "strides": [stride, stride]}
    if dtype == "float32":
        node: Node = ("Conv", ["x", "w"], ["y"], where)
        weights = {"w": draw.standard_normal(shape, "float32")}
    else:
        node = ("ConvInteger", ["x", "w", "z"], ["y"], where)
        weights = {"w": draw.integers(-127, 128, shape).astype(np.int8), "z": np.array(99, "uint8")}
    (found,) = kernels_of(tmp_path, node, {"x": (dtype, (batch, 32, inner, inner))}, weights)
    staged = modes(found)[0] == STAGED
    assert staged == bool(rows) and (not staged or found.made.config["rows of a tile"] == rows)
    assert ("turn<" in found.source.text) == staged


@pytest.mark.parametrize(("a", "b"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 7, 3), (30, 50, 70), (64, 64, 256), (40, 33, 3001)])
def test_products_of_codes_are_exact(tmp_path: Path, a: str, b: str, m: int, n: int, k: int) -> None:
    TYPES.update(int8=3, uint8=2)
    inputs = {"x": (a, (m, k)), "w": (b, (k, n))}
    (kernel,) = kernels_of(tmp_path, ("MatMulInteger", ["x", "w"], ["y"], {}), inputs)
    draw = np.random.default_rng(4)
    x, w = (draw.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) for t, s in ((a, (m, k)), (b, (k, n))))
    (y,) = engine.run(kernel, {"x": x, "w": w}).values()
    assert (y == x.astype(np.int64) @ w.astype(np.int64)).all()
    if HAS_VNNI:
        assert kernel.made.intrinsic.startswith("vpmaddwd" if {a, b} == {"uint8"} else "vpdpbusd")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(tmp_path: Path, dtype: str) -> None:
    inputs = {"x": (dtype, (33, 70)), "w": (dtype, (70, 45))}
    kernels_of(tmp_path, ("MatMul", ["x", "w"], ["y"], {}), inputs)


@pytest.mark.parametrize("target", ["avx2", "skylake-avx512"])
def test_named_targets_use_their_own_vectors(tmp_path: Path, target: str) -> None:
    from engine.target.machines import cpu

    if not set(cpu(target).features) <= set(host_cpu().features):
        pytest.skip(f"this CPU cannot run kernels for {target}")
    inputs = {"x": ("float32", (33, 70)), "w": ("float32", (70, 45))}
    (kernel,) = kernels_of(tmp_path, ("MatMul", ["x", "w"], ["y"], {}), inputs, target=target)
    assert kernel.target.lanes == (8 if target == "avx2" else 16)


def test_marks_choose_tiles_and_blocks(tmp_path: Path) -> None:
    inputs = {"x": ("float32", (128, 640)), "w": ("float32", (640, 256))}
    (kernel,) = kernels_of(tmp_path, ("MatMul", ["x", "w"], ["y"], {}), inputs)
    group = kernel.group
    (anchor,) = group.program.statements
    i, j, k = (iterator.name for iterator in anchor.iterators)
    wishes = [
        engine.entry(anchor.name, mark=("tile", 4), at=i), engine.entry(anchor.name, mark=("vector", 3), at=j),
        engine.entry(anchor.name, mark=("block", 2), at=i), engine.entry(anchor.name, mark=("block", 100), at=k),
    ]  # fmt: skip
    tuned = engine.compile(group, engine.default_recipe(group).advise("user", *wishes))
    assert isinstance(tuned, CpuKernel)
    config = tuned.made.config
    assert (config["rows of a tile"], config["vectors of a tile"]) == (4, 3)
    assert (config["tiles of a block"], config["depths of a block"]) == (2, 100)
    assert {v.outcome for v in tuned.verdicts} == {"honoured"}
    assert engine.check(tuned).status == "pass"
    large = engine.entry(anchor.name, mark=("tile", 99), at=i)
    (verdict,) = engine.compile(group, engine.default_recipe(group).advise("user", large)).verdicts
    assert verdict.outcome == "relaxed" and "rows beside" in verdict.because


@pytest.mark.parametrize(
    ("tiles", "most", "others", "cores", "size"),
    [
        (79, 78, 1, 2, 40),  # not 78 and 1: the second core would have next to nothing
        (79, 100, 1, 1, 79),
        (79, 78, 2, 2, 40),  # four of equal size
        (12, 12, 3, 2, 6),  # three beside each other do not divide among two cores: six do
        (1, 1, 3, 2, 1),  # nothing is left to divide
    ],
)
def test_blocks_are_equal_and_keep_all_cores_busy(tiles: int, most: int, others: int, cores: int, size: int) -> None:
    assert _equal_blocks(tiles, most, others, cores) == size


@pytest.mark.parametrize(
    ("m", "k", "n", "is_whole"),
    [
        (3136, 64, 256, True),  # rows of 1 KiB, 3 MB of them: written a panel at a time, no line is fetched ahead
        (784, 128, 512, True),
        (128, 768, 768, False),  # results stay in the second cache, whatever their order
    ],
)
def test_large_results_are_written_in_whole_rows(tmp_path: Path, m: int, k: int, n: int, is_whole: bool) -> None:
    weight = np.random.default_rng(5).standard_normal((k, n), "float32")
    node: Node = ("MatMul", ["x", "w"], ["y"], {})
    path = write_model(tmp_path / "m.onnx", [node], {"x": ("float32", (m, k))}, ["y"], {"w": weight})
    (group,) = engine.fuse(engine.load(path), target="sapphire-rapids").groups
    kernel = engine.compile(group)
    assert isinstance(kernel, CpuKernel)
    made = {name: value for name, value in kernel.made.config.items() if isinstance(value, int)}
    columns = made["panels of a block"] * made["vectors of a tile"] * 16
    written = 4 * columns * made["tiles of a block"] * made["rows of a tile"]
    assert (columns >= n and written <= 2 << 18) == is_whole


@pytest.mark.parametrize(
    ("shape", "is_fetched"), [((320, 256), True), ((1, 256), False), ((8, 32), False)], ids=["large", "a row", "small"]
)
def test_what_is_added_from_far_is_fetched_while_sums_are_made(
    tmp_path: Path, shape: tuple[int, int], is_fetched: bool
) -> None:
    rows, columns = (320, 256) if shape[0] == 1 else shape
    weight = np.random.default_rng(6).standard_normal((40, columns), "float32")
    nodes: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "r"], ["y"], {})]
    inputs = {"x": ("float32", (rows, 40)), "r": ("float32", shape)}
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], {"w": weight}))
    (group,) = engine.fuse(graph, target="cpu").groups
    kernel = engine.compile(group)
    assert isinstance(kernel, CpuKernel) and ("fetch<" in kernel.source.text) == is_fetched
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("upper", [0, 1])
def test_conditions_on_columns_know_which_of_a_tile_it_is(tmp_path: Path, dtype: str, upper: int) -> None:
    """Halves are stored a line of lanes at a time: the second line of a tile is 16 columns on."""
    draw = np.random.default_rng(7).standard_normal
    weight = {"w": draw((24, 70)).astype(dtype)}
    nodes: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("Trilu", ["p"], ["y"], {"upper": upper})]
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, {"x": (dtype, (70, 24))}, ["y"], weight))
    (group,) = engine.fuse(graph, target="cpu").groups
    kernel = engine.compile(group)
    assert isinstance(kernel, CpuKernel) and kernel.family == "gemm"
    found = engine.check(kernel)
    assert found.status == "pass", found.message
