"""Programs whose statements have different parallel shapes, and the groups that stitching makes of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

import engine
from engine.compilation import default_recipe
from engine.execution.nodes import Check
from engine.fusion.group_programs import GroupBuilder, rename_arrays
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import packed_shape, parts_of
from engine.fusion.shape import Shape
from engine.fusion.stitched import stitched_shape
from engine.recipe import Entry
from engine.target import DEFAULT_TARGET
from engine.tensor.evaluate import evaluate
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Scalar, Statement, TensorProgram
from engine.verify.kernel import check_kernel
from tests.support.programs import apply, at, number, program, statement


def stitched(source: TensorProgram) -> FusionGroup:
    """The group of all statements of a program, packed if it has several parts; the test fails where it has none."""
    form = packed_shape if len(parts_of(source.statements)) > 1 else stitched_shape
    shape = form(source.statements, frozenset(source.outputs))
    assert isinstance(shape, Shape), shape
    built = GroupBuilder(source, frozenset(source.outputs), {}).build(source.statements, shape)
    named = replace(built.program, name=source.name)
    name, kind = source.name, built.kind.name
    return FusionGroup(name, name, kind, named, (built.instance,), (), "a test", DEFAULT_TARGET)


def kernel_of(source: TensorProgram, *entries: Entry) -> engine.Kernel:
    """The kernel of a program under its advisers' entries and a user's."""
    group = stitched(source)
    recipe = default_recipe(group)
    return engine.compile(group, recipe.advise("user", *entries) if entries else recipe)


def values_of(source: TensorProgram, seed: int = 0, whole: bool = False) -> dict[str, np.ndarray]:
    """A value for every array, inputs by chance: whole numbers from -3 to 3, or normally distributed."""
    chance = np.random.default_rng(seed)
    kinds = {"float32": np.float32, "float16": np.float16}
    draw = chance.standard_normal if not whole else lambda shape: chance.integers(-3, 4, shape)
    inputs = {n: draw(source.arrays[n].shape).astype(kinds[source.arrays[n].dtype]) for n in source.inputs}
    return {**inputs, **evaluate(source, inputs)}


def checked(kernel: engine.Kernel, seed: int = 0, whole: bool = False) -> Check:
    """The kernel run on the CPU against NumPy."""
    return check_kernel(kernel, values_of(kernel.group.program, seed, whole), {})


def pooled_attention(blocks: int = 8, rows: int = 16, columns: int = 32) -> TensorProgram:
    """A softmax along the rows, its sum down the columns, scaled by a vector that is made here.

    Two row reductions, a column reduction of what they give, and a statement that has no common axis.
    """
    box = [("b", blocks), ("i", rows), ("j", columns)]
    bij = ("b", "i", "j")
    return program(
        "pooled_attention",
        {
            "x": (blocks, rows, columns), "m": (blocks, rows), "e": (blocks, rows, columns), "s": (blocks, rows),
            "y": (blocks, rows, columns), "c": (blocks, columns), "g": (columns,), "w": (columns,),
            "z": (blocks, columns),
        },
        [
            statement("S0", box, at("m", "b", "i"), at("x", *bij), ("max", "j")),
            statement("S1", box, at("e", *bij), apply("exp", apply("sub", at("x", *bij), at("m", "b", "i")))),
            statement("S2", box, at("s", "b", "i"), at("e", *bij), ("sum", "j")),
            statement("S3", box, at("y", *bij), apply("div", at("e", *bij), at("s", "b", "i"))),
            statement("S4", box, at("c", "b", "j"), at("y", *bij), ("sum", "i")),
            statement("S5", [("j", columns)], at("w", "j"), apply("mul", at("g", "j"), number(2.0))),
            statement(
                "S6", [("p", blocks), ("q", columns)], at("z", "p", "q"), apply("mul", at("c", "p", "q"), at("w", "q"))
            ),
        ],
        "z y",
    )  # fmt: skip


def turned(blocks: int = 6, size: int = 24) -> TensorProgram:
    """y = exp(x) plus its transpose within each block: element-wise parts that need each other's elements."""
    box, bij = [("b", blocks), ("i", size), ("j", size)], ("b", "i", "j")
    shape = (blocks, size, size)
    return program(
        "turned",
        {"x": shape, "t": shape, "y": shape},
        [
            statement("S0", box, at("t", *bij), apply("exp", at("x", *bij))),
            statement("S1", box, at("y", *bij), apply("add", at("t", *bij), at("t", "b", "j", "i"))),
        ],
        "y",
    )


