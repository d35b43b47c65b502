"""How near the limit kernels are by what can be known without a GPU: `python -m tests.benchmarks.speed [--only WORD]`.

One line for each figure: what the default kernel has, the goal, and what a peer is known to take, where a published
table has its size.  Times are predicted by the one estimate and divided by the floor: the bytes that must move over the
bandwidth of DRAM, or one launch where that is longer.  Instructions are counted in the machine code (NVRTC,
`nvdisasm`), launches in the plan.  No kernel is measured here; `tests.gpu.measure_all` does that where a GPU is.

Not judged here: tiles and the order of products (`tests.benchmarks.search`, `.published`), kernels and bytes over XLA's
(`.fusion`), causal and backward attention, long rows in one pass.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import engine
from engine.execution.sass import NO_TOOL, disassembler, instruction_mix
from engine.execution.sass.mix import PIPES, SHARED, TENSOR, read_instructions
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.graph.nodes import DTYPES, OperatorGraph
from engine.kernels.nodes import Kernel
from engine.kernels.reduction.config import ReductionConfig
from engine.measurements.published import published_times
from engine.present.machine_code import machine_code
from engine.support.errors import EngineError, Unsupported
from engine.target import target
from engine.target.hardware import WARP
from tests.benchmarks import report
from tests.benchmarks import speed_graphs as graphs
from tests.benchmarks.compile_time import over_before

NAME = "speed"
AKG = Path(__file__).parents[3] / "shared" / "akg"
GPUS = ("a100", "h100")
MICROSECONDS = 1e6
SHORT = (
    "a launch of nothing and the bytes behind it are above the goal, whatever the kernel does; blocks that share a "
    "column add two trips to memory.  Next: measure what the launch of a reduction takes (the ramp is that of products)"
)
"""Why sums of a few megabytes are above their goal."""
COLUMNS = ((100_000, 1024), (8192, 8192), (65_536, 2048), (262_144, 512))
"""Column sums that judge their loads; no figure of the estimate was chosen by them."""
SMALL = (
    "2.0 of it are a launch of nothing, 0.6 the meeting of the blocks that share the sum; the best of its programs has "
    "3.00.  Next: as for sums of a few megabytes, measure what the launch of a reduction takes"
)
"""Why the smallest reductions are above their goal."""
FEW = 2**22
"""Elements of such a sum, at most."""
LSTM_LAUNCHES = 128
"""Of the LSTM of 64 steps on 2026-11-24: two a step, of which the goal is a third."""


COMPILED = (
    "families choose among kernels by the estimate, and fusion among groups, so that texts take about twice as long; "
    "NVRTC takes 0.3 to 0.7 s for each of llama's products, whose tiles are larger than c3aab03's, most of it ptxas on "
    "sums and results that are written out.  Next: pieces of results that need no loads as a loop; products of one "
    "launch that differ in a width, too, written once; what all tiles that share a depth have in common found once"
)
"""Why compiling takes longer."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure of a kernel and what it should be."""

    what: str
    unit: str
    goal: float
    is_most: bool
    """Whether the figure may be smaller, and not larger."""
    figure: Callable[[], tuple[float, str]]
    """The figure, and what a peer takes, "" where nobody published it."""
    why_open: str = ""
    """Why it is not met and what comes next, where that is known."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; `because` says why there is no figure, or why the goal is not met."""

    what: str
    figure: float | None
    goal: float
    unit: str
    met: bool
    peer: str = ""
    because: str = ""


def over_floor(plan: engine.FusionPlan) -> tuple[float, str]:
    """Predicted time of a plan's kernels over the floor of the graph's inputs and outputs."""
    source = plan.source
    assert source is not None
    moved = sum(DTYPES[t.dtype] * math.prod(t.shape) for t in (source.tensors[n] for n in _ends(source)))
    machine = target(plan.target)
    floor = max(moved / machine.dram_bandwidth.value, machine.launch_overhead.value) * MICROSECONDS
    empty = machine.empty_kernel * MICROSECONDS / floor
    least = empty + moved / machine.dram_bandwidth.value * MICROSECONDS / floor
    told = f"one launch takes at least {least:.2f}, {empty:.2f} of it for nothing" if empty > 0.1 else ""
    return sum(_microseconds(group) for group in plan.groups) / floor, "; ".join(filter(None, (told, _peers(plan))))


