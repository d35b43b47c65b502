"""Feedback on an edit of a group of 30 statements: `python -m tests.benchmarks.edits [--json FILE] [--rounds N]`.

An edit is a few lines put under the advisers' advice, as an engineer types them into the constraint panel.  Three times
are taken of each, as the window asks for them: from the text to verdicts and a checked schedule; from the text to the
whole document (schedule, verdicts, CUDA text, predicted time, explanation); and, where that leaves it open, to the
second answer with the smallest conflict and its repairs.  `--random N` adds N edits of one to four random entries of
every field, required or not.  Nothing is kept from one round to the next.  Times are milliseconds of the processor,
medians over the rounds.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import onnx
from onnx import TensorProto, helper
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import engine
from engine.fusion.nodes import FusionGroup
from engine.poly.dependences import dependences
from engine.scheduling.compose import compose
from engine.scheduling.nodes import FIRST_ANSWER
from engine.scheduling.solve import schedule
from engine.scheduling.text import from_text
from engine.service import Service
from engine.support.errors import Illegal, OverBudget, Unsupported
from engine.tensor.nodes import TensorProgram
from tests.benchmarks import report
from tests.benchmarks.edits_to_kernels import COEFFICIENTS, FIELDS, draw_entry

KINDS = (*FIELDS, *COEFFICIENTS)
BUDGET = 100.0
"""Milliseconds from an edit to its verdicts, and of the edits named here to everything that the window shows."""
LONGEST = 2000.0
"""Milliseconds that no edit takes."""
ROWS, COLUMNS = 1024, 768

EDITS = {
    "no change": "",
    "pin": "all @ innermost: pin j",
    "pin that a reduction excludes": "S0 @ outermost: pin j",
    "pins that exclude each other": "all @ outermost: pin i\nS0, S4, S19, S22 @ innermost: pin i",
    "parallel": "S0 @ i: parallel true",
    "parallel that carries a sum": "S0 @ j: parallel true",
    "cut": "all @ innermost: cut S8 | S9",
    "cut against a dependence": "all @ innermost: cut S9 | S8",
    "split": "all @ i: split 4",
    "mark": "S0 @ innermost: mark thread 64",
    "equal": "all @ outermost: equal S2, S3",
    "terms": "S2 @ outermost: terms (S2, i, 1)",
    "skew": "S29 @ innermost: terms ((i, 1), (j, 1))",
    "objective": "S2, S3 @ outermost: objective ((S2, i, 1), (S3, i, 1))",
    "alternatives": "either\n  all @ innermost: cut S9 | S8\nor\n  all @ innermost: pin j",
    "required": "required all @ outermost: pin i",
    "conflict": "required all @ innermost: cut S9 | S8",
    "conflict of two": "required all @ outermost: pin i\nrequired S0, S4, S19, S22 @ innermost: pin i",
}
"""Kind of edit -> the lines of the user's advice."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One kind of edit; milliseconds of every round."""

    kind: str
    outcome: str
    """"a kernel", "refused, with repairs" (required entries cannot hold), "not decided" (in the time that an edit has)
    or "no kernel" (none follows the order)."""
    verdicts: Sequence[float]
    documents: Sequence[float]
    conflicts: Sequence[float]
    """To the smallest conflict and the repairs; empty where the document has nothing open."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.edits", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--rounds", type=int, default=7, help="rounds for each edit (default: %(default)s)")
    parser.add_argument("--random", type=int, default=0, help="edits of random entries (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random edits")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layernorm_gradients.onnx"
        onnx.save(model(ROWS, COLUMNS), path)
        found = list(measured(path, options.rounds))
        drawn = list(measured(path, 1, random_edits(path, options.random, options.seed))) if options.random else []
    figures = {**summary(found), **summary_of_random(drawn)}
    show(found, figures)
    if options.json:
        rows = [
            {
                "edit": e.kind, "outcome": e.outcome, "verdicts": list(e.verdicts), "documents": list(e.documents),
                "conflicts": list(e.conflicts),
            }
            for e in (*found, *drawn)
        ]  # fmt: skip
        where = report.environment("islpy", "highspy")
        report.write(options.json, "edits", {**where, "rounds": options.rounds}, rows, figures)


def random_edits(path: Path, number: int, seed: int) -> dict[str, str]:
    """Edits of one to four random entries of the file's largest group."""
    draw = random.Random(seed)
    statements = _largest(path).program.statements
    edits: dict[str, str] = {}
    while len(edits) < number:
        drawn = [draw_entry(draw, statements, kind) for kind in draw.choices(KINDS, k=draw.randint(1, 4))]
        entries = [replace(entry, required=draw.random() < 0.5) for entry in drawn if entry is not None]
        edits[f"random {len(edits)}"] = "\n".join(map(str, entries))
    return edits


