"""What may be chosen of a kernel for a CPU: tiles of registers and blocks of caches of a product, strips of loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cpu.estimate import estimate_cpu
from engine.cpu.gemm import GEMM, product_work
from engine.cpu.marks import dimension_of
from engine.cpu.nodes import CpuKernel
from engine.cpu.product import CpuProduct, match_product, tile_limits
from engine.cpu.tiles import ProductConfig, depth_units
from engine.kernels.prune import promising
from engine.kernels.space import Dropped, Funnel, Program, Task, Value
from engine.recipe import Entry, entry

HALVES = 4
"""How often a block is halved."""
STRIPS = (16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
"""Elements of a strip of columns, or of what a thread takes at once."""
BECAUSE = "chosen by a search"


def cpu_tasks(kernel: CpuKernel) -> tuple[Task, ...]:
    """What a search may choose of a kernel; none where it has no choices."""
    if kernel.family == GEMM:
        return (_product_task(kernel),)
    strips = [n for n in STRIPS if kernel.made.config.get("strip", 1) != 1]
    if not strips:
        return ()
    found = LoopPrograms(kernel)
    programs = tuple(Program(found.name, (("strip", n),)) for n in strips)
    return (Task(found.name, {"strip": tuple(strips)}, Funnel(len(programs), (), programs), (), found),)


@dataclass(frozen=True, slots=True)
class LoopPrograms:
    """Strips of a kernel of the general family."""

    kernel: CpuKernel
    name: str = "strips"
    decided: Collection[str] = frozenset(("block",))

    def entries(self, program: Program) -> Sequence[Entry]:
        """The elements of a strip, on the innermost dimension."""
        return (entry(mark=("block", program.number("strip")), at="innermost", because=BECAUSE),)

    def rank(self, program: Program) -> float:
        """The model knows no strips."""
        return estimate_cpu(self.kernel.facts, self.kernel.target).microseconds

    def program_of(self, kernel: CpuKernel) -> Program | None:
        """The program that a kernel stands at."""
        strip = kernel.made.config.get("strip", 1)
        return Program(self.name, (("strip", strip),)) if strip in STRIPS else None


@dataclass(frozen=True, slots=True)
class ProductPrograms:
    """Tiles and blocks of one product."""

    kernel: CpuKernel
    product: CpuProduct
    config: ProductConfig
    """That of the kernel: how factors come to tiles is not searched."""
    name: str
    decided: Collection[str] = frozenset(("tile", "vector", "block"))

    def entries(self, program: Program) -> Sequence[Entry]:
        """The marks that ask for a program."""
        product, anchor = self.product, self.product.anchor.name
        rows, columns, depth = (
            dimension_of(self.kernel.schedule, anchor, loop.name)
            for loop in (product.rows.loops[-1], product.columns.loops[-1], product.depth[0])
        )
        marks = (
            ("tile", "rows", rows), ("vector", "vectors", columns), ("block", "tiles", rows),
            ("block", "panels", columns), ("block", "depths", depth),
        )  # fmt: skip
        return tuple(
            entry(anchor, mark=(mark, program.number(name)), at=dimension, because=BECAUSE)
            for mark, name, dimension in marks
        )

    def every(self) -> Iterator[Program]:
        """All programs whose tile fits the registers, with blocks of the whole, a half, a quarter ... of each
        dimension."""
        machine, units = self.kernel.target, depth_units(self.product)[0]
        for rows, vectors in tile_limits(machine):
            if rows > self.product.rows.size or rows * vectors < 4:
                continue
            tiles = -(-self.product.rows.size // rows)
            panels = -(-self.product.column_count // (vectors * machine.lanes))
            for row_block, column_block, depth_block in itertools.product(_parts(tiles), _parts(panels), _parts(units)):
                values = (("rows", rows), ("vectors", vectors), ("tiles", row_block), ("panels", column_block))
                yield Program(self.name, (*values, ("depths", depth_block)))

    def rank(self, program: Program) -> float:
        """The modelled time of a program."""
        machine = self.kernel.target
        return estimate_cpu(product_work(self.product, self.config_of(program), machine), machine).microseconds

    def config_of(self, program: Program) -> ProductConfig:
        """The configuration of a program."""
        numbers = {name: program.number(name) for name in ("rows", "vectors", "tiles", "panels", "depths")}
        return replace(
            self.config, rows=numbers["rows"], vectors=numbers["vectors"], row_block=numbers["tiles"],
            column_block=numbers["panels"], depth_block=numbers["depths"],
        )  # fmt: skip

    def program_of(self, kernel: CpuKernel) -> Program | None:
        """The program that a kernel stands at; None for one of another family."""
        config = kernel.made.config
        if kernel.family != GEMM:
            return None
        names = ("rows of a tile", "vectors of a tile", "tiles of a block", "panels of a block", "depths of a block")
        pairs = zip(("rows", "vectors", "tiles", "panels", "depths"), names, strict=True)
        return Program(self.name, tuple((short, config[long]) for short, long in pairs))


def _product_task(kernel: CpuKernel) -> Task:
    """Those programs of a product that the model promises much of."""
    config, product = kernel.made.config, match_product(kernel.program, kernel.schedule, kernel.target)
    rows, vectors, row_block, column_block, depth_block = (v for v in config.values() if isinstance(v, int))
    modes = str(config["rows"]), str(config["columns"])
    made = ProductConfig(rows, vectors, row_block, column_block, depth_block, *modes)
    template = ProductPrograms(kernel, product, made, product.instruction.name)
    stands = template.program_of(kernel)
    programs = list(template.every())
    if stands is not None and stands not in programs:
        programs.insert(0, stands)
    dimensions: Mapping[str, tuple[Value, ...]] = {
        name: tuple(sorted({program.number(name) for program in programs})) for name, _ in programs[0].values
    }
    total = math.prod(map(len, dimensions.values()))
    because = "its sums, columns and row take more registers than there are, or a block is larger than what it divides"
    dropped = Dropped("registers and sizes", because, total - len(programs), "")
    funnel = promising(Funnel(total, (dropped,), tuple(programs)), template.rank, [stands] if stands else [])
    return Task(template.name, dimensions, funnel, (), template)


def _parts(size: int) -> list[int]:
    """A size, half of it, a quarter ..., each once."""
    return sorted({-(-size // 2**n) for n in range(HALVES + 1)})
