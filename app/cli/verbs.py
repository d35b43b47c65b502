"""What each verb prints.  Figures come from the engine's documents; nothing is computed here but sums over rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from app.cli.doctor import describe_cache, examine
from app.cli.times import say_published
from engine import (
    BadInput,
    Conflict,
    CpuKernel,
    EngineError,
    Illegal,
    Kernel,
    NoKernel,
    NotTaken,
)
from engine.documents.model import KernelDoc
from engine.documents.units import kib
from engine.fusion.host_program import host_program, host_row
from engine.scheduling.tree_text import show
from engine.support import cache
from engine.support.serialization import fields_to_json, to_json
from engine.target.host_cpu import HOST
from views.format import amount, duration, plural


def inspect(job: CompileJob, json: bool) -> None:
    """Operators, tensors, what the host runs, and what is unsupported."""
    graph = job.graph
    if json:
        output.document(
            operators=[
                {"name": op.name, "kind": op.kind, "inputs": op.inputs, "outputs": op.outputs, "scope": op.scope}
                for op in graph.operators
            ],
            unsupported=_unsupported_rows(job.plan),
            host=_host_rows(job.plan),
            tensors=[{"name": t.name, "shape": t.shape, "dtype": t.dtype} for t in graph.tensors.values()],
        )
        return
    output.say(
        f"{graph.name}: {plural(len(graph.operators), 'operator')}, {plural(len(graph.tensors), 'tensor')}, "
        f"inputs {', '.join(str(graph.tensors[name]) for name in graph.inputs)}"
    )
    kinds = Counter(op.kind for op in graph.operators)
    output.table("", ("operator", "count>"), ((kind, str(count)) for kind, count in kinds.most_common()))
    _say_left_out(job.plan)


def fuse(job: CompileJob, policy: str | None, json: bool) -> None:
    """The plan and its reasons.  policy: --policy; None leaves it to the recipe."""
    job = replace(job, policy=policy)
    plan = job.plan
    model = engine.model_doc(job.graph, plan)
    instances = {group.name: group.instances for group in model.groups}
    figures = {
        "operators": len(job.graph.operators),
        "kernels": len(plan.launches),
        "memory_bound_kernels": sum(group.instances for group in model.groups if group.bound == "memory"),
        "bytes_unfused": engine.plan_bytes(engine.fuse(job.graph, target=job.target, policy="none")),
        "bytes_fused": sum(group.bytes * instances[group.name] for group in model.groups),
    }
    if json:
        output.document(
            **figures,
            groups=[
                {
                    "name": group.name, "instances": len(group.instances), "operators": group.instances[0].operators,
                    "schemes": [{"array": e.array, "scheme": e.scheme, "because": e.because} for e in group.edges],
                    "because": group.because,
                }
                for group in plan.groups
            ],
            unsupported=_unsupported_rows(plan),
            host=_host_rows(plan),
        )  # fmt: skip
        return
    output.say(
        f"{plan.graph}: {plural(figures['operators'], 'operator')} in {plural(figures['kernels'], 'kernel')} of "
        f"{plural(len(plan.groups), 'group')}; {amount(figures['bytes_fused'])} moved, "
        f"{amount(figures['bytes_unfused'])} without fusion"
    )
    rows = ((g.name, str(g.instances), g.title, g.shape, amount(g.bytes), g.bound, g.because) for g in model.groups)
    output.table("", ("group", "times>", "what", "shape", "moves>", "bound", "because"), rows)
    _say_left_out(plan)


def recipe(job: CompileJob, out: Path) -> None:
    """The recipe as a file."""
    advice = {group.name: job.recipe.groups[group.name] for group in job.groups}
    made = replace(job.recipe, groups=advice, dimensions=job.asked_dimensions)
    engine.write_recipe(made, out)
    output.say(f"{out}: {plural(len(made.groups), 'group')}")


def schedule(job: CompileJob, json: bool) -> bool:
    """Trees and verdicts; whether every required entry holds."""
    rows: list[dict[str, Any]] = []
    holds = True
    for group, kernel in output.track(job.kernels((Conflict, NoKernel)), len(job.groups), "scheduling"):
        if isinstance(kernel, EngineError) and not isinstance(kernel, Conflict | NoKernel):
            legal = False if isinstance(kernel, Illegal) else None  # None: it did not come to a schedule
            rows.append({"name": group.name, "legal": legal, "unsupported": kernel.reason})
            if not json:
                output.say(f"{group.name}  {group.title}: {kernel.reason}\n")
            continue
        if isinstance(kernel, Conflict):
            output.failure(kernel, [repair.text for repair in kernel.repairs])
            holds = False
        if isinstance(kernel, Kernel | CpuKernel):
            document = engine.kernel_doc(kernel)
        else:
            document = engine.refused_doc(group, job.recipe, kernel)
        rows.append(_schedule_row(document))
        if not json:
            output.say(f"{group.name}  {group.title}")
            match kernel:
                case Kernel() | CpuKernel():
                    output.say(show(kernel.schedule, kernel.program))
                case NoKernel() | NotTaken():
                    output.say(show(kernel.scheduled.tree, kernel.program))
            output.table("", ("legal", "kernel", "because"), [_state_cells(document)])
            cells = (tuple(verdict.values()) for verdict in rows[-1]["verdicts"])
            output.table("", ("entry", "verdict", "because"), cells)
    if json:
        output.document(groups=rows)
    return holds


def _state_cells(document: KernelDoc) -> tuple[str, str, str]:
    """Whether a schedule is legal, the family of its kernel, and why no faster one fits or none follows it."""
    if document.has_kernel:
        count = len(document.launches)
        made = f"{document.family}, {count} launches" if count > 1 else document.family
        return "yes", made, f"no faster family fits: {document.misfit}" if document.misfit else ""
    return "yes" if document.legal else "no", "none", document.refused


def _schedule_row(document: KernelDoc) -> dict[str, Any]:
    """Legality is of dependences and required entries; the kernel, or why there is none, stands beside it."""
    row = {
        "name": document.group, "legal": document.legal, "tree": to_json(document.schedule),
        "verdicts": [{"entry": e.text, "verdict": e.outcome, "because": e.verdict} for e in document.entries],
        "repairs": [repair.text for repair in document.repairs], "milliseconds": document.milliseconds,
    }  # fmt: skip
    if document.has_kernel:
        misfit = {"misfit": document.misfit} if document.misfit else {}
        return {**row, "kernel": {"family": document.family, "launches": len(document.launches), **misfit}}
    return {**row, "refused": {"because": document.refused}} if document.legal else row


def generate(job: CompileJob, out: Path, programs: list[str], json: bool) -> bool:
    """`.cu` files and their manifest; whether every group got its kernel."""
    kernels = output.track(job.kernels(), len(job.groups), "generating")
    made: list[engine.Kernel] = []
    manifest = engine.write_sources(job.graph, job.plan, _for_sizes(job, kernels, made), out, job.seconds, programs)
    if job.ranged is not None:
        _say_losses(engine.write_sizes(job.ranged, made, out))
    for kernel in manifest["kernels"]:
        for entry in kernel["relaxed"]:
            output.note(f"{kernel['group']}: {entry['author']}'s “{entry['entry']}” is relaxed: {entry['because']}")
    missing = [group.name for group in job.groups if group.name in manifest["unsupported"]]
    for name, reason in manifest["unsupported"].items():
        output.note(f"{name}: {'there is no kernel' if name in missing else 'is unsupported'}: {reason}")
    if json:
        output.document(**manifest)
        return not missing
    rows = (
        (
            kernel["group"], kernel["file"],
            ", ".join(" x ".join(map(str, one["grid"])) for one in kernel["launches"]),
            ", ".join(str(one["block"][0]) for one in kernel["launches"]),
            ", ".join(kib(one["shared_bytes"]) for one in kernel["launches"]),
            ", ".join(f"{name} {c['registers']} registers" for name, c in kernel["compiled"].items()),
        )
        for kernel in manifest["kernels"]
    )  # fmt: skip
    output.table(f"{out}", ("group", "file", "grid>", "threads>", "shared>", "compiled"), rows)
    return not missing


def _for_sizes(
    job: CompileJob, kernels: Iterable[tuple[engine.FusionGroup, engine.AnyKernel | EngineError]],
    made: list[engine.Kernel],
) -> Iterator[tuple[engine.FusionGroup, engine.AnyKernel | EngineError]]:  # fmt: skip
    """Kernels, an error in the place of one that cannot serve all sizes of a range; `made` gains those that can."""
    for group, kernel in kernels:
        if job.ranged is not None and isinstance(kernel, engine.Kernel):
            try:
                job.ranged.grids(kernel)
            except EngineError as error:
                yield group, error
                continue
            made.append(kernel)
        yield group, kernel


def _say_losses(sizes: dict[str, Any]) -> None:
    """What kernels for all sizes lose against such as are made for one."""
    for row in sizes["predicted"]:
        every, alone = row["microseconds"], row["microseconds_alone"]
        lost = f"{every / alone - 1:+.1%}" if alone else ""
        output.note(f"{sizes['dimension']} = {row['size']}: {every:.3g} µs predicted, {alone:.3g} alone ({lost})")


def calibrate(files: list[Path], target: str | None, json: bool) -> None:
    """Figures fitted to measured or published times, kept for this user's predictions."""
    if target == HOST:
        _calibrate_host(files, json)
        return
    with output.steps("calibrate") as observe:
        found = engine.calibrate(files, target, observe)
    path = engine.keep_calibration(found)
    if json:
        output.document(file=str(path), **fields_to_json(found))
        return
    figures = (
        (
            name, f"{one.before:.3g}", f"{one.value:.3g}", one.unit, f"{100 * (one.value / one.before - 1):+.1f} %",
            str(one.rows),
        )
        for name, one in found.figures.items()
    )  # fmt: skip
    title = f"{found.target}: {found.device}, {found.note}"
    output.table(title, ("figure", "before>", "after>", "unit", "change>", "rows>"), figures)
    errors = ((one.kind, str(one.rows), f"{one.before:.1%}", f"{one.after:.1%}") for one in found.errors)
    output.table("\nMedian error of predictions", ("kernels", "rows>", "before>", "after>"), errors)
    output.say(f"{path}: predictions use it from now on; delete it to undo")


