"""Seeded random ONNX graphs and random wishes about their schedules.

Every float stays of the order of one and goes through well-conditioned operators only, so that a right kernel stays
within the tolerance that number formats give.  Operators with jumps (comparisons, casts to integers) are applied to
exact values only: inputs, and what selections and layouts make of them.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.fusion.nodes import FusionGroup
from engine.recipe import Entry, entry
from tests.semantics.single import TYPES, Node, write_model

ODD, ALIGNED = (1, 3, 5, 7, 31, 33, 65), (4, 8, 64, 128)
ELEMENTS = 20_000
"""Largest tensor."""
NUMBERS = (1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 100, 256, 1000, 1024, 4096, 2**31 - 1)
"""Values of marks."""
FLOATS, INTEGERS = ("float32", "float16"), ("int32", "int64")


@dataclass(frozen=True)
class Known:
    """A tensor of the graph under construction."""

    dtype: str
    shape: tuple[int, ...]
    exact: bool
    """Both sides compute exactly the same value."""
    bound: float = 4.0
    """About the largest magnitude."""


class RandomGraph:
    """A graph of random operators, by default 2 to 8; the same for the same seed and number."""

    def __init__(self, seed: int, operators: int | None = None) -> None:
        self.random = random.Random(seed)
        self.aligned = self.random.random() < 0.4
        self.tensors: dict[str, Known] = {}
        self.inputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.input(self.random.choice([*FLOATS, *FLOATS, *FLOATS, "int32", "int64", "bool"]), self.shape())
        wanted = self.random.randint(2, 8) if operators is None else operators
        steps = (
            [self.unary] * 4 + [self.binary] * 6 + [self.cast] * 2 + [self.layout] * 5 + [self.normalise] * 3
            + [self.reduce] * 4 + [self.product] * 4 + [self.gather] + [self.compare] * 2 + [self.concat]
        )  # fmt: skip
        while len(self.nodes) < wanted:
            self.random.choice(steps)()
        read = {name for _, inputs, _, _ in self.nodes for name in inputs}
        made = [name for _, _, outputs, _ in self.nodes for name in outputs]
        self.outputs = [name for name in made if name not in read or self.random.random() < 0.2]

    def write(self, path: Path) -> Path:
        return write_model(path, self.nodes, dict(self.inputs), self.outputs, self.constants)

    def __str__(self) -> str:
        lines = [f"{name}: {dtype} {shape}" for name, (dtype, shape) in self.inputs.items()]
        lines += [f"{name} = {value.dtype} {value.tolist()}" for name, value in self.constants.items()]
        for kind, inputs, outputs, attributes in self.nodes:
            known = self.tensors[outputs[0]]
            lines.append(f"{outputs[0]}: {known.dtype} {known.shape} = {kind}({', '.join(inputs)}) {attributes or ''}")
        return "\n".join([*lines, f"outputs {' '.join(self.outputs)}"])

    # Tensors

    def shape(self) -> tuple[int, ...]:
        sizes = ALIGNED if self.aligned else ODD + ALIGNED
        while True:
            shape = tuple(self.random.choice(sizes) for _ in range(self.random.choice([1, 2, 2, 3, 3, 4])))
            if math.prod(shape) <= ELEMENTS:
                return shape

    def input(self, dtype: str, shape: tuple[int, ...]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (dtype, shape)
        self.tensors[name] = Known(dtype, shape, exact=True, bound=1.0 if dtype in (*INTEGERS, "bool") else 4.0)
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def add(self, kind: str, inputs: list[str], known: Known, **attributes: object) -> None:
        if math.prod(known.shape) > ELEMENTS or known.bound > (500 if known.dtype == "float16" else 1e6):
            return
        name = f"t{len(self.nodes)}"
        self.nodes.append((kind, inputs, [name], attributes))
        self.tensors[name] = known

    def pick(self, *dtypes: str, exact: bool = False) -> str | None:
        """A tensor of one of the types, the newest ones most often."""
        fitting = [n for n, t in self.tensors.items() if (not dtypes or t.dtype in dtypes) and (t.exact or not exact)]
        if not fitting:
            return None
        return fitting[-1] if self.random.random() < 0.5 else self.random.choice(fitting)

    def partner(self, name: str, dtype: str) -> str:
        """A tensor that broadcasts with `name`: one that is there, or a new input."""
        shape = self.tensors[name].shape
        fitting = [n for n, t in self.tensors.items() if t.dtype == dtype and _broadcast(shape, t.shape) is not None]
        if fitting and self.random.random() < 0.6:
            return self.random.choice(fitting)
        kept = shape[self.random.randint(0, len(shape)) :] if self.random.random() < 0.5 else shape
        return self.input(dtype, tuple(1 if self.random.random() < 0.3 else n for n in kept))

    # Operators

    def unary(self) -> None:
        name = self.pick()
        assert name is not None
        known = self.tensors[name]
        if known.dtype == "bool":
            self.add("Not", [name], known)
        elif known.dtype == "uint8":
            self.add("Abs", [name], known)
        elif known.dtype in (*INTEGERS, "int8"):
            self.add(self.random.choice(["Neg", "Abs"]), [name], known)
        else:
            kind = self.random.choice(["Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Erf", "Exp"])
            exact = known.exact and kind in ("Neg", "Abs", "Relu")
            bound = math.exp(known.bound) if kind == "Exp" else known.bound if exact else 1.0
            # Beyond these bounds results vanish (a sigmoid) or grow, and their relative errors with them.
            if known.bound <= (4 if kind == "Exp" else 8) or exact:
                self.add(kind, [name], Known(known.dtype, known.shape, exact, bound))

    def binary(self) -> None:
        left = self.pick()
        assert left is not None
        a = self.tensors[left]
        right = self.partner(left, a.dtype)
        b = self.tensors[right]
        shape = _broadcast(a.shape, b.shape)
        assert shape is not None
        pair = [left, right] if self.random.random() < 0.5 else [right, left]
        if a.dtype == "bool":
            self.add(self.random.choice(["And", "Or", "Xor"]), pair, Known("bool", shape, True))
            return
        kind = self.random.choice(["Add", "Sub", "Mul", "Max", "Min"])
        bound = {"Mul": a.bound * b.bound, "Max": max(a.bound, b.bound)}.get(kind, a.bound + b.bound)
        exact = a.exact and b.exact and (a.dtype in INTEGERS or kind in ("Max", "Min"))
        self.add(kind, pair, Known(a.dtype, shape, exact, bound))

    def compare(self) -> None:
        left = self.pick(*FLOATS, *INTEGERS, exact=True)
        if left is None:
            return
        a = self.tensors[left]
        right = self.input(a.dtype, a.shape[self.random.randint(0, len(a.shape)) :])
        test = f"t{len(self.nodes)}"
        self.add(self.random.choice(["Greater", "Less", "Equal"]), [left, right], Known("bool", a.shape, True))
        if test in self.tensors and self.random.random() < 0.6:
            other = self.partner(test, a.dtype)
            shape = _broadcast(a.shape, self.tensors[other].shape)
            assert shape is not None
            bound = max(a.bound, self.tensors[other].bound)
            known = Known(a.dtype, shape, a.exact and self.tensors[other].exact, bound)
            self.add("Where", [test, left, other], known)

    def cast(self) -> None:
        name = self.pick()
        assert name is not None
        known = self.tensors[name]
        target = self.random.choice([t for t in TYPES if t != known.dtype])
        if known.exact or (known.dtype in FLOATS and target in FLOATS):
            bound = 1.0 if target == "bool" else known.bound
            self.add("Cast", [name], Known(target, known.shape, known.exact, bound), to=TYPES[target])

    def layout(self) -> None:
        name = self.pick()
        assert name is not None
        known, draw = self.tensors[name], self.random
        shape, rank = known.shape, len(known.shape)

        def moved(kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> None:
            self.add(kind, inputs, Known(known.dtype, shape, known.exact, known.bound), **attributes)

        match draw.choice(["Transpose", "Transpose", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Slice"]):
            case "Transpose" if rank > 1:
                order = draw.sample(range(rank), rank)
                moved("Transpose", [name], tuple(shape[a] for a in order), perm=order)
            case "Reshape":
                new = self._reshaped(shape)
                moved("Reshape", [name, self.constant(np.array(new, np.int64))], new)
            case "Unsqueeze" if rank < 4:
                axis = draw.randint(0, rank)
                moved("Unsqueeze", [name, self.constant(np.array([axis]))], (*shape[:axis], 1, *shape[axis:]))
            case "Squeeze" if 1 in shape:
                axis = shape.index(1)
                moved("Squeeze", [name, self.constant(np.array([axis]))], shape[:axis] + shape[axis + 1 :])
            case "Expand" if 1 in shape or rank < 3:
                wide = tuple(draw.choice(ODD[1:]) if n == 1 and draw.random() < 0.7 else n for n in shape)
                wide = wide if 1 in shape else (draw.choice([3, 8]), *wide)
                moved("Expand", [name, self.constant(np.array(wide, np.int64))], wide)
            case "Slice" if rank:
                axis, step = draw.randrange(rank), draw.choice([1, 1, 1, 2, -1])
                low = draw.randrange(shape[axis])
                size = draw.randint(1, shape[axis] - low)
                start, end = (low, low + size) if step > 0 else (low + size - 1, low - 1 - shape[axis])
                ends = [np.array([n], np.int64) for n in (start, end, axis, step)]
                length = -(-size // abs(step))
                moved("Slice", [name, *map(self.constant, ends)], (*shape[:axis], length, *shape[axis + 1 :]))

    def _reshaped(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Neighbouring axes merged, or one axis split."""
        rank = len(shape)
        if rank > 1 and self.random.random() < 0.6:
            axis = self.random.randrange(rank - 1)
            return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        if not rank:
            return (1,)
        axis = self.random.randrange(rank)
        divisors = [d for d in range(1, shape[axis] + 1) if shape[axis] % d == 0]
        by = self.random.choice(divisors)
        return (*shape[:axis], by, shape[axis] // by, *shape[axis + 1 :])

    def normalise(self) -> None:
        name = self.pick(*FLOATS)
        if name is None or not self.tensors[name].shape or self.tensors[name].bound > 50:
            return
        known = self.tensors[name]
        axis = self.random.randrange(len(known.shape))
        if self.random.random() < 0.5:
            axis = len(known.shape) - 1
        if self.random.random() < 0.6:
            self.add("Softmax", [name], Known(known.dtype, known.shape, False, 1.0), axis=axis)
            return
        scale, bias = (self.input(known.dtype, known.shape[axis:]) for _ in range(2))
        # An epsilon of one keeps rows of equal elements from magnifying their rounding errors.
        result = Known(known.dtype, known.shape, False, 12.0)
        self.add("LayerNormalization", [name, scale, bias], result, axis=axis, epsilon=1.0)

    def reduce(self) -> None:
        name = self.pick(*FLOATS, *INTEGERS)
        if name is None or not self.tensors[name].shape:
            return
        known = self.tensors[name]
        rank = len(known.shape)
        axes = sorted(self.random.sample(range(rank), self.random.randint(1, rank)))
        if self.random.random() < 0.4:
            axes = [rank - 1]
        count = math.prod(known.shape[a] for a in axes)
        kind = self.random.choice(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"])
        kind = "ReduceSum" if kind == "ReduceMean" and known.dtype in INTEGERS else kind
        keep = self.random.randint(0, 1)
        shape = tuple(1 if a in axes else n for a, n in enumerate(known.shape) if keep or a not in axes)
        exact = known.exact and (known.dtype in INTEGERS or kind in ("ReduceMax", "ReduceMin"))
        growth = count if known.dtype in INTEGERS else math.sqrt(count)
        bound = known.bound * (growth if kind == "ReduceSum" else 1)
        indices = self.constant(np.array(axes, np.int64))
        self.add(kind, [name, indices], Known(known.dtype, shape, exact, bound), keepdims=keep)

    def product(self) -> None:
        name = self.pick(*FLOATS)
        if name is None or len(self.tensors[name].shape) < 2 or self.tensors[name].bound > 50:
            return
        known, draw = self.tensors[name], self.random
        *batch, rows, depth = known.shape
        columns = draw.choice(ALIGNED if self.aligned else ODD + ALIGNED)
        bound = known.bound * 4 * math.sqrt(depth)
        if not batch and draw.random() < 0.4:
            turned = draw.random() < 0.5
            other = self.input(known.dtype, (columns, depth) if turned else (depth, columns))
            shift = self.input(known.dtype, draw.choice([(columns,), (rows, 1), (1, columns), (rows, columns)]))
            result = Known(known.dtype, (rows, columns), False, bound)
            self.add("Gemm", [name, other, shift], result, transB=int(turned), alpha=0.5)
            return
        kept = tuple(1 if draw.random() < 0.2 else n for n in batch[draw.randint(0, len(batch)) :])
        if draw.random() < 0.3 and len(batch) < 2:
            kept = (draw.choice([2, 3]), *batch)
        other = self.input(known.dtype, (*kept, depth, columns))
        joined = _broadcast(tuple(batch), kept)
        assert joined is not None
        self.add("MatMul", [name, other], Known(known.dtype, (*joined, rows, columns), False, bound))

    def gather(self) -> None:
        name = self.pick()
        assert name is not None
        known = self.tensors[name]
        if not known.shape:
            return
        axis = self.random.randrange(len(known.shape))
        shape = self.random.choice([(), (3,), (5,), (2, 3)])
        size = known.shape[axis]
        if self.random.random() < 0.5:
            values = [self.random.randrange(-size, size) for _ in range(math.prod(shape))]
            index = self.constant(np.array(values, np.int64).reshape(shape))
        else:
            index = self.input("int64", shape)
            del self.tensors[index]  # nothing else reads it: what another operator makes of it may be no index
        result = known.shape[:axis] + shape + known.shape[axis + 1 :]
        self.add("Gather", [name, index], Known(known.dtype, result, known.exact, known.bound), axis=axis)

    def concat(self) -> None:
        name = self.pick()
        assert name is not None
        known = self.tensors[name]
        if not known.shape:
            return
        axis = self.random.randrange(len(known.shape))
        size = self.random.choice(ODD)
        other = self.input(known.dtype, (*known.shape[:axis], size, *known.shape[axis + 1 :]))
        shape = (*known.shape[:axis], known.shape[axis] + size, *known.shape[axis + 1 :])
        self.add("Concat", [name, other], Known(known.dtype, shape, known.exact, max(4.0, known.bound)), axis=axis)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None


def random_entries(group: FusionGroup, seed: int) -> list[Entry]:
    """One to four wishes about a group: orders, marks with odd values, cuts."""
    draw = random.Random(seed)
    program = group.program
    names = [s.name for s in program.statements]
    wishes: list[Entry] = []
    for _ in range(draw.randint(1, 4)):
        statement = draw.choice(program.statements)
        iterators = [i.name for i in statement.iterators]
        where = draw.choice(["innermost", "outermost", *iterators])
        about = (statement.name,) if draw.random() < 0.7 else ()
        required = draw.random() < 0.2
        match draw.choice(["pin", "mark", "mark", "mark", "mark", "parallel", "cut"]):
            case "pin" if iterators:
                wishes.append(entry(*about, pin=draw.choice(iterators), at=where, required=required))
            case "parallel":
                wishes.append(entry(*about, parallel=True, at=where, required=required))
            case "cut" if len(names) > 1:
                first = draw.randint(1, len(names) - 1)
                wishes.append(entry(cut=(tuple(names[:first]), tuple(names[first:])), at=where, required=required))
            case _:
                kind = draw.choice(["block", "thread", "warp", "lane", "vector", "tile", "stages", "unroll", "scope"])
                value = draw.choice(NUMBERS) if draw.random() < 0.95 else "shared"
                wishes.append(entry(*about, mark=(kind, value), at=where, required=required))
    return wishes
