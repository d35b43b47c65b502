"""What may be chosen of a kernel for a CPU: tiles of registers and blocks of caches of a product, strips of loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.cpu.estimate import estimate_cpu
from engine.cpu.gemm import GEMM, product_work
from engine.cpu.marks import dimension_of
from engine.cpu.nodes import CpuKernel
from engine.cpu.product import CpuProduct, match_products, tiles_of
from engine.cpu.tiles import ProductConfig, column_mode, depth_units, row_mode
from engine.kernels.prune import promising
from engine.kernels.space import Dropped, Funnel, Program, Task, Value
from engine.recipe import Entry, entry

HALVES = 4
"""How often a block is halved."""
STRIPS = (16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
"""Elements of a strip of columns, or of what a thread takes at once."""
FAR = 1.25
"""Times the kernel's own mapping that another one may be promised to take and be searched."""
BECAUSE = "chosen by a search"


def cpu_tasks(kernel: CpuKernel) -> tuple[Task, ...]:
    """What a search may choose of a kernel; none where it has no choices."""
    if kernel.family == GEMM:
        return _product_tasks(kernel)
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
    """Tiles and blocks of one mapping of a product."""

    kernel: CpuKernel
    product: CpuProduct
    is_default: bool
    """Whether kernels have this mapping unless a mark names another one."""
    decided: Collection[str] = frozenset(("tile", "vector", "block", "intrinsic"))

    @property
    def name(self) -> str:
        """Of the mapping."""
        return self.product.name

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
        numbers = tuple(
            entry(anchor, mark=(mark, program.number(name)), at=dimension, because=BECAUSE)
            for mark, name, dimension in marks
        )
        mapping = entry(anchor, mark=("intrinsic", self.name), at=depth, because=BECAUSE)
        return numbers if self.is_default else (*numbers, mapping)

    def every(self) -> Iterator[Program]:
        """All programs whose tile fits the registers, with blocks of the whole, a half, a quarter ... of each
        dimension."""
        machine, units = self.kernel.target, depth_units(self.product)[0]
        for rows, vectors in tiles_of(self.product, machine):
            if rows > self.product.rows.size or rows * vectors < 4:
                continue
            tiles = -(-self.product.rows.size // rows)
            panels = -(-self.product.columns.count // (vectors * machine.lanes))
            for row_block, column_block, depth_block in itertools.product(_parts(tiles), _parts(panels), _parts(units)):
                values = (("rows", rows), ("vectors", vectors), ("tiles", row_block), ("panels", column_block))
                yield Program(self.name, (*values, ("depths", depth_block)))

    def rank(self, program: Program) -> float:
        """The modelled time of a program."""
        machine = self.kernel.target
        return estimate_cpu(product_work(self.product, self.config_of(program), machine), machine).microseconds

    def config_of(self, program: Program) -> ProductConfig:
        """The configuration of a program."""
        rows, *blocks = (program.number(name) for name in ("rows", "vectors", "tiles", "panels", "depths"))
        vectors, row_block, column_block, depth_block = blocks
        modes = row_mode(self.product, rows), column_mode(self.product)
        return ProductConfig(rows, vectors, row_block, column_block, depth_block, *modes)

    def program_of(self, kernel: CpuKernel) -> Program | None:
        """The program that a kernel stands at; None for one of another family."""
        config = kernel.made.config
        if kernel.family != GEMM or config["mapping"] != self.name:
            return None
        names = ("rows of a tile", "vectors of a tile", "tiles of a block", "panels of a block", "depths of a block")
        pairs = zip(("rows", "vectors", "tiles", "panels", "depths"), names, strict=True)
        return Program(self.name, tuple((short, config[long]) for short, long in pairs))


def _product_tasks(kernel: CpuKernel) -> tuple[Task, ...]:
    """A task for each mapping of a product that the model promises enough of, the kernel's own first."""
    products = match_products(kernel.program, kernel.schedule, kernel.target)
    tasks = [_product_task(kernel, ProductPrograms(kernel, one, one is products[0])) for one in products]
    tasks.sort(key=lambda task: task.name != kernel.made.config["mapping"])
    promised = [min(task.rank(program) for program in task.programs) for task in tasks]
    return tuple(task for task, best in zip(tasks, promised, strict=True) if best <= FAR * promised[0])


def _product_task(kernel: CpuKernel, template: ProductPrograms) -> Task:
    """Those programs of a mapping that the model promises much of."""
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
    times = {program: template.rank(program) for program in programs}
    funnel = promising(Funnel(total, (dropped,), tuple(programs)), times, [stands] if stands else [])
    return Task(template.name, dimensions, funnel, (), template, times)


def _parts(size: int) -> list[int]:
    """A size, half of it, a quarter ..., each once."""
    return sorted({-(-size // 2**n) for n in range(HALVES + 1)})
