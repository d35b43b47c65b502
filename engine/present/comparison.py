"""Two kernels of one group side by side: entries, schedule, CUDA text, figures."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher

from engine.compilation import predict_kernel
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.documents.exploration import DiffDoc, DiffLine, FigureDoc
from engine.documents.model import TermDoc
from engine.execution.nodes import PREDICTED
from engine.recipe import Recipe, diff
from engine.scheduling.text import to_text
from engine.scheduling.tree_text import show
from engine.support.errors import BadInput

COMPILED = "compiled"
"""Origin of what the kernel's text itself states: its launch and its buffers."""
CONTEXT = 3
"""Equal lines shown round a change."""
LARGER_IS_BETTER = ("occupancy",)
"""Terms of a prediction of which more is better; of all others less is."""


def compare(a: AnyKernel, b: AnyKernel) -> DiffDoc:
    """What changes from kernel `a` to kernel `b` of one group: entries, schedule, CUDA text and figures.

    >>> group = engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).group("matmul_0")
    >>> plain = engine.compile(group, engine.Recipe("h200", numerics=group.numerics))
    >>> found = engine.compare(plain, engine.compile(group))
    >>> [one.partition(" (because")[0] for one in found.entries[:1]]  # print(found): all, and the figures that differ
    ['+ tensorize: S0 @ k: mark intrinsic mma_m16n8k16_f16']

    Raises BadInput for kernels of two groups.
    """
    if a.group.name != b.group.name:
        raise BadInput("compare", a.group.name, f"is another group than {b.group.name}", "compare one group")
    return DiffDoc(
        a.group.name,
        a=to_text(a.advice),
        b=to_text(b.advice),
        entries=entry_lines(a.recipe, b.recipe, a.group.name),
        schedule=line_diff(show(a.schedule, a.program), show(b.schedule, b.program)),
        cuda=line_diff(a.source.text, b.source.text),
        figures=(*_predicted_figures(a, b), *_stated_figures(a, b)),
    )


def entry_lines(a: Recipe, b: Recipe, group: str) -> tuple[str, ...]:
    """ "- map: S0 @ i: mark block 1" and "+ map: S0 @ i: mark block 2": what `b` says of a group in place of `a`."""
    only_a, only_b = (replace(one, groups={group: one.groups.get(group, ())}) for one in (a, b))
    return tuple(line.removeprefix(f"group {group}: ") for line in diff(only_a, only_b))


def line_diff(a: str, b: str) -> tuple[DiffLine, ...]:
    """The changed lines of two texts with `CONTEXT` equal lines round them; empty for equal texts."""
    old, new = a.splitlines(), b.splitlines()
    lines: list[DiffLine] = []
    for hunk in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        for kind, i, i_end, j, j_end in hunk:
            if kind == "equal":
                lines += (DiffLine(" ", old[i + k], i + k + 1, j + k + 1) for k in range(i_end - i))
            else:
                lines += (DiffLine("-", old[k], k + 1, 0) for k in range(i, i_end))
                lines += (DiffLine("+", new[k], 0, k + 1) for k in range(j, j_end))
    return tuple(lines)


def _predicted_figures(a: AnyKernel, b: AnyKernel) -> list[FigureDoc]:
    """The modelled times and their terms; terms of one name and unit stand side by side."""
    before, after = predict_kernel(a), predict_kernel(b)
    figures = [FigureDoc("time", "µs", before.microseconds, after.microseconds, PREDICTED, True)]
    old, new = ({(term.name, term.unit): term for term in one.terms} for one in (before, after))
    for key in dict.fromkeys((*old, *new)):
        name, unit = key
        smaller = name not in LARGER_IS_BETTER
        figures.append(FigureDoc(name, unit, _value(old.get(key)), _value(new.get(key)), PREDICTED, smaller))
    return figures


def _value(term: TermDoc | None) -> float | None:
    return None if term is None else term.value


def _stated_figures(a: AnyKernel, b: AnyKernel) -> list[FigureDoc]:
    """What the texts themselves say: launch and buffers."""
    if isinstance(a, CpuKernel) or isinstance(b, CpuKernel):
        return []
    pairs = (
        ("blocks", "", a.facts.blocks, b.facts.blocks),
        ("threads per block", "", a.facts.threads, b.facts.threads),
        ("shared memory", "B", a.facts.shared_bytes, b.facts.shared_bytes),
        ("stages", "", a.facts.stages, b.facts.stages),
    )
    return [FigureDoc(name, unit, float(x), float(y), COMPILED, True) for name, unit, x, y in pairs if x or y]
