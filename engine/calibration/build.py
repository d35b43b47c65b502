"""Build a calibration from files of measured times, or say why they give none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from engine.calibration.fit import Observation, fit_target, predicted_time, speaking
from engine.calibration.published import FIGURES, Progress, is_table, published_observations
from engine.cost.calibration import ALL, FITTED, Calibration, FittedFigure, KindError
from engine.execution.nodes import MEASURED, PUBLISHED
from engine.measurements import MeasuredRow, Measurements, read_measurements
from engine.measurements.nodes import OURS
from engine.support.errors import BadInput, EngineError
from engine.target import DEVICES, Target, target, target_of_device

LEAST_ROWS = 12
"""Fewest rows for a fit."""
FEWEST_SPEAKING = 3
"""Fewest rows that must depend on a figure for it to be fitted."""
FOLDS = 4
"""Folds of the cross-validation."""


@dataclass(frozen=True, slots=True)
class _Times:
    """What a target's figures are fitted to."""

    machine: Target
    device: str
    date: str
    origin: str
    sources: tuple[str, ...]
    fitted: Sequence[Observation]
    figures: tuple[str, ...]
    """That are free."""
    judged: Sequence[Observation]
    """What judges the fit and is not fitted to; empty where parts of the fitted rows judge each other's fit."""


def calibrate(files: Sequence[str | Path], name: str | None = None, observe: Progress | None = None) -> Calibration:
    """Fit the figures of a target to measured times of our kernels, or to published ones of other people's.

    files: what `measure --json` or the GPU benchmark wrote, or tables laid out like `resources/published/times.csv`.
    name: of the target, by default the one that the files' device is.
    observe: called with (what comes next, steps done, all steps).

    Raises BadInput for files of both kinds or of several devices, of another device than the target, without a time,
    and where they hold too few rows.
    """
    if not files:
        raise BadInput("calibrate", "files", "none are named", "name what `loomscope measure --json` wrote")
    tables = [path for path in files if is_table(path)]
    if tables and len(tables) < len(files):
        sources = ", ".join(Path(path).name for path in files)
        raise BadInput("calibrate", sources, "mix published times with measured ones", "give files of one kind")
    times = _times_of_tables(tables, name, observe) if tables else _times_of_files(files, name)
    machine = times.machine
    if observe is not None:
        observe(f"fitting to {len(times.fitted)} times", 0, 1)
    after, rows = _fit_supported_figures(times.fitted, machine, times.figures)
    if not rows:
        held = "times that depend on no figure of the model enough"
        raise _refusal(times.sources, held, "measure kernels of other sizes")
    own = machine.figures()
    figures = {
        figure: FittedFigure(getattr(after, figure).value, own[figure].unit, own[figure].value, count)
        for figure, count in rows.items()
    }
    if times.judged:
        errors = _errors_by_kind(((one, after) for one in times.judged), machine)
    else:
        errors = _errors_by_kind(_cross_validated(times.fitted, machine, tuple(rows)), machine)
    return Calibration(machine.name, times.device, times.date, times.sources, figures, errors, times.origin)


def _times_of_tables(tables: Sequence[str | Path], name: str | None, observe: Progress | None) -> _Times:
    found = published_observations(tables, name, observe)
    sources = tuple(Path(path).name for path in tables)
    fitted = _fitting(found.fitted, found.machine)
    if len(fitted) < LEAST_ROWS:
        held = f"{len(fitted)} published times in the half that is fitted to, {LEAST_ROWS} are needed"
        raise _refusal(sources, held, "give a larger table")
    judged = _fitting(found.judged, found.machine)
    return _Times(found.machine, found.device, "", PUBLISHED, sources, fitted, FIGURES, judged)


def _times_of_files(files: Sequence[str | Path], name: str | None) -> _Times:
    read = [read_measurements(path) for path in files]
    machine = _machine(read, name)
    seen: dict[str, Observation] = {}
    for one in read:
        seen |= {found.name: found for found in map(_observe, one.rows) if found is not None}
    observations = _fitting(list(seen.values()), machine)
    sources = tuple(one.source for one in read)
    if len(observations) < LEAST_ROWS:
        held = f"{len(observations)} quiet measured times of kernels with their facts, {LEAST_ROWS} are needed"
        hint = "measure more: `loomscope measure MODEL --json`, or a suite with `python -m tests.benchmarks.gpu`"
        raise _refusal(sources, held, hint)
    dates = sorted(one.date for one in read if one.date)
    return _Times(machine, read[0].device, dates[0] if dates else "", MEASURED, sources, observations, FITTED, ())


