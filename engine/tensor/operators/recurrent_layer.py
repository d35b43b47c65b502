"""What the recurrent layers share: operands, products of all time steps with the inputs, states and results.

States are arrays [direction, batch, hidden]; both directions take their steps together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, present, present_output, real, reals, text, words
from engine.tensor.terms import (
    Term,
    absolute,
    cast,
    compare,
    exp,
    log,
    maximum,
    minimum,
    position,
    select,
    sigmoid,
    tanh,
)

Activation = Callable[[Term], Term]
State = str | None
"""An array [direction, batch, hidden]; None for zeros."""

_ACTIVATIONS: dict[str, tuple[Callable[[float, float, Term], Term], float, float]] = {
    "relu": (lambda a, b, x: maximum(x, 0), 0, 0),
    "tanh": (lambda a, b, x: tanh(x), 0, 0),
    "sigmoid": (lambda a, b, x: sigmoid(x), 0, 0),
    "affine": (lambda a, b, x: x * a + b, 1, 0),
    "leakyrelu": (lambda a, b, x: select(compare("less", x, 0), x * a, x), 0.01, 0),
    "thresholdedrelu": (lambda a, b, x: select(compare("less", x, a), 0, x), 1, 0),
    "scaledtanh": (lambda a, b, x: tanh(x * b) * a, 1, 1),
    "hardsigmoid": (lambda a, b, x: maximum(minimum(x * a + b, 1), 0), 0.2, 0.5),
    "elu": (lambda a, b, x: select(compare("less", x, 0), (exp(x) - 1) * a, x), 1, 0),
    "softsign": (lambda a, b, x: x / (absolute(x) + 1), 0, 0),
    "softplus": (lambda a, b, x: maximum(x, 0) + log(exp(-absolute(x)) + 1), 0, 0),
}
"""Name in lower case -> formula with alpha and beta, and their defaults."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Sizes and attributes that the three layers share."""

    op: Operator
    build: StatementBuilder
    gates: int
    steps: int
    batch: int
    hidden: int
    directions: int
    batchwise: bool
    kind: str
    """Element type of states and sums."""
    activations: tuple[tuple[Activation, ...], ...]
    """For each direction."""

    @property
    def state(self) -> tuple[int, int, int]:
        return self.directions, self.batch, self.hidden

    def time(self, step: int, direction: int) -> int:
        """The time at which a direction takes a step."""
        backward = direction == 1 or text(self.op, "direction", "forward") == "reverse"
        return self.steps - 1 - step if backward else step

    def temporary(self, name: str, shape: Sequence[int]) -> str:
        return self.build.temporary(next(filter(None, self.op.outputs)), name, shape, self.kind)

    def define(self, name: str, space: Domain, value: Term, because: str, reduction: str = "") -> str:
        """Append the statement of a new temporary, in the type of the sums; its name."""
        owner = next(filter(None, self.op.outputs))
        return self.build.define(owner, name, space, cast(value, self.kind), reduction=reduction, because=because)

    def read(self, at: int, indices: Sequence[Index]) -> Term:
        """An element of operand `at`, in the type of the sums."""
        return cast(self.build.read(self.op.inputs[at], indices), self.kind)

    def activate(self, number: int, value: Term, direction: Index, is_clipped: bool = True) -> Term:
        """Activation `number` of each direction; the two directions may have different ones."""
        value = _clip(self.op, value) if is_clipped else value
        ahead, *back = (functions[number](value) for functions in self.activations)
        if not back or back[0] == ahead:
            return ahead
        return select(compare("equal", position(direction), 0), ahead, back[0])

    def biases(self, row: Index, gate: Index, parts: Sequence[int]) -> list[Term]:
        """The input biases (part 0) and recurrence biases (part 1) of a gate."""
        width = self.gates * self.hidden
        return [self.read(3, (row, gate + part * width)) for part in parts] if present(self.op, 3) else []

    def input_products(self, biased: Callable[[Index, Index], list[Term]]) -> str:
        """Append the products of all inputs with their weights, [step, direction, batch, gate], biases included."""
        build, op = self.build, self.op
        width = self.gates * self.hidden
        shape = (self.steps, self.directions, self.batch, width)
        product, size = self.temporary("product", shape), build.shape(op.inputs[0])[-1]
        for direction in range(self.directions):
            space = box((self.steps, self.batch, width), (size,))
            step, batch, gate, inner = space.point
            # The products are stored by step, so a backward layer reads the inputs from the end.
            time = step if self.time(0, direction) == 0 else step * -1 + (self.steps - 1)
            at = (batch, time, inner) if self.batchwise else (time, batch, inner)
            row = Index((), direction)
            value = self.read(0, at) * self.read(1, (row, gate, inner))
            part, whole = space.writing((step, row, batch, gate)), self.directions == 1
            build.emit(product, part, value, reduction="sum", covers=whole, because="products with the inputs")
        space = box(shape)
        step, row, batch, gate = space.written
        biases = biased(row, gate)
        if not biases:
            return product
        value = reduce(add, biases, build.read(product, space.written))
        return self.define("inputs", space, value, because="with biases")

    def initial_state(self, at: int) -> State:
        """An initial state as [direction, batch, hidden]; None where it is absent or known to be zero."""
        if not present(self.op, at):
            return None
        name = self.op.inputs[at]
        value = self.build.value(name)
        # A zero state needs no product in the first step.
        if value is not None and not np.any(value):
            return None
        space = box(self.state)
        direction, batch, hidden = space.written
        indices = (batch, direction, hidden) if self.batchwise else space.written
        return self.define(f"initial{at}", space, self.read(at, indices), because="initial state")

    def element(self, array: str | None, at: Sequence[Index]) -> Term | None:
        """An element of an array; None where the array is None, for zeros."""
        return self.build.read(array, at) if array else None

    def recurrence(self, name: str, state: State, first: int, count: int) -> str | None:
        """Append `state` times the recurrence weights of `count` gates; None where the state is zero."""
        if state is None:
            return None
        width = count * self.hidden
        space = box((self.directions, self.batch, width), (self.hidden,))
        direction, batch, gate, inner = space.point
        value = self.build.read(state, (direction, batch, inner)) * self.read(
            2, (direction, gate + first * self.hidden, inner)
        )
        return self.define(name, space, value, reduction="sum", because="product with the state")

    def store_state(self, name: str, step: int, value: Term, old: State) -> str:
        """Append what a step leaves: the state (`name` "hidden") or the cell; ended sequences keep the old."""
        space = box(self.state)
        if self._has_lengths():
            value = select(self._runs(step, space.written[1]), value, self.element(old, space.written) or 0)
        return self.define(f"{name}{step}", space, value, f"{'cell' if name == 'cell' else 'state'} of step {step}")

    def _runs(self, step: int, batch: Index) -> Term:
        """Whether a sequence of the batch is longer than `step` steps."""
        return compare("greater", cast(self.build.read(self.op.inputs[4], (batch,)), "int64"), step)

    def _has_lengths(self) -> bool:
        """Whether sequences may end early; only forward layers can tell from the step alone."""
        if not present(self.op, 4):
            return False
        known = self.build.value(self.op.inputs[4])
        if known is not None and (known >= self.steps).all():
            return False
        if text(self.op, "direction", "forward") != "forward":
            reason = "walks sequences of different lengths from their ends"
            raise Unsupported("tensor", f"operator {self.op.name}", reason, "full lengths are compiled")
        return True

    def emit_results(self, states: Sequence[str], last: Sequence[State]) -> None:
        """Append what the layer gives out: all states, and the last ones."""
        build, op = self.build, self.op
        if present_output(op, 0):
            for step, state in enumerate(states):
                self._emit_state(step, state)
        for number, final in enumerate(last, start=1):
            if present_output(op, number) and final is not None:
                space = box(self.state)
                direction, batch, hidden = space.written
                place = (batch, direction, hidden) if self.batchwise else space.written
                value = build.read(final, space.written)
                build.emit(op.outputs[number], space.writing(place), value, because="last state")

    def _emit_state(self, step: int, state: str) -> None:
        """Append the state of a step at its time in the first output, for each direction by itself."""
        whole = self.steps * self.directions == 1
        for direction in range(self.directions):
            space = box((self.batch, self.hidden))
            batch, hidden = space.written
            time, row = Index((), self.time(step, direction)), Index((), direction)
            at = (batch, time, row, hidden) if self.batchwise else (time, row, batch, hidden)
            value = self.build.read(state, (row, batch, hidden))
            if self._has_lengths():
                value = select(self._runs(step, batch), value, 0)
            self.build.emit(self.op.outputs[0], space.writing(at), value, covers=whole, because=f"state of step {step}")


