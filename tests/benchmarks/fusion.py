"""Kernels without a product and their bytes under three policies: `python -m tests.benchmarks.fusion [--json FILE]`.

Folding of layouts, and what matrix products and convolutions take in, are the same in all policies; in ours alone are
images stored channels last, and the parts of nested concatenations written where they end up.  Every kernel counts
that multiplies nothing.  `xla` counts what XLA's rules ask for, `xla made` the kernels that our code generator makes
of that.  `stitch` counts the kernels of the plan that the policy makes, where attention is one kernel with a matrix
product; `no attention` those of stitching alone, whose products are the other policies'.  The paper that stitching is
from has neither attention nor packing: compare `nor packing` with it.  Times are predicted by the accurate latency
model, uncalibrated; seconds are processor time of the whole exploration.  Means are over models with at least 20
memory-bound kernels under xla.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

import engine
from engine.compilation import default_microseconds
from engine.fusion.anchors import is_product
from engine.fusion.attention_groups import with_attention
from engine.fusion.concat_fusion import join_concatenations
from engine.fusion.operator_folding import fold_layouts
from engine.fusion.partition import FusionRequest, Partition, partition
from engine.fusion.plan import fold_program
from engine.fusion.stitching.dataflow import Flow, FlowStep
from engine.fusion.stitching.nodes import NONE, STITCH, XLA, CandidateKernel, Fixed
from engine.fusion.stitching.search import accurate
from engine.fusion.stitching.xla_rules import xla_kernels
from engine.support.garbage_collection import cycles_left_alone
from engine.target import target
from engine.tensor.lower import lower_supported
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes
from tests.benchmarks import report
from tests.support import large_models

MODELS = Path(__file__).parents[3] / "shared" / "models"
FEWEST = 20
"""Memory-bound kernels under xla from which on a model counts."""
GOALS = {"kernels_over_xla": 0.40, "bytes_over_xla": 0.60, "models_above_xla_bytes": 0, "seconds_8063": 10.0}
"""The most that each may be."""
LARGEST = "gpt2_48l_ts13_b1_s64"
"""The graph of 8,063 nodes."""
SIZES = (2_000, 4_000, 8_000)
"""Operators of the encoders that the growth is measured on."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The kernels of one plan that multiply nothing."""

    kernels: int
    bytes: int
    microseconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """One model under the policies."""

    model: str
    statements: int
    none: Counted
    xla: Counted
    xla_made: Counted
    stitch: Counted
    alone: Counted
    """Without attention."""
    unpacked: Counted
    """Without attention and packing."""

    @property
    def counts(self) -> bool:
        """Whether the model is part of the means."""
        return self.xla.kernels >= FEWEST


def main(arguments: Sequence[str] | None = None) -> None:
    """Explore every model, print the table, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fusion", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("models", nargs="*", type=Path, help="files (default: all under ../shared/models)")
    options = parser.parse_args(arguments)
    paths = options.models or sorted(MODELS.glob("*.onnx"))
    progress = track(paths, "Exploring", console=Console(stderr=True), transient=True)
    rows = [measured(path) for path in progress]
    grown = () if options.models else growth()
    figures = summary(rows, grown)
    show(rows, figures)
    if options.json:
        report.write(options.json, "fusion", report.environment("numpy", "onnx"), [plain(row) for row in rows], figures)


def measured(path: Path) -> Row:
    """One model under all policies."""
    graph = engine.load(path)
    lowered, unsupported = lower_supported(graph)
    plain = join_concatenations(fold_layouts(lowered, graph.constants)).program
    own = fold_program(lowered, graph).program
    left_out = [op for op in graph.operators if op.name in unsupported]

    def explored(policy: str, packing: bool = True, attention: bool = False) -> tuple[Partition, float]:
        program = own if policy == STITCH else plain
        start = time.process_time()
        with cycles_left_alone():  # as `engine.fuse` does
            request = FusionRequest(policy, target("h200"), default_microseconds, packing=packing)
            found = partition(program, left_out, request)
            if attention:
                found = with_attention(found, found.program, Fixed())
        return found, time.process_time() - start

    made = explored(XLA)
    return Row(
        model=path.stem,
        statements=len(plain.statements),
        none=_counted(*explored(NONE)),
        xla=_by_rule(made[0].chosen.graph.flow, made[1]),
        xla_made=_counted(*made),
        stitch=_counted(*explored(STITCH, attention=True)),
        alone=_counted(*explored(STITCH)),
        unpacked=_counted(*explored(STITCH, packing=False)),
    )


def _counted(found: Partition, seconds: float) -> Counted:
    graph, assessor = found.chosen.graph, found.chosen.assessor
    groups = zip(found.numbers, found.groups, strict=True)
    kernels = [graph.kernels[n] for n, (statements, _) in groups if not any(map(is_product, statements))]
    spent = sum(accurate(assessor, k) for k in kernels)
    return Counted(len(kernels), sum(moved(graph.flow, k) for k in kernels), spent, seconds)


def _by_rule(flow: Flow, seconds: float) -> Counted:
    """What the rules ask for, whether or not our code generator makes it."""
    whole = with_whole_arrays(flow)
    kernels = [k for k in xla_kernels(whole) if not k.closed]
    return Counted(len(kernels), sum(moved(whole, k) for k in kernels), float("nan"), seconds)


def with_whole_arrays(flow: Flow) -> Flow:
    """The flow with all parts of an array made in one step, as a concatenation is one operation to XLA."""
    joined: dict[frozenset[str], list[FlowStep]] = {}
    for step in flow.steps:
        joined.setdefault(step.made if not step.closed else frozenset((f"{id(step)}",)), []).append(step)
    steps = [
        parts[0] if len(parts) == 1 else FlowStep(
            tuple(s for part in parts for s in part.statements), frozenset().union(*(p.reads for p in parts)), made
        )
        for made, parts in joined.items()
    ]  # fmt: skip
    place = {s.name: n for n, s in enumerate(flow.program.statements)}

    def last(step: FlowStep) -> int:
        return max((place[s.name] for s in step.statements), default=len(place))

    return Flow(flow.program, sorted(steps, key=last))


def moved(flow: Flow, kernel: CandidateKernel) -> int:
    """Bytes that a kernel must read and write in global memory."""
    statements = flow.statements(kernel.members)
    made = dict.fromkeys(s.write.array for s in statements)
    outside = dict.fromkeys(a.array for s in statements for a in s.reads() if a.array not in made)
    kept = {array for root in kernel.roots for array in flow.steps[root].made}
    outputs = tuple(array for array in made if array in kept)
    return sum(compulsory_bytes(TensorProgram("", flow.program.arrays, statements, tuple(outside), outputs)))


def growth() -> list[tuple[int, float]]:
    """(statements, seconds of the stitch policy) for encoders of growing size."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for operators in SIZES:
            model = large_models.layers(operators)
            model.save(Path(folder))
            row = measured(next(Path(folder).glob(f"*{operators}.onnx")))
            found.append((row.statements, row.stitch.seconds))
    return found


