"""The verbs of the library.  Each is a few lines over the stages.

What only checking, measuring and explaining need is imported when first used.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.compilation import (
    Observer,
    compile_for,
    default_recipe,
    fusion_request,
    predict_kernel,
    schedule_for,
)
from engine.cost.estimate import estimate
from engine.cost.nodes import Prediction
from engine.cpu.estimate import CpuPrediction
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.documents.exploration import WarpDoc
from engine.documents.mappings import MappingsDoc
from engine.documents.pipeline import ChartDoc
from engine.execution.nodes import Check, Compiled, Failure, GpuState, Timing
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.plan import plan
from engine.fusion.stitching.nodes import DEFAULT_POLICY, POLICIES, Fixed
from engine.graph.load import load as _load
from engine.graph.nodes import OperatorGraph
from engine.kernels.nodes import Kernel
from engine.measurements.nodes import Launched
from engine.recipe import Recipe
from engine.scheduling.nodes import Scheduled
from engine.scheduling.text import to_text
from engine.suite import is_reference, model_file
from engine.support.errors import BadInput, EngineError, MissingCapability
from engine.support.garbage_collection import cycles_left_alone
from engine.target import DEFAULT_TARGET
from engine.target.machines import machine as find_machine
from engine.verify.values import group_values, lowering

if TYPE_CHECKING:
    from engine.verify.model import ModelCheck
    from engine.verify.run import Results


def load(path: str | Path, dims: Mapping[str, int] | None = None) -> OperatorGraph:
    """Read a file (ONNX, torch.export, AKG), or a row of a suite, "suite:NAME/ROW".  dims: sizes of open dimensions.

    >>> graph = engine.load("suite:alcop/MM_RN50_FC")
    >>> graph.inputs, graph.outputs
    (('a', 'b'), ('c',))

    Raises BadInput.
    """
    return _load(model_file(str(path)) if is_reference(path) else path, dims)


def fuse(
    graph: OperatorGraph, target: str = DEFAULT_TARGET, policy: str = DEFAULT_POLICY, fixed: Fixed | None = None,
    numerics: Mapping[str, str] | None = None,
) -> FusionPlan:  # fmt: skip
    """Plan the kernels of a graph.  fixed: what a person decided about groups; it stays, and the rest is explored.

    >>> plan = engine.fuse(engine.load("suite:alcop/MM_RN50_FC"), target="a100")
    >>> [group.name for group in plan.groups]
    ['matmul_0']

    target: "a100", "h100", "h200" ..., "cpu" for this machine, or a CPU's name: "zen4", "avx2".
    numerics: how kernels round, as in `Recipe`; by default {"arithmetic": "opmath"} on GPUs where there are 16-bit
    floats: float32 inside a kernel, rounded where a value is stored, functions approximated.

    Raises BadInput for an unknown target or policy, and where a fixed group cannot be one kernel.
    """
    machine = find_machine(target)
    if policy not in POLICIES:
        raise BadInput("fuse", f"policy {policy}", "is not known", f"use one of {', '.join(POLICIES)}")
    with cycles_left_alone():
        program, unsupported = lowering(graph)
        return plan(graph, program, unsupported, fusion_request(program, machine, policy, fixed, numerics))


def schedule(group: FusionGroup, recipe: Recipe | None = None) -> Scheduled:
    """The schedule that `compile` follows under a recipe, the verdict on every entry, and why it is not legal or has no
    kernel; no CUDA text is written.

    >>> group = engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0")
    >>> wish = engine.entry("S0", pin="k", at="outermost", required=True, because="see what it costs")
    >>> found = engine.schedule(group, engine.default_recipe(group).advise("user", wish))
    >>> found.legal, found.verdicts[0].outcome
    (True, 'honoured')

    Raises nothing for a wish that cannot be.
    """
    return schedule_for(group, recipe)


def compile(group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None) -> AnyKernel:
    """From a group to CUDA text, or to C++ where the target is a CPU.

    observe: called with (stage, before, after) as stages finish.

    >>> kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0"))
    >>> kernel.family, [launch.entry for launch in kernel.launches]
    ('gemm', ['matmul_0'])

    Raises Conflict (an Illegal, with verdicts) when required entries cannot hold together, NotTaken (a Conflict, of a
    legal schedule) when the kernel does not take one as given, NoKernel (an Unsupported) when no kernel follows a legal
    schedule; the last two have it as `.scheduled`.
    """
    return compile_for(group, recipe, observe)


def nvrtc(kernel: Kernel, architecture: str) -> Compiled:
    """Compile the CUDA text for "sm_80" or "sm_90a": registers, spills, cubin.  Needs no GPU.

    >>> kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0"))
    >>> engine.nvrtc(kernel, "sm_90a").spill_bytes
    0

    Raises BadInput for an architecture that NVRTC does not know, CompileError for text that it refuses,
    MissingCapability without NVRTC.
    """
    from engine.execution.nvrtc import compile_cuda

    return compile_cuda(kernel.source.text, architecture)


def check(
    kernel: AnyKernel, seed: int = 0, timeout: float = 120.0, level: str = "source", ptx: str | None = None
) -> Check:
    """Run the kernel on the CPU in two orders and compare with the reference implementation; a model: `check_model`.

    >>> kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0"))
    >>> found = engine.check(kernel)
    >>> found.status, found.orders
    ('pass', ('late', 'early'))

    level: "source" runs the CUDA text, "ptx" what NVRTC compiles it to, and compares the layout of the machine code
    with the launch.  Where its values do not fit into memory, a smaller size runs, as `message` tells.  A kernel for a
    CPU is compiled and executed, all of it ("native").
    ptx: text in place of NVRTC's, at that level; then there is no machine code.  timeout: seconds of one run.
    Raises BadInput for a group that comes from no graph, an unknown level and no time, MissingCapability without a C++
    compiler or NVRTC.
    """
    from engine.verify.cut import check_whole_or_cut
    from engine.verify.kernel import check_kernel, failed_check
    from engine.verify.layout import check_layout
    from engine.verify.levels import PTX, find_run

    if kernel.group.graph is None:
        raise BadInput("check", kernel.group.name, "does not come from a graph", "take the group from a fusion plan")
    if not timeout > 0:
        raise BadInput("check", f"timeout {timeout:g}", "is no time", "say seconds above 0")
    run = None if isinstance(kernel, CpuKernel) else find_run(level, kernel, ptx)
    try:
        if isinstance(kernel, CpuKernel) or run is None:
            return check_whole_or_cut(kernel, seed, timeout)
        if ptx is not None:  # of this launch, and of no smaller one
            return check_kernel(kernel, *group_values(kernel.group, seed), timeout=timeout, run=run)
        found = check_whole_or_cut(kernel, seed, timeout, run)
        return check_layout(kernel, found) if level == PTX else found
    except EngineError as error:
        if error.exit_code == 3:
            raise
        return failed_check(kernel.group.name, error)


def check_model(
    graph: OperatorGraph,
    plan: FusionPlan,
    recipe: Recipe | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    level: str = "source",
) -> ModelCheck:
    """Run every launch of a model in order on the CPU and compare the graph's outputs with the reference.  A kernel
    alone: `check`.

    >>> graph = engine.load("suite:alcop/MM_RN50_FC")
    >>> engine.check_model(graph, engine.fuse(graph)).status
    'pass'

    Where the data decide sizes, the plan is made again for those that this run has.

    progress: called with (group, launches done, launches).  level: as of `check`.
    Raises Unsupported when some operators have no kernel.
    """
    from engine.verify.model import check_model as run

    if plan.source is not graph:
        raise BadInput("check", plan.graph, "the plan is of another graph", "fuse this graph")
    plan, recipe = _with_decided_sizes(plan, recipe or default_recipe(plan), seed)
    return run(plan, recipe, seed=seed, progress=progress, level=level)


def _with_decided_sizes(plan: FusionPlan, recipe: Recipe, seed: int) -> tuple[FusionPlan, Recipe]:
    """A plan and its recipe for the sizes that the data of a seed decide; groups that stay keep their entries."""
    from engine.execution.reference import decided_sizes

    graph = plan.source
    assert graph is not None
    decided = decided_sizes(graph, seed)
    if all(decided.get(one.name, one.assumed) == one.assumed for step in graph.host.values() for one in step.decisions):
        return plan, recipe
    assert graph.source is not None
    sized = load(graph.source, {**graph.dimensions, **decided})
    again = fuse(sized, plan.target, plan.policy, plan.fixed, plan.numerics)
    before = {group.name: group.program for group in plan.groups}
    stay = [group.name for group in again.groups if before.get(group.name) == group.program]
    kept = {name: recipe.groups[name] for name in stay if name in recipe.groups}
    fresh = default_recipe(again, recipe.target, recipe.numerics)
    return again, replace(recipe, groups={**fresh.groups, **kept})


def run(
    what: AnyKernel | FusionPlan,
    arrays: Mapping[str, np.ndarray],
    recipe: Recipe | None = None,
    *,
    device: str | None = None,
) -> Results:
    """Run a kernel, or all launches of a plan in order, on arrays of your own.

    >>> plan = engine.fuse(engine.load("suite:alcop/MM_RN50_FC"))
    >>> kernel = engine.compile(plan.group("matmul_0"))
    >>> x, w = numpy.ones((1024, 2048), "float16"), numpy.ones((2048, 64), "float16")
    >>> found = engine.run(kernel, {"a": x, "b": w}, device="cpu")
    >>> found.origin, found["c"].shape, float(found["c"][0, 0])
    ('emulated', (1024, 64), 2048.0)

    arrays: value of each input, by the name of its tensor in the graph; of a kernel, the first launch's tensors, or the
    names of its program's arrays.  Constants of the graph need none: the file's are taken, or those that `engine.check`
    draws where the file leaves weights out.
    recipe: of a plan, by default its advisers'.  A kernel has its own.
    device: "gpu" or "cpu"; None for the GPU where there is one.  On the CPU the CUDA text is emulated.
    Returns arrays by the names of their tensors in the graph, with `.origin`: "emulated", or the GPU's name.  Of a
    kernel they are all that it writes, also what later kernels read.
    Raises BadInput for a missing or unknown array and one of another shape or type, MissingCapability without a C++
    compiler, or where the GPU is asked for and is not there.
    """
    from engine.verify.run import run_kernel, run_plan

    if isinstance(what, Kernel | CpuKernel):
        if recipe is not None:
            raise BadInput("run", what.group.name, "is compiled already, under its own recipe", "leave out the recipe")
        return run_kernel(what, arrays, device)
    return run_plan(what, arrays, recipe or default_recipe(what), device)


def inputs(what: AnyKernel | FusionPlan, seed: int = 0) -> dict[str, np.ndarray]:
    """Values for the inputs of a kernel or a plan, for `engine.run`: those that `engine.check` takes for a seed.

    >>> kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0"))
    >>> {name: value.shape for name, value in engine.inputs(kernel).items()}
    {'a_2': (1024, 2048), 'b_2': (2048, 64)}

    Their names, shapes and types alone are `group.program.inputs` and `group.program.arrays`, those of a plan
    `plan.source.inputs` and `plan.source.tensors`.
    Of a kernel: by the names of its program's arrays, weights included; inputs that other kernels make have the values
    that the reference implementation gives them.  Of a plan: of its graph's inputs.
    Raises BadInput for what comes from no graph.
    """
    from engine.execution.reference import input_values

    if isinstance(what, Kernel | CpuKernel):
        expected, before = group_values(what.group, seed)
        return {name: {**expected, **before}[name] for name in what.group.program.inputs}
    if what.source is None:
        raise BadInput("inputs", what.graph, "the plan comes from no graph", "fuse a graph")
    values = input_values(what.source, seed)
    return {name: values[name] for name in what.source.inputs}


def predict(kernel: AnyKernel, registers: int | None = None) -> Prediction | CpuPrediction:
    """The modelled time of one launch, calibrated where the user has measured.

    >>> kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0"))
    >>> engine.predict(kernel).microseconds > 0
    True

    registers: of one thread of a GPU, if the kernel was compiled; those that its family expects where nothing is said.
    """
    if isinstance(kernel, CpuKernel):
        return predict_kernel(kernel)
    if registers is not None and registers < 1:
        raise BadInput("predict", f"{registers} registers", "are none that a thread could have", "say 1 or more")
    facts = kernel.facts if registers is None else replace(kernel.facts, registers=registers)
    return estimate(facts, kernel.target)


def measure(
    kernel: AnyKernel,
    on_sample: Callable[[float], None] | None = None,
    seed: int | None = None,
    on_state: Callable[[GpuState], None] | None = None,
) -> Timing | Failure:
    """Time the kernel on this machine's GPU, or on its CPU where that is the target; its result is compared with the
    reference before the time counts.

    >>> kernel = engine.compile(engine.fuse(engine.load("suite:alcop/MM_RN50_FC"), target="cpu").group("matmul_0"))
    >>> found = engine.measure(kernel)
    >>> found.origin, found.low <= found.microseconds <= found.high
    ('measured', True)

    on_sample: called with each time in microseconds as it comes.  on_state: with clock and temperature, after each
    round.  seed: of the inputs; by default one that each process draws anew, for a kernel must be right on any values.
    A crash, a hang or a wrong result is a Failure.  Raises MissingCapability where there is no GPU.
    """
    from engine.execution.measure import MeasureJob, measure_kernel, require_pycuda
    from engine.verify.kernel import wrong_result

    seed = _process_seed() if seed is None else seed
    if isinstance(kernel, CpuKernel):
        from engine.verify.native import measure_checked

        return measure_checked(kernel, seed, on_sample)
    require_pycuda()
    compiled = nvrtc(kernel, kernel.target.architecture)
    expected, before = group_values(kernel.group, seed)
    trial = MeasureJob(kernel.source, compiled, {**expected, **before})
    found = measure_kernel(trial, on_sample=on_sample, on_state=on_state)
    if isinstance(found, Failure):
        return found
    wrong = wrong_result(kernel, found.outputs, expected)
    if wrong:
        return Failure("wrong result", f"{wrong}, on values drawn from seed {seed}")
    checked = {"values": f"drawn from seed {seed}; the result agreed with the reference"}
    return replace(found.timing, environment={**(found.timing.environment or {}), **checked})


@lru_cache(maxsize=1)
def _process_seed() -> int:
    """A seed that is another one in every process; equal within one, so that the reference runs once for a model."""
    return random.SystemRandom().randrange(1, 1 << 31)


def launch_record(kernel: Kernel, count: int = 1) -> Launched:
    """What a file of times says of a kernel that ran `count` times: facts, with the registers that it takes; advice."""
    facts = replace(kernel.facts, registers=nvrtc(kernel, kernel.target.architecture).registers)
    return Launched(kernel.group.name, kernel.group.kind, count, facts, to_text(kernel.advice))


def mappings(group: FusionGroup, recipe: Recipe | None = None, emulate: bool = False) -> MappingsDoc:
    """Every mapping of a group to every intrinsic known, as entries; compiled where kernels can take them.

    emulate: also compare those kernels with the reference.  Raises MissingCapability then without a C++ compiler, and
    Unsupported for a CPU.
    """
    from engine.explore.intrinsic_mappings import group_mappings

    return group_mappings(group, recipe or default_recipe(group), check if emulate else None)


def addresses(kernel: Kernel, seed: int = 0) -> WarpDoc:
    """The addresses of one warp at each access of the CUDA text, as the emulator saw them.

    Values are made up where that can do no harm, indices in their range; else they are the reference's.
    Raises MissingCapability without a C++ compiler, EngineError where the kernel does not run.
    """
    from engine.explore.addresses import addresses as traced
    from engine.explore.addresses import dummy_inputs

    values = dummy_inputs(kernel, seed)
    found = traced(kernel, values) if values is not None else None
    if not isinstance(found, WarpDoc) and kernel.group.graph is not None:
        expected, before = group_values(kernel.group, seed)
        found = traced(kernel, {**expected, **before})
    if not isinstance(found, WarpDoc):
        raise EngineError("run", kernel.group.name, found.message if found else "its addresses depend on its inputs")
    return found


def chart(kernel: Kernel) -> ChartDoc:
    """The kernel's pipeline over time, by the performance model, with its shared memory and its knobs.

    Registers are NVRTC's where it can be loaded, else estimated.  Raises Unsupported where no block fits the target.
    """
    from engine.explore.pipeline_chart import chart as drawn

    try:
        registers = nvrtc(kernel, kernel.target.architecture).registers
    except MissingCapability:
        registers = None
    return drawn(kernel, registers)
