"""The verbs for PyTorch.  PyTorch is an extra: it is imported when one of them is called."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.compilation import default_recipe
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import OperatorGraph
from engine.recipe import Recipe
from engine.support.errors import MissingCapability

if TYPE_CHECKING:
    from engine.pytorch.module import PlanModule


def torch_op(plan: FusionPlan, recipe: Recipe | None = None) -> PlanModule:
    """All launches of a plan as a `torch.nn.Module` for inference.  Needs the extra `torch`: without it, this raises
    MissingCapability (`pip install 'loomscope[torch]'`).

    >>> plan = engine.fuse(engine.load("suite:alcop/MM_RN50_FC"))
    >>> op = engine.torch_op(plan, engine.default_recipe(plan))
    >>> a, b = torch.ones(1024, 2048, dtype=torch.float16), torch.ones(2048, 64, dtype=torch.float16)
    >>> op(a, b).shape, float(op(a, b=b)[0, 0])
    (torch.Size([1024, 64]), 2048.0)

    It takes the graph's inputs, in their order or by name, and gives its outputs; the graph's constants are buffers of
    the module.  Tensors on a GPU are computed there, on the current stream; those on the CPU are emulated, which is
    exact and slow.  No gradients.
    recipe: by default the advisers'.  Raises Unsupported for a graph that updates tensors in place, and where
    operators have no kernel; a call raises BadInput for tensors that do not fit, NoKernel where a group has no kernel.
    """
    _require("torch")
    from engine.pytorch.module import PlanModule

    return PlanModule(plan, recipe or default_recipe(plan))


def torch_backend(module: Any, inputs: Sequence[Any], *, target: str | None = None) -> Callable[..., Any]:
    """A backend of `torch.compile`.  Needs the extra `torch`.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU()).eval()
    >>> compiled = torch.compile(model, backend=engine.torch_backend)
    >>> x = torch.ones(8, 64)
    >>> with torch.no_grad():
    ...     bool(torch.allclose(compiled(x), model(x), atol=1e-5))
    True

    What Loomscope has kernels for is compiled; the other operators, results that are views of an input or of each
    other, and graphs that need gradients, update tensors in place or have sizes that change stay PyTorch's own.  The
    logger "loomscope.torch" says which, and why.
    module, inputs: what `torch.compile` passes: a graph of operators and example tensors.  target: "a100", "h100", ...,
    through `functools.partial`; by default the GPU of the tensors, of tensors on the CPU that of `engine.fuse`.
    """
    _require("torch", "onnxscript")
    from engine.pytorch.backend import compile_graph

    return compile_graph(module, inputs, target)


def from_torch(program: Any, dims: Mapping[str, int] | None = None) -> OperatorGraph:
    """The graph of a `torch.export.ExportedProgram`, by way of ONNX.  Needs the extra `torch`.

    >>> program = torch.export.export(torch.nn.LayerNorm(64), (torch.ones(8, 64),))
    >>> graph = engine.from_torch(program)
    >>> [operator.kind for operator in graph.operators]
    ['LayerNormalization']

    dims: sizes for its dynamic dimensions.  The file between lives as long as the process.
    Raises BadInput where PyTorch's exporter does not know an operator, Unsupported for a program that updates tensors
    in place (a batch normalization in training does), and what `engine.load` does.
    """
    _require("torch", "onnxscript")
    from engine.pytorch.exported import load_exported

    return load_exported(program, dims)


def _require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingCapability("torch", package, "is not installed", "pip install 'loomscope[torch]'")
