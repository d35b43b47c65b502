"""All launches of a row by PyCUDA, over PyTorch's tensors and in its context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.execution.cuda_graph import Graph, library
from engine.graph.nodes import OperatorGraph
from engine.support.errors import EngineError, MissingCapability, Unsupported
from tests.benchmarks.gpu_machine import Machine
from tests.benchmarks.peers import Arrays
from tests.benchmarks.prepared import Code, Prepared, PreparedLaunch

Workspaces = Mapping[str, Sequence[Any]]
"""Group -> the tensors behind its kernel's workspaces."""


class Launches:
    """Our kernels of one row: called with a number, they run on that copy of the inputs and give its outputs."""

    def __init__(
        self, torch: Any, machine: Machine, graph: OperatorGraph, prepared: Prepared, code: Code,
        copies: Sequence[Arrays],
    ) -> None:  # fmt: skip
        import pycuda.driver as driver

        if prepared.unsupported:
            group, why = next(iter(prepared.unsupported.items()))
            raise Unsupported("benchmark", group, why)
        driver.init()
        _check_driver(driver, prepared.compiler)
        # PyTorch has made the primary context current; PyCUDA joins it.
        driver.Device(0).retain_primary_context().push()
        self._torch, self._driver, self._machine, self._graph = torch, driver, machine, graph
        self._prepared = prepared
        self._functions = {group: self._load(group, code[group]) for group in prepared.kernels}
        shared = {**self._constants(), **self._between()}
        self._memory = [{**shared, **copy, **self._outputs()} for copy in copies]
        self._own = self._workspaces()

    @property
    def ran(self) -> str:
        """In words."""
        count = len(self._prepared.launches)
        return f"our kernels, {count} launch{'es' if count > 1 else ''}"

    def __call__(self, copy: int) -> list[Any]:
        memory = self._memory[copy % len(self._memory)]
        self._enqueue(memory, self._own, None)
        return [memory[name] for name in self._graph.outputs]

    def checked(self, copy: int) -> list[Any]:
        """A run over outputs that hold what no kernel writes, so that a missing write shows."""
        memory = self._memory[copy % len(self._memory)]
        for name in self._graph.outputs:
            _poison(self._torch, memory[name])
        return self(copy)

    def recorded(self, launches: int) -> Callable[[], None]:
        """A graph of `launches` runs, on one copy after another."""
        stream, own = self._driver.Stream(), self._workspaces()

        def enqueue() -> None:
            for n in range(launches):
                self._enqueue(self._memory[n % len(self._memory)], own, stream)

        graph = Graph(library(), stream.handle, enqueue)
        return lambda: graph.launch(self._machine.stream())

    def _enqueue(self, memory: Arrays, own: Workspaces, stream: Any) -> None:
        for launch in self._prepared.launches:
            self._launch(launch, memory, own, stream)

    def _launch(self, launch: PreparedLaunch, memory: Arrays, own: Workspaces, stream: Any) -> None:
        kernel = self._prepared.kernels[launch.group]
        pointers = [memory[name].data_ptr() + first for name, first in launch.operands]
        pointers += [workspace.data_ptr() for workspace in own[launch.group]]
        for pointer, needs in zip(pointers, (*kernel.parameters, *kernel.workspaces), strict=True):
            if pointer % needs.alignment:
                place = f"{needs.parameter} lies at {pointer:#x}"
                raise EngineError("run", launch.group, f"{place}, which is no multiple of {needs.alignment}")
        function = self._functions[launch.group]
        function.prepared_async_call(kernel.grid, kernel.block, stream, *pointers, shared_size=kernel.shared_bytes)

    def _load(self, group: str, code: bytes) -> Any:
        kernel = self._prepared.kernels[group]
        attribute = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        try:
            function = self._driver.module_from_buffer(code).get_function(kernel.entry)
            function.set_attribute(attribute, kernel.shared_bytes)
        except self._driver.Error as error:
            raise EngineError("run", group, f"the driver does not load it: {error}") from error
        function.prepare("P" * (len(kernel.parameters) + len(kernel.workspaces)))
        return function

    def _workspaces(self) -> Workspaces:
        """Of every kernel, for launches that follow each other: they leave zeroed ones as zeros."""
        kinds = {True: self._torch.zeros, False: self._torch.empty}
        return {
            group: [
                kinds[w.zeroed](w.elements, dtype=getattr(self._torch, w.dtype), device=self._machine.device)
                for w in kernel.workspaces
            ]
            for group, kernel in self._prepared.kernels.items()
        }

    def _constants(self) -> dict[str, Any]:
        known = self._graph.constants
        names = {name for launch in self._prepared.launches for name, _ in launch.operands if name in known}
        return {
            name: self._torch.from_numpy(known[name].value.copy()).to(self._machine.device)
            for name in names
            if known[name].value is not None
        }

    def _between(self) -> dict[str, Any]:
        """Tensors between launches: one copy of each."""
        return {name: self._empty(one.shape, one.dtype) for name, one in self._prepared.between.items()}

    def _outputs(self) -> dict[str, Any]:
        """The outputs' own memory."""
        tensors = {name: self._graph.tensors[name] for name in self._graph.outputs}
        return {name: self._empty(tensor.shape, tensor.dtype) for name, tensor in tensors.items()}

    def _empty(self, shape: Sequence[int], dtype: str) -> Any:
        return self._torch.empty(tuple(shape), dtype=getattr(self._torch, dtype), device=self._machine.device)


def _check_driver(driver: Any, compiler: str) -> None:
    """MissingCapability for a driver that is older than the compiler: it would refuse the code."""
    known, used = int(driver.get_driver_version()) // 1000, int(compiler.partition(".")[0])
    if known < used:
        reason = f"it knows CUDA {known}, the kernels were compiled for CUDA {used}"
        raise MissingCapability("benchmark", "the NVIDIA driver", reason, f"install a driver for CUDA {used} or newer")


def _poison(torch: Any, tensor: Any) -> None:
    tensor.view(torch.uint8).fill_(0xFF) if tensor.dim() else tensor.fill_(float("nan"))
