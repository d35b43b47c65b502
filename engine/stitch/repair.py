"""Kernels that rules ask for and no code can be made of are parted, no further than needed."""

from __future__ import annotations

from collections.abc import Sequence

from engine.stitch.assess import Assessor
from engine.stitch.nodes import Kernel


def makeable(assessor: Assessor, kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, those that do not fit grown anew from their results as far as they do."""
    flow = assessor.flow
    found: list[Kernel] = []
    for kernel in kernels:
        if kernel.closed or len(kernel.members) == 1 or assessor.cost(kernel) is not None:
            found.append(kernel)
        else:
            found += _regrown(assessor, kernel)
    homes: set[int] = set()
    unique: list[Kernel] = []
    for kernel in sorted(found, key=lambda k: -len(k.members)):
        roots = kernel.roots - homes  # what two kernels had to part with is written once
        homes |= roots
        if roots:
            unique.append(Kernel(kernel.members, roots, kernel.closed))
    return sorted(unique, key=lambda k: min(flow.order[r] for r in k.roots))


def _regrown(assessor: Assessor, kernel: Kernel) -> list[Kernel]:
    """Consumers before producers: each step goes into the kernels that read it, or starts one of its own."""
    flow = assessor.flow
    parts: list[Kernel] = []
    for n in sorted(kernel.members, key=lambda n: -flow.order[n]):
        readers = [p for p in parts if any(c in p.members for c in flow.consumers[n])]
        kept = n in kernel.roots
        grown = [Kernel(p.members | {n}, p.roots | ({n} if kept else set())) for p in readers]
        fits = (len(grown) == 1 if kept else bool(grown)) and all(assessor.cost(g) is not None for g in grown)
        if fits:
            parts = [p for p in parts if p not in readers] + grown
        else:
            parts.append(Kernel(frozenset((n,)), frozenset((n,))))
    return parts
