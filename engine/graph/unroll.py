"""Unroll Scan nodes of known length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.graph.expansion import SINCE_AXES_OPERAND
from engine.graph.subgraphs import subgraphs
from engine.support.budgets import MAX_SCAN_NODES

FIRST_OPSET = 9
"""First operator set with today's Scan; version 8 has a batch axis and sequence lengths."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One node and what its attributes say."""

    node: onnx.NodeProto
    body: onnx.GraphProto
    states: int
    axes: tuple[int, ...]
    """Of each scanned operand: the axis that is walked."""
    backward: tuple[bool, ...]
    results: tuple[int, ...]
    """Of each collected result: the new axis."""
    results_backward: tuple[bool, ...]
    steps: int

    @property
    def nodes(self) -> int:
        """Number of nodes after unrolling: per step the body, a Gather for each operand and an Unsqueeze for each
        result."""
        return self.steps * (len(self.body.node) + len(self.axes) + len(self.results))

    @staticmethod
    def of(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> Scan | None:
        """The scan of a node; None where its length is not known or its body holds graphs of its own."""
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        body, scanned = given.get("body"), given.get("num_scan_inputs", 0)
        if not isinstance(body, onnx.GraphProto) or not 0 < scanned <= len(node.input):
            return None
        states = len(node.input) - scanned
        collected = len(node.output) - states
        axes = tuple(given.get("scan_input_axes", [0] * scanned))
        operand = types.get(node.input[states])
        dims = operand.tensor_type.shape.dim if operand is not None else ()
        if not -len(dims) <= axes[0] < len(dims) or any(any(subgraphs(inner)) for inner in body.node):
            return None
        steps = dims[axes[0]].dim_value
        if steps <= 0:
            return None
        backward = tuple(map(bool, given.get("scan_input_directions", [0] * scanned)))
        results = tuple(given.get("scan_output_axes", [0] * collected))
        results_backward = tuple(map(bool, given.get("scan_output_directions", [0] * collected)))
        return Scan(node, body, states, axes, backward, results, results_backward, steps)


class Unrolling:
    """Collects the nodes and constants that a scan becomes."""

    def __init__(self, scan: Scan, opset: int) -> None:
        self._scan, self._opset = scan, opset
        self._prefix = f"{scan.node.name or scan.node.output[0]}/"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        for tensor in scan.body.initializer:
            self._constant(tensor.name, numpy_helper.to_array(tensor))

    def run(self) -> None:
        """Emit all steps, then the final states and the collected results."""
        scan, body = self._scan, self._scan.body
        shared = {tensor.name: f"{self._prefix}{tensor.name}" for tensor in body.initializer}
        state = list(scan.node.input[: scan.states])
        collected: list[list[str]] = [[] for _ in scan.results]
        for step in range(scan.steps):
            made = self._step(step, state, shared)
            outputs = [made.get(value.name, value.name) for value in body.output]
            state = outputs[: scan.states]
            for results, name in zip(collected, outputs[scan.states :], strict=True):
                results.append(name)
        for name, last in zip(scan.node.output, state, strict=False):
            if name:
                self._add("Identity", [last], name)
        for at, (name, results) in enumerate(zip(scan.node.output[scan.states :], collected, strict=True)):
            if name:
                self._collect(name, results[::-1] if scan.results_backward[at] else results, scan.results[at])

    def _step(self, step: int, state: list[str], shared: Mapping[str, str]) -> dict[str, str]:
        """Write one step; the tensors of the body by the names that they have in it."""
        scan, prefix = self._scan, f"{self._prefix}{step}/"
        names = dict(shared)
        inputs = [value.name for value in scan.body.input]
        names.update(zip(inputs, state, strict=False))
        for at, inner in enumerate(inputs[scan.states :]):
            place = scan.steps - 1 - step if scan.backward[at] else step
            index = self._constant(f"{step}/{inner}/index", np.array(place, np.int64))
            names[inner] = f"{prefix}{inner}"
            self._add("Gather", [scan.node.input[scan.states + at], index], names[inner], axis=scan.axes[at])
        for node in scan.body.node:
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.name = f"{prefix}{node.name}" if node.name else ""
            copy.input[:] = [names.get(name, name) for name in node.input]
            names.update((name, f"{prefix}{name}") for name in node.output if name)
            copy.output[:] = [names[name] if name else "" for name in node.output]
            self.nodes.append(copy)
        return names

    def _collect(self, name: str, results: list[str], axis: int) -> None:
        """The results of all steps along a new axis."""
        parts = [f"{name}/{at}" for at in range(len(results))]
        for result, part in zip(results, parts, strict=True):
            # Unsqueeze takes its axes as an operand since operator set 13.
            if self._opset >= SINCE_AXES_OPERAND:
                axes = self._constant(f"{part}/axes", np.array([axis], np.int64))
                self._add("Unsqueeze", [result, axes], part)
            else:
                self._add("Unsqueeze", [result], part, axes=[axis])
        self._add("Concat", parts, name, axis=axis)

    def _constant(self, name: str, value: np.ndarray) -> str:
        full = f"{self._prefix}{name}"
        self.constants.append(numpy_helper.from_array(value, full))
        return full

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: object) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))


def left_out(node: onnx.NodeProto, operands: Mapping[str, onnx.TypeProto]) -> str:
    """Why a scan was not unrolled.  operands: their types, as far as they are known."""
    scan = Scan.of(node, operands)
    if scan is None:
        return "Scan walks a length that is not known, or runs a loop in each step"
    return (
        f"Scan takes {scan.steps} steps, {scan.nodes} operators when it is written out; all scans of a file may be "
        f"{MAX_SCAN_NODES} together"
    )


def unroll(model: onnx.ModelProto, opset: int, types: Mapping[str, onnx.TypeProto]) -> None:
    """Unroll the scans of a model in place, as many as `MAX_SCAN_NODES` allows."""
    nodes, room = [], MAX_SCAN_NODES
    for node in model.graph.node:
        scan = Scan.of(node, types) if node.op_type == "Scan" and opset >= FIRST_OPSET else None
        # A long scan does not keep shorter ones behind it from being written out.
        if scan is None or scan.nodes > room:
            nodes.append(node)
            continue
        room -= scan.nodes
        written = Unrolling(scan, opset)
        written.run()
        nodes += written.nodes
        model.graph.initializer.extend(written.constants)
    # Copies: deleting the field invalidates the messages that it holds.
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
