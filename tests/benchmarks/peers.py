"""The systems that a row is measured with besides ours, as small adapters.  Each imports its library when first used.

A peer runs the row's own ONNX graph, operator by operator, in its library's words.  What it does with several operators
(fusing them or not) is its own affair; its entry says what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import onnx
from onnx import numpy_helper

LOOMSCOPE = "loomscope"
Arrays = Mapping[str, Any]
Run = Callable[[Arrays], list[Any]]
"""Inputs by name in, outputs in the graph's order out."""
Operator = Callable[..., Any]
"""Operands, then the node's attributes by name; a tuple where the node has several results."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A system to compare with."""

    package: str
    """Whose version is reported."""
    ran: str
    """What it ran, in words."""
    make: Callable[[onnx.ModelProto], Run]
    """A function of the row; may compile for long."""


def versions(systems: Sequence[str]) -> dict[str, str]:
    """System -> version of its package; "" where it is not installed."""
    return {name: _version("loomscope" if name == LOOMSCOPE else PEERS[name].package) for name in systems}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "a source tree" if package == LOOMSCOPE else ""


def walk(model: onnx.ModelProto, table: Mapping[str, Operator], constant: Callable[[Any], Any]) -> Run:
    """The graph as a function over one library's arrays.

    table: what an ONNX operator is there.  constant: a NumPy scalar or list as an operand (lists stay lists).
    """
    graph = model.graph
    constants = {tensor.name: constant(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    attributes = [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in graph.node]
    missing = sorted({node.op_type for node in graph.node} - table.keys())
    if missing:
        raise NotImplementedError(f"this peer's adapter has no word for {missing[0]}")

    def run(given: Arrays) -> list[Any]:
        known = {**constants, **given}
        for node, options in zip(graph.node, attributes, strict=True):
            result = table[node.op_type](*(known[name] for name in node.input), **options)
            results = result if isinstance(result, tuple) else (result,)
            known.update(zip(node.output, results, strict=True))
        return [known[output.name] for output in graph.output]

    return run


def _torch_eager(model: onnx.ModelProto) -> Run:
    from tests.benchmarks import torch_operators

    return walk(model, torch_operators.TABLE, torch_operators.constant)


def _torch_compiled(model: onnx.ModelProto) -> Run:
    import torch

    return torch.compile(_torch_eager(model), mode="max-autotune-no-cudagraphs", dynamic=False)  # type: ignore[no-any-return]


PEERS: Mapping[str, Peer] = {
    "torch": Peer(
        "torch", "eager: cuBLAS, cuDNN with benchmark on, and its own kernels, one an operator", _torch_eager
    ),
    "torch.compile": Peer("torch", "torch.compile, mode max-autotune-no-cudagraphs, static shapes", _torch_compiled),
}
