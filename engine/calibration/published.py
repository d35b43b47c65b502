"""Published times of other people's kernels, as observations: the kernel that our advisers choose stands for theirs.

A fit to them is of the model and of the choice of kernel at once, which its origin says.  Rows of one half are fitted
to and the other half judges the fit; a digest of the row tells its half, so that each class has rows in both.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.api import fuse
from engine.calibration.fit import Observation
from engine.compilation import compile_group, default_recipe
from engine.cost.calibration import FITTED
from engine.graph.nodes import OperatorGraph
from engine.measurements.published import Column, PublishedProblem, problem_of, read_table
from engine.suite.operators import OPERATORS
from engine.suite.operators.single import SINGLE, Size, graph_of_operator
from engine.support.errors import BadInput, EngineError
from engine.target import DEVICES, Target, target, target_of_device

TABLE_SUFFIX = ".csv"
ROUNDED = " in tf32"
"""What the name of a library ends with whose float32 products round their operands."""
BINARY = {"add": "add", "mul": "mul", "div": "div", "pow": "pow"}
"""Title of a group that reads two tensors of one size -> operator."""
ELEMENTWISE = {
    "add": "add-scalar", "mul": "mul-scalar", "div": "div-scalar", "pow": "pow-scalar", "relu": "relu", "tanh": "tanh",
    "gelu": "gelu", "sigmoid": "sigmoid", "leakyrelu": "leaky-relu", "selu": "selu", "elu": "elu",
    "hardsigmoid": "hard-sigmoid", "softsign": "softsign", "clip": "hard-tanh",
}  # fmt: skip
"""Title of a group that reads one tensor -> operator."""
ROWS = {"softmax": "softmax", "logsoftmax": "log-softmax", "layernorm": "layernorm"}
"""Title of a group that reduces rows -> operator."""
LEAST_MICROSECONDS = 20.0
"""Shorter times are not fitted to: how they were taken is a part of them, 5 to 10 µs between events."""
FIGURES = tuple(name for name in FITTED if name not in ("launch_overhead", "dram_latency"))
"""Figures that are fitted: what is left of the way of measuring would be taken for a launch or a wait."""
PLAIN, EAGER = "plain CUDA", "PyTorch"
"""Whose kernels are known to be far from ours: written for comparison, and eager kernels of rows, which read them more
than once.  They judge the fit and are not fitted to."""

Progress = Callable[[str, int, int], None]
"""Called with (what comes next, steps done, all steps)."""


@dataclass(frozen=True, slots=True)
class PublishedObservations:
    """The rows of one GPU in published tables."""

    machine: Target
    device: str
    """As the tables call it."""
    fitted: tuple[Observation, ...]
    judged: tuple[Observation, ...]


def is_table(path: str | Path) -> bool:
    """Whether a file holds published times rather than our own."""
    return Path(path).suffix == TABLE_SUFFIX


def published_observations(
    paths: Sequence[str | Path], name: str | None, observe: Progress | None = None
) -> PublishedObservations:
    """The rows of the GPU that a target describes.

    Rows of operators that no graph is known for are left out.  name: of the target; tables of one GPU need none.
    observe: called before each class of rows.

    Raises BadInput for a broken table, and where the GPU is not told or has no row.
    """
    tables = [read_table(Path(path)) for path in paths]
    devices = sorted({device for table in tables for columns in table.values() for _, device, _ in columns})
    source = ", ".join(Path(path).name for path in paths)
    known = {device: own for device in devices if (own := target_of_device(device)) is not None}
    names = sorted({own.name for own in known.values()})
    if name is None and len(names) != 1:
        reason = f"holds published times of {len(names)} GPUs that targets describe"
        raise BadInput("calibrate", source, reason, f"name one with --target: {', '.join(names or DEVICES)}")
    machine = target(name or names[0])
    here = [device for device, own in known.items() if own is machine]
    if not here:
        hint = f"it has {', '.join(names)}" if names else "give a table like resources/published/times.csv"
        raise BadInput("calibrate", source, f"holds no published time of {machine.title}", hint)
    classes = [
        (column, {PublishedProblem(*operator, size): time for size, time in times.items()})
        for table in tables
        for operator, columns in table.items()
        for column, times in columns.items()
        if column[1] in here
    ]
    fitted, judged = [], []
    for number, (column, times) in enumerate(classes):
        operator = next(iter(times)).operator
        if observe is not None:
            observe(f"{operator} by {column[0]}", number, len(classes))
        is_far = column[0] == PLAIN or (column[0] == EAGER and operator in ROWS)
        for one in _observations(times, column, machine):
            if zlib.crc32(one.name.encode()) % 2:
                judged.append(one)
            elif not is_far and one.microseconds >= LEAST_MICROSECONDS:
                fitted.append(one)
    return PublishedObservations(machine, ", ".join(here), tuple(fitted), tuple(judged))


def _observations(times: Mapping[PublishedProblem, float], column: Column, machine: Target) -> Iterator[Observation]:
    """Rows of one operator, by one library on one GPU."""
    who, device, source = column
    numerics = {"tensor_cores": "tf32"} if who.endswith(ROUNDED) else {}
    for problem, microseconds in times.items():
        try:
            graph = operator_graph(problem)
            if graph is None:
                continue
            plan = fuse(graph, machine.name)
            if len(plan.groups) != 1 or problem_of(plan.groups[0]) != problem:
                continue
            work = compile_group(plan.groups[0], default_recipe(plan.groups[0], numerics=numerics)).facts
        except EngineError:
            continue  # too large for this GPU, or without a kernel
        kind = f"{problem.operator} {problem.dtype} by {who}"
        name = f"{kind}, {'x'.join(map(str, problem.sizes))}, {device}, {source}"
        yield Observation(name, kind, microseconds, ((1, work),))


def operator_graph(problem: PublishedProblem) -> OperatorGraph | None:
    """A graph whose one group is the problem; None for operators that nothing here draws."""
    sizes: dict[str, Size]
    if problem.operator == "matmul" and len(problem.sizes) == 4:
        b, m, n, k = problem.sizes
        name, sizes = ("matmul", {"m": m, "n": n, "k": k}) if b == 1 else (
            "batched-matmul", {"b": b, "m": m, "n": n, "k": k}
        )  # fmt: skip
    elif problem.operator in ROWS and len(problem.sizes) == 2:
        name, sizes = ROWS[problem.operator], dict(zip("mn", problem.sizes, strict=True))
    elif len(problem.sizes) == 1 and problem.operator in (operators := BINARY if problem.inputs == 2 else ELEMENTWISE):
        name, sizes = operators[problem.operator], {"elements": problem.sizes[0]}
    else:
        return None
    return graph_of_operator(name, OPERATORS.get(name) or SINGLE[name], problem.dtype, sizes)
