"""The author `stitch` on packed groups: parts that share nothing, each with loops and blocks of its own."""

from __future__ import annotations

from collections.abc import Iterator

from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_groups
from engine.kernels.advice import mark
from engine.kernels.elementwise.advise import short_entries
from engine.kernels.elementwise.plans import plans
from engine.kernels.family import Setting
from engine.kernels.gemm.advise import ProductPack
from engine.kernels.gemm.family import GEMM_FAMILY
from engine.kernels.marks import DEFAULT_THREADS
from engine.kernels.stitched.advise import stitch_group
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.recipe import Advice, Entry, Scenario, entry
from engine.target import Target
from engine.tensor.traffic import compulsory_bytes


def pack_group(group: FusionGroup, setting: Setting) -> Advice:
    """Cut the parts from each other, and advise each as if it were alone; products get tiles that suit all of them."""
    parts = part_groups(group)
    names = tuple(tuple(s.name for s in part.program.statements) for part in parts)
    cut = entry(cut=names, at="outermost", because="no value leads from one part to another: each has its own blocks")
    products = product_pack(group, setting)
    inside = products.entries() if products else [e for part in parts for e in _of_part(part, setting.machine)]
    return Advice("stitch", Scenario((cut, *inside)))


def product_pack(group: FusionGroup, setting: Setting) -> ProductPack | None:
    """The parts of a packed group as products; None where any is none."""
    parts = part_groups(group)
    if not all(map(GEMM_FAMILY.recognises, parts)):
        return None
    moved = compulsory_bytes(group.program)
    return ProductPack.of([part.program for part in parts], moved, setting.numerics, setting.machine)


def _of_part(part: FusionGroup, machine: Target) -> Iterator[Entry]:
    statements = tuple(s.name for s in part.program.statements)
    if STITCHED_FAMILY.recognises(part):
        yield from (e for e in stitch_group(part, machine).scenario.entries if _suits_a_pack(e))
    else:
        for plan in plans(part.program, machine.resident_threads)[:1]:
            yield from short_entries(plan, part.program)
    because = "the parts of a launch have blocks of one size"
    yield mark(statements, "outermost", "thread", DEFAULT_THREADS, because)


def _suits_a_pack(advice: Entry) -> bool:
    """Not the threads, which are those of all parts, nor a rewrite, after which no value may connect a part."""
    is_threads = isinstance(advice.value, tuple) and advice.value[0] == "thread"
    return not is_threads and advice.field != "rewrite"
