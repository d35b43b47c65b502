"""Memory traffic without advice, under published advice, under ours: `python -m tests.benchmarks.advice [--quick]`.

Every figure is counted: the emulator, with its checks on, runs the first, the middle and the last two blocks of a
kernel in one order and counts the requests of warps to global memory and the 32-byte sectors that they touch.  Nothing
is timed.  The arrays hold zeros; kernels whose addresses depend on values are left out, saying so.

The useful bytes of a sample are what the operator must move at least, times the share of its results that the sample
wrote.  Sectors for a useful byte therefore compare kernels that cut the same work into blocks of other sizes: 1/32 is
full sectors, each moved once; operands that every block reads again and results of an intermediate step raise it.

Our kernel equals or beats the published one where it takes no more sectors for a useful byte and launches no fewer
threads.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

import engine
from engine.predict.traffic import compulsory_bytes
from engine.run.emulate.emulate import emulate
from engine.verify.footprint import own_part
from tests.benchmarks import report
from tests.schedule import published_files
from tests.schedule.published_files import ADVICE, LEGAL, TRANSPOSE, TWO_ITERATORS

AKG = ADVICE.parent
NONE, PUBLISHED, CORRECTED, OURS = "none", "published", "corrected", "ours"
"""Advice: none at all; the file as published; a copy without its contradiction; our advisers'."""
QUICK = ("Fused_Cast_BiasAdd_Gelu_fusion_7971173442909348882", TWO_ITERATORS)
"""A file that is followed and one that is refused, both small."""
GLOBAL = ("global load", "async copy", "global store")
WIDEST, SECTOR = 16, 32
"""Bytes of the widest access of one thread, and of a sector."""
ORDER, SECONDS = "late", 60.0

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Count, print the tables, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.advice", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--quick", action="store_true", help="two of the published operators only")
    options = parser.parse_args(arguments)
    where = {**report.environment("numpy"), "blocks": "first, middle and last two", "order": ORDER}
    names = [*LEGAL, TRANSPOSE, TWO_ITERATORS] if ADVICE.is_dir() else []
    pairs = [pair(name) for name in _progress(QUICK if options.quick and names else names, "Published advice")]
    files, refused = ([], {}) if options.quick else _files()
    others = [without_published(name, group) for name, group in _progress(files, "Other operators")]
    figures = summary(pairs, others)
    show(pairs, others, figures, refused)
    if options.json:
        rows = [row(one, kind) for kind, found in (("published", pairs), ("akg", others)) for one in found]
        report.write(options.json, "advice", {**where, "origin": "counted", "files_refused": refused}, rows, figures)


@dataclass(frozen=True, slots=True)
class Counted:
    """A kernel's launch, and what a sample of its blocks requested of global memory."""

    blocks: int
    threads: int
    """Of one block."""
    blocks_run: int
    loads: int
    """Warp-wide requests, asynchronous copies among them."""
    stores: int
    widest: int
    """Requests in which each thread moves 16 bytes."""
    sectors: int
    useful: Fraction
    """Bytes."""
    relaxed: tuple[str, ...]
    """Entries that the kernel does not follow to the letter."""
    faults: tuple[str, ...]
    """What the emulator's checks found."""

    @property
    def parallelism(self) -> int:
        """Threads of the whole launch."""
        return self.blocks * self.threads

    @property
    def requests(self) -> int:
        return self.loads + self.stores

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests

    @property
    def widest_share(self) -> float:
        """Requests of 16 bytes a thread, of all."""
        return self.widest / self.requests

    @property
    def sectors_per_byte(self) -> Fraction:
        """Sectors for a useful byte; 1/32 where all are full and none is moved twice."""
        return self.sectors / self.useful

    @property
    def efficiency(self) -> float:
        """Useful bytes of the bytes in all sectors."""
        return float(self.useful / (self.sectors * SECTOR))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One group under each kind of advice: what was counted, or why there is nothing to count."""

    operator: str
    group: str
    ways: Mapping[str, Counted | str]

    @property
    def rival(self) -> str:
        """What ours is compared with: the published advice, its corrected copy, else no advice."""
        return next((way for way in (PUBLISHED, CORRECTED) if isinstance(self.ways.get(way), Counted)), NONE)

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Where ours is behind its rival; () when it equals or beats it."""
        ours, rival = self.ways[OURS], self.ways[self.rival]
        if isinstance(ours, str):
            return ("not counted",)
        return shortfalls(ours, rival) if isinstance(rival, Counted) else ()


def shortfalls(ours: Counted, rival: Counted) -> tuple[str, ...]:
    """In what `ours` is behind: sectors for a useful byte, threads of the launch, faults."""
    found = []
    if ours.sectors_per_byte > rival.sectors_per_byte:
        found.append(f"{float(ours.sectors_per_byte / rival.sectors_per_byte):.3f} x the sectors")
    if ours.parallelism < rival.parallelism:
        found.append(f"{ours.parallelism / rival.parallelism:.2f} x the threads")
    return (*found, *ours.faults)


