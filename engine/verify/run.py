"""Run a kernel, or every launch of a plan, on the caller's arrays: on the GPU where there is one, else emulated."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.emulate.emulate import emulate
from engine.execution.measure import MeasureJob, gpu_name, measure_kernels, require_pycuda
from engine.execution.nodes import Emulation, Failure
from engine.execution.nvrtc import compile_cuda
from engine.execution.reference import constant_values
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import OperatorGraph
from engine.recipe import Recipe
from engine.support.errors import BadInput, Fault
from engine.target.host_cpu import host_cpu
from engine.target.machines import is_cpu
from engine.tensor.nodes import Array
from engine.tile.source import CudaSource
from engine.verify.model_run import LaunchRun, ModelRun, run_launch
from engine.verify.native import native_run

GPU, CPU = "gpu", "cpu"
DEVICES = (GPU, CPU)
EMULATED = "emulated"
TIMEOUT = 600.0
"""Seconds for one launch."""

Values = Mapping[str, np.ndarray]


class Results(dict[str, np.ndarray]):
    """Arrays by name, with where they were computed."""

    def __init__(self, arrays: Values, origin: str) -> None:
        super().__init__(arrays)
        self.origin = origin
        """"emulated" on this machine's CPU, else the GPU's name."""


def run_kernel(kernel: AnyKernel, arrays: Values, device: str | None = None, timeout: float = TIMEOUT) -> Results:
    """One launch of a kernel.  arrays and results as of `engine.run`."""
    run, origin = find_place(kernel.recipe.target, device)
    instance = kernel.group.instances[0]
    graph = kernel.group.graph
    program = kernel.group.program
    inputs = [program.arrays[name] for name in program.inputs]
    tensors = {instance.arrays[array.name] for array in inputs}
    _refuse_unknown(arrays, {array.name for array in inputs} | tensors, kernel.group.name)
    # A program may call an array as the graph calls another tensor: names are the graph's where all of them can be.
    by_tensor = arrays.keys() <= tensors
    values: dict[str, np.ndarray] = {}
    for array in inputs:
        tensor = instance.arrays[array.name]
        given = arrays.get(tensor) if by_tensor else arrays.get(array.name, arrays.get(tensor))
        if given is not None:
            values[tensor] = _whole_tensor(kernel, array, given, values.get(tensor))
    constants = set() if graph is None else (tensors - values.keys()) & graph.constants.keys()
    if graph is not None:
        values |= constant_values(graph, names=constants)
    missing = sorted(tensors - values.keys())
    if missing:
        raise _missing(missing[0], kernel.group.name, tensors - constants)
    written = run_launch(kernel, 0, values, run(kernel), timeout)
    orders = {instance.arrays[name]: order for name, order in instance.orders.items()}
    found = {name: _in_graph_shape(name, value, graph, orders.get(name)) for name, value in written.items()}
    return Results(found, origin)


def run_plan(
    plan: FusionPlan, arrays: Values, recipe: Recipe, device: str | None = None, timeout: float = TIMEOUT
) -> Results:
    """All launches of a plan in order.  arrays: of its graph's inputs.  Results: its graph's outputs and updates."""
    run, origin = find_place(recipe.target, device)
    graph = plan.source
    if graph is None:
        raise BadInput("run", plan.graph, "the plan comes from no graph", "fuse a graph")
    _refuse_unknown(arrays, {*graph.inputs, *graph.constants}, graph.name)
    values = {}
    for name, given in arrays.items():
        tensor = graph.tensors[name]
        values[name] = _as_declared(name, given, tensor.shape, tensor.dtype)
    missing = [name for name in graph.inputs if name not in values]
    if missing:
        raise _missing(missing[0], graph.name, graph.inputs)
    values = {**constant_values(graph, names=graph.constants.keys() - values.keys()), **values}
    model = ModelRun(plan, recipe, values, run, timeout)
    for number in range(len(plan.launches)):
        model.launch(number)
    wanted = dict.fromkeys((*graph.outputs, *(update.target for update in graph.updates)))
    return Results({name: _in_graph_shape(name, model.value(name), graph) for name in wanted}, origin)


def find_place(target: str, device: str | None) -> tuple[Callable[[AnyKernel], LaunchRun], str]:
    """How kernels for a target run, and where: those of a CPU on this machine's, others as `find_device` says."""
    if not is_cpu(target):
        return find_device(device)
    if device == GPU:
        raise BadInput("run", f"device {device}", f"the kernels are for {target}, a CPU", "leave out the device")
    return (lambda kernel: native_run(kernel) if isinstance(kernel, CpuKernel) else emulate), host_cpu().title