def group_norm(images: int = 2, groups: int = 4, each: int = 3, size: int = 5) -> TensorProgram:
    """Channels in groups, each with its own mean and deviation; the input is made here and read as one long row."""
    channels, length = groups * each, each * size * size
    box, element = [("n", images), ("c", channels), ("h", size), ("w", size)], ("n", "c", "h", "w")
    rows = [("n", images), ("g", groups), ("k", length)]
    extents = {"k": length, "g": groups, "c": channels}
    k, c = Index.of("k"), Index.of("c")
    channel = Index.of("g") * each + k.floordiv(size * size, extents)
    inside = k.mod(size * size, extents)
    long = at("x", "n", channel, inside.floordiv(size, extents), inside.mod(size, extents))
    group = c.floordiv(each, extents)
    shape = (images, channels, size, size)
    centred = apply("sub", long, apply("mul", at("s", "n", "g"), number(1 / length)))
    return program(
        "group_norm",
        {**dict.fromkeys("axdy", shape), "s": (images, groups), "q": (images, groups), "b": (channels,)},
        [
            statement("S0", box, at("x", *element), apply("mul", at("a", *element), at("b", "c"))),
            statement("S1", rows, at("s", "n", "g"), long, ("sum", "k")),
            statement("S2", rows, at("q", "n", "g"), apply("mul", centred, centred), ("sum", "k")),
            statement(
                "S3", box, at("d", *element),
                apply("sub", at("x", *element), apply("mul", at("s", "n", group), number(1 / length))),
            ),
            statement(
                "S4", box, at("y", *element),
                apply("mul", at("d", *element), apply("rsqrt", apply("add", at("q", "n", group), number(1e-3)))),
            ),
        ],
        "y",
    )  # fmt: skip


def layernorm_backward(rows: int = 48, columns: int = 80) -> TensorProgram:
    """Gradients of a layer norm: of its input by rows, of scale and shift down the columns.

    h = dy * g;  dx = (h - mean h - u * mean (h u)) * r;  dg = sum over rows of dy * u;  db = sum over rows of dy
    """
    box, ij = [("i", rows), ("j", columns)], ("i", "j")
    down = [("c", columns), ("k", rows)]
    scale = number(1 / columns)
    matrix, vector = (rows, columns), (columns,)
    moved = apply("sub", apply("sub", at("h", *ij), apply("mul", at("a", "i"), scale)),
                  apply("mul", at("u", *ij), apply("mul", at("b", "i"), scale)))  # fmt: skip
    return program(
        "layernorm_backward",
        {
            **dict.fromkeys(("d", "u", "h", "y"), matrix), **dict.fromkeys(("g", "p", "q"), vector),
            **dict.fromkeys(("r", "a", "b"), (rows,)),
        },
        [
            statement("S0", box, at("h", *ij), apply("mul", at("d", *ij), at("g", "j"))),
            statement("S1", box, at("a", "i"), at("h", *ij), ("sum", "j")),
            statement("S2", box, at("b", "i"), apply("mul", at("h", *ij), at("u", *ij)), ("sum", "j")),
            statement("S3", box, at("y", *ij), apply("mul", moved, at("r", "i"))),
            statement("S4", down, at("p", "c"), apply("mul", at("d", "k", "c"), at("u", "k", "c")), ("sum", "k")),
            statement("S5", down, at("q", "c"), at("d", "k", "c"), ("sum", "k")),
        ],
        "y p q",
    )  # fmt: skip


