"""Recurrent layers as a sequence of kernels: the products with the inputs of all time steps at once, then for each step
the product with the state before it and the gates.

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
from engine.tensor.build import Box, Builder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, present, present_output, real, reals, text, words
from engine.tensor.operators.registry import operator
from engine.tensor.operators.standard import standard
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

_ACTIVATIONS: dict[str, tuple[Callable[[Term, float, float], Term], float, float]] = {
    "relu": (lambda x, a, b: maximum(x, 0), 0, 0),
    "tanh": (lambda x, a, b: tanh(x), 0, 0),
    "sigmoid": (lambda x, a, b: sigmoid(x), 0, 0),
    "affine": (lambda x, a, b: x * a + b, 1, 0),
    "leakyrelu": (lambda x, a, b: select(compare("less", x, 0), x * a, x), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: select(compare("less", x, a), 0, x), 1, 0),
    "scaledtanh": (lambda x, a, b: tanh(x * b) * a, 1, 1),
    "hardsigmoid": (lambda x, a, b: maximum(minimum(x * a + b, 1), 0), 0.2, 0.5),
    "elu": (lambda x, a, b: select(compare("less", x, 0), (exp(x) - 1) * a, x), 1, 0),
    "softsign": (lambda x, a, b: x / (absolute(x) + 1), 0, 0),
    "softplus": (lambda x, a, b: maximum(x, 0) + log(exp(-absolute(x)) + 1), 0, 0),
}
"""Name in lower case -> formula with alpha and beta, and their defaults."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Sizes and attributes that the three layers share."""

    op: Operator
    build: Builder
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

    def read(self, at: int, indices: Sequence[Index]) -> Term:
        """An element of operand `at`, in the type of the sums."""
        return cast(self.build.read(self.op.inputs[at], indices), self.kind)

    def activate(self, number: int, value: Term, direction: Index) -> Term:
        """Activation `number` of each direction; the two directions may have different ones."""
        ahead, *back = (functions[number](_clip(self.op, value)) for functions in self.activations)
        if not back or back[0] == ahead:
            return ahead
        return select(compare("equal", position(direction), 0), ahead, back[0])


def _clip(op: Operator, value: Term) -> Term:
    if "clip" not in op.attributes:
        return value
    bound = real(op, "clip", 0.0)
    return maximum(minimum(value, bound), -bound)


def _layer(op: Operator, build: Builder, gates: int, defaults: Sequence[str]) -> Layer:
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


def _check_shapes(op: Operator, build: Builder, gates: int, batchwise: bool) -> None:
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
        found.append(partial(_with_parameters, formula, a, b))
    count = len(found) // directions
    return tuple(tuple(found[at * count : (at + 1) * count]) for at in range(directions))


def _with_parameters(formula: Callable[[Term, float, float], Term], a: float, b: float, x: Term) -> Term:
    return formula(x, a, b)


def _inputs(layer: Layer, biased: Callable[[Index, Index], list[Term]]) -> str:
    """Append the products of all inputs with their weights, [step, direction, batch, gate], biases included."""
    build, op = layer.build, layer.op
    width = layer.gates * layer.hidden
    shape = (layer.steps, layer.directions, layer.batch, width)
    product, size = layer.temporary("product", shape), build.shape(op.inputs[0])[-1]
    for direction in range(layer.directions):
        space = box((layer.steps, layer.batch, width), (size,))
        step, batch, gate, inner = space.point
        time = step if layer.time(0, direction) == 0 else step * -1 + (layer.steps - 1)
        at = (batch, time, inner) if layer.batchwise else (time, batch, inner)
        row = Index((), direction)
        value = layer.read(0, at) * layer.read(1, (row, gate, inner))
        build.emit(
            product, space, value, at=(step, row, batch, gate), reduction="sum", accumulate=layer.kind,
            covers=layer.directions == 1, because="products with the inputs",
        )  # fmt: skip
    space = box(shape)
    step, row, batch, gate = space.written
    biases = biased(row, gate)
    if not biases:
        return product
    total = layer.temporary("inputs", shape)
    value = reduce(add, biases, build.read(product, space.written))
    build.emit(total, space, value, because="with biases")
    return total


def _state(layer: Layer, at: int) -> State:
    """An initial state as [direction, batch, hidden]; None where it is absent or known to be zero."""
    if not present(layer.op, at):
        return None
    name = layer.op.inputs[at]
    value = layer.build.value(name)
    if value is not None and not np.any(value):
        return None
    state = layer.temporary(f"initial{at}", layer.state)
    space = box(layer.state)
    direction, batch, hidden = space.written
    indices = (batch, direction, hidden) if layer.batchwise else space.written
    layer.build.emit(state, space, layer.read(at, indices), because="initial state")
    return state


