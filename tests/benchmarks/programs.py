"""What the scheduling benchmark is run on: eight named cases, chains of any length, and groups of real models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import engine
from engine.support.errors import EngineError
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Guard, Scalar, Statement, TensorProgram
from tests.benchmarks.isl import request
from tests.support import programs
from tests.support.programs import apply, at, number, program, statement

MODELS = Path(__file__).parents[3] / "shared" / "models"
"""Real graphs, beside the repository; they are not shipped."""

BLOCK = 30
"""Statements of one layer normalization with its gradient."""


def cases() -> tuple[TensorProgram, ...]:
    """The eight cases, at sizes that networks have."""
    return (
        replace(programs.elementwise_chain(6, (1024, 1024)), name="ew6"),
        programs.softmax(1024, 1024),
        programs.layernorm(1024, 768),
        programs.matmul_bias_relu(512, 1024, 256),
        convolution(),
        mixed_layouts(),
        replace(layernorm_gradients(BLOCK), name="lnbwd30"),
        programs.attention(96, 512, 64),
    )


def convolution(images: int = 8, size: int = 56, channels: int = 64, filters: int = 128) -> TensorProgram:
    """Zero padding, 3 x 3 convolution in NHWC, bias, relu."""
    padded = size + 2
    h, w = Index.of("h"), Index.of("w")
    inside = tuple(Guard(index) for index in (h - 1, w - 1, h * -1 + size, w * -1 + size))
    source = Access("x", (Index.of("n"), h - 1, w - 1, Index.of("c")), inside, number(0.0))
    window = at("p", "n", h + Index.of("r"), w + Index.of("s"), "c")
    box = [("n", images), ("h", size), ("w", size), ("f", filters)]
    nhwf = ("n", "h", "w", "f")
    return program(
        "conv",
        {
            "x": (images, size, size, channels),
            "k": (3, 3, channels, filters),
            "v": (filters,),
            "p": (images, padded, padded, channels),
            "o": (images, size, size, filters),
            "d": (images, size, size, filters),
            "y": (images, size, size, filters),
        },
        [
            statement(
                "S0",
                [("n", images), ("h", padded), ("w", padded), ("c", channels)],
                at("p", "n", "h", "w", "c"),
                source,
            ),
            statement(
                "S1",
                [*box, ("r", 3), ("s", 3), ("c", channels)],
                at("o", *nhwf),
                apply("mul", window, at("k", "r", "s", "c", "f")),
                ("sum", "r s c"),
            ),
            statement("S2", box, at("d", *nhwf), apply("add", at("o", *nhwf), at("v", "f"))),
            statement("S3", box, at("y", *nhwf), apply("max", at("d", *nhwf), number(0.0))),
        ],
        "y",
    )


def mixed_layouts(images: int = 16, channels: int = 64, size: int = 56) -> TensorProgram:
    """Six element-wise operators whose results are NCHW and NHWC by turns."""
    extents = {"n": images, "c": channels, "h": size, "w": size}
    layouts = ("nchw", "nhwc")
    shapes = {f"x{k}": tuple(extents[axis] for axis in layouts[k % 2]) for k in range(7)}
    statements = []
    for k in range(6):
        box = [(axis, extents[axis]) for axis in layouts[(k + 1) % 2]]
        read = at(f"x{k}", *layouts[k % 2])
        statements.append(statement(f"S{k}", box, at(f"x{k + 1}", *layouts[(k + 1) % 2]), apply("sigmoid", read)))
    return program("mixed", shapes, statements, "x6")


def layernorm_gradients(length: int, rows: int = 1024, columns: int = 768) -> TensorProgram:
    """The first `length` statements of a chain of blocks, each normalizing what the block before it made."""
    chain = _Chain(rows, columns)
    array = "x"
    while len(chain.statements) < length:
        array = _block(chain, array)
    return chain.program(length)


class _Chain:
    """A program in the making: statements S0, S1, ... over rows i and columns j, each with an array of its own."""

    def __init__(self, rows: int, columns: int) -> None:
        self.extents = {"i": rows, "j": columns}
        self.statements: list[Statement] = []
        self.shapes: dict[str, tuple[int, ...]] = {"x": (rows, columns)}

    def given(self, name: str, axes: str) -> str:
        """An input of this block."""
        array = f"{name}{len(self.statements)}"
        self.shapes[array] = tuple(self.extents[a] for a in axes)
        return array

    def add(self, axes: str, expression: Scalar, reduce: str = "") -> str:
        """A statement that writes a new array over `axes`, summing over `reduce`; returns the array's name."""
        made = f"t{len(self.statements)}"
        self.shapes[made] = tuple(self.extents[a] for a in axes)
        box = [(a, self.extents[a]) for a in axes + reduce]
        over = ("sum", reduce) if reduce else None
        self.statements.append(statement(f"S{len(self.statements)}", box, at(made, *axes), expression, over))
        return made

    def program(self, length: int) -> TensorProgram:
        """The first `length` statements; what none of them reads is an output."""
        kept = self.statements[:length]
        read = [access.array for s in kept for access in s.reads()]
        written = [s.write.array for s in kept]
        shapes = {array: shape for array, shape in self.shapes.items() if array in read or array in written}
        return program(f"chain{length}", shapes, kept, " ".join(a for a in written if a not in read))