def independent(rows: int = 40, columns: int = 96) -> TensorProgram:
    """A row softmax's statistics, a column sum, and two element-wise results over boxes of one size."""
    box, ij = [("i", rows), ("j", columns)], ("i", "j")
    small = [("p", columns), ("q", 7)]
    return program(
        "independent",
        {
            "x": (rows, columns), "m": (rows,), "e": (rows, columns), "s": (rows,), "u": (rows, columns),
            "c": (columns,), "a": (columns, 7), "y": (columns, 7), "b": (columns, 7), "z": (columns, 7),
        },
        [
            statement("S0", box, at("m", "i"), at("x", *ij), ("max", "j")),
            statement("S1", box, at("e", *ij), apply("exp", apply("sub", at("x", *ij), at("m", "i")))),
            statement("S2", small, at("y", "p", "q"), apply("tanh", at("a", "p", "q"))),
            statement("S3", box, at("s", "i"), at("e", *ij), ("sum", "j")),
            statement("S4", box, at("c", "j"), at("u", *ij), ("sum", "i")),
            statement("S5", small, at("z", "p", "q"), apply("add", at("b", "p", "q"), number(1.0))),
        ],
        "s c y z",
    )  # fmt: skip


def chain_of_turns(blocks: int = 4, size: int = 32, length: int = 4) -> TensorProgram:
    """Each step adds the one before and its transpose: no value is needed for longer than one step."""
    box, bij = [("b", blocks), ("i", size), ("j", size)], ("b", "i", "j")
    names = ["x", *(f"t{n}" for n in range(length - 1)), "y"]
    return program(
        "chain_of_turns",
        dict.fromkeys(names, (blocks, size, size)),
        [
            statement(f"S{n}", box, at(made, *bij), apply("add", at(read, *bij), at(read, "b", "j", "i")))
            for n, (read, made) in enumerate(pairwise(names))
        ],
        "y",
    )


def long_rows(rows: int = 2, columns: int = 50_000) -> TensorProgram:
    """A softmax whose rows no block can keep."""
    box = [("i", rows), ("j", columns)]
    ij = ("i", "j")
    return program(
        "long_rows",
        {"x": (rows, columns), "m": (rows,), "e": (rows, columns), "s": (rows,), "y": (rows, columns)},
        [
            statement("S0", box, at("m", "i"), at("x", *ij), ("max", "j")),
            statement("S1", box, at("e", *ij), apply("exp", apply("sub", at("x", *ij), at("m", "i")))),
            statement("S2", box, at("s", "i"), at("e", *ij), ("sum", "j")),
            statement("S3", box, at("y", *ij), apply("div", at("e", *ij), at("s", "i"))),
        ],
        "y",
    )


def crossing(rows: int = 512, columns: int = 512) -> TensorProgram:
    """Row sums and column sums of one array, added at each element: no block has both."""
    box = [("i", rows), ("j", columns)]
    return program(
        "crossing",
        {"x": (rows, columns), "m": (rows,), "n": (columns,), "y": (rows, columns)},
        [
            statement("S0", box, at("m", "i"), at("x", "i", "j"), ("sum", "j")),
            statement("S1", box, at("n", "j"), at("x", "i", "j"), ("sum", "i")),
            statement("S2", box, at("y", "i", "j"), apply("add", at("m", "i"), at("n", "j"))),
        ],
        "y",
    )


def side_by_side(*sources: TensorProgram) -> TensorProgram:
    """Programs as one, without a value from one to another."""
    arrays: dict[str, Array] = {}
    statements: list[Statement] = []
    outputs: list[str] = []
    for place, source in enumerate(sources):
        names = {array: f"{array}_{place}" for array in source.arrays}
        arrays |= {names[n]: replace(array, name=names[n]) for n, array in source.arrays.items()}
        renamed = rename_arrays(source, names)
        statements += [replace(s, name=f"{s.name}_{place}") for s in renamed.statements]
        outputs += renamed.outputs
    made = {s.write.array for s in statements}
    return TensorProgram("packed", arrays, tuple(statements), tuple(n for n in arrays if n not in made), tuple(outputs))


