"""What checks found, kept on disk under everything that they depend on.

Two kernels are one where they differ in names only: text, launch, buffers, index maps, program, the kernel of the same
group at a smaller size, and what the file says of the operators behind them (kinds, attributes, shapes, small
constants), which is what the reference goes by; and their operands are drawn alike, or follow from inputs of the file
that are.  Only what passed is kept: failures are looked at again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

import engine
from engine.execution.reference import always_positive, distributions, domain_inputs
from engine.graph.nodes import AttributeValue, Operator, OperatorGraph
from engine.support.cache import digest, digest_of_files, read_entry, write_entry
from engine.verify.kernel import smaller

ENGINE = Path(engine.__file__).parent
_KIND = "checks"
_CHECKERS = (
    "verify/kernel.py", "verify/footprint.py", "verify/tolerance.py", "execution/reference.py",
    "execution/emulate/*.py", "execution/emulate/*/*", "tile/include/*",
)  # fmt: skip
_RUNS: Mapping[str, tuple[str, ...]] = {
    "source": _CHECKERS, "ptx": (*_CHECKERS, "execution/ptx/*", "verify/layout.py", "verify/levels.py"),
}  # fmt: skip
_WHOLE = "verify/model.py"
_MEANINGS = ("tensor/operators/*.py", "tensor/functions.py")
_SMALL = 4096
"""Elements of a constant up to which its values may say what an operator does (axes, shapes, indices)."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What is kept of a check that passed."""

    blocks_run: int
    blocks_total: int
    elements_compared: int
    max_error: float
    seconds: float
    """What it took."""


def recall(key: str) -> Passed | None:
    """What an earlier check of the same kernel found, if there was one."""
    data = read_entry(_KIND, key)
    return Passed(**json.loads(data)) if data is not None else None


def keep(key: str, found: Passed) -> None:
    """Remember a check that passed."""
    write_entry(_KIND, key, json.dumps(asdict(found)).encode())


def key_of(kernel: engine.Kernel, graph: OperatorGraph, level: str = "source") -> str:
    """The name under which a check of a kernel is kept; kernels that differ in names only have the same."""
    small = smaller(kernel)
    texts = "\0".join(_said(one) for one in (kernel, *(small or ())[1:]))
    dialect = [digest_of_files(_sources(_MEANINGS))] if graph.dialect == "akg" else [version("onnxruntime")]
    operators = json.dumps(list(_operators(kernel, graph)))
    return digest(_checker(_RUNS[level]), *dialect, _renamed(texts, kernel), operators)


def whole_key(plan: engine.FusionPlan, recipe: engine.Recipe, path: Path, level: str = "source") -> str:
    """The name under which a run of a whole model is kept: its files, its launches and the text of every kernel."""
    texts = [repr(engine.compile(group, recipe).source) for group in plan.groups]
    launches = repr([(launch.group, launch.instance) for launch in plan.launches])
    weights = repr([_stamp(file) for file in _weights(plan)])
    checker = _checker((*_RUNS[level], _WHOLE))
    return digest(checker, version("onnxruntime"), path.read_bytes(), weights, launches, *texts)


def _weights(plan: engine.FusionPlan) -> list[Path]:
    """The files beside a model that its weights lie in: they are mapped, not read."""
    constants = plan.source.constants.values() if plan.source else ()
    return sorted({Path(str(c.value.filename)) for c in constants if isinstance(c.value, np.memmap)})


def _stamp(file: Path) -> tuple[str, int, int]:
    """What changes with a file of many gigabytes: its size and the time of its last change."""
    found = file.stat()
    return file.name, found.st_size, found.st_mtime_ns


def engine_state() -> str:
    """One name for the engine as it is."""
    return digest_of_files(_sources(("**/*.py", "**/*.cuh", "execution/emulate/*/*")))


@cache
def _checker(patterns: tuple[str, ...]) -> str:
    return digest_of_files(_sources(patterns))


def _sources(patterns: Iterable[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in ENGINE.glob(pattern) if file.is_file()})


def _said(kernel: engine.Kernel) -> str:
    source = kernel.source
    launch = (source.grid, source.block, source.shared_bytes, source.buffers, source.workspaces, source.footprints)
    return f"{source.text}\0{launch}\0{kernel.group.program}"


def _renamed(text: str, kernel: engine.Kernel) -> str:
    """The text with the names of arrays and of the kernel replaced by numbers.

    A name that stands for something else too (an array called `block`) stays told apart: all of its places change.
    """
    names = {name: f"@{at}" for at, name in enumerate(kernel.group.program.arrays)}
    names[kernel.source.entry] = names[kernel.group.name] = "@kernel"
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    title = re.sub(r"^// .*\n", "", text, count=1)
    return re.sub(rf"(?<!\w)({longest_first})(?![A-Za-z0-9])", lambda found: names[found[1]], title)


def _operators(kernel: engine.Kernel, graph: OperatorGraph) -> Iterator[object]:
    """The operators behind the first occurrence of a kernel, and where its arrays stand among their tensors."""
    instance = kernel.group.instances[0]
    behind = set(instance.operators)
    numbers: dict[str, int] = {}

    def tensor(name: str) -> object:
        if not name:
            return None
        number = numbers.setdefault(name, len(numbers))
        known, constant = graph.tensors.get(name), graph.constants.get(name)
        value = constant.value if constant is not None else None
        small = digest(value.tobytes()) if value is not None and value.size <= _SMALL else ""
        return (number, known.shape, known.dtype, small) if known else (number,)

    for op in (op for op in graph.operators if op.name in behind):
        inputs, outputs = list(map(tensor, op.inputs)), list(map(tensor, op.outputs))
        yield (op.dialect, op.kind, op.opset, _attributes(op), inputs, outputs)
    program = kernel.group.program
    yield [_origin(graph, instance.arrays[name]) for name in program.inputs]
    yield [numbers.get(instance.arrays[name], -1) for name in (*program.inputs, *program.outputs)]


def _origin(graph: OperatorGraph, tensor: str) -> list[str]:
    """What the values of a tensor are drawn from: its own distribution, or those of the inputs that it follows from."""
    constant = graph.constants.get(tensor)
    if constant is not None:
        return [repr(constant.fill)]
    return sorted(_drawn(graph).get(tensor, ()))


@lru_cache(maxsize=1)
def _drawn(graph: OperatorGraph) -> Mapping[str, frozenset[str]]:
    """Tensor -> the distributions of the graph inputs behind it."""
    given = distributions(graph, graph.inputs, always_positive(graph) | domain_inputs(graph))
    behind = {name: frozenset([repr(drawn)]) for name, drawn in given.items()}
    for op in graph.operators:
        made = frozenset[str]().union(*(behind[name] for name in op.inputs if name in behind))
        behind.update(dict.fromkeys(filter(None, op.outputs), made))
    return behind


def _attributes(op: Operator) -> Mapping[str, str]:
    def said(value: AttributeValue) -> str:
        if isinstance(value, np.ndarray):
            return digest(str(value.dtype), str(value.shape), value.tobytes())
        return repr(value)

    return {name: said(value) for name, value in sorted(op.attributes.items())}