def _ends(source: OperatorGraph) -> tuple[str, ...]:
    return (*source.inputs, *source.outputs)


def _microseconds(group: FusionGroup) -> float:
    return engine.predict(engine.compile(group)).microseconds * len(group.instances)


def _peers(plan: engine.FusionPlan) -> str:
    """What others measured at this size on a GPU of this kind."""
    found = [time for group in plan.groups for time in published_times(group)]
    return "; ".join(f"{one.who}, {one.device}: {one.microseconds:.1f} us" for one in found[:1])


def worst_reduction() -> tuple[float, str]:
    """The largest time over its floor among the AKG files whose groups reduce and do not multiply; "" and its name."""
    found = []
    for path in sorted(AKG.rglob("*.json")):
        try:
            plan = engine.fuse(engine.load(path), target="a100")
        except EngineError:
            continue  # the folder also holds advice, which is no graph
        statements = [s for group in plan.groups for s in group.program.statements]
        if any(s.reduction for s in statements) and not any(map(is_contraction, statements)) and plan.source:
            found.append((over_floor(plan)[0], path.stem))
    if not found:
        raise Unsupported(NAME, str(AKG), "holds no graph", "lay the shared files beside the repository")
    worst, name = max(found)
    return worst, f"the worst of {len(found)}: {name}"


def _only(plan: engine.FusionPlan) -> Kernel:
    """The kernel of a plan that should have one; the last, which makes the result, of several."""
    return engine.compile(plan.groups[-1])


def an_element(plan: engine.FusionPlan) -> tuple[float, str]:
    """Instructions in the text for each element of the result; those inside loops that stay loops count once."""
    kernel = _only(plan)
    mix = instruction_mix(machine_code(kernel))
    elements = sum(kernel.program.arrays[name].elements for name in kernel.program.outputs)
    threads = sum(launch.blocks * math.prod(launch.block) for launch in kernel.launches)
    return sum(mix.program.values()) * threads / elements, _peers(plan)


def outside_loop(plan: engine.FusionPlan) -> tuple[float, str]:
    """Instructions of a product's kernel before and behind its main loop."""
    mix = instruction_mix(machine_code(_only(plan)))
    return float(sum(mix.program.values()) - sum(mix.loop.values())), ""


def in_loop(plan: engine.FusionPlan, pipe: str, for_each: int, of: str = "") -> tuple[float, str]:
    """Instructions of a pipe in one iteration of the main loop, for so many of another pipe, or of all."""
    loop = instruction_mix(machine_code(_only(plan))).loop
    base = loop.get(of, 0) if of else sum(loop[one] for one in PIPES if one in loop)
    if not base:
        raise Unsupported(NAME, plan.graph, f"has no loop with {of or 'instructions'}", "look at its machine code")
    return for_each * loop.get(pipe, 0) / base, _peers(plan)


def bytes_spilled(plan: engine.FusionPlan) -> tuple[float, str]:
    """Of a thread, stored and loaded."""
    return float(engine.nvrtc(_only(plan), target(plan.target).architecture).spill_bytes), ""


def threads_an_output(plan: engine.FusionPlan) -> tuple[float, str]:
    """Threads that are launched for each element of the result."""
    kernel = _only(plan)
    threads = sum(launch.blocks * math.prod(launch.block) for launch in kernel.launches)
    return threads / sum(kernel.program.arrays[name].elements for name in kernel.program.outputs), ""


def bytes_an_access(plan: engine.FusionPlan) -> tuple[float, str]:
    """Bytes that a thread moves with one instruction from or to global memory."""
    work = _only(plan).facts
    return work.l2_bytes / (work.global_requests * WARP), ""


