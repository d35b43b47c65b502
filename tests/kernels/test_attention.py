"""Attention kernels, emulated in both orders against float64; stages, marks, conflicts, registers, planted faults."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from onnx import helper

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.tensor.index import Index
from engine.tile.check import check_tile
from engine.tile.nodes import BreakIf, For, MatrixMultiply, operations
from engine.verify.kernel import kernel_tolerance
from tests.semantics.single import Node, write_model
from tests.support.attentions import Attention, inputs_of
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.support.sentinels import sentinels

KINDS = ("float16", "float32", "tf32")
TF32 = {"tensor_cores": "tf32"}
"""Numerics that let tensor cores round float32."""


def stored(case: Attention) -> Attention:
    """The case as its file holds it: "tf32" is float32 that tensor cores may round."""
    return replace(case, dtype="float32") if case.dtype == "tf32" else case


def compiled(case: Attention, folder: Path, *lines: str) -> engine.Kernel:
    """The kernel under the advisers' entries and a user's."""
    group = stored(case).group(folder)
    numerics = TF32 if case.dtype == "tf32" else None
    if case.mask == "lowest":
        # A row masked throughout: as the graph says, its scores all become the lowest number; in float32 they differ.
        numerics = {**(numerics or {}), "arithmetic": "faithful"}
    recipe = engine.default_recipe(group, numerics=numerics)
    if not lines:
        return engine.compile(group, recipe)
    return engine.compile(
        group, engine.merge_advice(recipe, group, "advice user\n" + "".join(f"  {s}\n" for s in lines))
    )


def distance(kernel: engine.Kernel, case: Attention, seed: int, outputs: dict[str, np.ndarray]) -> float:
    """The largest error in units of the tolerance that the number formats give."""
    (name,) = outputs
    wanted = kernel_tolerance(kernel)
    expected = stored(case).result(stored(case).values(seed)).reshape(-1)
    errors = wanted.errors(outputs[name].reshape(-1), expected, float(np.nanmax(np.abs(expected))))
    return float(errors.max()) / wanted.relative


def agrees(kernel: engine.Kernel, case: Attention, seed: int = 0) -> None:
    """Every element in both orders within the tolerance, and nothing found."""
    for order in ORDERS:
        emulation, outputs, written = emulate(kernel.source, inputs_of(kernel, stored(case).values(seed)), order=order)
        assert not emulation.findings, emulation.findings[0]
        assert all(mask.all() for mask in written.values())
        assert distance(kernel, case, seed, outputs) <= 1


def is_on_tensor_cores(kernel: engine.Kernel) -> bool:
    return any(isinstance(op, MatrixMultiply) for op in operations(kernel.tile.body))


CASES = [
    Attention(queries=70, keys=70, mask="add", batch=2),
    Attention(queries=33, keys=47, depth=64, head=48, mask="padding"),
    Attention(queries=1, keys=100, heads=160, mask="padding"),
    Attention(queries=50, keys=50, depth=40, head=72, heads=4, shared_by=2, mask="causal"),
    Attention(queries=20, keys=90, depth=128, head=128, mask="infinite", scale="before"),
    Attention(queries=90, keys=20, depth=16, head=16, mask="lowest"),
    Attention(queries=64, keys=64, depth=80, head=96, scale=""),
    Attention(queries=1, keys=50, heads=1, mask="padding"),
    Attention(queries=16, keys=40, depth=256, head=256, heads=24, mask="infinite"),
    Attention(queries=20, keys=40, depth=24, head=272, heads=4, mask="padding"),
    Attention(queries=90, keys=130, heads=4, mask="triangle"),
    Attention(queries=130, keys=90, heads=4, mask="chosen triangle"),
    Attention(queries=100, keys=100, heads=4, mask="low triangle"),
]


@pytest.mark.few(12)
@needs_compiler
@pytest.mark.parametrize(
    ("number", "dtype"),
    # Of scores in the tens, which nothing scales, tf32 loses more than a tolerance for products allows.
    sentinels([(n, kind) for n, case in enumerate(CASES) for kind in KINDS if case.scale or kind != "tf32"], 40),
)
def test_shapes_and_masks(number: int, dtype: str, tmp_path: Path) -> None:
    """Ragged queries and keys, single queries, shared heads; rows of -inf alone are NaN, as in the reference."""
    case = replace(CASES[number], dtype=dtype)
    kernel = compiled(case, tmp_path)
    assert is_on_tensor_cores(kernel) == (dtype != "float32")
    agrees(kernel, case, seed=number)


STAGED = Attention(queries=24, keys=180, mask="add", heads=1)
DEEP = replace(STAGED, depth=64, keys=372)
"""Four steps of 16 halves in either product of a tile of 64 keys."""
STAGES = [(s, r) for s in range(1, 7) for r in (1, 2, 4)]
QUICK = {
    (1, 1, "float16"), (3, 2, "float16"), (4, 1, "float16"), (5, 4, "float16"), (1, 2, "float32"), (2, 1, "float32"),
    (3, 4, "tf32"), (6, 2, "tf32"),
}  # fmt: skip


def staged(stages: int, register_stages: int, dtype: str) -> object:
    marks = () if (stages, register_stages, dtype) in QUICK else (pytest.mark.slow,)
    return pytest.param(stages, register_stages, dtype, marks=marks)


@pytest.mark.few(3)
@needs_compiler
@pytest.mark.parametrize(
    ("stages", "register_stages", "dtype"), [staged(s, r, kind) for s, r in STAGES for kind in KINDS]
)
def test_stages(stages: int, register_stages: int, dtype: str, tmp_path: Path) -> None:
    """Keys and values are copied ahead together, and what their tiles hold is loaded ahead within each product."""
    is_deep = register_stages > 2 and dtype == "float16"
    case = replace(DEEP if is_deep else STAGED, dtype=dtype)
    tile = f"tile {64 if is_deep else 32}"
    wishes = [f"S0 @ j: mark {name}" for name in (tile, f"stages {stages}", f"register_stages {register_stages}")]
    kernel = compiled(case, tmp_path, *wishes)
    assert (kernel.tile.stages, kernel.tile.register_stages) == (stages, register_stages)
    assert len([v for v in kernel.verdicts if v.placed.author == "user" and v.outcome == "honoured"]) == len(wishes)
    agrees(kernel, case)


@pytest.mark.few(5)
@needs_compiler
@pytest.mark.parametrize(("mask", "queries", "leaves"), [
    ("triangle", 70, True), ("low triangle", 70, True), ("chosen triangle", 70, True), ("triangle", 170, True),
    ("low triangle", 170, False), ("causal", 70, False), ("infinite", 70, False),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tiles_behind_a_diagonal_are_left_out(
    mask: str, queries: int, leaves: bool, dtype: str, tmp_path: Path
) -> None:
    """Where the file itself holds the triangle, which is then not read; rows without any key have to see them all."""
    case = Attention(queries=queries, keys=110, mask=mask, dtype=dtype, heads=4)
    kernel = compiled(case, tmp_path, "S0 @ j: mark block 32", "S0 @ k: mark tile 16", "S0 @ k: mark stages 3")
    found = [op for op in operations(kernel.tile.body) if isinstance(op, BreakIf)]
    assert bool(found) == leaves
    assert len(kernel.group.program.inputs) == (3 if "triangle" in mask else 4)
    if leaves:
        last_keys = [32 * n + 31 + 110 - queries for n in range(-(-queries // 32))]
        assert found[0].runs == (sum(min(7, max(0, key // 16 + 1)) for key in last_keys), 7 * len(last_keys))
        agrees(kernel, case)


def test_the_longest_block_comes_first(tmp_path: Path) -> None:
    """It is the one that is drawn; others leave the loop before its end."""
    case = Attention(queries=64, keys=64, mask="triangle", heads=1)
    kernel = compiled(case, tmp_path, "S0 @ i: mark block 32", "S0 @ j: mark tile 16")
    chart = engine.chart(kernel)
    assert chart.title == "Block 0 of 2" and chart.steps == 4 and not chart.hazards
    assert "query_tile_number = -block + 1;" in kernel.source.text


@needs_compiler
@pytest.mark.parametrize(("queries", "keys", "tile"), [(40, 40, 64), (40, 60, 32), (30, 90, 16)])
def test_a_loop_that_nothing_leaves_stays_as_it_is(queries: int, keys: int, tile: int, tmp_path: Path) -> None:
    """One tile of keys, or a diagonal that begins in the last one for all queries of the only block."""
    case = Attention(queries=queries, keys=keys, mask="triangle", heads=2)
    kernel = compiled(case, tmp_path, "S0 @ j: mark block 64", f"S0 @ k: mark tile {tile}")
    assert not any(isinstance(op, BreakIf) for op in operations(kernel.tile.body))
    agrees(kernel, case)


def test_only_loops_are_left_by_all_threads_together(tmp_path: Path) -> None:
    tile = compiled(STAGED, tmp_path).tile
    loose, alone = BreakIf(Index.of("block"), (1, 2)), BreakIf(Index.of("thread"), (1, 2))
    assert check_tile(replace(tile, body=(loose,))) == ("there is no loop to leave where block >= 0",)
    assert check_tile(replace(tile, body=(For("turn", 2, (loose,)),))) == ()
    (told,) = check_tile(replace(tile, body=(For("turn", 2, (alone,)),)))
    assert "thread may differ between them" in told


LEFT = {
    "a tile too early": (r"tile \* 16 - 32\) break", "tile * 16 - 16) break"),
    "with copies under way": (r"(break;[\s\S]*)async_wait<0>\(\);", r"\1;"),
}


@needs_compiler
@pytest.mark.parametrize("name", LEFT)
def test_faults_of_leaving_are_caught(name: str, tmp_path: Path) -> None:
    """The last key of the last query of a block is in the tile before; what was copied ahead is awaited even so."""
    case = Attention(queries=64, keys=64, mask="triangle", heads=1)
    kernel = compiled(case, tmp_path, "S0 @ i: mark block 32", "S0 @ j: mark tile 16")
    text, edits = re.subn(*LEFT[name], kernel.source.text)
    assert edits == 1
    emulation, outputs, _ = emulate(replace(kernel.source, text=text), inputs_of(kernel, case.values(0)), order="late")
    assert emulation.findings or distance(kernel, case, 0, outputs) > 1


TILES = [("float16", 128, 32, "warp 32"), ("float16", 16, 128, "warp 16"), ("float32", 32, 64, "thread 2")]


@needs_compiler
@pytest.mark.parametrize(("dtype", "queries", "keys", "own"), TILES)
def test_tiles_are_what_the_entries_say(dtype: str, queries: int, keys: int, own: str, tmp_path: Path) -> None:
    case = Attention(queries=130, keys=140, mask="add", dtype=dtype, heads=1)
    wishes = (f"S0 @ i: mark block {queries}", f"S0 @ i: mark {own}", f"S0 @ j: mark tile {keys}")
    kernel = compiled(case, tmp_path, *wishes)
    assert (kernel.tile.constants["TILE_QUERIES"], kernel.tile.constants["TILE_KEYS"]) == (queries, keys)
    assert kernel.tile.constants[f"{own.split()[0].upper()}_QUERIES"] == int(own.split()[1])
    assert kernel.source.grid[0] == -(-130 // queries)
    agrees(kernel, case)


@needs_compiler
def test_without_the_rewrite_there_is_a_general_kernel(tmp_path: Path) -> None:
    """The second product waits for the whole row: the family says so, and what to ask for."""
    group = STAGED.group(tmp_path)
    recipe = engine.default_recipe(group)
    (stitch, *others) = recipe.groups[group.name]
    entries = tuple(replace(e, enabled=e.field != "rewrite") for e in stitch.scenario.entries)
    changed = (replace(stitch, scenario=replace(stitch.scenario, entries=entries)), *others)
    kernel = engine.compile(group, recipe.with_group(group.name, changed))
    refused = own_refusal(kernel)
    assert "waits for the maximum" in refused.reason and refused.hint == "rewrite online S7"
    assert engine.check(kernel).status == "pass"


def test_an_instruction_of_another_type_is_not_taken(tmp_path: Path) -> None:
    kernel = compiled(replace(STAGED, dtype="float32"), tmp_path, "S0 @ k: mark intrinsic mma_m16n8k16_f16")
    assert not is_on_tensor_cores(kernel)
    (verdict,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert verdict.outcome == "relaxed" and "weights are float32, the instruction takes float16" in verdict.because


@needs_compiler
@pytest.mark.parametrize("scale", ["after", "before"])
def test_halves_without_the_instruction(scale: str, tmp_path: Path) -> None:
    """CUDA cores take halves too, and round weights and scaled factors as tensor cores do."""
    case = replace(STAGED, keys=50, scale=scale)
    group = case.group(tmp_path)
    recipe = engine.default_recipe(group)
    advice = tuple(
        replace(one, scenario=replace(one.scenario, entries=tuple(e for e in one.scenario.entries if not on_tensor(e))))
        for one in recipe.groups[group.name]
    )
    kernel = engine.compile(group, recipe.with_group(group.name, advice))
    assert not is_on_tensor_cores(kernel)
    agrees(kernel, case)


def on_tensor(entry: engine.Entry) -> bool:
    return isinstance(entry.value, tuple) and entry.value[0] == "intrinsic"


WISHES = [
    ("S0 @ j: mark tile 48", "tile 32: this kernel takes a power of two from 16 to 128"),
    ("S0 @ i: mark block 8", "block 16: this kernel takes a power of two from 16 to 128"),
    ("S0 @ j: mark stages 9", "stages 3: the loop over tile has 3 iterations"),
    ("S0 @ i: mark thread 4", "the instruction says which scores a thread owns"),
    ("S0 @ j: split 32", "ask for a tile"),
]


@pytest.mark.parametrize(("wish", "because"), WISHES)
def test_marks_that_cannot_be_had(wish: str, because: str, tmp_path: Path) -> None:
    kernel = compiled(STAGED, tmp_path, wish)
    (verdict,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert verdict.outcome == "relaxed" and because in verdict.because


def test_what_fills_a_ragged_tile_may_not_count(tmp_path: Path) -> None:
    """Where both factors are 1 more than what is read, the zeros behind 20 depths would add 12 to each score."""
    one = np.array(1, np.float32)
    nodes: list[Node] = [
        ("Add", ["q", "one"], ["a"], {}), ("Add", ["k", "one"], ["b"], {}), ("MatMul", ["a", "b"], ["s"], {}),
        ("Softmax", ["s"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"q": ("float32", (8, 64, 20)), "k": ("float32", (8, 20, 64)), "v": ("float32", (8, 64, 32))}
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], {"one": one}))
    for group in engine.fuse(graph).groups:
        assert engine.check(engine.compile(group)).status == "pass"


HEADS = [(h, "float16") for h in (32, 64, 80, 128, 160, 256, 320)] + [
    (h, kind) for h in (64, 128, 160, 256) for kind in ("float32", "tf32")
]


@pytest.mark.few(1)
@needs_nvrtc
@pytest.mark.parametrize(("head", "dtype"), sentinels(HEADS, 4))
def test_default_tiles_do_not_spill(head: int, dtype: str, tmp_path: Path) -> None:
    queries = 64 if head > 256 else 512
    case = Attention(queries=queries, keys=512, depth=head, head=head, dtype=dtype, heads=8, batch=8, mask="add")
    kernel = compiled(case, tmp_path)
    for architecture in ("sm_80", "sm_90a"):
        made = engine.nvrtc(kernel, architecture)
        assert isinstance(made, engine.Compiled)
        assert made.spill_bytes == 0 and made.registers <= 255


BANKS = [(32, "float16"), (48, "float16"), (64, "float16"), (64, "float32"), (32, "tf32"), (48, "tf32"), (64, "tf32")]


@pytest.mark.few(3)
@needs_compiler
@pytest.mark.parametrize(("depth", "dtype"), BANKS)
def test_main_loop_reads_without_bank_conflicts(depth: int, dtype: str, tmp_path: Path) -> None:
    """Permuted where a row is a power of two of bytes, padded where it is not."""
    case = Attention(queries=64, keys=128, depth=depth, head=depth, heads=1, dtype=dtype)
    kernel = compiled(case, tmp_path, "S0 @ i: mark block 64", "S0 @ j: mark tile 64")
    emulation, _, _ = emulate(kernel.source, inputs_of(kernel, stored(case).values(0)), order="late")
    reads = [count for count in emulation.counts if count.kind == "shared load"]
    assert len(reads) >= 3 and not any(count.conflicts for count in reads)


# Planted faults


@dataclass(frozen=True)
class Fault:
    """One edit of a kernel's text: the first match of `pattern` becomes `text`."""

    pattern: str
    text: str
    mask: str = "add"
    dtype: str = "float16"


