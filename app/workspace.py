"""The open workspace: the only mutable state of the window, changed by commands and by the worker's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from app import advice
from app.client import Client, Pending
from app.example import EXAMPLE, path_of
from app.selection import Selection, SelectionBus
from engine.documents import CheckDoc, CompiledDoc, EntryDoc, GroupDoc, KernelDoc, ModelDoc, Problem, Time
from engine.text import from_json


class Workspace(QObject):
    """One open model, the advice of its groups as text, and everything known about them."""

    model_changed = Signal()
    kernel_changed = Signal(str)
    """What is known about a group's kernel, its advice or its check changed."""
    edit_refused = Signal(str, object)
    """Group and Problem: its advice could not be parsed or compiled."""
    problems_changed = Signal()
    samples_changed = Signal(str)
    machine_changed = Signal()
    opening_changed = Signal(bool)
    saved_path = Signal(str)
    """A file was opened, for the list of recent files."""

    def __init__(self, client: Client, target: str = "h200", dimensions: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.client = client
        self.target = target
        self.dimensions = dict(dimensions or {})
        self.bus = SelectionBus()
        self.undo = QUndoStack(self)
        self.model: ModelDoc | None = None
        self.path = ""
        self.gpu: str | None = None
        self.problems: list[tuple[str, Problem]] = []
        """(group or "", problem), the oldest first."""
        self.measured: dict[str, Time] = {}
        self.samples: dict[str, tuple[float, ...]] = {}
        self._recipes: dict[str, str] = {}
        self._kernels: dict[tuple[str, str], KernelDoc] = {}
        self._legal: dict[str, KernelDoc] = {}
        self._refused: dict[tuple[str, str], Problem] = {}
        self._checks: dict[tuple[str, str], CheckDoc] = {}
        self._asked: set[tuple[str, str | None]] = set()
        self.bus.changed.connect(self._on_selected)
        client.respawned.connect(self._reopen)
        client.failed.connect(lambda problem: self._add_problem("", problem))

    def start(self) -> None:
        """Asks what this machine can do."""
        self.client.request("machine", {}, "Looking at this machine", Pending(None, self._on_machine, self._on_silent))

    def open(self, path: str) -> None:
        """Opens a file; what was open stays until the new file is read."""
        self.opening_changed.emit(True)
        name = Path(path).name
        if path != EXAMPLE:
            path = str(Path(path).absolute())  # the worker has a working directory of its own
        pending = Pending(
            ModelDoc, lambda model: self._on_opened(path, model), lambda problem: self._on_not_opened(path, problem)
        )
        self.client.request("open", self._open_arguments(path), f"Opening {name}", pending)

    def recipe(self, group: str) -> str | None:
        """The applied advice of a group; None until its first kernel is known."""
        return self._recipes.get(group)

    def kernel(self, group: str) -> KernelDoc | None:
        """The kernel of the applied advice, legal or not; None while unknown or refused."""
        return self._kernels.get((group, self._recipes.get(group, "")))

    def legal_kernel(self, group: str) -> KernelDoc | None:
        """The last legal kernel of a group: what schedule and code show."""
        kernel = self.kernel(group)
        return kernel if kernel and kernel.legal else self._legal.get(group)

    def refusal(self, group: str) -> Problem | None:
        """Why the applied advice gave no kernel at all."""
        return self._refused.get((group, self._recipes.get(group, "")))

    def check(self, group: str) -> CheckDoc | None:
        """The check of the applied advice."""
        return self._checks.get((group, self._recipes.get(group, "")))

    def group(self, name: str) -> GroupDoc | None:
        """A group of the open model."""
        return next((group for group in self.model.groups if group.name == name), None) if self.model else None

    def predicted(self) -> dict[str, Time]:
        """Predicted times of the groups whose kernels are known."""
        return {group: kernel.time for group, kernel in self._legal.items()}

    def edit(self, group: str, text: str) -> None:
        """Applies new advice as one undoable step."""
        before = self._recipes.get(group)
        if before is not None and text != before:
            self.undo.push(EditAdvice(self, group, before, text))

    def switch_entry(self, group: str, entry: EntryDoc, enabled: bool) -> None:
        """Switches an entry on or off."""
        self.edit(group, advice.with_enabled(self._recipes.get(group, ""), entry, enabled))

    def set_stages(self, group: str, entry: EntryDoc, stages: int) -> None:
        """Sets the stages of an entry's dimension."""
        self.edit(group, advice.with_stages(self._recipes.get(group, ""), entry, stages))

    def add_entry(self, group: str, line: str) -> None:
        """Adds an entry to the user's advice."""
        self.edit(group, advice.with_entry(self._recipes.get(group, ""), line))

    def set_recipe(self, group: str, text: str) -> None:
        """Makes advice current; commands call this.  A kernel that is known already is shown at once."""
        self._recipes[group] = text
        self.clear_problems(group)
        if (group, text) in self._kernels or (group, text) in self._refused:
            self._settle(group)
        else:
            self._ask_kernel(group, text)

    def run_check(self, group: str) -> None:
        """Compiles a group's kernel for its figures, and checks it on the CPU against the reference."""
        self._compile(group)
        key = (group, self._recipes.get(group, ""))

        def checked(check: CheckDoc) -> None:
            self._checks[key] = check
            self._note_check(group, check)
            self.kernel_changed.emit(group)

        self._request("check", group, f"Checking {group}", CheckDoc, checked)

    def _compile(self, group: str) -> None:
        """Asks NVRTC for registers and spills; they become part of the kernel."""
        key = (group, self._recipes.get(group, ""))

        def compiled(answer: dict[str, object]) -> None:
            figures = from_json(tuple[CompiledDoc, ...], answer["compiled"])  # type: ignore[arg-type]
            if key in self._kernels:
                self._kernels[key] = replace(self._kernels[key], compiled=figures)
                self._settle(group)

        self._request("compile", group, f"Compiling {group} with NVRTC", None, compiled)

    def run_measure(self, group: str) -> None:
        """Measures a group's kernel; without a GPU the answer is a problem that says so."""
        self.samples[group] = ()

        def sampled(microseconds: float) -> None:
            self.samples[group] = (*self.samples[group], microseconds)
            self.samples_changed.emit(group)

        def measured(time: Time) -> None:
            self.measured[group] = time
            self.samples[group] = time.samples or self.samples[group]
            self.samples_changed.emit(group)

        self._request("measure", group, f"Timing {group}", Time, measured, sampled)

    def clear_problems(self, group: str | None = None) -> None:
        """Drops the problems of a group, or all."""
        self.problems = [] if group is None else [each for each in self.problems if each[0] != group]
        self.problems_changed.emit()

    def _request(
        self, verb: str, group: str, title: str, kind: type | None, on_result: object, on_sample: object = None
    ) -> None:
        arguments = {"group": group, "recipe": self._recipes.get(group)}
        pending = Pending(kind, on_result, lambda problem: self._add_problem(group, problem), on_sample)  # type: ignore[arg-type]
        self.client.request(verb, arguments, title, pending)

    def _ask_kernel(self, group: str, text: str | None) -> None:
        if (group, text) in self._asked:
            return
        self._asked.add((group, text))
        pending = Pending(
            KernelDoc,
            lambda kernel: self._on_kernel(group, text, kernel),
            lambda problem: self._on_refused(group, text, problem),
        )
        self.client.request("kernel", {"group": group, "recipe": text}, f"Compiling {group}", pending)

    def _on_selected(self, selection: Selection) -> None:
        group = selection.group
        if group and group not in self._recipes and self.group(group):
            self._ask_kernel(group, None)

    def _on_kernel(self, group: str, text: str | None, kernel: KernelDoc) -> None:
        self._asked.discard((group, text))
        self._kernels[group, kernel.recipe if text is None else text] = kernel
        if text is None:
            self._recipes.setdefault(group, kernel.recipe)
        if self._recipes.get(group) in (text, kernel.recipe):
            self._settle(group)

    def _on_refused(self, group: str, text: str | None, problem: Problem) -> None:
        self._asked.discard((group, text))
        self._refused[group, text or ""] = problem
        if text is None or self._recipes.get(group) == text:
            self._settle(group)

    def _settle(self, group: str) -> None:
        """Tells what became of the current advice: a legal kernel, an illegal one, or a refusal."""
        kernel, refusal = self.kernel(group), self.refusal(group)
        if kernel and kernel.legal:
            self._legal[group] = kernel
        for entry in kernel.entries if kernel else ():
            if entry.outcome == "infeasible":
                reason = entry.verdict if entry.witness in entry.verdict else f"{entry.verdict} {entry.witness}"
                self._add_problem(
                    group,
                    Problem(
                        "schedule", entry.text.partition("#")[0].strip(), reason, "the schedule in use is unchanged"
                    ),
                )
        if refusal:
            self._add_problem(group, refusal)
            self.edit_refused.emit(group, refusal)
        self.kernel_changed.emit(group)

    def _on_opened(self, path: str, model: ModelDoc) -> None:
        same = self.path == path and self.model == model
        self.path, self.model = path, model
        self.opening_changed.emit(False)
        if same:
            return
        self.undo.clear()
        for known in (
            self._recipes,
            self._kernels,
            self._legal,
            self._refused,
            self._checks,
            self.measured,
            self.samples,
        ):
            known.clear()
        self._asked.clear()
        self.problems = [("", Problem("graph", name, reason, "", "warning")) for name, reason in model.unsupported]
        self.bus.select(Selection())
        self.model_changed.emit()
        self.problems_changed.emit()
        if path != EXAMPLE:
            self.saved_path.emit(path)

    def _on_not_opened(self, path: str, problem: Problem) -> None:
        """A file that cannot be read changes nothing: the worker keeps the old one open, too."""
        self.opening_changed.emit(False)
        self._add_problem("", problem)

    def _reopen(self) -> None:
        """A fresh worker knows nothing: it gets the open file again."""
        self._asked.clear()
        self.opening_changed.emit(False)
        if self.path:
            pending = Pending(
                ModelDoc,
                lambda model: self._on_opened(self.path, model),
                lambda problem: self._add_problem("", problem),
            )
            self.client.request(
                "open", self._open_arguments(self.path), f"Opening {Path(self.path).name} again", pending
            )
        self._on_selected(self.bus.selection)

    def _open_arguments(self, path: str) -> dict[str, object]:
        return {"path": str(path_of(path)), "target": self.target, "dimensions": self.dimensions}

    def _on_machine(self, answer: dict[str, str]) -> None:
        self.gpu = answer.get("gpu", "")
        self.machine_changed.emit()

    def _on_silent(self, problem: Problem) -> None:
        self.gpu = ""
        self.machine_changed.emit()

    def _note_check(self, group: str, check: CheckDoc) -> None:
        for line, kind, message in check.findings:
            self._add_problem(group, Problem("check", f"{group} line {line}", message, kind))
        if check.status != "pass" and not check.findings:
            self._add_problem(group, Problem("check", group, check.message or check.status, ""))

    def _add_problem(self, group: str, problem: Problem) -> None:
        if (group, problem) not in self.problems:
            self.problems.append((group, problem))
            self.problems_changed.emit()


class EditAdvice(QUndoCommand):
    """One applied edit of a group's advice."""

    def __init__(self, workspace: Workspace, group: str, before: str, after: str) -> None:
        super().__init__(f"edit of {group}")
        self._workspace = workspace
        self._group, self._before, self._after = group, before, after

    def redo(self) -> None:
        """Applies the new advice."""
        self._workspace.set_recipe(self._group, self._after)
        self._workspace.bus.select_group(self._group)

    def undo(self) -> None:
        """Returns to the old advice, from the cache where it was compiled before."""
        self._workspace.set_recipe(self._group, self._before)
        self._workspace.bus.select_group(self._group)