def _recurrence(layer: Layer, name: str, state: State, first: int, count: int) -> str | None:
    """Append `state` times the recurrence weights of `count` gates; None where the state is zero."""
    if state is None:
        return None
    width = count * layer.hidden
    target = layer.temporary(name, (layer.directions, layer.batch, width))
    space = box((layer.directions, layer.batch, width), (layer.hidden,))
    direction, batch, gate, inner = space.point
    value = layer.build.read(state, (direction, batch, inner)) * layer.read(
        2, (direction, gate + first * layer.hidden, inner)
    )
    layer.build.emit(target, space, value, reduction="sum", accumulate=layer.kind, because="product with the state")
    return target


def _select_running(layer: Layer, step: int, new: Term, old: State, space: Box) -> Term:
    """The new state, or the old one in sequences that have ended."""
    if not _has_lengths(layer):
        return new
    before = layer.build.read(old, space.written) if old else 0
    return select(_running(layer, step, space.written[1]), new, before)


def _running(layer: Layer, step: int, batch: Index) -> Term:
    return compare("greater", cast(layer.build.read(layer.op.inputs[4], (batch,)), "int64"), step)


def _has_lengths(layer: Layer) -> bool:
    """Whether sequences may end early; only forward layers can tell from the step alone."""
    if not present(layer.op, 4):
        return False
    known = layer.build.value(layer.op.inputs[4])
    if known is not None and (known >= layer.steps).all():
        return False
    if text(layer.op, "direction", "forward") != "forward":
        reason = "walks sequences of different lengths from their ends"
        raise Unsupported("tensor", f"operator {layer.op.name}", reason, "full lengths are compiled")
    return True


def _results(layer: Layer, states: Sequence[str], last: Sequence[State]) -> None:
    """Append what the layer gives out: all states, and the last ones."""
    build, op = layer.build, layer.op
    if present_output(op, 0):
        for step, state in enumerate(states):
            _state_of(layer, step, state)
    for number, final in enumerate(last, start=1):
        if present_output(op, number) and final is not None:
            space = box(layer.state)
            direction, batch, hidden = space.written
            place = (batch, direction, hidden) if layer.batchwise else space.written
            build.emit(op.outputs[number], space, build.read(final, space.written), at=place, because="last state")


def _state_of(layer: Layer, step: int, state: str) -> None:
    """Append the state of a step at its time in the first output, for each direction by itself."""
    whole = layer.steps * layer.directions == 1
    for direction in range(layer.directions):
        space = box((layer.batch, layer.hidden))
        batch, hidden = space.written
        time, row = Index((), layer.time(step, direction)), Index((), direction)
        at = (batch, time, row, hidden) if layer.batchwise else (time, row, batch, hidden)
        value = layer.build.read(state, (row, batch, hidden))
        if _has_lengths(layer):
            value = select(_running(layer, step, batch), value, 0)
        layer.build.emit(layer.op.outputs[0], space, value, at=at, covers=whole, because=f"state of step {step}")


def _sum(*terms: Term | None) -> Term:
    return reduce(add, [term for term in terms if term is not None])


def _element(layer: Layer, array: str | None, at: Sequence[Index]) -> Term | None:
    return layer.build.read(array, at) if array else None


@operator("onnx.RNN", meaning=standard)
def rnn(op: Operator, build: Builder) -> None:
    """H = f(X W + H R + biases)."""
    layer = _layer(op, build, 1, ["Tanh"])
    inputs = _inputs(layer, lambda row, gate: _biases(layer, row, gate, (0, 1)))
    state, states = _state(layer, 5), []
    for step in range(layer.steps):
        product = _recurrence(layer, f"recurrent{step}", state, 0, 1)
        space = box(layer.state)
        value = _sum(build.read(inputs, (Index((), step), *space.written)), _element(layer, product, space.written))
        value = layer.activate(0, value, space.written[0])
        new = layer.temporary(f"hidden{step}", layer.state)
        build.emit(new, space, _select_running(layer, step, value, state, space), because=f"state of step {step}")
        state = new
        states.append(new)
    _results(layer, states, [state])


def _biases(layer: Layer, row: Index, gate: Index, parts: Sequence[int]) -> list[Term]:
    """The input biases (part 0) and recurrence biases (part 1) of a gate."""
    width = layer.gates * layer.hidden
    return [layer.read(3, (row, gate + part * width)) for part in parts] if present(layer.op, 3) else []