FAULTS = {
    "results keep the old maximum": Fault(r"results.* \*= correction;", ";"),
    "sums keep the old maximum": Fault(r"total\[r\] \*= correction;", ";"),
    "scores of another maximum": Fault(r"warp_reduce<Max, 4>", "warp_reduce<Max, 2>"),
    "a part of the sum": Fault(r"warp_reduce<Sum, 4>", "warp_reduce<Sum, 2>"),
    "mask of the next query": Fault(r"mask\.load<2>\(query \*", "mask.load<2>((query ^ 1) *"),
    "keys past the last": Fault(r"key_inside \? (.*) : NEG_INF", r"\1"),
    "rows of -inf relative to -inf": Fault(r"\(largest\[r\] == NEG_INF\) \? 0\.0f : ", "", mask="infinite"),
    "queries of another row": Fault(r"(query_lane = .*)\(thread % 8\)", r"\1((thread + 1) % 8)"),
    "keys of another row": Fault(r"(key_lane = .*)\(thread % 8\)", r"\1((thread + 1) % 8)"),
    "values of another row": Fault(r"(value_lane = .*)\(thread % 8\)", r"\1((thread + 1) % 8)"),
    "weights in the wrong half": Fault(r"fn_pack_f16\((.*\]), (.*)\)", r"fn_pack_f16(\2, \1)"),
    "weights of the other fragment": Fault(r"weight_part\[0\]\[c \* 2 \+ h\]", "weight_part[0][h * 2 + c]"),
    "wait one short": Fault(r"async_wait<1>", "async_wait<2>"),
    "queries not awaited": Fault(r"async_wait<0>", "async_wait<1>"),
    "commit missing": Fault(r"(for \(int tile[\s\S]*?)async_commit\(\);", r"\1;"),
    "barrier missing": Fault(r"(for \(int tile[\s\S]*?)barrier\(\);", r"\1;", dtype="float32"),
    "values of the next stage": Fault(r"value_tile, \(tile % 3\)", "value_tile, ((tile + 1) % 3)"),
    "weights read before they are there": Fault(r"(weight_tile\.store[\s\S]*?)barrier\(\);", r"\1;", dtype="float32"),
    "weights of another row": Fault(
        r"weight_tile\.load<4>\(r \* (\d+)", r"weight_tile.load<4>((r ^ 1) * \1", dtype="float32"
    ),
}


