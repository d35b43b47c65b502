"""How far a model's outputs may be off: the reference is run again with larger roundings, drawn at random.

A right kernel rounds at other places than the reference, and adds up in another order.  What that moves depends on
what is computed: an element where terms cancel, or behind an exponential of a large number, moves by more than its
neighbour.  So each operator of the reference gets noise, `WIDER` times as large as its roundings are, and an element's
limit is what it moves by.  Where that is no small part of an output, a comparison says nothing, and is not made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.noise import Noise, OperatorNoise
from engine.execution.reference import reference_values
from engine.graph.nodes import Operator, OperatorGraph, is_float
from engine.graph.onnx import model_of
from engine.graph.subgraphs import captured_tensors
from engine.tensor.evaluate import is_product
from engine.tensor.lower import lower_supported
from engine.tensor.nodes import Apply, Scalar, Statement
from engine.tensor.terms import NARROW
from engine.verify.tolerance import EXACT, FUNCTION_ULPS, INEXACT, SIDES, SUBNORMAL, UNDERFLOW, UNIT, operand_roundoff

DRAWS = 8
"""Runs of the reference with noise.  In four, one element of 30,000 is never moved by a sixteenth of its deviation, and
of a million elements some would be called wrong; in eight, one of 400 million."""
WIDER = 4
"""How many times the deviation of an operator's roundings its noise has: so that values that are compared, rounded down
or sorted change sides in some run where they may in a kernel."""
MARGIN = 4
"""How many times what an element moves by with that noise it may be off."""
SUMMED = 0.5
"""A sum of n terms in any order is off by this many times sqrt(n) roundoffs, of its terms and of itself."""
_EVENLY = math.sqrt(3)
"""Half a unit in the last place over the deviation of what is evenly spread up to it."""
_WHOLE = frozenset(("floor", "ceil", "round", "sign"))
"""Functions whose results are whole numbers, which no rounding moves: a cast would drop noise below one to the next."""
COMPARABLE = 0.1
"""Part of an element's size, or of the output's spread, up to which its limit says something."""


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """What each element of an output may be off by: infinite where a comparison says nothing."""

    allowed: np.ndarray
    """In the output's own unit, in its shape; 0 for integers and booleans, which are equal or not compared."""
    unit: np.ndarray
    """The larger of an element's size and the output's spread: errors and limits are shown as parts of it."""

    @property
    def compared(self) -> int:
        """How many elements are compared."""
        return int(np.isfinite(self.allowed).sum())

    @property
    def relative(self) -> np.ndarray:
        """Each element's limit in the unit; 0 where it is not compared."""
        return np.asarray(np.where(np.isfinite(self.allowed), self.allowed, 0.0) / self.unit)

    def errors(self, got: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Each element's error in the unit; 0 where it is not compared, infinite where one has no number there."""
        if not is_float(right.dtype):
            return np.where(np.isfinite(self.allowed), (got != right).astype(np.float64), 0.0)
        a, b = got.astype(np.float64), right.astype(np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.abs(a - b)
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | (apart <= UNDERFLOW)
            error = np.where(same, 0.0, apart / self.unit)
        return np.where(np.isfinite(self.allowed), np.where(np.isnan(error), np.inf, error), 0.0)

    def worst(self, errors: np.ndarray) -> int:
        """Where, flat, an error is the largest part of its limit."""
        relative = self.relative
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = np.where(errors == 0, 0.0, errors / relative)
        return int(parts.argmax()) if parts.any() else int(relative.argmax())


def find_limits(
    graph: OperatorGraph, expected: Mapping[str, np.ndarray], kernels: Collection[AnyKernel], seed: int = 0
) -> dict[str, OutputLimits]:
    """The limits of a graph's outputs.  expected: the reference's values.  kernels: those whose results are compared.

    Raises Unsupported where ONNX Runtime does not run the graph with noise.
    """
    operators = _operator_noise(graph, kernels)
    draws = [reference_values(graph, seed, expected, Noise(graph, operators, draw)) for draw in range(1, DRAWS + 1)]
    return {name: _limits_of(right, [drawn[name] for drawn in draws]) for name, right in expected.items()}


def even_limits(right: np.ndarray, relative: float) -> OutputLimits:
    """One limit for all elements, relative to the larger of an element's size and the spread of all."""
    if not is_float(right.dtype):
        return OutputLimits(np.zeros(right.shape), np.ones(right.shape))
    unit = unit_of(right.astype(np.float64))
    return OutputLimits(relative * unit, unit)


def unit_of(right: np.ndarray) -> np.ndarray:
    """The larger of an element's size and the spread of all: the size of all where they are the same."""
    ordinary = np.where(np.isfinite(right), right, 0.0)
    spread = float(ordinary.std()) or float(np.abs(ordinary).max(initial=0.0)) or 1.0
    return np.asarray(np.maximum(np.abs(ordinary), spread))


def _limits_of(right: np.ndarray, draws: list[np.ndarray]) -> OutputLimits:
    if not is_float(right.dtype):
        changed = np.any([drawn != right for drawn in draws], axis=0)
        return OutputLimits(np.where(changed, np.inf, 0.0), np.ones(right.shape))
    exact = right.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.sqrt(np.mean([(drawn.astype(np.float64) - exact) ** 2 for drawn in draws], axis=0))
    same = np.all([(drawn == right) | (np.isnan(drawn) & np.isnan(right)) for drawn in draws], axis=0)
    moved = np.where(same, 0.0, moved)
    usual = float(np.median(moved[np.isfinite(moved)])) if np.isfinite(moved).any() else 0.0
    unit = unit_of(exact)
    # An element that happened to stay where it is in all runs may move as its neighbours do, and be rounded twice.
    size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    rounded = np.maximum(UNIT[right.dtype.name] * size, SUBNORMAL.get(right.dtype.name, 0.0) / 2)
    allowed = MARGIN * np.maximum(moved, usual) + SIDES * rounded
    return OutputLimits(np.where(allowed <= COMPARABLE * unit, allowed, np.inf), unit)


def _operator_noise(graph: OperatorGraph, kernels: Iterable[AnyKernel]) -> dict[str, OperatorNoise]:
    """Tensor -> the noise of the node of the file that makes it, by the statements that it is lowered to."""
    statements: dict[str, list[Statement]] = defaultdict(list)
    program, _ = lower_supported(graph)
    for statement in program.statements:
        statements[statement.operator].append(statement)
    rounded = _operand_units(kernels)
    of_operator = {
        op.name: _noise_of(op, statements.get(op.name, []), graph, rounded.get(op.name, 0.0)) for op in graph.operators
    }
    writers = {name: op for op in graph.operators for name in op.outputs if name}
    found = {}
    for given, made in _nodes(graph):
        inside = [of_operator[op.name] for op in _between(given, made, writers)]
        result, operands = math.hypot(*(n.result for n in inside)), math.hypot(*(n.operands for n in inside))
        if result or operands:
            # What is rounded inside of several operators is further magnified there, as what they are given is.
            noise = OperatorNoise(result, operands if len(inside) == 1 else math.hypot(result, operands))
            found.update(dict.fromkeys(made, noise))
    return found


def _nodes(graph: OperatorGraph) -> Iterator[tuple[Collection[str], Collection[str]]]:
    """What each node of the file reads and makes: other nodes than our operators where functions are written out."""
    if graph.dialect != "onnx" or graph.source is None:
        yield from ((op.inputs, op.outputs) for op in graph.operators)
        return
    for node in model_of(graph).graph.node:
        yield {*node.input, *captured_tensors(node)}, [name for name in node.output if name]


def _between(given: Collection[str], made: Iterable[str], writers: Mapping[str, Operator]) -> list[Operator]:
    """The operators that make some tensors of others."""
    found: dict[str, Operator] = {}
    waiting = list(made)
    while waiting:
        op = writers.get(waiting.pop())
        if op is not None and op.name not in found:
            found[op.name] = op
            waiting += [name for name in op.inputs if name not in given]
    return list(found.values())


def _noise_of(op: Operator, statements: list[Statement], graph: OperatorGraph, operand_unit: float) -> OperatorNoise:
    single = UNIT["float32"]
    length = max((math.prod(i.extent for i in s.reduced) for s in statements if _adds(s)), default=0)
    summed = SUMMED * math.sqrt(length) * single
    applied = [one for s in statements for one in _applications(s.expression) if "float" in one.dtype]
    functions = sum(one.function in INEXACT for one in applied)
    rounding = [one for one in applied if one.function not in EXACT | INEXACT | _WHOLE]
    kinds = {graph.tensors[name].dtype for name in op.outputs if name in graph.tensors} & set(NARROW)
    narrow = max((UNIT[kind] for kind in kinds), default=0.0) / _EVENLY
    own = single * math.sqrt(len(rounding) + (FUNCTION_ULPS / 2) ** 2 * functions)
    result = math.hypot(summed, own, narrow if rounding or functions or length else 0.0)
    # What is rounded on the way may be larger than the result, as partial sums of several operands are.
    partial = [UNIT[one.dtype] / _EVENLY for one in rounding if one.dtype in NARROW][1:]
    return OperatorNoise(WIDER * result, WIDER * math.hypot(summed, operand_unit, *partial))


def _adds(statement: Statement) -> bool:
    return statement.reduction is not None and statement.reduction.operation not in ("max", "min")


def _applications(value: Scalar) -> Iterator[Apply]:
    """The functions that an expression applies, each before those of its operands."""
    if isinstance(value, Apply):
        yield value
        for operand in value.operands:
            yield from _applications(operand)


def _operand_units(kernels: Iterable[AnyKernel]) -> dict[str, float]:
    """Operator of a matrix product -> the roundoff of its operands, where an instruction rounds those."""
    found = {}
    for kernel in kernels:
        if not isinstance(kernel, CpuKernel) and (unit := operand_roundoff(kernel.tile.intrinsic)):
            products = [s.name for s in kernel.group.program.statements if is_product(s)]
            found.update({i.statements[name]: unit for i in kernel.group.instances for name in products})
    return found