def under_way(plan: engine.FusionPlan) -> tuple[float, str]:
    """Bytes that all threads wait for at once, over those that DRAM moves in one latency.

    Of a thread, the loads that the first loop of the machine code issues before it first adds: where more follow, each
    waits for an addition, and so for the one that came before.
    """
    kernel, machine = _only(plan), target(plan.target)
    opcodes = [one.opcode for one in read_instructions(machine_code(kernel))[0]]
    begin = opcodes.index("LDG")
    ahead = opcodes[begin : opcodes.index("FADD", begin)].count("LDG")
    layout = kernel.tile.config.layout if isinstance(kernel.tile.config, ReductionConfig) else None
    assert layout is not None, kernel.group.name
    dtype = kernel.program.arrays[kernel.program.inputs[0]].dtype
    (launch,) = kernel.launches
    waited = launch.blocks * math.prod(launch.block) * ahead * layout.vector * DTYPES[dtype]
    return waited / (machine.dram_bandwidth.value * machine.dram_latency.value), ""


def fewest_under_way(gpu: str) -> tuple[float, str]:
    """The least `under_way` of `COLUMNS`, and of which."""
    least, shape = min((under_way(graphs.total(shape, (0,), gpu))[0], shape) for shape in COLUMNS)
    return least, f"the worst of {len(COLUMNS)}: {shape[0]} x {shape[1]}"


def bytes_for_one(plan: engine.FusionPlan) -> tuple[float, str]:
    """Bytes that all blocks ask of L2 for each byte of the inputs; those that blocks exchange are among them."""
    work, source = _only(plan).facts, plan.source
    assert source is not None
    return work.l2_bytes / sum(source.tensors[name].bytes for name in source.inputs), _peers(plan)


def launches(plan: engine.FusionPlan) -> tuple[float, str]:
    """Kernels that a run of the plan launches."""
    if plan.unsupported:
        raise Unsupported(NAME, plan.graph, "; ".join(plan.unsupported.values()), "look at the plan")
    return float(len(plan.launches)), ""