def find_device(device: str | None) -> tuple[Callable[[AnyKernel], LaunchRun], str]:
    """How kernels run on a device, and its name.  None: the GPU where PyCUDA and a GPU are there, else this CPU.

    Raises BadInput for another word, MissingCapability where the GPU is wanted and is not there.
    """
    if device not in (None, *DEVICES):
        raise BadInput("run", f"device {device}", "is not known", f"one of {', '.join(DEVICES)}")
    name = None if device == CPU or importlib.util.find_spec("pycuda") is None else gpu_name()
    if device == GPU and name is None:
        require_pycuda()
    if name is None and device != GPU:
        return (lambda kernel: partial(emulate, checked=False)), EMULATED
    return _gpu_run, name or "GPU"


def _gpu_run(kernel: AnyKernel) -> LaunchRun:
    """How this kernel runs on the GPU, once, in a process of its own."""
    assert not isinstance(kernel, CpuKernel)
    compiled = compile_cuda(kernel.source.text, kernel.target.architecture)

    def run(
        source: CudaSource, arrays: Values, *, blocks: Sequence[int] | None = None, order: str = "late",
        timeout: float = TIMEOUT,
    ) -> tuple[Emulation, dict[str, np.ndarray], dict[str, np.ndarray]]:  # fmt: skip
        assert blocks is None, "a GPU runs all blocks"
        found = measure_kernels([MeasureJob(source, compiled, arrays)], rounds=1, samples=1, timeout=timeout)
        if isinstance(found, Failure):
            raise Fault("run", kernel.group.name, f"{found.kind}: {found.message}")
        emulation = Emulation("", source.blocks, source.blocks, (), ())
        return emulation, dict(found[0].outputs), {}

    return run


def _whole_tensor(kernel: AnyKernel, array: Array, given: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """The value of the tensor that holds an array, from one given for the tensor or for the array alone.

    known: the tensor as other arrays that are parts of it have filled it.
    """
    instance, graph = kernel.group.instances[0], kernel.group.graph
    tensor, part = instance.arrays[array.name], instance.parts.get(array.name)
    declared = None if graph is None else graph.tensors.get(tensor)
    whole = declared.shape if declared else (part.whole,) if part else array.shape
    if part is None or np.size(given) == part.whole != array.elements:
        # Axes of one element are no part of a program's arrays: either shape is the tensor's.
        shape = array.shape if part is None and np.shape(given) == array.shape else whole
        value = _as_declared(tensor, given, shape, array.dtype)
        return value if shape == array.shape != whole else np.ascontiguousarray(instance.in_storage(array.name, value))
    value = _as_declared(array.name, given, array.shape, array.dtype)
    filled = np.zeros(whole, value.dtype) if known is None else known
    instance.view(array, filled)[...] = value
    return filled


def _as_declared(name: str, given: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The array without gaps in memory.  BadInput where its shape or type is another than is declared."""
    value = np.asarray(given)
    if value.shape != shape:
        raise BadInput("run", name, f"has shape {list(value.shape)}, {list(shape)} is declared")
    wanted = np.dtype(dtype)
    if value.dtype != wanted:
        raise BadInput("run", name, f"is {value.dtype}, {wanted} is declared", f"convert it: .astype({str(wanted)!r})")
    return np.asarray(value, order="C")


def _in_graph_shape(
    name: str, value: np.ndarray, graph: OperatorGraph | None, order: tuple[int, ...] | None = None
) -> np.ndarray:
    """A result as the graph declares it.  order: of its axes in memory, where that is another."""
    declared = None if graph is None else graph.tensors.get(name)
    if declared is None:
        return value
    if order is None:
        return value.reshape(declared.shape)
    stored = value.reshape([declared.shape[axis] for axis in order])
    return np.ascontiguousarray(stored.transpose(np.argsort(order)))


def _refuse_unknown(arrays: Values, known: set[str], subject: str) -> None:
    for name in arrays:
        if name not in known:
            raise BadInput("run", name, f"is no input of {subject}", f"inputs are {_name_list(known)}")


def _missing(name: str, subject: str, needed: Sequence[str] | set[str]) -> BadInput:
    hint = f"{subject} needs {_name_list(needed)}; engine.inputs makes values for all"
    return BadInput("run", name, "has no value", hint)


def _name_list(names: Sequence[str] | set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
