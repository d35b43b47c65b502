"""Branches, loops and sequences written out as the nodes that they run.

    If(True)              ->    the nodes of its branch
    If(c)                 ->    the nodes of both branches, then a choice between their results (`engine.graph.host`)
    Loop(3, True, state)  ->    the nodes of its body three times, then its collected results
    Loop(3, c, state)     ->    the same, then the choice of the state after the last step that ran
    Loop(n, c, state)     ->    the same for as many steps as the caller gives as the size of NODE.count
    sequences             ->    the tensors that stand in them, where every step on the way is known

Nodes have no effect but their results, so that those of a branch that is not taken may run, and need not.  A loop whose
longest run nobody knows stays as it is.  Tensors inside get names of their own, "NODE/3/NAME" in the fourth step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.graph.expansion import SINCE_AXES_OPERAND
from engine.graph.fold import REFUSALS
from engine.graph.host import BRANCHES, choice_of, make_choice
from engine.graph.subgraphs import rename_reads
from engine.support.budgets import MAX_READ, MAX_SCAN_NODES

ROUNDS = 64
"""Branches behind branches, each of which is known once the one before is written out."""

SINCE_SLICE_OPERANDS = 10
"""First operator set whose Slice takes its places as operands."""

_EVALUATED = frozenset(
    "Abs Add And Cast CastLike Constant Div Equal Gather Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod "
    "Mul Neg Not Or ReduceMax ReduceMin ReduceSum Reshape Slice Squeeze Sub Unsqueeze Where Xor".split()
)
"""Operators that conditions and counters are made of; none makes more than it reads but by broadcasting."""

LOOPS = "Loop runs for as many steps as the data ask for; where nothing says how many at most, give it: --dim {}=16"
"""Why a loop is not written out; {}: what its steps are called."""

_MAKE_SEQUENCES = ("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase")


def has_control_flow(model: onnx.ModelProto) -> bool:
    """Whether branches, loops or sequences are among the nodes."""
    kinds = {node.op_type for node in model.graph.node}
    return not kinds.isdisjoint(("If", "Loop", *_MAKE_SEQUENCES))


class KnownTensors(Protocol):
    """What is known of a model when it is read."""

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""

    def value_of(self, name: str) -> np.ndarray | None:
        """The value of a tensor, where it is known."""


def write_out_control_flow(
    model: onnx.ModelProto, known: KnownTensors, is_decided_by_data: bool, sizes: Mapping[str, int]
) -> bool:
    """Write out, in place, what is known; whether anything was.

    is_decided_by_data: also where only the data tell which branch is taken, or when a loop ends.  sizes: of dimensions,
    steps of loops among them.
    """
    writer = _Writer(model.graph, known, is_decided_by_data, sizes)
    for node in list(model.graph.node):
        writer.write(node)
    if writer.has_changed:
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in writer.nodes]
        del model.graph.node[:]
        model.graph.node.extend(kept)
        model.graph.initializer.extend(writer.constants)
    return writer.has_changed


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a loop."""

    condition: str
    """The tensor that says whether it runs; "" where it is known to, once the one before has."""
    states: tuple[str, ...]
    """Before it."""


@dataclass(frozen=True, slots=True)
class _WrittenLoop:
    """A loop of which all steps are written out."""

    steps: list[_Step]
    states: list[str]
    """After the last one."""
    collected: list[list[str]]
    more: str
    """The condition of one step more, where the caller gave their number; else ""."""


