"""Running one program: predicted by the model of the compiled kernel, kept with its origin, never run twice."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from engine.compile import Kernel, compile_group
from engine.errors import EngineError
from engine.predict.calibration import predict
from engine.records.nodes import Subject, Trial
from engine.records.store import RecordStore
from engine.run.nodes import PREDICTED, Failure, Timing
from engine.tune.nodes import Program
from engine.tune.problem import Problem

MODEL = "model of times 1"
"""Name and version of what predicts: another one gives other trials."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One program and what came of it."""

    program: Program
    trial: Trial | None
    """None where there is no kernel: `failure` says why."""
    failure: Failure | None
    is_reused: bool = False
    """Whether the trial was kept already, and was not run."""
    is_repeated: bool = False
    """Whether another process kept the same trial while this one ran it."""

    @property
    def microseconds(self) -> float | None:
        """The time; None for a failure."""
        return self.trial.microseconds if self.trial else None


def run_predicted(problem: Problem, program: Program, store: RecordStore) -> Ran:
    """The modelled time of a program, from the store where it is kept, else kept there now."""
    recipe = problem.tuned(program)
    try:
        kernel = compile_group(problem.group, recipe)
    except EngineError as error:
        return Ran(program, None, Failure("compile", str(error)))
    other = problem.taken(kernel, program)
    if other:
        return Ran(program, None, Failure("not taken", other))
    try:
        found = predict(kernel.facts, kernel.target)
        outcome: Timing | Failure = Timing(PREDICTED, found.microseconds, environment={"note": found.note})
        note = found.note
    except EngineError as error:
        outcome, note = Failure("compile", error.reason), ""
    subject = subject_of(kernel, f"{MODEL}, {note}")
    kept = store.find(subject, PREDICTED)
    if kept is not None:
        return Ran(program, kept, _failure(kept), is_reused=True)
    name = problem.group.name
    text = json.dumps(replace(recipe, groups={name: kernel.advice}).to_json())
    trial = Trial(subject, PREDICTED, outcome, name, text, str(program))
    is_new = store.add(trial)
    return Ran(program, trial, _failure(trial), is_repeated=not is_new)


def subject_of(kernel: Kernel, compiler: str, flags: tuple[str, ...] = ()) -> Subject:
    """What a result of a kernel depends on."""
    source = kernel.source
    launch = f"grid {source.grid}, block {source.block}, {source.shared_bytes} bytes"
    inputs = ", ".join(map(str, kernel.program.arrays.values()))
    return Subject.of(source.text, launch, inputs, kernel.target.name, compiler, flags)


def _failure(trial: Trial) -> Failure | None:
    return trial.outcome if isinstance(trial.outcome, Failure) else None
