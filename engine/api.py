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

from engine.compilation import Observer, compile_group, default_microseconds, default_recipe, schedule_group
from engine.cost.estimate import estimate
from engine.cost.nodes import Prediction
from engine.documents.difference import ModelComparisonDoc
from engine.documents.exploration import WarpDoc
from engine.documents.mappings import MappingsDoc
from engine.documents.pipeline import ChartDoc
from engine.execution.nodes import Check, Compiled, Failure, GpuState, Timing
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.partition import FusionRequest
from engine.fusion.plan import fold_program, plan
from engine.fusion.split_reductions import in_parts
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
from engine.target import target as find_target
from engine.tensor.evaluate import temporaries
from engine.tensor.lower import lower, lower_supported

if TYPE_CHECKING:
    from engine.verify.model import ModelCheck


def load(path: str | Path, dims: Mapping[str, int] | None = None) -> OperatorGraph:
    """Read an ONNX or AKG file, or a row of a suite, "suite:NAME/ROW".  dims: sizes for its symbolic dimensions.

    Raises BadInput.
    """
    return _load(model_file(str(path)) if is_reference(path) else path, dims)


def fuse(
    graph: OperatorGraph, target: str = DEFAULT_TARGET, policy: str = DEFAULT_POLICY, fixed: Fixed | None = None
) -> FusionPlan:
    """Plan the kernels of a graph.  fixed: what a person decided about groups; it stays, and the rest is explored.

    Raises BadInput for an unknown target or policy, and where a fixed group cannot be one kernel.
    """
    machine = find_target(target)
    if policy not in POLICIES:
        raise BadInput("fuse", f"policy {policy}", "is not known", f"use one of {', '.join(POLICIES)}")
    request = FusionRequest(policy, machine, default_microseconds, fixed or Fixed())
    with cycles_left_alone():
        return plan(graph, *lower_supported(graph), request)


def schedule(group: FusionGroup, recipe: Recipe | None = None) -> Scheduled:
    """The schedule that `compile` follows under a recipe, the verdict on every entry, and why it is not legal or has no
    kernel; no CUDA text is written.

    Raises nothing for a wish that cannot be.
    """
    return schedule_group(group, recipe)


def compile(group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None) -> Kernel:
    """From a group to CUDA text.  observe: called with (stage, before, after) as stages finish.

    Raises Conflict (an Illegal, with verdicts) when required entries cannot hold together, NotTaken (a Conflict, of a
    legal schedule) when the kernel does not take one as given, NoKernel (an Unsupported) when no kernel follows a legal
    schedule; the last two have it as `.scheduled`.
    """
    return compile_group(group, recipe, observe)


def nvrtc(kernel: Kernel, architecture: str) -> Compiled:
    """Compile the CUDA text for "sm_80" or "sm_90a": registers, spills, cubin.  Needs no GPU."""
    from engine.execution.nvrtc import compile_cuda

    return compile_cuda(kernel.source.text, architecture)


def check(
    kernel: Kernel, seed: int = 0, timeout: float = 120.0, level: str = "source", ptx: str | None = None
) -> Check:
    """Run the kernel on the CPU in two orders and compare with the reference implementation.

    level: "source" runs the CUDA text, "ptx" what NVRTC compiles it to, and compares the layout of the machine code
    with the launch.  ptx: text in place of NVRTC's; then there is no machine code.
    Raises BadInput for a group that comes from no graph and for an unknown level, MissingCapability without a C++
    compiler or NVRTC.
    """
    from engine.verify.kernel import check_kernel, failed_check
    from engine.verify.layout import check_layout
    from engine.verify.levels import PTX, find_run

    if kernel.group.graph is None:
        raise BadInput("check", kernel.group.name, "does not come from a graph", "take the group from a fusion plan")
    run = find_run(level, kernel, ptx)
    try:
        expected, before = group_values(kernel.group, seed)
        found = check_kernel(kernel, expected, before, timeout, run)
        return check_layout(kernel, found) if level == PTX and ptx is None else found
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
    """Run every launch of a model in order on the CPU and compare the graph's outputs with the reference.

    progress: called with (group, launches done, launches).  level: as of `check`.
    Raises Unsupported when some operators have no kernel.
    """
    from engine.verify.model import check_model as run

    if plan.source is not graph:
        raise BadInput("check", plan.graph, "the plan is of another graph", "fuse this graph")
    return run(plan, recipe or default_recipe(plan), seed=seed, progress=progress, level=level)