@operator("onnx.LSTM", meaning=standard)
def lstm(op: Operator, build: Builder) -> None:
    """Gates i, o, f and c; peepholes let the gates i, o and f see the cell."""
    layer = _layer(op, build, 4, ["Sigmoid", "Tanh", "Tanh"])
    inputs = _inputs(layer, lambda row, gate: _biases(layer, row, gate, (0, 1)))
    state, cell, states = _state(layer, 5), _state(layer, 6), []
    for step in range(layer.steps):
        gates = _gates(layer, step, inputs, _recurrence(layer, f"recurrent{step}", state, 0, 4))
        state, cell = _lstm_step(layer, step, gates, state, cell)
        states.append(state)
    _results(layer, states, [state, cell])


def _gates(layer: Layer, step: int, inputs: str, product: str | None) -> str:
    """Append the sums of all gates before their activation."""
    shape = (layer.directions, layer.batch, layer.gates * layer.hidden)
    gates = layer.temporary(f"gates{step}", shape)
    space = box(shape)
    value = layer.build.read(inputs, (Index((), step), *space.written))
    layer.build.emit(gates, space, _sum(_element(layer, product, space.written), value), because=f"gates of {step}")
    return gates


def _lstm_step(layer: Layer, step: int, gates: str, state: State, cell: State) -> tuple[str, str]:
    build, op = layer.build, layer.op
    space = box(layer.state)
    direction, batch, hidden = space.written

    def gate(number: int, seen: Term | None, activation: int) -> Term:
        value = build.read(gates, (direction, batch, hidden + number * layer.hidden))
        if seen is not None and present(op, 7):
            value = value + layer.read(7, (direction, hidden + number * layer.hidden)) * seen
        return layer.activate(activation, value, direction)

    old = _element(layer, cell, space.written)
    enter = gate(0, old, 0)
    keep = 1 - enter if integer(op, "input_forget", 0) else gate(2, old, 0)
    kept = keep * old if old is not None else None
    value = _sum(kept, enter * gate(3, None, 1))
    new_cell = layer.temporary(f"cell{step}", layer.state)
    build.emit(new_cell, space, _select_running(layer, step, value, cell, space), because=f"cell of step {step}")
    # The peephole of the output gate looks at the new cell.
    now = build.read(new_cell, space.written)
    value = gate(1, now, 0) * layer.activate(2, now, direction)
    new = layer.temporary(f"hidden{step}", layer.state)
    build.emit(new, space, _select_running(layer, step, value, state, space), because=f"state of step {step}")
    return new, new_cell


@operator("onnx.GRU", meaning=standard)
def gru(op: Operator, build: Builder) -> None:
    """Gates z, r and h; r acts on the state before its product (or, `linear_before_reset`, on the product)."""
    layer = _layer(op, build, 3, ["Sigmoid", "Tanh"])
    after = bool(integer(op, "linear_before_reset", 0))
    inputs = _inputs(layer, lambda row, gate: _biases(layer, row, gate, (0,)))
    state, states = _state(layer, 5), []
    for step in range(layer.steps):
        state = _gru_step(layer, step, inputs, state, after)
        states.append(state)
    _results(layer, states, [state])


def _gru_step(layer: Layer, step: int, inputs: str, state: State, after: bool) -> str:
    build = layer.build
    space = box(layer.state)
    direction, batch, hidden = space.written
    width = layer.gates * layer.hidden

    def gate_sum(number: int) -> Term:
        return build.read(inputs, (Index((), step), direction, batch, hidden + number * layer.hidden))

    def bias(number: int) -> Term | None:
        at = hidden + number * layer.hidden + width
        return layer.read(3, (direction, at)) if present(layer.op, 3) else None

    product = _recurrence(layer, f"recurrent{step}", state, 0, 3 if after else 2)
    old = _element(layer, state, space.written)

    def gate(number: int) -> Term:
        at = (direction, batch, hidden + number * layer.hidden)
        return layer.activate(0, _sum(gate_sum(number), _element(layer, product, at), bias(number)), direction)

    if after:
        inner = [t for t in (_element(layer, product, (direction, batch, hidden + 2 * layer.hidden)), bias(2)) if t]
        candidate = _sum(gate_sum(2), gate(1) * _sum(*inner) if inner else None)
    else:
        reset = None
        if old is not None:
            reset = layer.temporary(f"reset{step}", layer.state)
            build.emit(reset, space, gate(1) * old, because=f"what step {step} keeps of the state")
        again = _recurrence(layer, f"candidate{step}", reset, 2, 1)
        candidate = _sum(gate_sum(2), _element(layer, again, space.written), bias(2))
    update = gate(0)
    value = _sum((1 - update) * layer.activate(1, candidate, direction), update * old if old is not None else None)
    new = layer.temporary(f"hidden{step}", layer.state)
    build.emit(new, space, _select_running(layer, step, value, state, space), because=f"state of step {step}")
    return new