def _largest(path: Path) -> FusionGroup:
    return max(engine.fuse(engine.load(path)).groups, key=lambda g: len(g.program.statements))


def measured(path: Path, rounds: int, edits: Mapping[str, str] = EDITS) -> Iterator[Edit]:
    """Edits of the file's largest group.  edits: kind -> lines of the user's advice."""
    service, group = Service(), _largest(path)
    service.answer("open", {"path": str(path)}, _silent)
    advice = service.answer("kernel", {"group": group.name, "recipe": None}, _silent)["recipe"]
    for kind, lines in edits.items():
        text = advice + "".join(f"{line}\n" for line in ["advice user", *(f"  {line}" for line in lines.split("\n"))])
        verdicts, documents, conflicts = [], [], []
        outcome = ""
        for number in range(rounds + 1):
            asked = {"group": group.name, "recipe": f"{text}# round {number}\n"}  # a new text: kernels are kept
            verdicts.append(_timed(partial(_verdicts, group.program, asked["recipe"]))[0])
            spent, (outcome, is_open) = _timed(partial(_outcome, service, asked))
            documents.append(spent)
            if is_open:
                conflicts.append(_timed(partial(service.answer, "conflict", asked, _silent))[0])
        yield Edit(kind, outcome, verdicts[1:], documents[1:], conflicts[1:])  # the first round imports what it needs


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of the processor, and the result."""
    begin = process_time()
    result = run()
    return (process_time() - begin) * 1e3, result


def _verdicts(program: TensorProgram, text: str) -> None:
    try:
        schedule(program, dependences(program), compose(from_text(text), program), FIRST_ANSWER)
    except (Illegal, OverBudget):  # a Conflict among them
        return


def _outcome(service: Service, asked: Mapping[str, str]) -> tuple[str, bool]:
    """What became of an edit, and whether its smallest conflict is another question."""
    try:
        document = service.answer("kernel", asked, _silent)
    except Unsupported:
        return "no kernel", False
    except OverBudget:
        return "not decided", False
    return "a kernel" if document["legal"] else "refused, with repairs", not document["complete"]


def _silent(event: str, value: Any) -> None:
    """What the service sends on the way is not looked at."""


def summary(found: Sequence[Edit]) -> dict[str, Any]:
    """The figures that the goals name: over the kinds of edits, of each kind the median to its document."""
    medians = [median(edit.documents) for edit in found]
    return {
        "verdicts_milliseconds_worst": max(median(edit.verdicts) for edit in found),
        "edit_milliseconds_median": median(medians),
        "edit_milliseconds_worst": max(medians),
        "edit_milliseconds_worst_round": max(max(edit.documents) for edit in found),
        "conflict_milliseconds_worst": max((median(e.conflicts) for e in found if e.conflicts), default=0.0),
        "over_budget": sum(value > BUDGET for value in medians),
    }


def summary_of_random(drawn: Sequence[Edit]) -> dict[str, Any]:
    """The same of random edits, once each; empty without any."""
    if not drawn:
        return {}
    verdicts, documents = sorted(e.verdicts[0] for e in drawn), sorted(e.documents[0] for e in drawn)
    return {
        "random_edits": len(drawn),
        "random_not_decided": sum(e.outcome == "not decided" for e in drawn),
        "random_verdicts_milliseconds_95_percent": verdicts[len(verdicts) * 95 // 100],
        "random_verdicts_milliseconds_worst": verdicts[-1],
        "random_verdicts_over_budget": sum(value > BUDGET for value in verdicts),
        "random_edit_milliseconds_median": median(documents),
        "random_edit_milliseconds_worst": documents[-1],
        "random_edits_too_long": sum(value > LONGEST for value in documents),
        "random_conflict_milliseconds_worst": max((e.conflicts[0] for e in drawn if e.conflicts), default=0.0),
    }


def show(found: Sequence[Edit], figures: dict[str, Any]) -> None:
    """The table and the summary."""
    console = Console(width=None if Console().is_terminal else 110)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("edit\nmilliseconds")
    for name in ("outcome", "to verdicts", "to the document", "slowest round", "to the conflict", "budget"):
        table.add_column(name, justify="left" if name == "outcome" else "right")
    for edit in found:
        over = median(edit.documents) > BUDGET
        table.add_row(
            edit.kind,
            edit.outcome,
            f"{median(edit.verdicts):.1f}",
            f"{median(edit.documents):.1f}",
            f"{max(edit.documents):.1f}",
            f"{median(edit.conflicts):.1f}" if edit.conflicts else "",
            f"[red]over {BUDGET:.0f}[/]" if over else f"{BUDGET:.0f}",
        )
    console.print(table)
    console.print("  ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items()))


def model(rows: int, columns: int) -> onnx.ModelProto:
    """A layer normalization and its gradient in 30 operators, as `programs.layernorm_gradients` has them."""
    graph = _Graph()
    x, gain, shift, incoming, kept, residual = "x", "gain", "shift", "incoming", "kept", "residual"
    mean = graph.mean(x, columns)
    centred = graph.add("Sub", x, mean)
    variance = graph.mean(graph.add("Mul", centred, centred), columns)
    deviation = graph.add("Reciprocal", graph.add("Sqrt", graph.add("Add", variance, graph.number(1e-5))))
    normal = graph.add("Mul", centred, deviation)
    output = graph.add("Add", graph.add("Mul", normal, gain), shift)
    gate = graph.add("Sigmoid", output)
    slope = graph.add("Mul", gate, graph.add("Sub", graph.number(1.0), gate))
    passed = graph.add("Mul", graph.add("Mul", incoming, kept), graph.number(1 / 0.9))
    weighted = graph.add("Mul", graph.add("Mul", passed, slope), gain)
    along = graph.mean(weighted, columns)
    across = graph.mean(graph.add("Mul", weighted, normal), columns)
    rest = graph.add("Sub", graph.add("Sub", weighted, along), graph.add("Mul", normal, across))
    total = graph.add("Add", graph.add("Mul", rest, deviation), residual)
    result = graph.add("Max", total, graph.number(-1.0))
    square, line = [rows, columns], [columns]
    inputs = {x: square, gain: line, shift: line, incoming: square, kept: square, residual: square}
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "layernorm_gradients",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, square)],
            graph.numbers,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


class _Graph:
    """ONNX nodes in the making."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.numbers: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node; returns the name of its result."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def number(self, value: float) -> str:
        """A constant; returns its name."""
        name = f"c{len(self.numbers)}"
        self.numbers.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name

    def mean(self, array: str, columns: int) -> str:
        """The mean of each row, in two operators."""
        axes = f"c{len(self.numbers)}"
        self.numbers.append(helper.make_tensor(axes, TensorProto.INT64, [1], [1]))
        return self.add("Mul", self.add("ReduceSum", array, axes, keepdims=1), self.number(1 / columns))


if __name__ == "__main__":
    main()