def _block(chain: _Chain, x: str) -> str:
    """Layer normalization of `x` made again, then the gradient that reaches `x`; returns the array of the latter."""
    gain, shift = chain.given("g", "j"), chain.given("b", "j")
    incoming, kept, residual = (chain.given(name, "ij") for name in ("dy", "mask", "dr"))
    scale = number(1 / chain.extents["j"])

    def both(function: str, a: str, b: str) -> Scalar:
        return apply(function, at(a, *_axes(chain, a)), at(b, *_axes(chain, b)))

    def scaled(array: str) -> Scalar:
        return apply("mul", at(array, "i"), scale)

    mean = chain.add("i", scaled(chain.add("i", at(x, "i", "j"), "j")))
    centred = chain.add("ij", both("sub", x, mean))
    variance = chain.add("i", scaled(chain.add("i", at(chain.add("ij", both("mul", centred, centred)), "i", "j"), "j")))
    steady = chain.add("i", apply("add", at(variance, "i"), number(1e-5)))
    deviation = chain.add("i", apply("rsqrt", at(steady, "i")))
    normal = chain.add("ij", both("mul", centred, deviation))
    output = chain.add("ij", both("add", chain.add("ij", both("mul", normal, gain)), shift))

    gate = chain.add("ij", apply("sigmoid", at(output, "i", "j")))
    slope = chain.add("ij", apply("sub", number(1.0), at(gate, "i", "j")))
    slope = chain.add("ij", both("mul", gate, slope))
    passed = chain.add("ij", both("mul", incoming, kept))
    passed = chain.add("ij", apply("mul", at(passed, "i", "j"), number(1 / 0.9)))
    passed = chain.add("ij", both("mul", passed, slope))
    weighted = chain.add("ij", both("mul", passed, gain))

    along = chain.add("i", scaled(chain.add("i", at(weighted, "i", "j"), "j")))
    product = chain.add("ij", both("mul", weighted, normal))
    across = chain.add("i", scaled(chain.add("i", at(product, "i", "j"), "j")))
    rest = chain.add("ij", both("sub", weighted, along))
    rest = chain.add("ij", both("sub", rest, chain.add("ij", both("mul", normal, across))))
    gradient = chain.add("ij", both("mul", rest, deviation))
    total = chain.add("ij", both("add", gradient, residual))
    clipped = chain.add("ij", apply("max", at(total, "i", "j"), number(-1.0)))
    return chain.add("ij", apply("min", at(clipped, "i", "j"), number(1.0)))


def _axes(chain: _Chain, array: str) -> str:
    """The axes of an array, told by its shape."""
    shape = chain.shapes[array]
    return next((axis for axis, extent in chain.extents.items() if shape == (extent,)), "ij")


def model_groups(count: int, models: Path = MODELS) -> tuple[list[TensorProgram], dict[str, str]]:
    """The `count` largest groups of all models that load, by statements, and why models do not load.

    Groups whose boxes, accesses and order are equal count once.
    """
    found: dict[frozenset[tuple[str, str]], TensorProgram] = {}
    refused: dict[str, str] = {}
    for path in sorted(models.glob("*.onnx")):
        try:
            groups = engine.fuse(engine.load(path)).groups
        except EngineError as error:
            refused[path.stem] = str(error)
            continue
        for group in groups:
            same = frozenset(request(group.program, symbolic=False).items())
            found.setdefault(same, replace(group.program, name=f"{path.stem}: {group.name}"))
    largest = sorted(found.values(), key=lambda p: (-len(p.statements), p.name))
    return largest[:count], refused
