"""Rounding errors followed through a program with the values of one run, to first order.

    s = x + y        off by e(x) + e(y), and its own rounding
    p = exp(s)       off by p * e(s): large sums make large errors
    t = sum(k) s[k]  off by the sum of e(s[k]), also where the terms cancel and t itself is small

`tolerance` knows no values: it takes every rounding to be of a value as large as the output.  Where values cancel on
their way, or an exponential magnifies the error of its argument, a correct kernel is off by more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from engine.tensor.evaluate import Arrays, EvaluatedBox, chunks_of, evaluate, is_product
from engine.tensor.functions import FUNCTION_OF, reduce_axes
from engine.tensor.nodes import Access, Apply, Scalar, Statement, TensorProgram, without_cast
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, is_shifted, match_weighted
from engine.tensor.terms import HALVES
from engine.verify.tolerance import AS_REFERENCE, EXACT, FUNCTION_ULPS, INEXACT, SIDES, SUM_FACTOR, UNIT, KernelRounding

STEPS = frozenset(("floor", "ceil", "round"))
"""Functions whose result moves by a whole step where an operand within its error of an edge does."""

FOLLOWED = STEPS | frozenset(
    "add sub mul div pow max min neg abs exp log sqrt rsqrt reciprocal tanh erf sigmoid sin cos atan select cast copy"
    .split()
)  # fmt: skip
"""Scalar functions that hand the errors of their operands on; comparisons and the like do not."""

OF_WHOLE = frozenset(("add", "sub", "mul", "cast"))
"""Functions that make whole numbers of whole numbers, exactly as long as the type holds them."""

BOUNDED = frozenset(("sigmoid", "tanh", "erf"))
"""Functions that ONNX Runtime approximates to a part of their largest value, which is 1: sigmoid(-9) is off by 3e-8,
2e-4 of itself."""

MOST_POINTS = 2**28
"""Points of statements other than matrix products past which nothing is followed: that would take minutes."""


def followed_errors(
    program: TensorProgram, inputs: Mapping[str, np.ndarray], kernel: KernelRounding = AS_REFERENCE
) -> dict[str, np.ndarray] | None:
    """Output -> what each of its elements may be off by, with these values; None where following them takes too long.

    inputs: of the program.
    """
    if sum(s.points for s in program.statements if not is_product(s)) > MOST_POINTS:
        return None
    values = {**inputs, **evaluate(program, inputs, exact=True)}
    errors = rounding_errors(program, values, kernel)
    return {name: errors[name] for name in program.outputs}


def rounding_errors(
    program: TensorProgram, values: Mapping[str, np.ndarray], kernel: KernelRounding = AS_REFERENCE
) -> dict[str, np.ndarray]:
    """Array -> what each element may be off by.  values: of every array."""
    exact = {
        name: np.asarray(v, np.float64) if "float" in program.arrays[name].dtype else np.asarray(v)
        for name, v in values.items() if name in program.arrays
    }  # fmt: skip
    errors: Arrays = {name: np.zeros(v.shape) for name, v in exact.items()}
    off = {name for name in program.inputs if "float" in program.arrays[name].dtype}
    with np.errstate(all="ignore"):
        for statement in program.statements:
            array = program.arrays[statement.write.array]
            if array.dtype == "bool" or ("float" not in array.dtype and off.isdisjoint(statement.sources)):
                continue
            off.add(array.name)
            written = np.zeros(array.shape, bool)  # other statements may write, and round, other parts of the array
            for start, stop in chunks_of(statement):
                box = EvaluatedBox(statement, exact, True, start, stop)
                followed = _FollowedStatement(box, errors, kernel).error()
                box.store(errors[array.name], followed)
                box.store(written, np.ones(followed.shape, bool))
            if array.dtype in UNIT:
                value, unit = exact[array.name], UNIT[array.dtype]
                rounded = written & ~_is_whole(value, errors[array.name], unit)
                sides = SIDES if array.name in program.outputs else _sides(array.dtype, kernel)
                errors[array.name] += np.where(rounded, np.abs(value) * (sides * unit), 0)
    return errors


@dataclass(frozen=True, slots=True)
class _FollowedStatement:
    """A part of one statement's box, with values and with errors."""

    values: EvaluatedBox
    errors: Mapping[str, np.ndarray]
    """Of every array."""
    kernel: KernelRounding

    @property
    def statement(self) -> Statement:
        return self.values.statement

    def error(self) -> np.ndarray:
        """What the results are off by before they are rounded to the array's type."""
        statement = self.statement
        if statement.reduction is None:
            return np.broadcast_to(self._follow(statement.expression)[1], self.values.shape)
        if is_product(statement):
            return self._of_product()
        if is_shifted(statement):
            return self._of_weights()
        term, error = self._follow(statement.expression)
        match statement.reduction.operation:
            case "sum":
                return np.asarray(self._reduce("sum", error) + self._of_adding(self._reduce("sum", term), term**2))
            case "prod":
                total = self._reduce("prod", np.abs(term))
                grown = self._reduce("prod", np.abs(term) + error)
                return np.asarray(grown - total + self._roundings() * total)
            case _:
                return self._reduce("max", error)

    def _reduce(self, operation: str, terms: np.ndarray) -> np.ndarray:
        """Terms reduced over the statement's axes, where it has them."""
        terms = np.broadcast_to(terms, self.values.shape)
        if self.statement.guards:
            terms = np.where(self.values.holds(self.statement.guards), terms, float(operation == "prod"))
        axes = tuple(at for at, i in enumerate(self.values.iterators) if i in self.statement.reduced)
        return reduce_axes(operation, terms, axes, np.dtype("float64"))

    def _of_adding(self, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """The roundings of adding up terms, one for each, of partial sums with random signs.

        Partial sums are as large as the total where terms have one sign, and as the root of the sum of their squares
        where they have any.
        """
        return np.asarray(self._roundings() * (np.abs(total) + np.sqrt(self._reduce("sum", squares))))

    def _roundings(self) -> float:
        reduction = self.statement.reduction
        assert reduction is not None
        terms = math.prod(i.extent for i in self.statement.reduced)
        return SUM_FACTOR * math.sqrt(terms) * UNIT.get(reduction.accumulate, 0.0)

    def _of_product(self) -> np.ndarray:
        """A matrix product's error, by matrix products of errors and magnitudes."""
        assert isinstance(self.statement.expression, Apply)
        a, b = map(without_cast, self.statement.expression.operands)
        assert isinstance(a, Access) and isinstance(b, Access)

        def sum_up(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            expression = Apply("mul", (replace(a, array="left"), replace(b, array="right")), "float64")
            box = replace(
                self.values, statement=replace(self.statement, expression=expression),
                arrays={**self.values.arrays, "left": left, "right": right},
            )  # fmt: skip
            made = box.product_sum()
            return box.reduce(box.value(expression)) if made is None else made

        left, right = (self.values.arrays[access.array] for access in (a, b))
        off_left, off_right = (self.errors[access.array] for access in (a, b))
        error = sum_up(off_left + self.kernel.operands * np.abs(left), np.abs(right))
        error = error + sum_up(np.abs(left), off_right + self.kernel.operands * np.abs(right))
        partial = np.abs(sum_up(left, right)) + np.sqrt(sum_up(left**2, right**2))
        return np.asarray(error + self._roundings() * partial)

    def _of_weights(self) -> np.ndarray:
        """The error of a sum of exp(x - largest x) * factor, or of its quotient by the sum of the weights."""
        found = match_weighted(self.statement.expression)
        assert found is not None and self.statement.reduction is not None
        exponent, off = (np.broadcast_to(part, self.values.shape) for part in self._follow(found.exponent))
        axes = tuple(at for at, i in enumerate(self.values.iterators) if i in self.statement.reduced)
        weight = np.exp(exponent - exponent.max(axes, keepdims=True))
        unit = FUNCTION_ULPS * UNIT["float32"] + SIDES * UNIT.get(found.rounded, 0.0)
        off = weight * (np.expm1(off + off.max(axes, keepdims=True)) + unit)
        factor, off_factor = (np.ones(()), np.zeros(())) if found.factor is None else self._follow(found.factor)
        term = weight * factor
        total = self._reduce("sum", term)
        error = self._reduce("sum", off * np.abs(factor) + weight * off_factor) + self._of_adding(total, term**2)
        if self.statement.reduction.operation != SHIFTED_MEAN:
            return np.asarray(error)
        sums = self._reduce("sum", weight)
        off_sums = self._reduce("sum", off) + self._of_adding(sums, weight**2)
        return np.asarray((error + np.abs(total / sums) * off_sums) / sums)

    def _follow(self, scalar: Scalar) -> tuple[np.ndarray, np.ndarray]:
        """The value of an expression and what it is off by."""
        match scalar:
            case Access(array) if self.values.arrays[array].dtype != bool:
                exact = None if scalar.otherwise is None else replace(scalar.otherwise, value=0.0)
                # Indices that are read from other arrays have values still: they tell whose error is read.
                box = replace(self.values, arrays={**self.values.arrays, array: self.errors[array]})
                return self.values.value(scalar), box.access(replace(scalar, otherwise=exact))
            case Apply(function, operands, dtype) if dtype != "bool":
                parts = [self._follow(operand) for operand in operands]
                value = self.values.apply(function, [own for own, _ in parts], dtype)
                error = np.zeros(())
                for place, (own, off) in enumerate(parts):
                    if function not in FOLLOWED or own.dtype == bool or not off.any():
                        continue
                    moved = [[m if k == place else part for k, (part, _) in enumerate(parts)]
                             for m in (own + off, own - off)]  # fmt: skip
                    results = (FUNCTION_OF[function](*taken) for taken in moved)
                    whole = function == "cast" and "float" not in dtype
                    up, down = (np.abs((np.trunc(r) if whole else r) - value) for r in results)
                    mean = np.fmax(up, down) if whole or function in STEPS else (up + down) / 2
                    # Below 0 there is no root: the other side alone says how far a result may move.
                    error = error + np.where(np.isnan(mean), np.fmax(up, down), mean)
                sides = _sides(dtype, self.kernel)
                ulps = FUNCTION_ULPS if function in INEXACT else sides * (function not in EXACT)
                size = np.maximum(np.abs(value), 1.0) if function in BOUNDED else np.abs(value)
                rounding = np.asarray(size * (ulps * UNIT.get(dtype, 0.0)))
                if function in OF_WHOLE and ulps and dtype in UNIT:
                    is_whole = reduce(np.logical_and, (_is_whole(*part, UNIT[dtype]) for part in parts))
                    rounding = np.where(is_whole, 0, rounding)
                return value, error + (0 if function in STEPS else rounding)
            case _:
                return self.values.value(scalar), np.zeros(())


def _sides(dtype: str, kernel: KernelRounding) -> int:
    """How many round what operators hand to each other: the reference, and the kernel unless it computes in float32."""
    return SIDES if kernel.between or dtype not in HALVES else 1


def _is_whole(value: np.ndarray, error: np.ndarray, unit: float) -> np.ndarray:
    """Which are whole numbers, off by whole numbers, that a type of this roundoff holds exactly."""
    return np.asarray((np.rint(value) == value) & (np.rint(error) == error) & (np.abs(value) <= 1 / unit))
