"""A schedule tree as text for people: stable, diffable, one node a line."""

from __future__ import annotations

from engine.scheduling.nodes import Band, Leaf, Mark, Member, Node, Scheduled, ScheduleTree, Sequence, statements_of
from engine.tensor.nodes import TensorProgram


def show(tree: ScheduleTree, program: TensorProgram) -> str:
    """The tree, indented, with marks in square brackets:

    domain    S0, S1: 2 statements
    band      i = 0 … 63  parallel  [block 1]
    sequence  S0 → S1
      band    j = 0 … 127  [lane 32]
        S0[i < 64, j < 128]: m[i] = max(j) x[i, j]
    """
    names = statements_of(tree.root)
    count = f"{len(names)} statement{'s' if len(names) != 1 else ''}"
    lines = [f"domain {', '.join(names)}: {count}", *_lines(tree.root, program, "  ")]
    return "".join(line + "\n" for line in lines)


def _lines(node: Node, program: TensorProgram, indent: str) -> list[str]:
    match node:
        case Leaf(statements):
            return [f"{indent}{program.statement(name)}" for name in statements]
        case Sequence(children):
            lines = [f"{indent}sequence {' → '.join(' '.join(statements_of(child)) for child in children)}"]
            return lines + [line for child in children for line in _lines(child, program, indent + "  ")]
        case Band(members, permutable, child):
            kind = "band" if permutable or len(members) == 1 else "band in order"
            lines = []
            for number, member in enumerate(members):
                head = kind if number == 0 else " " * len(kind)
                lines.append(f"{indent}{head} {dimension_text(member)}")
            return lines + _lines(child, program, indent + "  ")


def dimension_text(member: Member) -> str:
    """A dimension as text, "i = 0 … 63  parallel  [block 1]", with the rows that are not simply its name."""
    parts = [f"{member.name} = 0 … {member.extent - 1}"]
    if member.parallel:
        parts.append("parallel")
    rows = [f"{statement}: {row}" for statement, row in member.rows.items() if str(row) != member.name]
    if rows:
        parts.append(f"({', '.join(rows)})")
    parts += [f"[{mark_text(mark)}]" for mark in member.marks]
    return "  ".join(parts)


def mark_text(mark: Mark) -> str:
    """A mark in few words, "vector 4", "3 stages"."""
    return f"{mark.value} stages" if mark.name == "stages" else f"{mark.name} {mark.value}"


def report(scheduled: Scheduled, program: TensorProgram) -> str:
    """The tree, what became of every entry, and the decisions on the way."""
    lines = [show(scheduled.tree, program)]
    if scheduled.verdicts:
        width = max(len(v.outcome) for v in scheduled.verdicts)
        lines.append("entries\n")
        lines += [
            f"  {v.outcome:{width}}  {v.placed.author}: {v.placed.entry}\n  {'':{width}}    {v.because}\n"
            for v in scheduled.verdicts
        ]
    if scheduled.log:
        lines.append("decisions\n")
        lines += [f"  {line}\n" for line in scheduled.log]
    return "".join(lines)
