"""Checks a group's kernel: registers and spills from NVRTC, results on the CPU against the reference."""

from __future__ import annotations

from collections.abc import Callable

from app.session.client import Pending
from app.session.history import Checked
from app.session.workspace import Workspace
from engine.documents.model import Check, CompiledDoc, ProblemDoc
from engine.support.serialization import from_json
from views.format import plural
from views.hierarchy import group_title


def run_check(workspace: Workspace, group: str, say: Callable[[str], object]) -> None:
    """Asks the worker for both; what is found goes to the kernel, to the group's history and to the problems.

    say: is told the outcome of the check: none of these need be in sight.
    """
    text = workspace.recipe(group)
    arguments = {"group": group, "recipe": text}
    title = group_title(group, workspace.model)

    def on_compiled(answer: dict[str, object]) -> None:
        workspace.add_figures(group, text or "", from_json(tuple[CompiledDoc, ...], answer["compiled"]))

    def on_check(check: Check) -> None:
        workspace.add_check(group, text or "", check)
        for found in check.findings:
            workspace.add_problem(group, ProblemDoc("check", f"{group} line {found.line}", found.message, found.kind))
        if check.status != "pass" and not check.findings:
            workspace.add_problem(group, ProblemDoc("check", group, check.message or check.status, ""))
        blocks = f"{check.blocks_run:,} of {plural(check.blocks_total, 'block')}, {Checked.of(check).extent}"
        said = blocks if check.status == "pass" else "see Problems"
        say(f"Check of {title}: {check.status}, {said}")

    def on_problem(problem: ProblemDoc) -> None:
        workspace.add_problem(group, problem)

    def on_unchecked(problem: ProblemDoc) -> None:
        on_problem(problem)
        say(f"{title} was not checked, see Problems")

    request = workspace.client.request
    request("compile", arguments, f"Compiling {group} with NVRTC", Pending(None, on_compiled, on_problem))
    request("check", arguments, f"Checking {group}", Pending(Check, on_check, on_unchecked))
