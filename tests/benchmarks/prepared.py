"""The kernels of a row as files: compiled where there is time, run where there is a GPU.

    python -m tests.benchmarks.prepared --suite memory --suite alcop -o prepared

One JSON file a row, and a `.cubin` file a kernel beside it; what was there is written anew, as the compiler may have
changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import engine
from engine.execution.nvrtc import nvrtc_version
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import DTYPES, OperatorGraph
from engine.measurements import Launched
from engine.recipe import Recipe
from engine.suite import read_suite, suite_names
from engine.support.errors import BadInput, EngineError
from engine.support.serialization import from_json, to_json
from engine.target import target as target_of
from engine.tile.source import GlobalWorkspace, Parameter


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """One kernel, compiled."""

    text: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    launched: Launched
    """As the model of times sees it; its count is that of the whole row."""
    workspaces: tuple[GlobalWorkspace, ...] = ()
    """Pointers after those of the parameters."""


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """One launch, in order."""

    group: str
    operands: tuple[tuple[str, int], ...]
    """Of each parameter: the tensor, and the first byte in it."""


@dataclass(frozen=True, slots=True)
class Between:
    """A tensor that only kernels see."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a row's run needs besides its inputs, its outputs and its machine code."""

    row: str
    target: str
    compiler: str
    """NVRTC's version."""
    kernels: Mapping[str, PreparedKernel]
    launches: tuple[PreparedLaunch, ...]
    between: Mapping[str, Between]
    unsupported: Mapping[str, str]
    """Group or operator -> why it has no kernel: the row then has no time of ours."""


Code = Mapping[str, bytes]
"""Group -> machine code."""


def prepare(reference: str, target: str, recipe: Recipe | None = None) -> tuple[Prepared, Code]:
    """Compile a row, by the advisers' recipe where none is given.  Raises BadInput for a row that there is not."""
    graph = engine.load(reference)
    plan = engine.fuse(graph, target=target)
    kernels: dict[str, PreparedKernel] = {}
    code: dict[str, bytes] = {}
    unsupported = dict(plan.unsupported)
    for group in plan.groups:
        try:
            kernel = engine.compile(group, recipe or engine.default_recipe(group, target))
        except EngineError as error:
            unsupported[group.name] = error.reason
            continue
        source = kernel.source
        if source.later:
            unsupported[group.name] = f"its kernel is {len(source.launches)} launches, one is prepared"
            continue
        grid, block = tuple(source.grid), tuple(source.block)
        launched = engine.launch_record(kernel, len(group.instances))
        kernels[group.name] = PreparedKernel(
            source.text, source.entry, grid, block, source.shared_bytes, source.buffers, launched, source.workspaces
        )
        code[group.name] = engine.nvrtc(kernel, target_of(target).architecture).cubin
    launches = tuple(_launches(plan, kernels)) if not unsupported else ()
    made = Prepared(reference, target, nvrtc_version() or "", kernels, launches, _between(plan, graph), unsupported)
    return made, code


def _launches(plan: FusionPlan, kernels: Mapping[str, PreparedKernel]) -> list[PreparedLaunch]:
    found = []
    for launch in plan.launches:
        own = plan.group(launch.group).instances[launch.instance]
        operands = []
        for parameter in kernels[launch.group].parameters:
            part = own.parts.get(parameter.array)
            first = part.first * DTYPES[parameter.dtype] if part else 0
            operands.append((own.arrays[parameter.array], first))
        found.append(PreparedLaunch(launch.group, tuple(operands)))
    return found


def _between(plan: FusionPlan, graph: OperatorGraph) -> dict[str, Between]:
    """Tensors that are neither inputs nor outputs nor constants of the row."""
    found: dict[str, Between] = {}
    outside = {*graph.inputs, *graph.outputs, *graph.constants}
    for group in plan.groups:
        for instance in group.instances:
            for array in (*group.program.inputs, *group.program.outputs):
                name = instance.arrays[array]
                if name not in outside:
                    like = graph.tensors.get(name) or group.program.arrays[array]
                    found.setdefault(name, Between(like.dtype, tuple(like.shape)))
    return found


def write(prepared: Prepared, code: Code, folder: Path) -> None:
    """Keep a row's kernels."""
    base = _base(prepared.row, folder)
    base.parent.mkdir(parents=True, exist_ok=True)
    for group, binary in code.items():
        base.with_name(f"{base.name}.{group}.{prepared.target}.cubin").write_bytes(binary)
    # Last: where the row's own file is, everything is.
    base.with_name(f"{base.name}.{prepared.target}.json").write_text(json.dumps(to_json(prepared)), encoding="utf-8")


def read(reference: str, target: str, folder: Path) -> tuple[Prepared, Code] | None:
    """What `write` kept; None where the row was not prepared for the target.  Raises BadInput for a broken file."""
    base = _base(reference, folder)
    path = base.with_name(f"{base.name}.{target}.json")
    if not path.is_file():
        return None
    try:
        found = from_json(Prepared, json.loads(path.read_text(encoding="utf-8")))
        code = {g: base.with_name(f"{base.name}.{g}.{target}.cubin").read_bytes() for g in found.kernels}
    except (OSError, ValueError) as error:
        raise BadInput("benchmark", str(path), f"is broken: {error}", "prepare the row again") from error
    return found, code


def _base(reference: str, folder: Path) -> Path:
    suite, _, row = reference.removeprefix("suite:").partition("/")
    return folder / suite / row


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare suites; 0, also where some rows have no kernel."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.prepared", description=__doc__)
    parser.add_argument("--suite", action="append", choices=suite_names(), help="all where none is named")
    parser.add_argument("--target", default="h200")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    for name in options.suite or suite_names():
        suite = read_suite(name)
        for row in suite.rows:
            reference = suite.reference(row)
            prepared, code = prepare(reference, options.target)
            write(prepared, code, options.output)
            told = "; ".join(f"{group}: {why}" for group, why in prepared.unsupported.items())
            print(f"{reference}: {told or f'{len(code)} kernels, {sum(map(len, code.values())):,} bytes'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
