"""Loomscope's engine: schedules of GPU operators that can be explored, edited, checked and timed.

    graph   = engine.load("bert.onnx", dims={"batch": 8})
    plan    = engine.fuse(graph, target="h200")
    group   = plan.group("layernorm_1")
    recipe  = engine.default_recipe(group)
    recipe  = recipe.advise("user", engine.entry("S4", pin="j", at="innermost", because="rows are contiguous"))
    found   = engine.schedule(group, recipe)  # legal, tree, verdicts, because
    kernel  = engine.compile(group, recipe, observe=print)
    report  = engine.check(kernel)
    times   = engine.predict(kernel), engine.measure(kernel)
    results = engine.run(kernel, engine.inputs(kernel))  # arrays by name; results.origin says where they ran
    run     = engine.tune(plan, trials=64, records="night.db")  # iterate for progress; run.best is a Recipe
    engine.write_recipe(run.best, "best.json")  # engine.read_recipe("best.json") is equal to it
    known   = engine.transfer(run.best, engine.fuse(graph, target="a100"))  # known.recipe, known.taken, known.left
    op      = engine.torch_op(plan, run.best)  # a torch.nn.Module

`help(engine.tune)` and so on show an example of each.  Every error is an `EngineError` that says what to do; catch it
to go on with the next group.  `engine.complete_recipe` gives groups that a recipe does not speak of their advisers'
entries.  What ends in `_doc`, `chart`, `listing`, `what_if_of_chart` and `launch_record` are the documents that the
window shows: the command line and the window stand on these verbs.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.api import (
        addresses,
        chart,
        check,
        check_model,
        compile,
        fuse,
        inputs,
        launch_record,
        load,
        mappings,
        measure,
        nvrtc,
        predict,
        run,
        schedule,
    )
    from engine.calibration import calibrate
    from engine.compilation import default_recipe
    from engine.cost.calibration import Calibration, keep_calibration
    from engine.cost.nodes import Prediction
    from engine.cpu.nodes import AnyKernel, CpuKernel
    from engine.documents.exploration import DiffDoc, FusionEdit
    from engine.documents.model import time_doc
    from engine.execution.nodes import Check, Compiled, Failure, Timing
    from engine.explore.decisions import decisions
    from engine.explore.fusion_attempts import Attempts
    from engine.explore.listing import listing
    from engine.explore.moves import moves
    from engine.explore.order import order
    from engine.explore.plan_difference import compare_plans
    from engine.explore.regroup import regroup, why_apart
    from engine.explore.space import space
    from engine.explore.transfer import Transfer, transfer
    from engine.explore.variant import variant
    from engine.explore.what_if import what_if_of_chart
    from engine.export.sizes import check_sizes, for_sizes, size_loss, write_sizes
    from engine.export.sources import write_sources
    from engine.fusion.nodes import FusionGroup, FusionPlan
    from engine.fusion.stitching.nodes import Fixed
    from engine.graph.nodes import OperatorGraph
    from engine.kernels.nodes import Kernel
    from engine.present.comparison import compare
    from engine.present.explanation import explain
    from engine.present.model import compiled_doc, kernel_doc, model_doc, plan_bytes, refused_doc
    from engine.present.model_difference import compare_models
    from engine.pytorch.api import from_torch, torch_backend, torch_op
    from engine.recipe import Advice, Entry, Recipe, entry
    from engine.recipe_files import (
        complete_recipe,
        fusion_choices,
        merge_advice,
        published_advice,
        read_advice,
        read_recipe,
        replace_advice,
        write_published,
        write_recipe,
    )
    from engine.records.nodes import Attempt
    from engine.scheduling.nodes import Conflict, Scheduled
    from engine.scheduling.untaken_entries import NoKernel, NotTaken
    from engine.support.errors import BadInput, EngineError, Illegal, MissingCapability, OverBudget, Unsupported
    from engine.target import ARCHITECTURES
    from engine.tuning.ablation import ablate
    from engine.tuning.api import tune
    from engine.tuning.report import TuningReport
    from engine.tuning.tuning_run import TuningRun
    from engine.verify.native_model import measure_model
    from engine.verify.run import Results

__all__ = [
    "ARCHITECTURES", "Advice", "AnyKernel", "Attempt", "Attempts", "BadInput", "Calibration", "Check", "Compiled",
    "Conflict", "CpuKernel", "DiffDoc", "EngineError", "Entry", "Failure", "Fixed", "FusionEdit", "FusionGroup",
    "FusionPlan", "Illegal", "Kernel", "MissingCapability", "NoKernel", "NotTaken", "OperatorGraph", "OverBudget",
    "Prediction", "Recipe", "Results", "Scheduled", "Timing", "Transfer", "TuningReport", "TuningRun", "Unsupported",
    "ablate", "addresses", "calibrate", "chart", "check", "check_model", "check_sizes", "compare", "compare_models",
    "compare_plans", "compile", "compiled_doc", "complete_recipe", "decisions", "default_recipe", "entry", "explain",
    "for_sizes", "from_torch", "fuse", "fusion_choices", "inputs", "keep_calibration", "kernel_doc", "launch_record",
    "listing", "load", "mappings", "measure", "measure_model", "merge_advice", "model_doc", "moves", "nvrtc", "order",
    "plan_bytes", "predict", "published_advice", "read_advice", "read_recipe", "refused_doc", "regroup",
    "replace_advice", "run", "schedule", "size_loss", "space", "time_doc", "torch_backend", "torch_op", "transfer",
    "tune", "variant", "what_if_of_chart", "why_apart", "write_published", "write_recipe", "write_sizes",
    "write_sources",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name of the library when it is first asked for.

    The window's process needs the documents and none of the compiler's stages.
    """
    if name not in __all__:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    value = getattr(import_module(_defining_modules()[name]), name)
    if isfunction(value):
        from engine.support.argument_types import with_checked_arguments

        value = with_checked_arguments(value, name, __getattr__)
    globals()[name] = value
    return value


@cache
def _defining_modules() -> dict[str, str]:
    """Name of the library -> the module that defines it, read from the imports above: nothing states them twice."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