def _machine(read: Sequence[Measurements], name: str | None) -> Target:
    """The target that all files are of."""
    sources = [one.source for one in read]
    devices = dict.fromkeys(one.device for one in read)
    if len(devices) != 1:
        told = ", ".join(device or "none" for device in devices) or "none"
        raise _refusal(sources, f"times of several devices: {told}", "give files of one device")
    (device,) = devices
    if not device:
        raise _refusal(sources, "no measured times", "measure on a GPU first")
    own = target_of_device(device)
    wanted = own if name is None else target(name)
    if wanted is None or wanted is not own:
        asked = f"which is not {wanted.title}" if wanted else f"which no target describes: {', '.join(DEVICES)}"
        raise _refusal(sources, f"times of {device}, {asked}", "give files of that GPU")
    return wanted


def _refusal(sources: Sequence[str], held: str, hint: str) -> BadInput:
    """The error that the files give no calibration."""
    verb = "holds" if len(sources) == 1 else "hold"
    return BadInput("calibrate", ", ".join(sources) or "no files", f"{verb} {held}", hint)


def _observe(row: MeasuredRow) -> Observation | None:
    """Our time of a row with what it was made of; None without a quiet measured one."""
    entry, ours = row.systems.get(OURS), row.ours
    if entry is None or ours is None or not entry.launches or ours.origin != MEASURED or ours.noise:
        return None
    dearest = max(entry.launches, key=lambda one: one.count * (one.facts.l2_bytes + one.facts.flops))
    kind = f"{dearest.kind} on tensor cores" if dearest.facts.tensor_flops else dearest.kind
    launches = tuple((one.count, one.facts) for one in entry.launches)
    return Observation(row.name, kind, ours.microseconds, launches)


def _fitting(observations: Sequence[Observation], machine: Target) -> list[Observation]:
    """The observations whose kernels fit the target."""
    found = []
    for one in observations:
        try:
            predicted_time(one, machine)
        except EngineError:
            continue  # its blocks do not fit an SM of this target: it was measured on another one of the same name
        found.append(one)
    return found


def _fit_supported_figures(
    observations: Sequence[Observation], machine: Target, names: tuple[str, ...]
) -> tuple[Target, Mapping[str, int]]:
    """The fitted target, and for each fitted figure the number of rows that depend on it.

    A figure that few rows depend on once all are fitted is given back its own value, and the rest is fitted again.
    """
    while names:
        after = fit_target(observations, machine, names)
        rows = speaking(observations, after, names)
        told = tuple(name for name in names if rows[name] >= FEWEST_SPEAKING)
        if told == names:
            return after, rows
        names = told
    return machine, {}


def _cross_validated(
    observations: Sequence[Observation], machine: Target, names: Sequence[str]
) -> Iterator[tuple[Observation, Target]]:
    """Each observation with the target fitted to the other parts of them."""
    for fold in range(FOLDS):
        others = [one for number, one in enumerate(observations) if number % FOLDS != fold]
        after = fit_target(others, machine, names)
        yield from ((one, after) for one in observations[fold::FOLDS])


def _errors_by_kind(judged: Iterable[tuple[Observation, Target]], machine: Target) -> tuple[KindError, ...]:
    """Median errors before and after, the latter of targets whose fit did not see the observation."""
    off: dict[str, list[tuple[float, float]]] = {}
    for one, after in judged:
        pair = _off(one, machine), _off(one, after)
        off.setdefault(one.kind, []).append(pair)
        off.setdefault(ALL, []).append(pair)
    order = sorted(off, key=lambda kind: (kind == ALL, kind))
    return tuple(
        KindError(kind, len(off[kind]), median(b for b, _ in off[kind]), median(a for _, a in off[kind]))
        for kind in order
    )


def _off(one: Observation, machine: Target) -> float:
    return abs(predicted_time(one, machine) / one.microseconds - 1)