def summary(rows: Sequence[Row], grown: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """The figures that the goals name."""
    counted = [row for row in rows if row.counts]
    largest = next((row for row in rows if row.model == LARGEST), None)
    return {
        "models": len(rows),
        "models_counted": len(counted),
        "kernels_over_xla": _mean([row.stitch.kernels / row.xla.kernels for row in counted]),
        "kernels_over_xla_without_attention": _mean([row.alone.kernels / row.xla.kernels for row in counted]),
        "kernels_over_xla_paper": _mean([row.unpacked.kernels / row.xla.kernels for row in counted]),
        "kernels_over_xla_all": _over([row.stitch.kernels for row in counted], [row.xla.kernels for row in counted]),
        "bytes_over_xla": _mean([row.stitch.bytes / row.xla.bytes for row in counted]),
        "bytes_over_xla_without_attention": _mean([row.alone.bytes / row.xla.bytes for row in counted]),
        "bytes_over_xla_paper": _mean([row.unpacked.bytes / row.xla.bytes for row in counted]),
        "models_above_xla_bytes": sum(row.stitch.bytes > row.xla.bytes for row in rows),
        "seconds_8063": round(largest.stitch.seconds, 2) if largest else None,
        "growth": [
            {"statements": statements, "seconds": round(seconds, 3),
             "microseconds_a_statement": round(seconds / statements * 1e6, 1)}
            for statements, seconds in grown
        ],
        "goals": GOALS,
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    return round(mean(values), 3) if values else None


def _over(some: Sequence[int], others: Sequence[int]) -> float | None:
    return round(sum(some) / sum(others), 3) if others else None


def plain(row: Row) -> dict[str, Any]:
    """A row of the document."""
    policies = ("none", "xla", "xla_made", "stitch", "alone", "unpacked")
    found: dict[str, Any] = {"model": row.model, "statements": row.statements, "counted": row.counts}
    for name in policies:
        one: Counted = getattr(row, name)
        found[name] = {"kernels": one.kernels, "bytes": one.bytes, "seconds": round(one.seconds, 3)}
        if name != "xla":
            found[name]["predicted_microseconds"] = round(one.microseconds, 2)
    return found


def show(rows: Sequence[Row], figures: Mapping[str, Any]) -> None:
    """The table, and the goals with what was reached."""
    columns = ("model", "none", "xla", "xla made", "stitch", "no attention", "nor packing", "ratio", "MB xla",
               "MB stitch", "ratio", "µs xla made", "µs stitch", "seconds")  # fmt: skip
    table = Table(*columns, box=SIMPLE_HEAD, caption="kernels without a product; * is not part of the means")
    for row in rows:
        table.add_row(
            row.model + ("" if row.counts else " *"),
            *(str(one.kernels) for one in (row.none, row.xla, row.xla_made, row.stitch, row.alone, row.unpacked)),
            f"{row.stitch.kernels / max(1, row.xla.kernels):.2f}",
            f"{row.xla.bytes / 1e6:,.2f}",
            f"{row.stitch.bytes / 1e6:,.2f}",
            f"{row.stitch.bytes / max(1, row.xla.bytes):.2f}",
            f"{row.xla_made.microseconds:,.1f}",
            f"{row.stitch.microseconds:,.1f}",
            f"{row.stitch.seconds:.2f}",
        )
    console = Console(width=170)
    console.print(table)
    for name, goal in figures["goals"].items():
        console.print(f"{name:22} {figures[name]}  (goal: at most {goal})")
    console.print(f"without attention    {figures['kernels_over_xla_without_attention']} of the kernels, "
                  f"{figures['bytes_over_xla_without_attention']} of the bytes")  # fmt: skip
    console.print(f"nor packing          {figures['kernels_over_xla_paper']} of the kernels, "
                  f"{figures['bytes_over_xla_paper']} of the bytes")  # fmt: skip
    for step in figures["growth"]:
        console.print(f"{step['statements']:>8,} statements in {step['seconds']} s")


if __name__ == "__main__":
    main()