class RandomBlocks:
    """A random program over (blocks) x (own axes): the same seed gives the same program.

    Its values are whole numbers that float32 holds exactly, so that the order of a sum's terms makes no difference.
    """

    def __init__(self, seed: int, length: int = 7) -> None:
        self.chance = random.Random(seed)
        self.blocks = self.chance.choice((1, 2, 3, 5, 8))
        self.sizes = tuple(self.chance.choice((1, 2, 3, 7, 8, 16, 20, 33, 64)) for _ in range(3))
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Array -> its own shape; inputs have a letter x (one part a block) or v (the same for all)."""
        self.statements: list[Statement] = []
        own = tuple(self.chance.sample(self.sizes, self.chance.choice((1, 2, 2, 3))))
        self._input("x0", own)
        for _ in range(length):
            self.chance.choice((self._element_wise, self._element_wise, self._reduction, self._reduction))()
        self.name = f"random_{seed}"

    def program(self) -> TensorProgram:
        read = {a.array for s in self.statements for a in s.reads()}
        made = [s.write.array for s in self.statements]
        outputs = [a for n, a in enumerate(made) if a not in read or (n % 3 == 0)]
        shapes = {n: (s if n.startswith("v") else (self.blocks, *s)) for n, s in self.shapes.items()}
        return program(self.name, shapes, self.statements, " ".join(outputs))

    def _input(self, name: str, own: tuple[int, ...]) -> None:
        self.shapes[name] = own

    def _blocked(self) -> list[str]:
        return [name for name in self.shapes if not name.startswith("v")]

    def _box(self, own: Sequence[int]) -> list[tuple[str, int]]:
        return [("b", self.blocks), *((f"i{n}", size) for n, size in enumerate(own))]

    def _add(self, own: Sequence[int], box: list[tuple[str, int]], value: Scalar, reduce: str = "") -> None:
        number = len(self.statements)
        kept = [name for name, _ in box if name not in reduce.split()]
        operation = (self.chance.choice(("sum", "max")), reduce) if reduce else None
        self.shapes[f"a{number}"] = tuple(own)
        self.statements.append(statement(f"S{number}", box, at(f"a{number}", *kept), value, operation))

    def _value(self, own: Sequence[int]) -> Scalar | None:
        """A read, cut to small numbers."""
        read = self._read(own)
        return None if read is None else apply("max", apply("min", read, number(4.0)), number(-4.0))

    def _read(self, own: Sequence[int]) -> Access | None:
        """A read of some array at every point of a box: its axes matched to those of the box by size, or a slice."""
        names = list(self.shapes)
        self.chance.shuffle(names)
        for name in names:
            shape = self.shapes[name]
            places = list(range(len(own)))
            if self.chance.random() < 0.3:
                places.reverse()
            indices: list[Index] = []
            for size in shape:
                place = next((n for n in places if own[n] == size), None)
                smaller = next((n for n in places if own[n] < size), None)
                if place is None and smaller is None:
                    break
                found = place if place is not None else smaller
                assert found is not None
                places.remove(found)
                offset = 0 if place is not None else self.chance.randrange(size - own[found] + 1)
                indices.append(Index.of(f"i{found}") + offset)
            else:
                return at(name, *(() if name.startswith("v") else ("b",)), *indices)
        return None

    def _element_wise(self) -> None:
        base = self.shapes[self.chance.choice(self._blocked())]
        own = tuple(self.chance.choice((n, n, n, max(1, n // 2))) for n in base)
        first = self._value(own)
        if first is None:
            return
        value = apply(self.chance.choice(("neg", "abs", "copy")), first)
        if self.chance.random() < 0.3:
            self._input(f"v{len(self.statements)}", own[-1:])
        for _ in range(self.chance.choice((0, 1, 2))):
            other = self._value(own)
            if other is not None:
                value = apply(self.chance.choice(("add", "mul", "max", "sub")), value, other)
        self._add(own, self._box(own), value)

    def _reduction(self) -> None:
        own = self.shapes[self.chance.choice(self._blocked())]
        value = self._value(own)
        if value is None or not own:
            return
        axes = [f"i{n}" for n in range(len(own))]
        reduced = sorted(self.chance.sample(axes, self.chance.randrange(1, len(axes) + 1)))
        kept = [size for axis, size in zip(axes, own, strict=True) if axis not in reduced]
        self._add(kept, self._box(own), apply("neg", value), " ".join(reduced))