def _calibrate_host(files: list[Path], json: bool) -> None:
    """Measure the rates of this machine's CPU, and keep them."""
    from engine.execution.native.figures import calibrate_cpu

    if files:
        raise BadInput("calibrate", str(files[0]), "this machine's CPU is measured, not fitted", "leave the files out")
    before, after, path = calibrate_cpu()
    if json:
        output.document(file=str(path), target=after.name, device=after.title, figures=to_json(after.figures()))
        return
    old, now = before.figures(), after.figures()
    figures = ((n, f"{old[n].value:.3g}", f"{one.value:.3g}", one.unit, one.source) for n, one in now.items())
    output.table(f"{after.name}: {after.title}", ("figure", "before>", "now>", "unit", "source"), figures)
    output.say(f"{path}: predictions use it from now on; delete it to undo")


def explain(job: CompileJob) -> None:
    """One group in prose, then published times of other kernels that compute the same."""
    from engine.measurements.published import published_times

    for group, kernel in job.kernels():
        assert not isinstance(kernel, EngineError), "a group asked for by name raises"
        output.say(engine.explain(kernel, with_machine_code=True))
        say_published(group.name, published_times(group))


def moves(job: CompileJob, json: bool) -> None:
    """What can be done next with one group, and what cannot."""
    for group in job.groups:
        found = engine.moves(group, job.recipe)
        if json:
            output.document(**fields_to_json(found))
            return
        possible = (
            (move.title, duration(move.time.microseconds), f"{100 * move.gain:+.1f} %", "; ".join(move.entries))
            for move in found.possible
            if move.time
        )
        output.table(f"{group.name}  {group.title}", ("step", "predicted>", "saves>", "advice user"), possible)
        impossible = ((move.title, ": ".join(filter(None, (move.why_not, move.witness)))) for move in found.impossible)
        output.table("\nNot possible", ("step", "why not"), impossible)


