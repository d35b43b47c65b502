"""The backend of `torch.compile`: a graph, or the parts of it that Loomscope has kernels for, becomes plans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from engine.api import fuse
from engine.compilation import default_recipe
from engine.graph.load import load
from engine.pytorch.exported import write_onnx
from engine.pytorch.module import PlanModule
from engine.support.errors import EngineError, Unsupported
from engine.target import DEFAULT_TARGET

LOG = logging.getLogger("loomscope.torch")
NODE = "pkg.torch.onnx.fx_node"
"""Metadata of an operator in the exporter's files: the node of PyTorch's graph that it was made from, as text."""
PART = "loomscope"
"""What parts of a graph are called."""
TARGETS = {"A100": "a100", "H100": "h100", "H200": "h200"}
"""Part of a GPU's name -> its target."""

Call = Callable[..., Any]


class _WholeRefusal(Exception):
    """A graph that stays PyTorch's as a whole, and why."""


class _PartRefusal(Exception):
    """Nodes of an exported program without a kernel, with the reasons."""

    def __init__(self, program: Any, nodes: Mapping[str, str]) -> None:
        super().__init__()
        self.program, self.nodes = program, nodes


def compile_graph(module: Any, inputs: Sequence[Any], target: str | None) -> Call:
    """A function with the graph's arguments and results; the module's own `forward` where nothing can be taken."""
    target = target or _find_target(inputs)
    try:
        examples = _examples(inputs)
        return _compile(module, examples, target)
    except _PartRefusal as refused:
        return _compile_parts(module, refused, examples, target)
    except _WholeRefusal as why:
        LOG.warning("left to PyTorch: %s", why)
        return _own(module)


def _own(module: Any) -> Call:
    forward: Call = module.forward
    return forward


def _find_target(inputs: Sequence[Any]) -> str:
    """The GPU of the tensors, where it is one that kernels are made for."""
    if any(isinstance(one, torch.Tensor) and one.device.type == "cuda" for one in inputs):
        name = torch.cuda.get_device_name()
        return next((target for word, target in TARGETS.items() if word in name), DEFAULT_TARGET)
    return DEFAULT_TARGET


def _examples(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors of the same shapes and types: those that PyTorch passes may have no memory."""
    for one in inputs:
        if not isinstance(one, torch.Tensor) or not all(isinstance(size, int) for size in one.shape):
            raise _WholeRefusal("its sizes change; torch.compile(dynamic=False) compiles each anew")
        if one.requires_grad and torch.is_grad_enabled():
            raise _WholeRefusal("it needs gradients; kernels are for inference, under torch.no_grad()")
    return tuple(torch.zeros(tuple(one.shape), dtype=one.dtype) for one in inputs)


def _compile(module: Any, examples: tuple[Any, ...], target: str) -> Call:
    """The whole graph as one plan.  Raises _PartRefusal where some operators have no kernel, _WholeRefusal for more."""
    try:
        program = torch.export.export(module, examples)
        path = write_onnx(program)
        graph = load(path)
        plan = fuse(graph, target)
        refused = {**graph.unsupported, **plan.unsupported}
        if refused:
            nodes = _nodes_of(path, refused)
            if not nodes:  # an operator of a function that the exporter wrote for a node
                raise _WholeRefusal("; ".join(f"{name}: {why}" for name, why in refused.items()))
            raise _PartRefusal(program, nodes)
        made = PlanModule(plan, default_recipe(plan))
    except (EngineError, RuntimeError) as error:  # PyTorch's errors of export are RuntimeErrors
        raise _WholeRefusal(str(error).strip().splitlines()[0]) from error
    if len(graph.inputs) != len(examples):
        raise _WholeRefusal(f"of its {len(examples)} inputs {len(graph.inputs)} are left in the exported graph")
    LOG.info("%d operators are %d kernels", len(graph.operators), len(plan.launches))

    def call(*tensors: Any) -> tuple[Any, ...]:
        made.to(tensors[0].device)
        result = made(*tensors)
        return result if isinstance(result, tuple) else (result,)

    return call


def _nodes_of(path: Any, refused: Mapping[str, str]) -> dict[str, str]:
    """Nodes of PyTorch's graph that operators without a kernel come from -> why."""
    nodes = {}
    for operator in onnx.load(path, load_external_data=False).graph.node:
        why = refused.get(operator.name) or next((refused[out] for out in operator.output if out in refused), None)
        if why is not None:
            said = {one.key: one.value for one in operator.metadata_props}.get(NODE, "")
            nodes[said.partition(":")[0].strip().removeprefix("%")] = f"{operator.op_type}: {why}"
    return nodes


class _Taken(OperatorSupportBase):
    """The nodes that have kernels."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        self._refused = refused

    def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
        return node.op == "call_function" and node.name not in self._refused


def _compile_parts(module: Any, refused: _PartRefusal, examples: tuple[Any, ...], target: str) -> Call:
    """Plans for the parts of a graph between the nodes that PyTorch keeps."""
    for node, why in refused.nodes.items():
        LOG.warning("left to PyTorch: %s, %s", node, why)
    whole = refused.program.module()
    taken = _Taken(refused.nodes)
    parts = CapabilityBasedPartitioner(whole, taken, allows_single_node_partition=False).partition_and_fuse(PART)
    shapes: dict[str, tuple[Any, ...]] = {}

    class Record(torch.fx.Interpreter):
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            shapes[str(target)] = tuple(args)
            return super().call_module(target, args, kwargs)

    with torch.no_grad():
        Record(parts).run(*examples)
    for name, part in parts.named_children():
        if name in shapes and all(isinstance(one, torch.Tensor) for one in shapes[name]):
            try:
                parts.add_module(name, _CompiledPart(_compile(part, shapes[name], target)))
            except (_WholeRefusal, _PartRefusal, Unsupported) as why:
                LOG.warning("left to PyTorch: %s, %s", name, why)
    return lambda *tensors: tuple(torch.utils._pytree.tree_leaves(parts(*tensors)))


class _CompiledPart(torch.nn.Module):
    """A compiled part in place of the nodes that it computes."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    def forward(self, *tensors: Any) -> Any:
        found = self._call(*tensors)
        return found[0] if len(found) == 1 else found