class _Writer:
    """The nodes of a graph while they are written out."""

    def __init__(
        self, graph: onnx.GraphProto, known: KnownTensors, is_decided_by_data: bool, sizes: Mapping[str, int]
    ) -> None:
        self._graph, self._opset, self._known = graph, known.opset, known.value_of
        self._is_decided_by_data, self._sizes = is_decided_by_data, sizes
        self._room = MAX_SCAN_NODES
        self._sequences: dict[str, list[str] | None] = {}
        """Sequence -> the tensors in it; None for one that is not known."""
        self._values: dict[str, np.ndarray | None] = {}
        self._makers: dict[str, onnx.NodeProto] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.has_changed = False

    def write(self, node: onnx.NodeProto) -> None:
        """Append a node, or what it becomes."""
        before, constants = len(self.nodes), len(self.constants)
        room, has_changed = self._room, self.has_changed
        written = {"If": self._branch, "Loop": self._loop}.get(node.op_type, self._sequence)(node)
        if written and node.op_type not in _MAKE_SEQUENCES:
            self.has_changed = True
        elif not written:
            del self.nodes[before:], self.constants[constants:]
            self._room, self.has_changed = room, has_changed  # those inside may have been written out
            self.nodes.append(node)
        self._makers.update((name, one) for one in self.nodes[before:] for name in one.output if name)

    def _branch(self, node: onnx.NodeProto) -> bool:
        condition = self._value(node.input[0]) if node.input else None
        bodies = [next((a.g for a in node.attribute if a.name == name), None) for name in BRANCHES]
        if choice_of(node) and condition is None:
            return False  # nothing is left to be written out
        if condition is not None and condition.size == 1:
            results = self._results(bodies[0 if condition.reshape(-1)[0] else 1], node, "")
            for source, target in zip(results or (), node.output, strict=False):
                self._copy(source, target)
            return results is not None
        if condition is not None or not self._is_decided_by_data:
            return False
        then, other = (self._results(body, node, f"{at}/") for body, at in zip(bodies, ("then", "else"), strict=True))
        if then is None or other is None:
            return False
        self.nodes.append(make_choice(_name(node), node.input[0], node.output, then, other))
        return True

    def _results(self, body: onnx.GraphProto | None, node: onnx.NodeProto, place: str) -> list[str] | None:
        """Write the nodes of a branch; the names of its results.  None where it does not suit its If."""
        if body is None or len(body.output) != len(node.output) or not self._take(len(body.node)):
            return None
        made = self._inline(body, f"{_name(node)}/{place}", {})
        return [made.get(value.name, value.name) for value in body.output]

    def _loop(self, node: onnx.NodeProto) -> bool:
        """Every step of a loop, for as long as there can be another."""
        body, states = next((a.g for a in node.attribute if a.name == "body"), None), list(node.input[2:])
        if body is None or len(body.input) != 2 + len(states) or len(body.output) < 1 + len(states):
            return False
        longest, condition = [*node.input, "", ""][:2]
        limit = self._longest(node, longest)
        if limit is None:
            return False
        is_given = steps_of(node) in self._sizes and (not longest or self._value(longest) is None)
        asked = longest if longest and is_given else ""
        collected: list[list[str]] = [[] for _ in body.output[1 + len(states) :]]
        steps: list[_Step] = []
        while len(steps) < limit:
            goes_on = self._value(condition) if condition else np.array(True)
            if goes_on is not None and not goes_on.all():
                break
            is_open = goes_on is None or bool(asked)
            if is_open and not longest and not is_given:
                return False  # nobody says when it ends
            if (is_open and not self._is_decided_by_data) or not self._take(len(body.node) + 1):
                return False
            needs = self._within(node, len(steps), asked, condition if goes_on is None else "") if is_open else ""
            steps.append(_Step(needs, tuple(states)))
            prefix = f"{_name(node)}/{len(steps) - 1}/"
            number = self._constant(f"{prefix}step", np.array(len(steps) - 1, np.int64))
            true = self._constant(f"{prefix}condition", np.array(True))
            inputs = [value.name for value in body.input]
            made = self._inline(body, prefix, dict(zip(inputs, (number, true, *states), strict=True)))
            condition, *results = (made.get(value.name, value.name) for value in body.output)
            states = results[: len(states)]
            for all_of, one in zip(collected, results[len(states) :], strict=True):
                all_of.append(one)
        if collected and not steps:
            return False
        goes_on = self._value(condition) if condition else np.array(True)
        more = ""
        if is_given and len(steps) == limit and (goes_on is None or goes_on.all()):
            more = self._within(node, limit, asked, condition if goes_on is None else "")
        return self._end_loop(node, _WrittenLoop(steps, states, collected, more))

    def _longest(self, node: onnx.NodeProto, longest: str) -> int | None:
        """The most steps of a loop: as the file says, or as the caller gives; a loop that says nothing may end by
        itself.  None where nobody says it."""
        count = self._value(longest) if longest else None
        if count is not None:
            return int(count.reshape(-1)[0]) if count.size == 1 else None
        given = self._sizes.get(steps_of(node))
        return given if given is not None or longest else MAX_SCAN_NODES

    def _within(self, node: onnx.NodeProto, step: int, longest: str, condition: str) -> str:
        """The condition of a step: its number is below that of steps which a tensor says, and another condition."""
        if not longest:
            return condition
        place = f"{_name(node)}/{step}"
        number = self._constant(f"{place}/number", np.array(step, np.int64))
        self.nodes.append(helper.make_node("Less", [number, longest], [f"{place}/within"], name=f"{place}/within"))
        if not condition:
            return f"{place}/within"
        both = [f"{place}/within", condition]
        self.nodes.append(helper.make_node("And", both, [f"{place}/runs"], name=f"{place}/runs"))
        return f"{place}/runs"

    def _end_loop(self, node: onnx.NodeProto, loop: _WrittenLoop) -> bool:
        """The results of a loop: of its last step, or of that which the data say was the last."""
        name, outputs, states = _name(node), list(node.output), loop.states
        open_steps = [at for at, step in enumerate(loop.steps) if step.condition]
        if open_steps and loop.collected and self._opset < SINCE_SLICE_OPERANDS:
            return False
        is_open = bool(open_steps or loop.more)
        number = self._constant(f"{name}/steps", np.array([len(loop.steps)], np.int64)) if is_open else ""
        for at in reversed(open_steps):
            step = loop.steps[at]
            here = [*step.states, self._constant(f"{name}/{at}/steps", np.array([at], np.int64))]
            ends = [f"{name}/{at}/end/{place}" for place in range(len(here))]
            self.nodes.append(make_choice(f"{name}/{at}/end", step.condition, ends, [*states, number], here))
            *states, number = ends
        if loop.more:
            *states, number = self._check_end(node, loop, [*states, number])
        for last, target in zip(states, outputs, strict=False):
            self._copy(last, target)
        for parts, target in zip(loop.collected, outputs[len(states) :], strict=False):
            if target and is_open:
                self._concat(parts, f"{target}/all", 0, is_new=True)
                first = self._constant(f"{target}/first", np.array([0], np.int64))
                self.nodes.append(helper.make_node("Slice", [f"{target}/all", first, number], [target], name=target))
            elif target:
                self._concat(parts, target, 0, is_new=True)
        return True

    def _check_end(self, node: onnx.NodeProto, loop: _WrittenLoop, states: list[str]) -> list[str]:
        """The final states, the number of steps last, behind a choice that asks whether there would be another step."""
        name = _name(node)
        all_steps = self._constant(f"{name}/all", np.array([len(loop.steps)], np.int64))
        over, every = f"{name}/over", f"{name}/every"
        self.nodes.append(helper.make_node("Equal", [states[-1], all_steps], [every], name=every))
        self.nodes.append(helper.make_node("And", [every, loop.more], [over], name=over))
        ends = [f"{name}/end/{place}" for place in range(len(states))]
        self.nodes.append(make_choice(steps_of(node), over, ends, states, states))
        return ends

    def _value(self, name: str) -> np.ndarray | None:
        """The value of a tensor: known when the file was read, or computed from such by a few nodes written here."""
        if name not in self._values:
            self._values[name] = None  # a tensor that leads to itself has none
            value = self._known(name)
            maker = self._makers.get(name)
            if value is None and maker is not None and maker.op_type in _EVALUATED:
                operands = [self._value(one) if one else None for one in maker.input]
                given = [one for one, wanted in zip(operands, maker.input, strict=True) if wanted]
                if all(one is not None and one.size <= MAX_READ for one in given):
                    value = _evaluate(maker, operands, self._opset)
            self._values[name] = value
            if value is None and maker is None:
                del self._values[name]  # it may be made later
            return value
        return self._values[name]

    def _sequence(self, node: onnx.NodeProto) -> bool:
        """Follow what stands in sequences; nodes that take tensors out of them are written out."""
        kind, inputs, outputs = node.op_type, list(node.input), list(node.output)
        if kind in _MAKE_SEQUENCES:
            self._sequences[outputs[0]] = self._sequence_of(kind, inputs)
            return False
        found = self._sequences.get(inputs[0]) if inputs else None
        if found is None:
            return False
        if kind == "SequenceAt" and (at := self._place(inputs[1], len(found))) is not None:
            self._copy(found[at], outputs[0])
        elif kind == "SequenceLength":
            self._copy(self._constant(f"{outputs[0]}/length", np.array(len(found), np.int64)), outputs[0])
        elif kind == "ConcatFromSequence" and found:
            given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            self._concat(found, outputs[0], int(given.get("axis", 0)), bool(given.get("new_axis", 0)))
        elif kind == "Identity":
            self._sequences[outputs[0]] = found
            return False
        else:
            return False
        return True

    def _sequence_of(self, kind: str, inputs: list[str]) -> list[str] | None:
        """The tensors of a new sequence."""
        if kind == "SequenceEmpty":
            return []
        if kind == "SequenceConstruct":
            return inputs
        found = self._sequences.get(inputs[0])
        if found is None:
            return None
        if kind == "SequenceInsert":
            at = self._place(inputs[2], len(found)) if len(inputs) > 2 else len(found)
            return None if at is None else [*found[:at], inputs[1], *found[at:]]
        at = self._place(inputs[1] if len(inputs) > 1 else "", len(found))
        return None if at is None else [*found[:at], *found[at + 1 :]]

    def _place(self, name: str, length: int) -> int | None:
        """A known position in a sequence; the last one for an absent one."""
        if not name:
            return length - 1 if length else None
        value = self._value(name)
        if value is None or value.size != 1 or not -length <= int(value.reshape(-1)[0]) < max(length, 1):
            return None
        return int(value.reshape(-1)[0]) % max(length, 1)

    def _inline(self, body: onnx.GraphProto, prefix: str, names: dict[str, str]) -> dict[str, str]:
        """Write the nodes of a body; its tensors by the names that they have in it."""
        for tensor in body.initializer:
            names[tensor.name] = self._constant(f"{prefix}{tensor.name}", numpy_helper.to_array(tensor))
        names |= {name: f"{prefix}{name}" for node in body.node for name in node.output if name}
        for node in body.node:
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.name = f"{prefix}{node.name}" if node.name else ""
            rename_reads(copy, names)
            copy.output[:] = [names[name] if name else "" for name in node.output]
            self.write(copy)
        return names

    def _take(self, nodes: int) -> bool:
        """Whether so many more nodes may be written."""
        self._room -= nodes
        return self._room >= 0

    def _copy(self, source: str, target: str) -> None:
        if target and source in self._sequences:
            self._sequences[target] = self._sequences[source]
        if target:
            self.nodes.append(helper.make_node("Identity", [source], [target], name=f"{target}/copy"))

    def _concat(self, parts: list[str], name: str, axis: int, is_new: bool) -> None:
        """Tensors along an axis, which they have or which is new."""
        if is_new:
            parts = [self._unsqueeze(part, f"{name}/{at}", axis) for at, part in enumerate(parts)]
        self.nodes.append(helper.make_node("Concat", parts, [name], name=f"{name}/concat", axis=axis))

    def _unsqueeze(self, source: str, name: str, axis: int) -> str:
        if self._opset >= SINCE_AXES_OPERAND:
            axes = self._constant(f"{name}/axes", np.array([axis], np.int64))
            self.nodes.append(helper.make_node("Unsqueeze", [source, axes], [name], name=name))
        else:
            self.nodes.append(helper.make_node("Unsqueeze", [source], [name], name=name, axes=[axis]))
        return name

    def _constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(value, name))
        self._values[name] = value
        return name


def _evaluate(node: onnx.NodeProto, operands: Sequence[np.ndarray | None], opset: int) -> np.ndarray | None:
    """The first result of a node of `_EVALUATED`; None where it has none."""
    from onnx.reference import ReferenceEvaluator  # a slow import that most files never need

    try:
        given = {name: value for name, value in zip(node.input, operands, strict=True) if value is not None}
        graph = helper.make_graph([node], "known", [onnx.ValueInfoProto(name=n) for n in given],
                                  [onnx.ValueInfoProto(name=node.output[0])])  # fmt: skip
        return np.asarray(ReferenceEvaluator(graph, opsets={"": opset}).run(None, given)[0])
    except REFUSALS:
        return None


def steps_of(node: onnx.NodeProto) -> str:
    """What the most steps of a loop are called, where the file does not say them."""
    return f"{_name(node)}.count"


def _name(node: onnx.NodeProto) -> str:
    return str(node.name or next(filter(None, node.output), node.op_type))
