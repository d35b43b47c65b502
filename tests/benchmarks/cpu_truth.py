"""Spaces of products that are measured whole on this CPU: every program compiled, executed, compared and timed.

    python -m tests.benchmarks.cpu --brute-force FOLDER [--minutes 3] [--only ROW]

FOLDER keeps the libraries and what has been measured, so that a run that is ended goes on with the next one; a space
whose programs all have their times is written as resources/measurements/DATE-cpu-ROW.json (see cpu_records.py).
Programs are measured in random order, in three rounds, a few between two looks at a reference: the default program.
A group whose reference is more than 5 % off the median of all of them is measured again.
"""

from __future__ import annotations

import ctypes
import json
import random
import re
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

import engine
from engine.cpu.nodes import CpuKernel
from engine.cpu.space import ProductPrograms
from engine.execution.emulate.build import build_files, require_compiler
from engine.execution.native.build import INCLUDE, flags_of
from engine.execution.reference import input_values
from engine.kernels.space import Program, Task
from engine.tuning.problem import SearchProblem, problem
from tests.benchmarks.cpu_models import Row, rows
from tests.benchmarks.cpu_side_by_side import aligned

T = TypeVar("T")
SPACES = ("gemm-256x1024x256", "conv2d-C6-b1", "conv2d-C3-b1-int8")
"""Rows of the benchmark whose spaces are measured whole."""
TOGETHER = 64
"""Programs of a library: most of what the compiler does for one is to read headers."""
WORKERS = 2
BLOCKS = r"^constexpr i64 (?:ROW_BLOCK|AHEAD|DEPTH_BLOCK) .*\n"
"""Lines of a text that only its loops read, but for AHEAD, which follows from the others."""
PACKING = r"^static (?:LOOM )?void \w+\([^\n]*\n.*?^}\n"
"""Its functions that are no templates: those that pack."""
GROUP, ROUNDS, WARM_UP, SAMPLES = 24, 3, 2, 8
"""Programs between two looks at the reference; rounds, runs before the samples of a round, and samples."""
MOVED = 0.05
"""Share by which the reference may be off."""
ALLOWED = 1e-4
"""Largest difference of float32 results, as a part of the largest one; codes may be one off."""


class WholeSpace:
    """One row's product with all of its programs."""

    def __init__(self, name: str, target: str = "cpu", mapping: str = "") -> None:
        """mapping: of the product; by default that of its kernel."""
        self.row: Row = next(row for row in rows(False) if row.what == name)
        with tempfile.TemporaryDirectory() as folder:
            self.row.write(Path(folder) / "model.onnx")
            self.graph = engine.load(Path(folder) / "model.onnx")
            self.values = input_values(self.graph, 0)
        plan = engine.fuse(self.graph, target=target)
        found = problem(plan.groups[0], engine.default_recipe(plan))
        assert isinstance(found, SearchProblem)
        self.problem = found
        self.task: Task = next(task for task in found.tasks if not mapping or task.name == mapping)
        template = self.task.template
        assert isinstance(template, ProductPrograms)
        self.template = template
        self.machine = template.kernel.target
        assert found.advised is not None
        self.advised: Program = found.advised

    def kernel(self, program: Program) -> CpuKernel:
        """The kernel of a program."""
        kernel = engine.compile(self.problem.group, self.problem.recipe_of(program))
        assert isinstance(kernel, CpuKernel) and self.template.program_of(kernel) == program, f"{program} not taken"
        return kernel


@dataclass(frozen=True, slots=True)
class Built:
    """A program in a library."""

    program: Program
    prepared: Sequence[int]
    """Bytes of what is prepared for it."""
    library: Path
    entry: str


def build_space(space: WholeSpace, folder: Path) -> list[Built]:
    """The libraries of a space, the default program first; those that a folder has are not made again."""
    place = folder / space.row.what
    place.mkdir(parents=True, exist_ok=True)
    programs = _list_programs(space, place / "programs.json")
    built = [
        Built(program, prepared, place / f"{n // TOGETHER}.so", f"p{n % TOGETHER}_{space.problem.group.program.name}")
        for n, (program, prepared) in enumerate(programs)
    ]
    missing = [chunk for chunk in in_groups(built, TOGETHER) if not chunk[0].library.is_file()]
    with ThreadPoolExecutor(WORKERS) as workers:
        for done, _ in enumerate(workers.map(lambda chunk: _build(space, chunk), missing), 1):
            if done % 20 == 0:
                print(f"{space.row.what}: {done} of {len(missing)} libraries", flush=True)
    return built


def _list_programs(space: WholeSpace, path: Path) -> list[tuple[Program, Sequence[int]]]:
    """All programs, the default one first and those with one tile together, with what is prepared for each."""
    if not path.is_file():
        programs = [program for program in space.template.every() if program != space.advised]
        listed = [(dict(p.values), space.kernel(p).source.prepared) for p in (space.advised, *programs)]
        path.write_text(json.dumps(listed))
    name = space.template.name
    return [(Program(name, tuple(values.items())), sizes) for values, sizes in json.loads(path.read_text())]


def in_groups(values: Sequence[T], size: int) -> list[Sequence[T]]:
    """Parts of some values, each of a size but the last one."""
    return [values[first : first + size] for first in range(0, len(values), size)]


