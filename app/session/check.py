"""Checks a group's kernel: registers and spills from NVRTC, results on the CPU against the reference."""

from __future__ import annotations

from app.session.client import Pending
from app.session.workspace import Workspace
from engine.documents.model import Check, CompiledDoc, ProblemDoc
from engine.support.serialization import from_json


def run_check(workspace: Workspace, group: str) -> None:
    """Asks the worker for both; what is found goes to the kernel, to the group's history and to the problems."""
    text = workspace.recipe(group)
    arguments = {"group": group, "recipe": text}

    def on_compiled(answer: dict[str, object]) -> None:
        workspace.add_figures(group, text or "", from_json(tuple[CompiledDoc, ...], answer["compiled"]))

    def on_check(check: Check) -> None:
        workspace.add_check(group, text or "", check)
        for found in check.findings:
            workspace.add_problem(group, ProblemDoc("check", f"{group} line {found.line}", found.message, found.kind))
        if check.status != "pass" and not check.findings:
            workspace.add_problem(group, ProblemDoc("check", group, check.message or check.status, ""))

    def on_problem(problem: ProblemDoc) -> None:
        workspace.add_problem(group, problem)

    request = workspace.client.request
    request("compile", arguments, f"Compiling {group} with NVRTC", Pending(None, on_compiled, on_problem))
    request("check", arguments, f"Checking {group}", Pending(Check, on_check, on_problem))
