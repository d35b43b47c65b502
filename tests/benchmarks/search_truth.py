"""The truth that searches are tested on: every program of a fixed space, compiled, and timed by the synthetic device.

Registers, spills and size of the code are NVRTC's of the program's own text; bank conflicts are the emulator's of a
small operator with the same tile.  Both are kept in a file by what was compiled, so that a run that is ended goes on.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path

import engine
from engine.cost.alcop_work import main_loop
from engine.execution.nodes import Failure, Timing
from engine.execution.nvrtc import nvrtc_version
from engine.kernels.gemm.promise import fused_gemm_of_tile
from engine.kernels.gemm.space import CHUNKS, CUDA_CORES, TENSOR_WARPS, GemmTemplate, task_of_programs
from engine.kernels.nodes import Kernel
from engine.kernels.sketch_rules import Sketch
from engine.kernels.space import Program, Task, Value
from engine.suite import SuiteRow, read_row
from engine.support.cache import digest, digest_of_files
from engine.support.errors import EngineError
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import AsyncCopy, Let, Load, MatrixLoad, MatrixMultiply, TileOp
from engine.tile.trip_counts import trip_counts
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from tests.benchmarks.pipelines_rows import ARCHITECTURE, SUITE, TARGET, contraction_group, counted
from tests.benchmarks.synthetic_device import Launch, run

ELEMENT_BYTES, SUM_BYTES = 2, 4
ROOT = Path(engine.__file__).parent
CHUNK = 24
"""Programs that a process takes at a time."""
PIPELINES: Mapping[str, tuple[Value, ...]] = {"stages": (1, 2, 3, 4), "register_stages": (1, 2)}
ALONE: Mapping[str, tuple[Value, ...]] = {"slices": (1,), "split_k": (1,)}
FRAGMENTS = (1, 2, 4)
WHOLE: Mapping[str, tuple[Value, ...]] = {
    "row_warps": TENSOR_WARPS, "column_warps": TENSOR_WARPS, "row_tiles": FRAGMENTS, "column_tiles": FRAGMENTS,
    "chunks": CHUNKS, **PIPELINES, **ALONE,
}  # fmt: skip
"""The space of every operator, 2,592 programs: tiles of powers of two, ALCOP's two pipelines, and nobody who shares the
depth."""
QUICK: Mapping[str, tuple[Value, ...]] = {**WHOLE, "chunks": (2,), "stages": (1, 3), "register_stages": (1,)}
"""A small one for a test of the benchmark itself, 162 programs."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What only a compiler can say of a kernel."""

    registers: int
    spill_bytes: int
    code_bytes: int


class Kept:
    """Figures by what they are of, in one file that several processes write to."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")  # a cache: what is lost is made again
        self._connection.execute("CREATE TABLE IF NOT EXISTS figures (name TEXT PRIMARY KEY, a REAL, b REAL, c REAL)")

    def get(self, name: str) -> tuple[float, float, float] | None:
        """Three figures, or None."""
        found = self._connection.execute("SELECT a, b, c FROM figures WHERE name = ?", (name,)).fetchone()
        return None if found is None else (found[0], found[1], found[2])

    def put(self, name: str, figures: tuple[float, float, float]) -> None:
        """Keep them."""
        self._connection.execute("INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?)", (name, *figures))


class Operator:
    """One row of ALCOP's suite, and its first mapping to tensor cores in a fixed space, WHOLE or QUICK."""

    def __init__(self, name: str, is_quick: bool = False) -> None:
        self.reference = f"suite:{SUITE}/{name}"
        _, self.row = read_row(self.reference)
        self.group = contraction_group(engine.fuse(engine.load(self.reference), target=TARGET).groups)
        found = problem(self.group, engine.default_recipe(self.group, target=TARGET))
        if isinstance(found, str):
            raise EngineError("benchmark", name, found)
        self.problem: SearchProblem = found
        task = next(task for task in found.tasks if task.name != CUDA_CORES)
        self.is_quick = is_quick
        self.task: Task = narrow(task, QUICK if is_quick else WHOLE, engine.compile(self.group, found.recipe))

    @property
    def programs(self) -> list[Program]:
        """Those of its space, before pruning."""
        return list(Sketch(self.task.name, self.task.dimensions).points())

    def knobs(self, program: Program) -> GemmConfig:
        """Tiles and stages of a program."""
        template = self.task.template
        assert isinstance(template, GemmTemplate), "every mapping of a product has tiles"
        return template.config(program)

    def launch(self, program: Program, kept: Kept) -> Launch | Failure:
        """The compiled program as the device sees it; a failure where there is no such kernel."""
        try:
            kernel = engine.compile(self.group, self.problem.recipe_of(program))
        except EngineError as error:
            return Failure("compile", error.reason)
        other = why_not_followed(kernel)
        if other:
            return Failure("not taken", other)
        try:
            compiled = _compiled(kernel, kept)
            conflicts = _conflicts(self.row, self.knobs(program), kept)
        except EngineError as error:
            return Failure("compile", error.reason)
        return described(self.row.name, kernel, compiled, conflicts)


@lru_cache(maxsize=1)
def operator_of(name: str, is_quick: bool = False) -> Operator:
    """The operator that this process is at: processes that are forked from it find it there."""
    return Operator(name, is_quick)


def narrow(task: Task, choices: Mapping[str, tuple[Value, ...]], kernel: Kernel) -> Task:
    """A mapping with these choices of each dimension in place of its own, pruned as a search prunes it."""
    template = task.template
    assert isinstance(template, GemmTemplate), "every mapping of a product has tiles"
    return task_of_programs(template, Sketch(task.name, choices), kernel)