def _build(space: WholeSpace, chunk: Sequence[Built]) -> None:
    """One library: what programs have in common once, the rest of each in a namespace of its own.

    Only the loops of a program know its blocks: tiles that have the same text and constants are the same functions.
    What packs is not shared, for the compiler makes it part of a loop that alone calls it.
    """
    includes, texts, path = dict[str, None](), dict[str, list[str]](), chunk[0].library
    for one in chunk:
        source = space.kernel(one.program).source
        text = re.sub(rf"\b(call_|prepare_|){source.entry}\b", rf"\1{one.entry}", source.text)
        head, body = re.split('^(?=extern "C")', text, maxsplit=1, flags=re.MULTILINE)
        includes |= dict.fromkeys(re.findall("^#include .*$", head, re.MULTILINE))
        own = "".join([*re.findall(BLOCKS, head, re.MULTILINE), *re.findall(PACKING, head, re.MULTILINE | re.DOTALL)])
        ahead = -(-space.machine.lanes * one.program.number("vectors") // one.program.number("tiles"))
        common = re.sub(f"^#include .*$|^// .*$|{BLOCKS}", "", head, flags=re.MULTILINE)
        common = re.sub(PACKING, "", common, flags=re.MULTILINE | re.DOTALL)
        texts.setdefault(f"constexpr i64 AHEAD = {ahead};\n{common}", []).append(f"{own}\n{body}")
    parts = []
    for number, (common, bodies) in enumerate(texts.items()):
        own = "\n".join(f"namespace n{at} {{\n{body}}}" for at, body in enumerate(bodies))
        parts.append(f"namespace common{number} {{\n{common}\n{own}\n}}")
    kernel, made = path.with_suffix(".cpp"), f"new-{path.name}"
    kernel.write_text("\n".join([*includes, *parts]))
    command = [require_compiler(), *flags_of(space.machine), f"-I{INCLUDE}", str(kernel), "-o", made]
    build_files(command, path.parent, [made])
    (path.parent / made).rename(path)
    kernel.unlink()


class Bench:
    """The buffers of a row, and the time of a program on them."""

    def __init__(self, space: WholeSpace) -> None:
        kernel = space.kernel(space.advised)
        values = space.values
        own = kernel.group.instances[0]
        self._memory = []
        for buffer in kernel.source.buffers:
            name = own.arrays[buffer.array]
            memory = aligned(space.graph.tensors[name].bytes)
            if name in values:
                memory[:] = np.ascontiguousarray(values[name]).reshape(-1).view(np.uint8)
            self._memory.append(memory)
            if buffer.written:
                self._result, self._dtype = memory, space.graph.tensors[name].dtype
        self._expected: np.ndarray | None = None

    def samples(self, built: Built) -> list[float]:
        """Microseconds of processor time of some runs, caches warm.  The result is compared with the first one's."""
        loaded = ctypes.CDLL(str(built.library))
        prepared = [aligned(size) for size in built.prepared]
        places = [memory.ctypes.data for memory in (*self._memory, *prepared)]
        pointers = (ctypes.c_void_p * len(places))(*places)
        if prepared:
            getattr(loaded, f"prepare_{built.entry}")(pointers)
        call = getattr(loaded, f"call_{built.entry}")
        call.restype = None
        self._result[:] = 0xFF
        for _ in range(WARM_UP):
            call(pointers)
        self._compare(built.program)
        found = []
        for _ in range(SAMPLES):
            begin = time.thread_time_ns()
            call(pointers)
            found.append((time.thread_time_ns() - begin) / 1e3)
        return found

    def _compare(self, program: Program) -> None:
        result = self._result.view(self._dtype)
        if self._expected is None:
            self._expected = result.copy()
        elif result.dtype.kind == "f":
            off = np.abs(result - self._expected).max() / np.abs(self._expected).max()
            assert off <= ALLOWED, f"{program}: off by {off:.1e}"
        else:
            off = np.abs(result.astype(int) - self._expected.astype(int)).max()
            assert off <= 1, f"{program}: off by {off} codes"


@dataclass(frozen=True, slots=True)
class Group:
    """Samples of some programs in one round, in microseconds, between two looks at the reference."""

    round: int
    samples: dict[int, list[float]]
    """By the program's number."""
    before: float
    after: float


def measure_space(
    space: WholeSpace, built: Sequence[Built], folder: Path, seconds: float
) -> tuple[list[Group], int] | None:
    """All groups that stand, and how many do not; None where there was not time for all of them."""
    end, bench, path = time.perf_counter() + seconds, Bench(space), folder / space.row.what / "groups.jsonl"
    groups = [_read_group(line) for line in path.read_text().splitlines()] if path.is_file() else []
    with path.open("a") as file:
        while todo := _todo(groups, len(built)):
            before = median(bench.samples(built[0]))
            for number, chunk in todo:
                if time.perf_counter() > end:
                    return None
                samples = {at: bench.samples(built[at]) for at in chunk}
                after = median(bench.samples(built[0]))
                groups.append(Group(number, samples, before, after))
                print(json.dumps([number, samples, round(before, 2), round(after, 2)]), file=file, flush=True)
                before = after
    found = standing(groups)
    return found, len(groups) - len(found)


def _read_group(line: str) -> Group:
    number, samples, before, after = json.loads(line)
    return Group(number, {int(at): times for at, times in samples.items()}, before, after)


def standing(groups: Sequence[Group]) -> list[Group]:
    """Groups whose references are near the median of all."""
    if not groups:
        return []
    usual = median([look for group in groups for look in (group.before, group.after)])
    return [group for group in groups if all(abs(look / usual - 1) <= MOVED for look in (group.before, group.after))]


def _todo(groups: Sequence[Group], count: int) -> list[tuple[int, Sequence[int]]]:
    """(round, programs) of groups that are missing, in the order of the rounds."""
    done = {(group.round, at) for group in standing(groups) for at in group.samples}
    found = []
    for number in range(ROUNDS):
        left = [at for at in range(count) if (number, at) not in done]
        random.Random(len(groups)).shuffle(left)
        found += [(number, chunk) for chunk in in_groups(left, GROUP)]
    return found
