"""A regression gate without a GPU: counts of a model's kernels, saved and compared.

Counts come from emulated launches and from the compiler's own account: sectors of global memory, bank conflicts,
registers, spills, launches.  None of them is a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.emulate.emulate import emulate
from engine.execution.nvrtc import compile_cuda, nvrtc_version
from engine.explore.addresses import dummy_inputs
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.kernels.nodes import Kernel
from engine.support.budgets import MAX_COUNTED_BYTES
from engine.support.errors import BadInput, EngineError
from engine.support.files import read_json, write_whole
from engine.support.serialization import from_json, to_json
from engine.target import ARCHITECTURES
from engine.verify.kernel import sample_blocks
from engine.verify.values import group_values

FORMAT, VERSION = "loomscope-baseline", 1
WHOLE = ""
"""The group's name in changes of the whole model."""
COUNTED = ("sectors", "conflicts")
COMPILED = tuple(f"{what} {name}" for name in ARCHITECTURES for what in ("registers", "spill bytes"))


class WrongKernel(EngineError):
    """A kernel with findings of the emulator; its cost is not recorded."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Counts of one group; less is better in every figure."""

    kernels: int
    """Launches of the group in the model."""
    launch: Mapping[str, int]
    """Figure -> of one launch: "sectors" of 32 bytes and "conflicts" of shared memory, scaled from the blocks that ran
    to all blocks; "registers sm_80" of one thread, "spill bytes sm_80" and so on."""
    counted: str
    """Which blocks ran ("8 of 8"), or why none did."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The figures of a model's kernels, as a file keeps them."""

    model: str
    target: str
    dimensions: Mapping[str, int]
    compiler: str
    """Version of NVRTC: registers and spills are only compared between equal ones."""
    groups: Mapping[str, GroupFigures] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Group -> why it has no kernel."""

    @property
    def whole(self) -> dict[str, int]:
        """Figures of the model: what all launches add up to."""
        rows = self.groups.values()
        totals = {name: sum(row.kernels * row.launch.get(name, 0) for row in rows) for name in COUNTED}
        return {"kernels": sum(row.kernels for row in rows), "groups without a kernel": len(self.unsupported), **totals}


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure that differs from the baseline; None where one side lacks it."""

    group: str
    """"" for the whole model."""
    figure: str
    before: int | None
    after: int | None
    worse: bool


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A model against its baseline."""

    changes: tuple[FigureChange, ...]
    notes: tuple[str, ...]
    """What could not be compared, and why."""

    @property
    def regressions(self) -> tuple[FigureChange, ...]:
        """The changes that fail the gate."""
        return tuple(change for change in self.changes if change.worse)


def take(
    plan: FusionPlan,
    kernels: Iterable[tuple[FusionGroup, AnyKernel | EngineError]],
    target: str,
    dimensions: Mapping[str, int] | None = None,
) -> Baseline:
    """Count and compile every kernel.

    Raises MissingCapability without a C++ compiler or NVRTC, WrongKernel for one that the emulator finds at fault.
    """
    groups: dict[str, GroupFigures] = {}
    unsupported = dict(plan.unsupported)
    for group, kernel in kernels:
        if isinstance(kernel, CpuKernel):
            reason = f"counts what kernels for GPUs ask of memory, {target} is a CPU"
            raise BadInput("baseline", group.name, reason, "name a GPU, or compare times: `loomscope measure --json`")
        if isinstance(kernel, EngineError):
            unsupported[group.name] = kernel.reason
        else:
            groups[group.name] = figures(kernel)
    return Baseline(plan.graph, target, dict(dimensions or {}), nvrtc_version() or "", groups, unsupported)


def figures(kernel: Kernel) -> GroupFigures:
    """The figures of one kernel.  Raises as `take` does."""
    counts, counted = _counts(kernel)
    compiled: dict[str, int] = {}
    for architecture in ARCHITECTURES:
        found = compile_cuda(kernel.source.text, architecture)
        compiled |= {f"registers {architecture}": found.registers, f"spill bytes {architecture}": found.spill_bytes}
    return GroupFigures(len(kernel.group.instances), {**counts, **compiled}, counted)


def _counts(kernel: Kernel) -> tuple[dict[str, int], str]:
    """Sectors and conflicts of one launch, and which blocks they were counted in."""
    size = sum(array.bytes for array in kernel.group.program.arrays.values())
    if size > MAX_COUNTED_BYTES:
        return {}, f"its arrays are {size / 2**30:.1f} GiB: no block ran"
    values = dummy_inputs(kernel)
    if values is None:
        expected, before = group_values(kernel.group)
        values = {**expected, **before}
    given = {b.array: values[b.array].reshape(-1) for b in kernel.source.buffers if b.read}
    run, _, _ = emulate(kernel.source, given, blocks=sample_blocks(kernel))
    if run.findings:
        finding = run.findings[0]
        raise WrongKernel("run", kernel.group.name, finding.message, "`loomscope verify` says more")
    scale = run.blocks_total / run.blocks_run
    totals = {name: round(sum(getattr(count, name) for count in run.counts) * scale) for name in COUNTED}
    return totals, f"{run.blocks_run:,} of {run.blocks_total:,}"


def compare(before: Baseline, after: Baseline, tolerance: float = 0.0) -> BaselineComparison:
    """Compare a model's figures with its baseline.  tolerance: allowed growth, as a part of the old figure.

    Raises BadInput for baselines of two models, targets or sizes.
    """
    for what, a, b in (
        ("model", before.model, after.model),
        ("target", before.target, after.target),
        ("dimensions", dict(before.dimensions), dict(after.dimensions)),
    ):
        if a != b:
            raise BadInput("gate", "the baseline", f"is of another {what}: {a}, not {b}", "take a new one")
    same_compiler = before.compiler == after.compiler
    changes = [*_changes(WHOLE, before.whole, after.whole, tolerance)]
    for name in dict.fromkeys((*before.groups, *after.groups)):
        old, new = before.groups.get(name), after.groups.get(name)
        if old is None or new is None:
            launches = [None if one is None else one.kernels for one in (old, new)]
            changes.append(FigureChange(name, "kernels", launches[0], launches[1], False))
            continue
        skipped = () if same_compiler else COMPILED
        pair = [{"kernels": f.kernels} | {k: v for k, v in f.launch.items() if k not in skipped} for f in (old, new)]
        changes += _changes(name, pair[0], pair[1], tolerance)
    return BaselineComparison(tuple(changes), tuple(_notes(before, after)))


def _changes(
    group: str, before: Mapping[str, int], after: Mapping[str, int], tolerance: float
) -> Iterator[FigureChange]:
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a != b:
            yield FigureChange(group, name, a, b, a is not None and b is not None and b > a * (1 + tolerance))


def _notes(before: Baseline, after: Baseline) -> Iterator[str]:
    if before.compiler != after.compiler:
        versions = f"by NVRTC {before.compiler or '?'} then, by {after.compiler or '?'} now"
        yield f"registers and spills are not compared: compiled {versions}"
    for name, now in after.groups.items():
        old = before.groups.get(name)
        if old is None:
            yield f"{name}: not in the baseline; only the model's totals speak of it"
        elif old.launch.keys() != now.launch.keys():
            yield f"{name}: counted in {old.counted} blocks then, in {now.counted} now"


def read_baseline(path: str | Path) -> Baseline:
    """A baseline from its file.  Raises BadInput for another kind of file or a newer version."""
    data = read_json(path, "gate", "write one with `loomscope baseline`")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise BadInput("gate", str(path), "is no baseline", "write one with `loomscope baseline`")
    if data.get("version") != VERSION:
        reason = f"is of version {data.get('version')}; this program reads {VERSION}"
        raise BadInput("gate", str(path), reason, "take a new one with `loomscope baseline`")
    try:
        return from_json(Baseline, {key: value for key, value in data.items() if key not in ("format", "version")})
    except BadInput as error:
        raise BadInput("gate", f"{path}, {error.subject}", error.reason, error.hint) from None


def write_baseline(baseline: Baseline, path: str | Path) -> None:
    """Write a baseline.  Raises BadInput where the file cannot be written."""
    plain = to_json(baseline)
    assert isinstance(plain, dict)
    text = json.dumps({"format": FORMAT, "version": VERSION, **plain}, indent=1, ensure_ascii=False)
    write_whole(path, text + "\n", "gate")