def doctor(json: bool, clear_cache: bool) -> None:
    """What this machine has; with `clear_cache`, what is deleted from the cache first."""
    if clear_cache:
        output.note(f"deleted from {describe_cache(cache.clear_cache())}")
    rows = examine()
    if json:
        output.document(rows=to_json(rows))
        return
    cells = ((row.name, row.found or "missing", row.needed_for, "" if row.found else row.hint) for row in rows)
    output.table("", ("what", "found", "needed for", "how to get it"), cells)


def _unsupported_rows(plan: engine.FusionPlan) -> list[dict[str, str]]:
    """What nothing runs; the reason stands under its older name, too."""
    kinds = {op.name: op.kind for op in plan.source.operators} if plan.source else {}
    return [
        {"operator": name, "type": kinds.get(name, ""), "because": reason, "reason": reason}
        for name, reason in plan.unsupported.items()
    ]


def _host_rows(plan: engine.FusionPlan) -> list[dict[str, Any]]:
    return [host_row(run) for run in host_program(plan).runs]


def _say_left_out(plan: engine.FusionPlan) -> None:
    """What the host runs, and what nothing runs."""
    for name, step in plan.source.host.items() if plan.source else ():
        output.say(f"on the host: {name}: {step}")
    for name, reason in plan.unsupported.items():
        output.say(f"unsupported: {name}: {reason}")