def pair(name: str) -> Comparison:
    """A published operator: without advice, under its file (and, if that is refused, a corrected copy), under ours."""
    group = published_files.group_of(published_files.operator(name))
    ours = engine.default_recipe(group)

    def published() -> engine.Recipe:
        return ours.with_group(group.name, engine.published_advice(published_files.trick(name), group))

    ways = {NONE: _attempt(group, lambda: _without(ours, group)), PUBLISHED: _attempt(group, published)}
    if isinstance(ways[PUBLISHED], str):
        ways[CORRECTED] = _attempt(group, lambda: engine.advised(ours, group, published_files.corrected(name), name))
    return Comparison(name, group.name, {**ways, OURS: _attempt(group, lambda: ours)})


def without_published(name: str, group: engine.FusionGroup) -> Comparison:
    """A group for which no advice was published."""
    ours = engine.default_recipe(group)
    ways = {NONE: _attempt(group, lambda: _without(ours, group)), OURS: _attempt(group, lambda: ours)}
    return Comparison(name, group.name, ways)


def _without(recipe: engine.Recipe, group: engine.FusionGroup) -> engine.Recipe:
    return recipe.with_group(group.name, ())


def _attempt(group: engine.FusionGroup, recipe: Callable[[], engine.Recipe]) -> Counted | str:
    """What is counted under a recipe, or why the advice or the kernel is refused."""
    try:
        return count(engine.compile(group, recipe()))
    except engine.EngineError as error:
        return str(error)


def count(kernel: engine.Kernel) -> Counted:
    """Emulate a sample of a kernel's blocks.

    Raises Unsupported where the addresses depend on values and where the sample stores nothing.
    """
    source, program = kernel.source, kernel.group.program
    for statement in program.statements:
        if any(index.elements() for access in (*statement.reads(), statement.write) for index in access.indices):
            raise engine.Unsupported("count", kernel.group.name, f"the addresses of {statement.name} depend on values")
    total = math.prod(source.grid)
    zeros = {b.array: np.zeros(b.elements, b.dtype) for b in source.buffers if b.read}
    emulation, _, written = emulate(source, zeros, blocks=sample(total), order=ORDER, timeout=SECONDS)
    sites = [site for site in emulation.counts if site.kind in GLOBAL]
    stores = sum(site.requests for site in sites if site.kind == "global store")
    results = sum(int(own_part(program, array).sum()) for array in written)
    stored = sum(int(mask.sum()) for mask in written.values())
    if not stored:
        raise engine.Unsupported("count", kernel.group.name, "the sampled blocks store nothing")
    return Counted(
        blocks=total,
        threads=math.prod(source.block),
        blocks_run=emulation.blocks_run,
        loads=sum(site.requests for site in sites) - stores,
        stores=stores,
        widest=sum(site.requests for site in sites if site.width == WIDEST),
        sectors=sum(site.sectors for site in sites),
        useful=Fraction(sum(compulsory_bytes(program)) * stored, results),
        relaxed=tuple(f"{v.placed.entry}: {v.because}" for v in kernel.verdicts if v.outcome != "honoured"),
        faults=tuple(f"line {finding.line}: {finding.kind}" for finding in emulation.findings),
    )


