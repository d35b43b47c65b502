"""All launches of a row's plan by PyCUDA, over PyTorch's tensors and in its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import engine
from engine.errors import MissingCapability
from engine.graph.nodes import DTYPES, OperatorGraph
from engine.run.cuda_graph import Graph
from tests.benchmarks.peers import Arrays

TARGETS = {(9, 0): "h200", (8, 0): "a100"}
"""Compute capability -> the target that kernels are compiled for."""


class Launches:
    """Our kernels of one graph: called with a number, they run on that copy of the inputs and give its outputs."""

    def __init__(self, torch: Any, graph: OperatorGraph, copies: Sequence[Arrays]) -> None:
        import pycuda.driver as driver

        driver.init()
        device = driver.Device(0)
        target = TARGETS.get(tuple(device.compute_capability()))
        if target is None:
            raise MissingCapability(
                "benchmark", device.name(), "no kernels are generated for it", "use an A100, H100, H200"
            )
        # PyTorch has made the primary context current; PyCUDA joins it.
        device.retain_primary_context().push()
        self._driver, self._graph = driver, graph
        plan = engine.fuse(graph, target=target)
        kernels = {group.name: engine.compile(group, engine.default_recipe(group, target)) for group in plan.groups}
        self._modules = {
            name: driver.module_from_buffer(engine.nvrtc(kernel, kernel.target.architecture).cubin)
            for name, kernel in kernels.items()
        }
        shared = self._made(torch, plan, graph)
        self._memory = [{**shared, **copy, **self._outputs(torch, graph)} for copy in copies]
        self._steps = [self._step(plan, launch, kernels[launch.group]) for launch in plan.launches]

    def __call__(self, copy: int) -> list[Any]:
        memory = self._memory[copy % len(self._memory)]
        self._enqueue(memory, None)
        return [memory[name] for name in self._graph.outputs]

    def recorded(self, library: Any, launches: int) -> Graph:
        """A graph of `launches` runs, on one copy after another."""
        stream = self._driver.Stream()

        def enqueue() -> None:
            for n in range(launches):
                self._enqueue(self._memory[n % len(self._memory)], stream)

        return Graph(library, stream.handle, enqueue)

    def _enqueue(self, memory: Arrays, stream: Any) -> None:
        for function, grid, block, shared, operands in self._steps:
            pointers = (memory[name].data_ptr() + offset for name, offset in operands)
            function.prepared_async_call(grid, block, stream, *pointers, shared_size=shared)

    def _step(self, plan: Any, launch: Any, kernel: engine.Kernel) -> tuple[Any, ...]:
        """What one launch needs: its function, its shape, and the tensor and first byte behind each parameter."""
        source, own = kernel.source, plan.group(launch.group).instances[launch.instance]
        function = self._modules[launch.group].get_function(source.entry)
        function.set_attribute(self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, source.shared_bytes)
        function.prepare("P" * len(source.buffers))
        operands = []
        for buffer in source.buffers:
            size = DTYPES[buffer.dtype]
            part = own.parts.get(buffer.array)
            operands.append((own.arrays[buffer.array], part.first * size if part else 0))
        return function, tuple(source.grid), tuple(source.block), source.shared_bytes, tuple(operands)

    @staticmethod
    def _made(torch: Any, plan: Any, graph: OperatorGraph) -> dict[str, Any]:
        """Tensors between launches, and constants: one copy of each."""
        made = {}
        for group in plan.groups:
            for instance in group.instances:
                for array in (*group.program.inputs, *group.program.outputs):
                    name = instance.arrays[array]
                    if name in graph.constants and graph.constants[name].value is not None:
                        made[name] = torch.from_numpy(graph.constants[name].value.copy()).cuda()
                    elif name not in made and name not in graph.inputs:
                        like = graph.tensors.get(name) or group.program.arrays[array]
                        made[name] = torch.empty(like.shape, dtype=getattr(torch, like.dtype), device="cuda")
        return made

    @staticmethod
    def _outputs(torch: Any, graph: OperatorGraph) -> dict[str, Any]:
        """The outputs' own memory, filled with what no kernel writes, so that a missing write shows."""
        tensors = {name: graph.tensors[name] for name in graph.outputs}
        made = {n: torch.empty(t.shape, dtype=getattr(torch, t.dtype), device="cuda") for n, t in tensors.items()}
        for value in made.values():
            value.view(torch.uint8).fill_(0xFF) if value.dim() else value.fill_(float("nan"))
        return made