@lru_cache
def victim(mask: str, dtype: str) -> tuple[Attention, engine.Kernel]:
    case = Attention(queries=16, keys=74, depth=16, head=16, heads=1, mask=mask, dtype=dtype)
    with TemporaryDirectory() as folder:
        return case, compiled(case, Path(folder), "S0 @ j: mark tile 16", "S0 @ j: mark stages 3")


@needs_compiler
@pytest.mark.parametrize(("mask", "dtype"), [("add", "float16"), ("infinite", "float16"), ("add", "float32")])
def test_unedited_kernels_are_clean(mask: str, dtype: str) -> None:
    case, kernel = victim(mask, dtype)
    agrees(kernel, case)


@pytest.mark.few(9)
@needs_compiler
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(name: str) -> None:
    fault = FAULTS[name]
    case, kernel = victim(fault.mask, fault.dtype)
    text, edits = re.subn(fault.pattern, fault.text, kernel.source.text, count=1)
    assert edits == 1 and text != kernel.source.text
    edited = replace(kernel, source=replace(kernel.source, text=text))
    caught = []
    for order in ORDERS:
        emulation, outputs, _ = emulate(edited.source, inputs_of(kernel, stored(case).values(0)), order=order)
        caught.append(bool(emulation.findings) or distance(kernel, case, 0, outputs) > 1)
    assert any(caught)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_its_pipeline_is_drawn(dtype: str, tmp_path: Path) -> None:
    """Copies ahead of their use, as of any loop over tiles; no knobs of a matrix product are offered."""
    kernel = compiled(replace(STAGED, dtype=dtype), tmp_path, "S0 @ j: mark tile 16", "S0 @ j: mark stages 3")
    chart = engine.chart(kernel)
    assert (chart.stages, chart.loop, chart.knobs, chart.title[:8]) == (3, "j", None, "Block 0 ")
    assert chart.bars and chart.flights and not chart.hazards


@needs_nvrtc
@pytest.mark.parametrize("length", [33, 65, 77, 127])
def test_tiles_that_are_copied_element_by_element_do_not_spill(length: int, tmp_path: Path) -> None:
    """Rows of odd lengths have no wide copies: a thread copies up to 64 elements of a tile."""
    q, k, v = (helper.make_tensor_value_info(n, 1, s) for n, s in (
        ("q", (3, length, 64)), ("k", (3, 64, length)), ("v", (3, length, 64))))  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "odd", [q, k, v], [helper.make_tensor_value_info("y", 1, (3, length, 64))])
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    for group in engine.fuse(engine.load(path)).groups:
        kernel = engine.compile(group)
        assert engine.check(kernel).status == "pass"
        for architecture in engine.ARCHITECTURES:
            assert engine.nvrtc(kernel, architecture).spill_bytes == 0, (group.name, architecture)