def _clip(op: Operator, value: Term) -> Term:
    if "clip" not in op.attributes:
        return value
    bound = real(op, "clip", 0.0)
    return maximum(minimum(value, bound), -bound)


def layer_of(op: Operator, build: StatementBuilder, gates: int, defaults: Sequence[str]) -> Layer:
    """The layer of an operator with `gates` gates, whose activations are by default `defaults`."""
    shape, weights = build.shape(op.inputs[0]), build.shape(op.inputs[1])
    batchwise = bool(integer(op, "layout", 0))
    _check_shapes(op, build, gates, batchwise)
    build.take_steps(shape[1] if batchwise else shape[0])
    return Layer(
        op=op,
        build=build,
        gates=gates,
        steps=shape[1] if batchwise else shape[0],
        batch=shape[0] if batchwise else shape[1],
        hidden=weights[1] // gates,
        directions=weights[0],
        batchwise=batchwise,
        kind=accumulator("sum", build.dtype(op.inputs[0])),
        activations=_activations(op, weights[0], defaults),
    )


def _check_shapes(op: Operator, build: StatementBuilder, gates: int, batchwise: bool) -> None:
    """BadInput for operands that do not fit each other: ONNX's inference looks at the first one only."""
    shapes = [build.shape(name) if name else None for name in op.inputs]
    data, weights = shapes[0] or (), shapes[1] or ()
    if len(data) != 3 or len(weights) != 3 or weights[1] % gates:
        reason = f"takes data and weights of three axes, not {list(data)} and {list(weights)}"
        raise BadInput("tensor", f"operator {op.name}", reason)
    batch, hidden = data[0 if batchwise else 1], weights[1] // gates
    directions = 2 if text(op, "direction", "forward") == "bidirectional" else 1
    state = (batch, directions, hidden) if batchwise else (directions, batch, hidden)
    wide = gates * hidden
    wanted = {1: (directions, wide, data[2]), 2: (directions, wide, hidden), 3: (directions, 2 * wide)}
    for at, shape in {**wanted, 5: state, 6: state}.items():
        given = shapes[at] if at < len(shapes) else None
        if given is not None and given != shape:
            raise BadInput("tensor", f"operator {op.name}", f"operand {at} has shape {list(given)}, not {list(shape)}")


def _activations(op: Operator, directions: int, defaults: Sequence[str]) -> tuple[tuple[Activation, ...], ...]:
    """The activation functions of each direction; alphas and betas are listed for those that take one."""
    names = words(op, "activations") or tuple(defaults) * directions
    if len(names) != len(defaults) * directions:
        reason = f"has {len(names)} activations, {len(defaults)} for each of {directions} directions are needed"
        raise BadInput("tensor", f"operator {op.name}", reason)
    parameters = [list(reals(op, "activation_alpha")), list(reals(op, "activation_beta"))]
    found: list[Activation] = []
    for name in names:
        entry = _ACTIVATIONS.get(name.lower())
        if entry is None:
            raise Unsupported("tensor", f"operator {op.name}", f"has the activation {name}")
        formula, *own = entry
        a, b = (given.pop(0) if given and value else value for given, value in zip(parameters, own, strict=True))
        found.append(partial(formula, a, b))
    count = len(found) // directions
    return tuple(tuple(found[at * count : (at + 1) * count]) for at in range(directions))
