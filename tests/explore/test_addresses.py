"""Addresses of a warp against the formulas of the access, and sectors counted again from the addresses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engine
from engine.documents.exploration import LanesDoc
from engine.execution.emulate.build import host_compiler
from engine.execution.emulate.emulate import emulate, trace_warp
from engine.execution.nodes import Finding
from engine.explore.addresses import addresses, dummy_inputs
from engine.tensor.index import Element, Index
from engine.tensor.nodes import Access, TensorProgram
from engine.tile.source import CudaSource, Parameter
from tests.explore.groups import MODELS, advised, group_of, made_of
from tests.support import programs

pytestmark = pytest.mark.skipif(host_compiler() is None, reason="this machine has no C++ compiler")

SOFTMAX = "softmax_96x512"


def lanes_of(kernel: engine.Kernel) -> tuple[LanesDoc, ...]:
    return engine.addresses(kernel).lanes


def sectors(lanes: LanesDoc) -> int:
    """32-byte pieces that hold any byte of any lane."""
    taken = [a for a in lanes.addresses if a >= 0]
    return len({byte // 32 for a in taken for byte in range(a, a + lanes.width)})


def test_a_row_is_read_in_whole_vectors_one_after_the_other() -> None:
    load, store = lanes_of(engine.compile(group_of(SOFTMAX)))
    for lanes, kind, array in ((load, "global load", "x"), (store, "global store", "y")):
        assert (lanes.kind, lanes.array, lanes.width) == (kind, array, 16)
        assert lanes.addresses == tuple(16 * lane for lane in range(32))
        assert lanes.sectors == lanes.ideal == 16


def test_sectors_are_those_of_the_addresses() -> None:
    for file in (SOFTMAX, "matmul_bias_gelu_128x256x512", "transpose_2x12x64x64", "column_sum_1000x384"):
        for lanes in lanes_of(engine.compile(group_of(file))):
            assert len(lanes.addresses) == 32
            if not lanes.kind.startswith("shared"):
                assert lanes.sectors == sectors(lanes) >= lanes.ideal


def test_columns_that_threads_turned_lie_in_different_banks() -> None:
    shared = [lanes for lanes in lanes_of(engine.compile(group_of("transpose_2x12x64x64"))) if "shared" in lanes.kind]
    store, load = shared
    group = 4 * 32 * 4 + 16  # bytes of 4 rows of the tile, and of the vector that groups are moved apart by
    assert store.addresses == tuple(group * (lane % 8) + 16 * (lane // 8) for lane in range(32))
    assert load.addresses == tuple(16 * lane for lane in range(32))
    assert (store.width, load.width) == (16, 16) and store.sectors == store.ideal and load.sectors == load.ideal


def test_a_strided_read_touches_a_sector_for_each_lane() -> None:
    group = made_of(programs.transpose_add(64, 64), "element-wise")
    strided = [lanes for lanes in lanes_of(engine.compile(group, engine.Recipe("h200"))) if lanes.sectors == 32]
    assert strided and all(lanes.ideal == 4 for lanes in strided)


def test_lanes_past_the_end_take_no_part() -> None:
    group = group_of("add_relu_odd_3x5x127")
    narrow = advised(group, "advice user\n  all @ innermost: mark block 20\n  all @ innermost: mark thread 32\n")
    first = lanes_of(engine.compile(group, narrow))[0]
    assert [a for a in first.addresses if a >= 0] == [4 * lane for lane in range(20)]
    assert first.addresses[20:] == (-1,) * 12


def test_an_emulation_tells_addresses_only_where_it_is_asked_to() -> None:
    source = engine.compile(group_of(SOFTMAX)).source
    values = {"x": np.zeros((96, 512), np.float32)}
    plain, _, _ = emulate(source, values, blocks=(11,))
    traced = trace_warp(source, values, (11, 0), blocks=(11,))
    assert plain.accesses == () and plain.counts == traced.counts
    row = 11
    assert [a.offsets[0] for a in traced.accesses] == [row * 512 * 4] * 2
    assert trace_warp(source, values, (0, 0), blocks=(11,)).accesses == ()


def looking_up() -> engine.Kernel:
    """The first kernel of the built-in model that reads rows of a table at indices."""
    plan = engine.fuse(engine.load(MODELS / "bert_tiny.onnx"))
    kernels = (engine.compile(group) for group in plan.groups)
    return next(k for k in kernels if any(v.max() > 1 for v in made(k).values()))


def made(kernel: engine.Kernel) -> dict[str, np.ndarray]:
    values = dummy_inputs(kernel)
    assert values is not None
    return values


def test_indices_are_made_up_in_their_range_and_decide_the_addresses() -> None:
    kernel = looking_up()
    values = made(kernel)
    program = kernel.group.program
    tables = {
        access.array
        for s in program.statements
        for access in s.reads()
        if any(index.is_indirect for index in access.indices)
    }
    lanes = {one.array: one for one in lanes_of(kernel)}
    indices = {int(i) for value in values.values() if value.dtype.kind == "i" for i in value}
    assert tables
    for table in tables:
        width = program.arrays[table].shape[1] * 4
        assert {a // width for a in lanes[table].addresses if a >= 0} <= indices


def test_an_index_out_of_its_range_is_a_finding_and_no_document() -> None:
    kernel = looking_up()
    wrong = {array: value + 10**6 if value.max() > 1 else value for array, value in made(kernel).items()}
    found = addresses(kernel, wrong)
    assert isinstance(found, Finding) and found.kind == "out of bounds"


def test_addresses_that_depend_on_fractions_need_the_reference() -> None:
    """x[int(c[i])]: nobody can say what c holds."""
    position = Index.of(Element("c", (Index.of("i"),), 0, 15))
    read = Access("x", (position,))
    gather = programs.statement("S0", [("i", 8)], programs.at("y", "i"), programs.apply("exp", read))
    program = programs.program("fractions", {"x": (16,), "c": (8,), "y": (8,)}, [gather], "y")
    kernel = engine.compile(group_of(SOFTMAX))
    assert dummy_inputs(replace(kernel, group=made_of(program), source=sources_of(program))) is None


def sources_of(program: TensorProgram) -> CudaSource:
    """Only the buffers of a program's inputs."""
    buffers = tuple(
        Parameter(a, a, program.arrays[a].dtype, program.arrays[a].elements, read=True, written=False)
        for a in program.inputs
    )
    return CudaSource("", "", (1, 1, 1), (32, 1, 1), 0, buffers, ())
