"""Recurrent layers as a sequence of kernels: the products with the inputs of all time steps at once, then for each step
the product with the state before it and the gates.

States are arrays [direction, batch, hidden]; both directions take their steps together.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, present
from engine.tensor.operators.recurrent_layer import Layer, State, layer_of
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term


def _sum(*terms: Term | None) -> Term:
    return reduce(add, [term for term in terms if term is not None])


@operator("onnx.RNN")
def rnn(op: Operator, build: StatementBuilder) -> None:
    """H = f(X W + H R + biases)."""
    layer = layer_of(op, build, 1, ["Tanh"])
    inputs = layer.input_products(lambda row, gate: layer.biases(row, gate, (0, 1)))
    state, states = layer.initial_state(5), []
    for step in range(layer.steps):
        product = layer.recurrence(f"recurrent{step}", state, 0, 1)
        space = box(layer.state)
        value = _sum(build.read(inputs, (Index((), step), *space.written)), layer.element(product, space.written))
        state = layer.store_state("hidden", step, layer.activate(0, value, space.written[0]), state)
        states.append(state)
    layer.emit_results(states, [state])


@operator("onnx.LSTM")
def lstm(op: Operator, build: StatementBuilder) -> None:
    """Gates i, o, f and c; peepholes let the gates i, o and f see the cell."""
    layer = layer_of(op, build, 4, ["Sigmoid", "Tanh", "Tanh"])
    inputs = layer.input_products(lambda row, gate: layer.biases(row, gate, (0, 1)))
    state, cell, states = layer.initial_state(5), layer.initial_state(6), []
    for step in range(layer.steps):
        gates = _gates(layer, step, inputs, layer.recurrence(f"recurrent{step}", state, 0, 4))
        state, cell = _lstm_step(layer, step, gates, state, cell)
        states.append(state)
    layer.emit_results(states, [state, cell])


def _gates(layer: Layer, step: int, inputs: str, product: str | None) -> str:
    """Append the sums of all gates before their activation."""
    space = box((layer.directions, layer.batch, layer.gates * layer.hidden))
    value = layer.build.read(inputs, (Index((), step), *space.written))
    return layer.define(f"gates{step}", space, _sum(layer.element(product, space.written), value), f"gates of {step}")


def _lstm_step(layer: Layer, step: int, gates: str, state: State, cell: State) -> tuple[str, str]:
    build, op = layer.build, layer.op
    space = box(layer.state)
    direction, batch, hidden = space.written

    def gate(number: int, seen: Term | None, activation: int) -> Term:
        value = build.read(gates, (direction, batch, hidden + number * layer.hidden))
        if seen is not None and present(op, 7):
            value = value + layer.read(7, (direction, hidden + number * layer.hidden)) * seen
        return layer.activate(activation, value, direction)

    old = layer.element(cell, space.written)
    enter = gate(0, old, 0)
    # input_forget couples the gates: f = 1 - i.
    keep = 1 - enter if integer(op, "input_forget", 0) else gate(2, old, 0)
    kept = keep * old if old is not None else None
    value = _sum(kept, enter * gate(3, None, 1))
    new_cell = layer.store_state("cell", step, value, cell)
    # The peephole of the output gate looks at the new cell.
    now = build.read(new_cell, space.written)
    # The cell's state is not clipped, as in ONNX Runtime: only what goes into the gates is.
    value = gate(1, now, 0) * layer.activate(2, now, direction, is_clipped=False)
    return layer.store_state("hidden", step, value, state), new_cell


@operator("onnx.GRU")
def gru(op: Operator, build: StatementBuilder) -> None:
    """Gates z, r and h; r acts on the state before its product (or, `linear_before_reset`, on the product)."""
    layer = layer_of(op, build, 3, ["Sigmoid", "Tanh"])
    after = bool(integer(op, "linear_before_reset", 0))
    inputs = layer.input_products(lambda row, gate: layer.biases(row, gate, (0,)))
    state, states = layer.initial_state(5), []
    for step in range(layer.steps):
        state = _gru_step(layer, step, inputs, state, after)
        states.append(state)
    layer.emit_results(states, [state])


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

    product = layer.recurrence(f"recurrent{step}", state, 0, 3 if after else 2)
    old = layer.element(state, space.written)

    def gate(number: int) -> Term:
        at = (direction, batch, hidden + number * layer.hidden)
        return layer.activate(0, _sum(gate_sum(number), layer.element(product, at), bias(number)), direction)

    if after:
        inner = [t for t in (layer.element(product, (direction, batch, hidden + 2 * layer.hidden)), bias(2)) if t]
        candidate = _sum(gate_sum(2), gate(1) * _sum(*inner) if inner else None)
    else:
        reset = None
        if old is not None:
            reset = layer.define(f"reset{step}", space, gate(1) * old, f"what step {step} keeps of the state")
        again = layer.recurrence(f"candidate{step}", reset, 2, 1)
        candidate = _sum(gate_sum(2), layer.element(again, space.written), bias(2))
    update = gate(0)
    value = _sum((1 - update) * layer.activate(1, candidate, direction), update * old if old is not None else None)
    return layer.store_state("hidden", step, value, state)