def sample(total: int) -> list[int]:
    """The first, the middle and the last two of `total` blocks."""
    starts = (0, total // 2 - 1, total - 2)
    return sorted({block for start in starts for block in (start, start + 1) if 0 <= block < total})


def _files() -> tuple[list[tuple[str, engine.FusionGroup]], dict[str, str]]:
    """(file, group) of every other operator, and why a file does not load."""
    paths = [*AKG.glob("*.json"), *AKG.glob("stitch/*.json"), *ADVICE.glob("operators/*.json")]
    paired = {*LEGAL, TRANSPOSE, TWO_ITERATORS}
    found: list[tuple[str, engine.FusionGroup]] = []
    refused: dict[str, str] = {}
    for path in sorted(path for path in paths if path.stem not in paired):
        try:
            found += [(path.stem, group) for group in engine.fuse(engine.load(path)).groups]
        except engine.EngineError as error:
            refused[path.stem] = error.reason
    return found, refused


def _progress(of: Sequence[T], what: str) -> Iterator[T]:
    return iter(track(of, what, console=Console(stderr=True), transient=True))


def row(one: Comparison, kind: str) -> dict[str, Any]:
    """A comparison for the document."""
    return {
        "operator": one.operator,
        "group": one.group,
        "kind": kind,
        "ways": {way: _figures(found) for way, found in one.ways.items()},
        "compared_with": one.rival,
        "equals_or_beats": not one.shortfalls,
        "shortfalls": one.shortfalls,
    }


def _figures(found: Counted | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"refused": found}
    return {
        "blocks": found.blocks,
        "threads": found.threads,
        "parallelism": found.parallelism,
        "blocks_run": found.blocks_run,
        "loads": found.loads,
        "stores": found.stores,
        "sectors": found.sectors,
        "useful_bytes": float(found.useful),
        "sectors_per_request": found.sectors_per_request,
        "sectors_per_useful_byte": float(found.sectors_per_byte),
        "widest_share": found.widest_share,
        "efficiency": found.efficiency,
        "relaxed": found.relaxed,
        "faults": found.faults,
    }


def summary(pairs: Sequence[Comparison], others: Sequence[Comparison]) -> dict[str, Any]:
    """The figures that the goals name.

    share_16_byte: of a group's requests under our advice, the mean over the other groups; None without any.
    """
    counted = [found for one in others if isinstance(found := one.ways[OURS], Counted)]
    everything = [found for one in (*pairs, *others) for found in one.ways.values() if isinstance(found, Counted)]
    return {
        "pairs": len(pairs),
        "published_refused": sum(isinstance(one.ways[PUBLISHED], str) for one in pairs),
        "published_equal_or_beaten": sum(not one.shortfalls for one in pairs),
        "published_no_more_sectors": sum(_no_more_sectors(one) for one in pairs),
        "groups": len(others),
        "groups_not_counted": len(others) - len(counted),
        "groups_no_more_sectors": sum(_no_more_sectors(one) for one in others),
        "share_16_byte": sum(found.widest_share for found in counted) / len(counted) if counted else None,
        "faults": sum(len(found.faults) for found in everything),
    }


def _no_more_sectors(one: Comparison) -> bool:
    ours, rival = one.ways[OURS], one.ways[one.rival]
    if isinstance(ours, str) or isinstance(rival, str):
        return isinstance(ours, Counted)
    return ours.sectors_per_byte <= rival.sectors_per_byte


def show(
    pairs: Sequence[Comparison],
    others: Sequence[Comparison],
    figures: Mapping[str, Any],
    refused: Mapping[str, str],
) -> None:
    """Both tables, what was refused, the summary."""
    console = Console(width=None if Console().is_terminal else 170)
    if pairs:
        console.print(_table("Published operators, counted over sampled blocks", "ours against published", pairs))
    if others:
        console.print(_table("Other AKG operators, counted over sampled blocks", "ours against none", others))
    for line in _reasons((*pairs, *others), refused):
        console.print(line, highlight=False)
    console.print("  ".join(f"{name} {_number(value)}" for name, value in figures.items()))


def _table(title: str, verdict: str, found: Sequence[Comparison]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("operator", overflow="fold", max_width=48)
    table.add_column("advice", no_wrap=True)
    for name in (
        "blocks x threads", "threads of\nthe launch", "requests:\nload + store", "sectors", "sectors a\nrequest",
        "16-byte\nrequests", "useful of\nmoved bytes",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(verdict, overflow="fold")
    for one in found:
        for way, counted in one.ways.items():
            name = one.operator.removeprefix("Fused_") if way == NONE else one.group if way == OURS else ""
            table.add_row(name, way, *_cells(counted), _verdict(one) if way == OURS else "", end_section=way == OURS)
    return table


def _cells(found: Counted | str) -> Iterator[str]:
    if isinstance(found, str):
        yield "refused"
        yield from [""] * 6
        return
    yield f"{found.blocks} x {found.threads}"
    yield str(found.parallelism)
    yield f"{found.loads} + {found.stores}"
    yield str(found.sectors)
    yield f"{found.sectors_per_request:.2f}"
    yield f"{found.widest_share:.0%}"
    yield f"{found.efficiency:.1%}"


def _verdict(one: Comparison) -> str:
    if one.shortfalls:
        return f"[red]{', '.join(one.shortfalls)}[/]"
    ours, rival = one.ways[OURS], one.ways[one.rival]
    if not isinstance(ours, Counted) or not isinstance(rival, Counted):
        return "[green]has no rival[/]"
    fewer = float(ours.sectors_per_byte / rival.sectors_per_byte)
    return "[green]equals[/]" if fewer == 1 else f"[green]beats: {fewer:.2f} x the sectors[/]"


def _reasons(found: Sequence[Comparison], refused: Mapping[str, str]) -> Iterator[str]:
    """What was refused, relaxed or at fault, and why."""
    for one in found:
        for way, counted in one.ways.items():
            if isinstance(counted, str):
                yield f"{one.operator}, {one.group}, advice {way}: {counted}"
                continue
            for fault in counted.faults:
                yield f"[red]{one.operator}, {one.group}, advice {way}: {fault}[/]"
            if way != OURS:
                for entry in counted.relaxed:
                    yield f"{one.operator}, {one.group}, advice {way} is not followed: {entry}"
    for name, reason in refused.items():
        yield f"{name} does not load: {reason}"
    if not ADVICE.is_dir():
        yield f"nothing to compare: {ADVICE} is absent"


def _number(value: float | int | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


if __name__ == "__main__":
    main()
