"""Memory that blocks hand sums to each other in: a parameter of each launch, aligned and zeroed as the kernel says."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.cubin import read_cubin
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda
from engine.explore.addresses import dummy_inputs
from engine.suite import read_suite, suite_names
from engine.target import ARCHITECTURES
from engine.tile.source import CudaSource, GlobalWorkspace, Parameter
from tests.kernels.test_attention_parts import split as split_attention
from tests.pipeline.test_split_k import split as split_product
from tests.semantics.single import write_model
from tests.support.attentions import Attention
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.test_shared_models import SHARED, needs_shared

FOLDER = tempfile.TemporaryDirectory()
"""Of the models whose kernels are compiled once for several tests."""


@lru_cache
def product(left: str = "x", right: str = "w", depth: int = 8192) -> engine.Kernel:
    """A product of three tiles as the advisers want it."""
    rows, columns = 32, 96
    inputs = {left: ("float32", (rows, depth)), right: ("float32", (depth, columns))}
    file = Path(FOLDER.name) / f"{left}_{right}.onnx"
    (group,) = engine.fuse(engine.load(write_model(file, [("MatMul", [left, right], ["y"], {})], inputs, ["y"]))).groups
    return engine.compile(group)


@lru_cache
def three_tiles() -> engine.Kernel:
    """Counters of 12 bytes."""
    return split_product(Path(FOLDER.name), 3, shape=(30, 90, 600), kind="float32")


@lru_cache
def on_tensor_cores() -> engine.Kernel:
    return split_product(Path(FOLDER.name), 3)


@lru_cache
def shared_keys() -> engine.Kernel:
    return split_attention(Attention(queries=10, keys=80, depth=16, head=16), Path(FOLDER.name), 3)


WITH_MODULE_MEMORY = """#include "loom.cuh"
__device__ int arrivals[3];
__device__ float parts[64];
__device__ float total = 1.0f;
extern "C" __global__ void k(float* y) {
  __shared__ float own[32];
  parts[threadIdx.x] = y[threadIdx.x] + atomicAdd(arrivals, 1);
  own[threadIdx.x] = sinf(y[1]) + total;
  __syncthreads();
  y[threadIdx.x] = parts[63 - threadIdx.x] + own[31 - threadIdx.x];
}
"""

TEAMS: tuple[Callable[[], engine.Kernel], ...] = (three_tiles, on_tensor_cores, shared_keys)


def values_of(kernel: engine.Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(seed)
    found = dummy_inputs(kernel)
    assert found is not None
    return {n: stream.standard_normal(v.size).astype(v.dtype) if v.dtype.kind == "f" else v for n, v in found.items()}


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("make", (product, *TEAMS), ids=lambda make: make.__name__)
def test_a_module_has_no_memory_that_launches_share(make: Callable[[], engine.Kernel], architecture: str) -> None:
    kernel = make()
    assert kernel.source.team > 1
    assert read_cubin(compile_cuda(kernel.source.text, architecture).cubin).variables == ()


@needs_nvrtc
def test_memory_of_a_module_is_seen_in_its_cubin() -> None:
    """What the test above looks for; static shared memory and the table of `sinf` are no such memory."""
    for architecture in ARCHITECTURES:
        layout = read_cubin(compile_cuda(WITH_MODULE_MEMORY, architecture).cubin)
        assert {one.name for one in layout.variables} == {"arrivals", "parts", "total"}


MODELS = sorted((SHARED / "models").glob("*.onnx")) if SHARED.is_dir() else []


def assert_no_module_memory(reference: str | Path) -> None:
    for group in engine.fuse(engine.load(reference)).groups:
        kernel = engine.compile(group)
        cubin = compile_cuda(kernel.source.text, kernel.target.architecture).cubin
        assert not read_cubin(cubin).variables, f"{reference}: {group.name}"


@needs_nvrtc
@needs_shared
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_no_kernel_of_a_model_has_module_memory(path: Path) -> None:
    assert_no_module_memory(path)


@needs_nvrtc
@pytest.mark.slow(sentinel=False)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", suite_names())
def test_no_kernel_of_a_suite_has_module_memory(name: str) -> None:
    suite = read_suite(name)
    for row in suite.rows:
        assert_no_module_memory(suite.reference(row))


@needs_compiler
@pytest.mark.parametrize("make", TEAMS, ids=lambda make: make.__name__)
def test_every_pointer_may_be_aligned_as_stated_and_no_worse(make: Callable[[], engine.Kernel]) -> None:
    """At half of what is stated, an access is misaligned, at a line that has the pointer's accessor."""
    source = make().source
    values = values_of(make())
    runs = [emulate(source, values, order=order)[0] for order in ORDERS]
    assert not any(run.findings for run in runs)
    wide = [p for p in (*source.buffers, *source.workspaces) if p.alignment > np.dtype(p.dtype).itemsize]
    assert wide
    for pointer in wide:
        worse = with_alignment(source, pointer, pointer.alignment // 2)
        found = emulate(worse, values)[0].findings
        lines = source.text.splitlines()
        name = pointer.parameter.removesuffix("_")
        blamed = [lines[f.line - 1] for f in found if f.kind == "misaligned"]
        assert blamed and all(re.search(rf"\b{name}\b", line) for line in blamed), (pointer, found)


def with_alignment(source: CudaSource, pointer: Parameter | GlobalWorkspace, alignment: int) -> CudaSource:
    """The kernel as if less were asked of one pointer."""
    return replace(
        source,
        buffers=tuple(replace(b, alignment=alignment) if b == pointer else b for b in source.buffers),
        workspaces=tuple(replace(w, alignment=alignment) if w == pointer else w for w in source.workspaces),
    )


@needs_compiler
def test_sums_behind_the_counters_of_three_tiles_are_misaligned() -> None:
    """What the module's memory was: 4 bytes aligned.  The fault is at the store of four sums, and at nothing else."""
    source = three_tiles().source
    parts, arrivals = source.workspaces
    assert (parts.alignment, arrivals.alignment, arrivals.bytes) == (16, 4, 12)
    (finding,) = emulate(with_alignment(source, parts, 4), values_of(three_tiles()), blocks=(0,))[0].findings[:1]
    assert finding.kind == "misaligned" and "parts.store<4>" in source.text.splitlines()[finding.line - 1]
    assert "16 bytes accessed; the memory begins at a multiple of 4" in finding.message


def twice(source: CudaSource) -> CudaSource:
    """One launch in whose even blocks a launch runs, and in whose odd blocks another over other memory."""
    head = re.compile(rf'extern "C" __global__ void __launch_bounds__\(.*\)\n{source.entry}\((.*)\)\n')
    (declared,) = head.findall(source.text)
    once = head.sub(lambda found: f"static void once(int number, {found[1]})\n", source.text)
    kinds = dict(reversed(words.rsplit(" ", 1)) for words in declared.split(", "))

    def renamed(k: str) -> tuple[tuple[Parameter, ...], tuple[GlobalWorkspace, ...]]:
        buffers = (replace(b, parameter=f"{b.parameter}{k}", array=f"{b.array} {k}") for b in source.buffers)
        own = (replace(w, parameter=f"{w.parameter}{k}", name=f"{w.name} {k}") for w in source.workspaces)
        return tuple(buffers), tuple(own)

    (buffers_a, own_a), (buffers_b, own_b) = renamed("a"), renamed("b")
    order = [p.parameter for p in (*buffers_a, *buffers_b, *own_a, *own_b)]
    parameters = ", ".join(f"{kinds[name[:-1]]} {name}" for name in order)
    a, b = (f"once(blockIdx.x / 2, {', '.join(name + k for name in kinds)})" for k in "ab")
    text = f"""{once.replace("blockIdx.x", "number")}
extern "C" __global__ void twice({parameters}) {{
  if (blockIdx.x % 2 == 0) {a};
  else {b};
}}
"""
    return replace(
        source, text=text, entry="twice", grid=(2 * source.grid[0], 1, 1), buffers=buffers_a + buffers_b,
        workspaces=own_a + own_b, footprints=(), lines=(),
    )  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("make", TEAMS, ids=lambda make: make.__name__)
def test_two_launches_that_overlap_give_what_each_gives_alone(make: Callable[[], engine.Kernel], order: str) -> None:
    """Block by block in turn, as two streams may run them."""
    kernel = make()
    given = {k: values_of(kernel, seed) for seed, k in enumerate("ab")}
    alone = {k: emulate(kernel.source, values, order=order)[1] for k, values in given.items()}
    both = {f"{name} {k}": value for k, values in given.items() for name, value in values.items()}
    run, outputs, _ = emulate(twice(kernel.source), both, order=order)
    assert not run.findings, run.findings[0]
    for k, expected in alone.items():
        for name, value in expected.items():
            assert np.array_equal(outputs[f"{name} {k}"], value, equal_nan=True)


@needs_compiler
def test_what_a_launch_leaves_need_not_be_zeroed() -> None:
    """Only the counters begin as zeros: sums that nobody stored are uninitialised to those who load them."""
    source = three_tiles().source
    assert [(w.name, w.zeroed) for w in source.workspaces] == [("parts", False), ("arrivals", True)]
    lacking = re.sub(r"parts\.store.*;", ";", source.text)
    found = emulate(replace(source, text=lacking), values_of(three_tiles()))[0].findings
    assert {f.kind for f in found} == {"uninitialised"}


@needs_compiler
def test_tensors_may_be_called_what_workspaces_are() -> None:
    kernel = product("parts", "arrivals", 2048)
    assert kernel.source.team > 1
    assert engine.check(kernel).status == "pass"