def described(operator: str, kernel: Kernel, compiled: Compiled, conflicts: float) -> Launch:
    """A kernel of a product on tensor cores in the device's terms."""
    config, gemm, facts = kernel.tile.config, fused_gemm_of_tile(kernel.program, kernel.tile), kernel.facts
    assert isinstance(config, GemmConfig) and gemm is not None, kernel.tile.name
    problem = gemm.problem
    high, wide, depth = config.block
    rows, columns = -(-problem.m // high), -(-problem.n // wide)
    layers = facts.blocks // (rows * columns)
    batches = layers // facts.team
    tile = (*config.block, *config.part, config.slices)
    first, second = (batches * size * problem.k * ELEMENT_BYTES for size in (problem.m, problem.n))
    loop = main_loop(kernel.tile.body)
    does = _operations(loop.body if loop else kernel.tile.body, kernel)
    return Launch(
        text=digest(kernel.source.text),
        shape=f"{operator} {tile}",
        grid=(rows, columns, layers),
        threads=facts.threads,
        shared_bytes=facts.shared_bytes,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
        code_bytes=compiled.code_bytes,
        steps=facts.serial_steps,
        stages=facts.stages,
        inner_steps=depth // problem.instruction[2] // config.slices,
        register_stages=kernel.tile.register_stages,
        copies=does["copy"], loads=does["load"], reads=does["read"], products=does["product"], indices=does["index"],
        conflicts=conflicts,
        fetched=(high * depth * ELEMENT_BYTES, wide * depth * ELEMENT_BYTES),
        distinct=(min(1.0, max(0.0, facts.dram_bytes_read - second) / first), 1.0),
        operands=facts.dram_bytes_read,
        written=facts.dram_bytes_written / facts.blocks,
        exchanged=(config.slices - 1) * high * wide * SUM_BYTES,
        team=facts.team,
        handed=facts.team_bytes / facts.team,
    )  # fmt: skip


def _operations(body: tuple[TileOp, ...], kernel: Kernel) -> Mapping[str, float]:
    """What one thread does in one tile of the depth."""
    found: Counter[str] = Counter()
    for op, times in trip_counts(body):
        match op:
            case AsyncCopy():
                found["copy"] += times
            case Load() if kernel.tile.buffers[op.source].scope == "global":
                found["load"] += times
            case MatrixLoad():
                found["read"] += times
            case MatrixMultiply():
                found["product"] += times
            case Let():
                found["index"] += times
            case _:
                continue
    return found


def _compiled(kernel: Kernel, kept: Kept) -> Compiled:
    """Registers, spills and code of a kernel by NVRTC, once for each text."""
    name = digest("compiled", kernel.source.text, ARCHITECTURE, nvrtc_version() or "", _includes())
    known = kept.get(name)
    if known is None:
        found = engine.nvrtc(kernel, ARCHITECTURE)
        known = (found.registers, found.spill_bytes, code_bytes(found.cubin))
        kept.put(name, known)
    return Compiled(*map(int, known))


def _conflicts(row: SuiteRow, knobs: GemmConfig, kept: Kept) -> float:
    """Extra passes of copies and reads for each read of fragments, counted by the emulator in one block.

    Where a tile lies in shared memory depends on its size alone, not on stages; slices share one tile.  The side whose
    elements lie along the depth (rows of a product, columns of a convolution) is read alike by all warps along it.
    """
    (rows, columns, depth), part = knobs.block, knobs.part
    block = (rows, part[1], depth) if row.operator == "conv" else (part[0], columns, depth)
    tile = GemmConfig(block, part)
    name = digest("conflicts", row.operator, str(tile), _code_generator())
    known = kept.get(name)
    if known is None:
        reads, conflicts, copies = counted(row, tile)
        known = (reads, conflicts, copies)
        kept.put(name, known)
    reads, conflicts, copies = known
    return (conflicts + copies) / reads if reads else 0.0


@cache
def _includes() -> str:
    return digest_of_files((ROOT / "tile" / "include").glob("*.cuh"))


@cache
def _code_generator() -> str:
    return digest_of_files(file for name in ("kernels", "tile") for file in (ROOT / name).rglob("*.py"))


def code_bytes(cubin: bytes) -> int:
    """Bytes of instructions in an ELF file of machine code."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<II16xQQ", cubin, sections + n * size) for n in range(count)]
    text = headers[names][2]
    return sum(length for name, _, _, length in headers if cubin[text + name :].startswith(b".text."))


def truth(
    operator: Operator, programs: Sequence[Program], store: Path, processes: int, seed: int = 0
) -> Iterator[tuple[Program, Timing | Failure]]:
    """The device's time of every program, in their order, as they come."""
    chunks = [programs[n : n + CHUNK] for n in range(0, len(programs), CHUNK)]
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(processes, None, _begin, (scratch,)) as pool:
        launched = pool.map(partial(_launches, operator.row.name, operator.is_quick, store), chunks)
        for chunk, launches in zip(chunks, launched, strict=True):
            for program, launch in zip(chunk, launches, strict=True):
                yield program, launch if isinstance(launch, Failure) else run(launch, seed)


def _begin(scratch: str) -> None:
    """A process keeps machine code for as long as it runs: figures are all that is needed of it."""
    os.environ["LOOMSCOPE_CACHE"] = scratch


@cache
def _kept(path: Path) -> Kept:
    return Kept(path)


def _launches(name: str, is_quick: bool, store: Path, programs: Sequence[Program]) -> list[Launch | Failure]:
    operator = operator_of(name, is_quick)
    return [operator.launch(program, _kept(store)) for program in programs]
