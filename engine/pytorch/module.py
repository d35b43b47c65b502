"""A plan as a module of PyTorch: launched on PyTorch's stream of a GPU, emulated where its tensors are on the CPU."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from engine.compilation import compile_group
from engine.execution.reference import constant_values
from engine.export.companions import write_code
from engine.export.sources import kernel_row
from engine.export.torch_module import TorchOperator
from engine.fusion.nodes import FusionPlan, GroupInstance
from engine.kernels.nodes import Kernel
from engine.pytorch.tensors import to_array, to_tensor
from engine.recipe import Recipe
from engine.support.errors import BadInput, Unsupported
from engine.support.leftovers import process_folder
from engine.verify.run import CPU, run_plan

DEVICE = "cuda"
"""PyTorch's type of the device that kernels are launched on."""


class PlanModule(torch.nn.Module):
    """Takes the inputs of a plan's graph, gives its outputs: one tensor, or a tuple of several."""

    def __init__(self, plan: FusionPlan, recipe: Recipe) -> None:
        """Raises Unsupported for in-place updates and operators without a kernel."""
        super().__init__()
        graph = plan.source
        if graph is None:
            raise BadInput("torch", plan.graph, "the plan comes from no graph", "fuse a graph")
        if graph.updates:
            raise Unsupported("torch", graph.updates[0].target, "is updated in place, which no operator here does")
        for name, why in plan.without_kernel.items():
            raise Unsupported("torch", name, why, "engine.torch_backend leaves such operators to PyTorch")
        self.plan, self.recipe, self.graph = plan, recipe, graph
        self._constants: dict[str, str] = {}
        for number, (name, value) in enumerate(constant_values(graph).items()):
            self._constants[name] = f"constant_{number}"  # a buffer's name has no dots
            self.register_buffer(self._constants[name], to_tensor(value))
        # Kernels are compiled here, so that what has none is told before the first call.
        self._kernels = {group.name: compile_group(group, recipe) for group in plan.groups}

    def _forward(self, *tensors: Any, **named: Any) -> Any:
        """Run all launches.  Tensors: in the order of the graph's inputs, or by their names.

        Raises BadInput for tensors that are missing, of another shape, type or device.
        """
        given = {**dict(zip(self.graph.inputs, tensors, strict=False)), **named}
        if len(tensors) > len(self.graph.inputs) or len(given) < len(tensors) + len(named):
            raise BadInput("torch", self.plan.graph, f"takes {', '.join(self.graph.inputs)}, each once")
        known = {**{name: getattr(self, buffer) for name, buffer in self._constants.items()}, **given}
        if all(tensor.device.type == CPU for tensor in known.values()):
            found = run_plan(self.plan, {n: to_array(t) for n, t in known.items()}, self.recipe, CPU)
            results = [to_tensor(found[name]) for name in self.graph.outputs]
        else:
            results = self._launch_all(known)
        return results[0] if len(results) == 1 else tuple(results)

    forward = torch.compiler.disable(_forward)  # torch.compile would trace into the compiler and the emulator

    def _launch_all(self, known: dict[str, Any]) -> list[Any]:
        """All launches on the GPU that the tensors are on."""
        values = {name: self._fitting(name, tensor) for name, tensor in known.items()}
        for name in self.graph.inputs:
            if name not in values:
                raise BadInput("torch", name, "has no value", f"give {', '.join(self.graph.inputs)}")
        with torch.no_grad():
            for launch in self.plan.launches:
                operator, kernel = self._operators[launch.group], self._kernels[launch.group]
                _launch(operator, kernel, kernel.group.instances[launch.instance], values)
        return [values[name].reshape(self.graph.tensors[name].shape) for name in self.graph.outputs]

    def _fitting(self, name: str, tensor: Any) -> Any:
        declared = self.graph.tensors.get(name)
        if declared is None or name not in (*self.graph.inputs, *self.graph.constants):
            raise BadInput("torch", name, "is no input", f"inputs are {', '.join(self.graph.inputs)}")
        if tuple(tensor.shape) != declared.shape or str(tensor.dtype) != f"torch.{declared.dtype}":
            reason = f"is {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}, {declared} is declared"
            raise BadInput("torch", name, reason)
        if tensor.device.type != DEVICE:
            raise BadInput("torch", name, f"is on {tensor.device}, others on a GPU", "move the module and its inputs")
        return tensor.contiguous()

    @cached_property
    def _operators(self) -> dict[str, TorchOperator]:
        """The launchable kernel of each group, with its machine code in a folder of this process."""
        folder: Path = process_folder()
        made = {}
        for name, kernel in self._kernels.items():
            write_code(kernel, folder)
            made[name] = TorchOperator(kernel_row(kernel), folder)
        return made


def _launch(operator: TorchOperator, kernel: Kernel, own: GroupInstance, values: dict[str, Any]) -> None:
    """One launch: `values` gets the tensors that it writes.

    A launch that writes a part of a tensor leaves the rest as earlier launches made it.
    """
    arrays = kernel.group.program.arrays
    reads = [_view(own, name, values[own.arrays[name]], arrays[name].elements) for name in _names(operator.reads)]
    made = operator(*reads)
    results = dict(zip(_names(operator.writes), made if isinstance(made, tuple) else (made,), strict=True))
    writers = Counter(own.arrays[name] for name in results)
    for name, result in results.items():
        tensor, part = own.arrays[name], own.parts.get(name)
        if part is None and writers[tensor] == 1:
            values[tensor] = result
            continue
        if tensor not in values:
            size = part.whole if part else arrays[name].elements
            values[tensor] = torch.zeros(size, dtype=result.dtype, device=result.device)
        _view(own, name, values[tensor], arrays[name].elements).copy_(result.reshape(-1))


def _names(parameters: list[dict[str, Any]]) -> list[str]:
    return [parameter["name"] for parameter in parameters]


def _view(own: GroupInstance, array: str, tensor: Any, elements: int) -> Any:
    """What an array of a group's program is of its tensor: flat, no copy."""
    flat, part = tensor.reshape(-1), own.parts.get(array)
    return flat if part is None else flat[part.first : part.first + elements]
