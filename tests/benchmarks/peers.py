"""The systems that a row is measured with besides ours, as small adapters.  Each imports its library when first used.

Most run the row's own ONNX graph, operator by operator, in their library's words; what such a library does with several
operators (fusing them or not) is its own affair.  The others have words for some rows only, and refuse the rest with
`Unsupported`.  Every entry says which version it is of and what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import onnx
from onnx import numpy_helper

from engine.measurements.nodes import OURS
from engine.suite import SuiteRow
from engine.support.errors import Unsupported

Arrays = Mapping[str, Any]
Run = Callable[[Arrays], list[Any]]
"""Inputs by name in, outputs in the graph's order out."""
Operator = Callable[..., Any]
"""Operands, then the node's attributes by name; a tuple where the node has several results."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A row as a peer gets it."""

    row: SuiteRow
    model: onnx.ModelProto
    device: str
    """PyTorch's name of where the inputs are."""


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A peer on one row and its copies of the inputs."""

    step: Callable[[int], list[Any]]
    """One run on one copy: PyTorch tensors, in the order of the graph's outputs."""
    ran: Callable[[], str]
    """What ran, in words; asked after it did."""
    quick: Callable[[int], Any] | None = None
    """The same run for timing, where `step` does more than it."""
    sampler: Callable[[], Callable[[int], float]] | None = None
    """For a system whose work PyTorch's events do not see: microseconds of one run, by sample number."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A system to compare with."""

    package: str
    """Whose version is reported."""
    make: Callable[[Case, Sequence[Arrays]], System]
    """May compile for long.  ImportError where its library is missing, Unsupported for a row beyond it."""


def versions(systems: Sequence[str]) -> dict[str, str]:
    """System -> version of its package; "" where it is not installed."""
    return {name: _version("loomscope" if name == OURS else PEERS[name].package) for name in systems}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "a source tree" if package == "loomscope" else ""


def walk(model: onnx.ModelProto, table: Mapping[str, Operator], constant: Callable[[Any], Any]) -> Run:
    """The graph as a function over one library's arrays.

    table: what an ONNX operator is there.  constant: a NumPy scalar or list as an operand (lists stay lists).
    """
    graph = model.graph
    constants = {tensor.name: constant(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    attributes = [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in graph.node]
    missing = sorted({node.op_type for node in graph.node} - table.keys())
    if missing:
        raise Unsupported("benchmark", missing[0], "this peer's adapter has no word for it")

    def run(given: Arrays) -> list[Any]:
        known = {**constants, **given}
        for node, options in zip(graph.node, attributes, strict=True):
            result = table[node.op_type](*(known[name] for name in node.input), **options)
            results = result if isinstance(result, tuple) else (result,)
            known.update(zip(node.output, results, strict=True))
        return [known[output.name] for output in graph.output]

    return run


def over_copies(run: Run, copies: Sequence[Arrays], ran: str) -> System:
    """A function over PyTorch's tensors as a system."""
    import torch

    def step(copy: int) -> list[Any]:
        with torch.no_grad():
            return run(copies[copy % len(copies)])

    return System(step, lambda: ran)


def torch_graph(case: Case) -> Run:
    """The row's graph in PyTorch's words."""
    from tests.benchmarks import torch_operators

    return walk(case.model, torch_operators.TABLE, torch_operators.constants_on(case.device))


def _torch_eager(case: Case, copies: Sequence[Arrays]) -> System:
    ran = "eager, one kernel an operator or more: cuBLAS, cuDNN with benchmark on, PyTorch's own"
    return over_copies(torch_graph(case), copies, ran)


def _torch_compiled(case: Case, copies: Sequence[Arrays]) -> System:
    import torch

    compiled = torch.compile(torch_graph(case), mode="max-autotune-no-cudagraphs", dynamic=False)
    return over_copies(compiled, copies, "torch.compile, mode max-autotune-no-cudagraphs, static shapes")


def _cublaslt(case: Case, copies: Sequence[Arrays]) -> System:
    from tests.benchmarks.torch_libraries import cublaslt

    return cublaslt(case, copies)


def _cudnn(case: Case, copies: Sequence[Arrays]) -> System:
    from tests.benchmarks.torch_libraries import cudnn

    return cudnn(case, copies)


def _triton(case: Case, copies: Sequence[Arrays]) -> System:
    from tests.benchmarks.triton_system import triton_system

    return triton_system(case, copies)


def _xla(case: Case, copies: Sequence[Arrays]) -> System:
    from tests.benchmarks.xla import xla_system

    return xla_system(case, copies)


PEERS: Mapping[str, Peer] = {
    "torch": Peer("torch", _torch_eager),
    "torch.compile": Peer("torch", _torch_compiled),
    "cublaslt": Peer("torch", _cublaslt),
    "cudnn": Peer("torch", _cudnn),
    "triton": Peer("triton", _triton),
    "xla": Peer("jax", _xla),
}
"""By the name that `--systems` takes."""