def goals() -> Iterator[Goal]:
    """Every line, in the order of the table."""
    for approximate in ("tanh", "none"):
        yield Goal(f"bias + GELU ({'tanh' if approximate == 'tanh' else 'erf'}) of 8192 x 4096, float16",
                   "instructions an element", 20, True,
                   lambda a=approximate: an_element(graphs.biased_gelu(8192, 4096, "a100", a)))
    yield Goal("softmax of 8192 x 1024, float16", "instructions an element", 20, True,
               lambda: an_element(graphs.normalized("Softmax", 8192, 1024, "a100")))
    yield Goal("layer norm of 8192 x 1024, float16", "instructions an element", 12, True,
               lambda: an_element(graphs.normalized("LayerNormalization", 8192, 1024, "a100")))
    yield Goal("product 4096^3 with bias and GELU, float16", "instructions outside the main loop", 3200, True,
               lambda: outside_loop(graphs.product(4096, "a100", with_gelu=True)))
    yield Goal("product 2048^3, float16", "bytes spilled", 0, True,
               lambda: bytes_spilled(graphs.product(2048, "a100")))
    for gpu in GPUS:
        yield Goal(f"scatter-add of 100,000 rows of 32 to 10,000, {gpu}", "times the floor", 3, True,
                   lambda g=gpu: over_floor(graphs.scattered(10_000, 100_000, 32, g)))
        for shape in ((2**30,), (32768, 4096), (16384, 256), (65536, 32)):
            name = "full sum of 2^30" if len(shape) == 1 else f"column sums of {shape[0]} x {shape[1]}"
            yield Goal(f"{name}, float32, {gpu}", "times the floor", 1.25, True,
                       lambda s=shape, g=gpu: over_floor(graphs.total(s, (0,), g)),
                       SHORT if math.prod(shape) <= FEW else "")
        yield Goal(f"column sums, float32, {gpu}, loads of the machine code",
                   "bytes under way for one of latency times bandwidth", 1, False,
                   lambda g=gpu: fewest_under_way(g))
    yield Goal("reductions of the AKG files, a100", "times the floor", 3, True, worst_reduction, SMALL)
    yield Goal("sum of 4 x 2^20 and what is subtracted from it, float32", "launches", 2, True,
               lambda: launches(graphs.subtracted((4, 2**20), (1,), "a100")))
    yield Goal("add + layer norm of 512 x 16384, float16", "launches", 1, True,
               lambda: launches(graphs.normalized("LayerNormalization", 512, 16384, "a100", adds=True)))
    yield Goal("convolution 3 x 3 with padding, 32 x 64 x 56 x 56, float16", "launches", 1, True,
               lambda: launches(graphs.convolution((32, 64, 56, 56), (64, 64, 3, 3), "a100")))
    yield Goal("the same behind another convolution, main loop", "HMMA in 120 instructions", 32, False,
               lambda: in_loop(graphs.inner_convolution((32, 64, 56, 56), (64, 64, 3, 3), "a100"), TENSOR, 120))
    yield Goal("depthwise 3 x 3, 32 x 144 x 56 x 56, float16", "threads an output", 1.05, True,
               lambda: threads_an_output(graphs.convolution((32, 144, 56, 56), (144, 1, 3, 3), "a100", 144)))
    yield Goal("the same", "times the floor", 1.5, True,
               lambda: over_floor(graphs.convolution((32, 144, 56, 56), (144, 1, 3, 3), "a100", 144)))
    yield Goal("attention of 64 heads x 2048 x 128, float16, main loop", "shared-memory instructions for 128 HMMA", 32,
               True, lambda: in_loop(graphs.attention(4, 16, 2048, 128, "a100"), SHARED, 128, TENSOR))
    yield Goal("one query in each of 32 heads of 128, of which 8 share 4096 keys and values, float16",
               "bytes for one that is read", 1.5, True, lambda: bytes_for_one(graphs.decoded(32, 8, 4096, 128, "a100")))
    yield Goal("queries, keys and values of 512 x 1024, float16", "launches", 1, True,
               lambda: launches(graphs.shared_operand(512, 1024, "a100")))
    yield Goal("gate and up of 256 x 2048 x 5632 with their SwiGLU, float16", "launches", 1, True,
               lambda: launches(graphs.gated(256, 2048, 5632, "a100")))
    yield Goal("transpose of 4096 x 4096, float16", "bytes an access", 16, False,
               lambda: bytes_an_access(graphs.transposed(4096, "a100")))
    yield Goal("LSTM of 64 steps, 16 x 256, float32", "launches", LSTM_LAUNCHES // 3, True,
               lambda: launches(graphs.recurrent(64, 16, 256, "a100")))
    yield Goal("a model from its file to machine code, the worst of three", "times c3aab03's processor time", 1.2, True,
               over_before, COMPILED)


def row_of(goal: Goal) -> Row:
    """The line of a goal; what the engine refuses is told in it."""
    try:
        figure, peer = goal.figure()
    except EngineError as error:
        return Row(goal.what, None, goal.goal, goal.unit, False, because=str(error))
    met = figure <= goal.goal if goal.is_most else figure >= goal.goal
    return Row(goal.what, figure, goal.goal, goal.unit, met, peer, "" if met else goal.why_open)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, write the document; exit code 3 without a disassembler."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="lines that hold this word")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    options = parser.parse_args(arguments)
    if disassembler() is None:
        print(NO_TOOL, file=sys.stderr)
        return 3
    chosen = [goal for goal in goals() if options.only in f"{goal.what} {goal.unit}"]
    if not chosen:
        parser.error(f"no line holds {options.only!r}")
    rows = []
    for goal in chosen:
        row = row_of(goal)
        rows.append(row)
        sign = "at most" if goal.is_most else "at least"
        figure = row.because if row.figure is None else f"{row.figure:.4g}"
        print(f"{'met ' if row.met else 'OPEN'}  {row.what}: {figure} {row.unit}, {sign} {row.goal:g}"
              + (f" ({row.peer})" if row.peer else "")
              + (f"\n      {row.because}" if row.because and row.figure is not None else ""), flush=True)  # fmt: skip
    summary = {"lines": len(rows), "met": sum(row.met for row in rows)}
    counted = "times are predicted, instructions and launches counted"
    print(f"{summary['met']} of {summary['lines']} goals are met; {counted}")
    if options.json:
        report.write(options.json, NAME, report.environment("numpy", "onnx"), [asdict(row) for row in rows], summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
