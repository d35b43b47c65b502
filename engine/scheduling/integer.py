"""Small integer programs with objectives in order of importance, through HiGHS.

The linear relaxation is solved first: schedule rows are mostly differences of two variables, so its optimum is
usually integral.  Branching starts only when it is not.  Results are rounded; whoever asks checks them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from engine.support.errors import OverBudget

_INTEGRAL = 1e-6
"""Tolerance for integrality of a relaxed solution."""

Sum = Mapping[int, int]
"""Column -> coefficient."""


class OutOfTime(OverBudget):
    """The solver ran past its deadline.  Unlike an attempt count this depends on the machine, so no schedule depends on
    it."""


@dataclass(slots=True)
class Deadline:
    """Limit of a search in seconds of the processor, which other work of the machine does not use up.

    should_stop: whether nobody waits for the result any more.
    """

    seconds: float
    subject: str
    should_stop: Callable[[], bool] = lambda: False
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = process_time() + self.seconds

    def seconds_left(self) -> float:
        """Remaining seconds; OutOfTime if there are none."""
        left = self._end - process_time()
        if left <= 0 or self.should_stop():
            raise self.timeout_error()
        return left

    def timeout_error(self) -> OutOfTime:
        """The error for a passed deadline."""
        hint = "relax some entries, or schedule fewer statements together"
        reason = f"the search for a schedule takes more than {self.seconds:g} s"
        return OutOfTime("schedule", self.subject, reason, hint)


@dataclass(slots=True)
class IntegerProgram:
    """Bounded integer columns, rows over them, and linear objectives."""

    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    rows: dict[tuple[tuple[int, int], ...], tuple[float, float]] = field(default_factory=dict)
    """Sorted terms -> bounds; equal rows are kept once, with the tighter bounds."""

    def column(self, lower: int, upper: int) -> int:
        """A new column, by its number."""
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.lower) - 1

    def require(self, terms: Iterable[tuple[int, int]], lower: float, upper: float) -> None:
        """A new row: `lower` <= sum of coefficient * column <= `upper`; columns may repeat."""
        total: dict[int, int] = {}
        for column, coefficient in terms:
            total[column] = total.get(column, 0) + coefficient
        key = tuple(sorted((column, c) for column, c in total.items() if c))
        low, high = self.rows.get(key, (float("-inf"), float("inf")))
        self.rows[key] = (max(low, lower), min(high, upper))

    def minimise(self, objectives: Sequence[Sum], deadline: Deadline) -> tuple[int, ...] | None:
        """Values of the columns that minimise the first objective, then the second, ...; None where no values fit.

        Raises OutOfTime past the deadline.
        """
        # Rows whose terms cancelled are constants: 0 must lie within their bounds.
        if any(low > 0 or high < 0 for terms, (low, high) in self.rows.items() if not terms):
            return None
        relaxed = self._solve(objectives, deadline, whole=False)
        if relaxed is not None and any(abs(value - round(value)) > _INTEGRAL for value in relaxed):
            relaxed = self._solve(objectives, deadline, whole=True)
        return None if relaxed is None else tuple(round(value) for value in relaxed)

    def _solve(self, objectives: Sequence[Sum], deadline: Deadline, whole: bool) -> list[float] | None:
        import highspy  # loading it takes as long as twenty schedules, and few groups need it

        solver = highspy.Highs()
        # One thread and a fixed seed, so that equal problems give equal schedules.
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
            solver.setOptionValue(option, value)
        solver.passModel(self._model(whole))
        columns = list(range(len(self.lower)))
        values: list[float] | None = None
        for objective in objectives or ({},):
            solver.changeColsCost(len(columns), columns, [float(objective.get(c, 0)) for c in columns])
            solver.setOptionValue("time_limit", deadline.seconds_left())
            solver.run()
            status = solver.getModelStatus()
            if status == highspy.HighsModelStatus.kTimeLimit:
                raise deadline.timeout_error()
            if status != highspy.HighsModelStatus.kOptimal:
                return values  # a later objective that fails numerically leaves the earlier optimum
            values = list(solver.getSolution().col_value)
            # Lexicographic minimisation: later objectives may not worsen this one.
            reached = sum(coefficient * values[column] for column, coefficient in objective.items())
            terms = sorted(objective.items())
            solver.addRow(
                float("-inf"), reached + _INTEGRAL, len(terms), [c for c, _ in terms], [float(v) for _, v in terms]
            )
        return values

    def _model(self, whole: bool) -> Any:
        import highspy
        import numpy as np

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.lower), len(self.rows)
        model.col_cost_ = np.zeros(len(self.lower))
        model.col_lower_ = np.array(self.lower, dtype=float)
        model.col_upper_ = np.array(self.upper, dtype=float)
        model.row_lower_ = np.array([low for low, _ in self.rows.values()], dtype=float)
        model.row_upper_ = np.array([high for _, high in self.rows.values()], dtype=float)
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.cumsum([0, *(len(terms) for terms in self.rows)])
        matrix.index_ = np.array([column for terms in self.rows for column, _ in terms], dtype=np.int32)
        matrix.value_ = np.array([float(c) for terms in self.rows for _, c in terms])
        if whole:
            model.integrality_ = [highspy.HighsVarType.kInteger] * len(self.lower)
        return model