def predict(kernel: Kernel, registers: int | None = None) -> Prediction:
    """The modelled time of one launch, calibrated where the user has measured.

    registers: of one thread, if the kernel was compiled; those that its family expects where nothing is said.
    """
    facts = kernel.facts if registers is None else replace(kernel.facts, registers=registers)
    return estimate(facts, kernel.target)


def compare_plans(
    a: tuple[FusionPlan, Mapping[str, str]], b: tuple[FusionPlan, Mapping[str, str]]
) -> ModelComparisonDoc:
    """Two plans side by side, of one graph or of two, each under the advice given as text for some of its groups.

    Advice for groups that a plan does not have is left out.  Raises BadInput for advice that cannot be read.
    """
    from engine.present.model import model_doc
    from engine.present.model_difference import compare_models
    from engine.recipe_files import replace_advice

    models, recipes = [], []
    for one, advice in (a, b):
        recipe = default_recipe(one, target=one.target)
        for group in one.groups:
            if group.name in advice:
                recipe = replace_advice(recipe, group, advice[group.name])
        assert one.source is not None, "plans are made from graphs"
        models.append(model_doc(one.source, one, recipe))
        recipes.append(recipe)
    return ModelComparisonDoc(models[1], compare_models(models[0], models[1], (recipes[0], recipes[1])))


def measure(
    kernel: Kernel,
    on_sample: Callable[[float], None] | None = None,
    seed: int | None = None,
    on_state: Callable[[GpuState], None] | None = None,
) -> Timing | Failure:
    """Time the kernel on this machine's GPU; its result is compared with the reference before the time counts.

    on_sample: called with each time in microseconds as it comes.  on_state: with clock and temperature, after each
    round.  seed: of the inputs; by default one that each process draws anew, for a kernel must be right on any values.
    A crash, a hang or a wrong result is a Failure.  Raises MissingCapability where there is no GPU.
    """
    from engine.execution.measure import MeasureJob, measure_kernel, require_pycuda
    from engine.verify.kernel import wrong_result

    require_pycuda()
    seed = _process_seed() if seed is None else seed
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

    emulate: also compare those kernels with the reference.  Raises MissingCapability then without a C++ compiler.
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


def group_values(group: FusionGroup, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(expected, before) values of the arrays of a group's first instance, from the reference, in the group's shapes.

    Who reads a buffer that the graph updates reads its old contents: these are in `before`.
    """
    from engine.execution.reference import reference_values

    if group.graph is None:
        raise BadInput("check", group.name, "does not come from a graph", "take the group from a fusion plan")
    arrays = group.instances[0].arrays
    outside = {*group.program.inputs, *group.program.outputs}
    kept = group.beside or {arrays[name] for name in outside}
    expected_all, before_all = _reference(group.graph, seed, frozenset(kept))
    missing = {arrays[name] for name in outside} - expected_all.keys()
    left_out = missing & group.graph.tensors.keys()
    if left_out:
        expected_all = {**expected_all, **reference_values(group.graph, seed, left_out)}
    if missing := missing - left_out:
        lowered = lower(group.graph)
        expected_all = {**expected_all, **temporaries(lowered, expected_all, missing & lowered.arrays.keys())}
        if missing := missing - expected_all.keys():  # of reductions in parts
            parted = in_parts(fold_program(lowered, group.graph).program)
            expected_all = {**expected_all, **temporaries(parted, expected_all, missing)}
    view, declared = group.instances[0].view, group.program.arrays
    expected = {n: view(declared[n], expected_all[tensor]) for n, tensor in arrays.items() if n in outside}
    updated = {update.target for update in group.graph.updates}
    before = {n: view(declared[n], before_all[arrays[n]]) for n in group.program.inputs if arrays[n] in updated}
    return expected, before


@lru_cache(maxsize=2)
def _reference(
    graph: OperatorGraph, seed: int, kept: frozenset[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reference values of the tensors of a graph, and of those it updates before the run; the last two are kept.

    Of a graph whose tensors do not fit into memory, those in `kept`.
    """
    from engine.execution.reference import MAX_BYTES, input_values, reference_values

    wanted = None
    if sum(tensor.bytes for tensor in graph.tensors.values()) > MAX_BYTES:
        wanted = sorted(kept & graph.tensors.keys())
    updated = {update.target for update in graph.updates}
    before = {name: value for name, value in input_values(graph, seed).items() if name in updated} if updated else {}
    return reference_values(graph, seed, wanted), before
