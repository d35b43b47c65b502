"""The backend of `torch.compile`: a graph, or the parts of it that Loomscope has kernels for, becomes plans."""

from __future__ import annotations

import logging
import operator
from collections import Counter
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
from engine.pytorch.module import DEVICE, PlanModule
from engine.support.errors import EngineError
from engine.target import DEFAULT_TARGET, target_of_device
from engine.verify.run import CPU

LOG = logging.getLogger("loomscope.torch")
NODE = "pkg.torch.onnx.fx_node"
"""Metadata of an operator in the exporter's files: the node of PyTorch's graph that it was made from, as text."""
PART = "loomscope"
"""What the names of parts of a graph begin with."""

Call = Callable[..., Any]


class _WholeRefusal(Exception):
    """A graph that stays PyTorch's as a whole, and why."""


class _PartRefusal(Exception):
    """Nodes of an exported program without a kernel, with the reasons."""

    def __init__(self, program: Any, nodes: Mapping[str, str]) -> None:
        super().__init__(", ".join(f"{node}: {why}" for node, why in nodes.items()))
        self.program, self.nodes = program, nodes


def compile_graph(module: Any, inputs: Sequence[Any], target: str | None) -> Call:
    """A function with the graph's arguments and results; the module's own `forward` where nothing can be taken."""
    try:
        examples = _examples(inputs)
        found = target or _find_target(inputs[0])
        return _compile(module, examples, found, is_whole=True)
    except _PartRefusal as refused:
        return _compile_parts(module, refused, examples, found)
    except _WholeRefusal as why:
        LOG.warning("left to PyTorch: %s", why)
        return _own(module)


def _own(module: Any) -> Call:
    forward: Call = module.forward
    return forward


def _find_target(tensor: Any) -> str:
    """The GPU of a tensor.  Raises _WholeRefusal where it is not described: its limits are not known."""
    if tensor.device.type == CPU:
        return DEFAULT_TARGET
    title = torch.cuda.get_device_name(tensor.device)
    found = target_of_device(title)
    if found is None:
        raise _WholeRefusal(f"{title} is not described; functools.partial(engine.torch_backend, target=...) names one")
    return found.name


def _examples(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors of the same shapes and types: those that PyTorch passes may have no memory."""
    if not inputs:
        raise _WholeRefusal("it takes no tensors")
    for one in inputs:
        if not isinstance(one, torch.Tensor) or not all(isinstance(size, int) for size in one.shape):
            raise _WholeRefusal("its sizes change; torch.compile(dynamic=False) compiles each anew")
        if one.requires_grad and torch.is_grad_enabled():
            raise _WholeRefusal("it needs gradients; kernels are for inference, under torch.no_grad()")
    devices = {str(one.device) for one in inputs}
    if len(devices) > 1 or inputs[0].device.type not in (CPU, DEVICE):
        raise _WholeRefusal(f"its tensors are on {', '.join(sorted(devices))}; kernels run on one GPU, or on the CPU")
    return tuple(torch.zeros(tuple(one.shape), dtype=one.dtype, device=one.device) for one in inputs)


def _compile(module: Any, examples: tuple[Any, ...], target: str, is_whole: bool) -> Call:
    """A graph as one plan.  is_whole: whether its results leave PyTorch's graph.

    Raises _PartRefusal where some operators have no kernel, _WholeRefusal for more.
    """
    try:
        # The program is the exporter's: its nodes have the names that the file tells.
        path, program = write_onnx(torch.export.export(module, examples))
        views = _shared_views(program.graph) if is_whole else {}
        graph = load(path)
        plan = fuse(graph, target)
        refused = {**graph.unsupported, **plan.without_kernel}
        nodes = _nodes_of(path, refused)
        if refused and not nodes:  # an operator of a function that the exporter wrote for a node
            raise _WholeRefusal("; ".join(f"{name}: {why}" for name, why in refused.items()))
        if nodes or views:
            raise _PartRefusal(program, {**views, **nodes})
        if not plan.launches:
            raise _WholeRefusal("it computes nothing")
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
    for one in onnx.load(path, load_external_data=False).graph.node:
        why = refused.get(one.name) or next((refused[out] for out in one.output if out in refused), None)
        if why is not None:
            said = {prop.key: prop.value for prop in one.metadata_props}.get(NODE, "")
            nodes[said.partition(":")[0].strip().removeprefix("%")] = f"{one.op_type}: {why}"
    return nodes


def _shared_views(graph: Any) -> dict[str, str]:
    """Nodes that make results which share memory with an input or another result -> why they stay PyTorch's.

    Who writes to such a tensor expects the other to change; what kernels make has memory of its own.
    """
    views: dict[str, str] = {}
    results = dict.fromkeys(one for one in graph.output_node().args[0] if isinstance(one, torch.fx.Node))
    chains = [_view_chain(result) for result in results]
    bases = Counter(chain[-1] for chain in chains)
    for chain in chains:
        base, is_input = chain[-1], chain[-1].op == "placeholder"
        if is_input or bases[base] > 1:
            of = f"its memory is that of the {'input' if is_input else 'result'} {base.name}"
            made = chain[:-1] or (chain if is_input else [])
            views |= {node.name: of for node in made}
    return views


def _view_chain(node: Any) -> list[Any]:
    """A node, what it is a view of, what that is a view of: until the node that makes the memory."""
    chain = [node]
    while _is_view(node):
        node = node.args[0]
        chain.append(node)
    return chain


def _is_view(node: Any) -> bool:
    """Whether a node makes a view of its first argument, or takes one of several views."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)  # of PyTorch's own operators
    return schema is not None and any(one.alias_info is not None for one in schema.returns)


class _Taken(OperatorSupportBase):
    """The nodes that have kernels."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        self._refused = refused

    def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
        # One of several results stays with its operator: a part takes tensors, not tuples of them.
        maker: Any = node.args[0] if node.target is operator.getitem else node
        return node.op == "call_function" and maker.name not in self._refused


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
    compiled = 0
    for name, part in list(parts.named_children()):
        if name.startswith(PART):
            try:
                parts.add_module(name, _CompiledPart(_compile(part, _examples(shapes[name]), target, is_whole=False)))
                compiled += 1
            except (_WholeRefusal, _PartRefusal) as why:
                LOG.warning("left to PyTorch: %s, %s", name, why)
    if not compiled:
        return _own(module)
    return lambda *tensors: tuple(torch.utils._pytree.tree_leaves(parts(*tensors)))


class _CompiledPart(torch.nn.Module):
    """A compiled part in place of the nodes that it computes."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    def forward(self, *tensors: Any) -> Any:
        found = self._call(*tensors)
        return found[0] if len(found) == 1 else found
