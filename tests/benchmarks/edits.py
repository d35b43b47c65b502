"""Feedback on an edit of a group of 30 statements: `python -m tests.benchmarks.edits [--json FILE] [--rounds N]`.

An edit is a few lines put under the advisers' advice, as an engineer types them into the constraint panel.  Two times
are taken of each: from the text to verdicts and a checked schedule, and from the text to the whole document that the
window shows (schedule, verdicts, CUDA text, predicted time, explanation), asked of the engine's service as the window
does.  Nothing is kept from one round to the next.  Times are milliseconds: to verdicts of the
processor, to the document on the clock; medians over the rounds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import onnx
from onnx import TensorProto, helper
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import engine
from engine.poly.dependences import dependences
from engine.scheduling.compose import compose
from engine.scheduling.nodes import Conflict
from engine.scheduling.solve import schedule
from engine.scheduling.text import from_text
from engine.service import Service
from engine.support.errors import Unsupported
from engine.tensor.nodes import TensorProgram
from tests.benchmarks import report

BUDGET = 100.0
"""Milliseconds from an edit to everything that the window shows of it."""
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
    """"a kernel", "refused, with repairs" (required entries cannot hold) or "no kernel" (none follows the order)."""
    verdicts: Sequence[float]
    documents: Sequence[float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.edits", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--rounds", type=int, default=7, help="rounds for each edit (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layernorm_gradients.onnx"
        onnx.save(model(ROWS, COLUMNS), path)
        found = list(measured(path, options.rounds))
    figures = summary(found)
    show(found, figures)
    if options.json:
        rows = [
            {"edit": e.kind, "outcome": e.outcome, "verdicts": list(e.verdicts), "documents": list(e.documents)}
            for e in found
        ]
        where = report.environment("islpy", "highspy")
        report.write(options.json, "edits", {**where, "rounds": options.rounds}, rows, figures)


def measured(path: Path, rounds: int) -> Iterator[Edit]:
    """Every edit of the file's largest group."""
    service = Service()
    service.answer("open", {"path": str(path)}, _silent)
    group = max(engine.fuse(engine.load(path)).groups, key=lambda g: len(g.program.statements))
    advice = service.answer("kernel", {"group": group.name, "recipe": None}, _silent)["recipe"]
    for kind, lines in EDITS.items():
        text = advice + "".join(f"{line}\n" for line in ["advice user", *(f"  {line}" for line in lines.split("\n"))])
        verdicts, documents = [], []
        outcome = ""
        for number in range(rounds + 1):
            begin = process_time()
            _verdicts(group.program, text)
            verdicts.append((process_time() - begin) * 1e3)
            solved = perf_counter()
            outcome = _outcome(service, group.name, f"{text}# round {number}\n")  # a new text: kernels are kept
            end = perf_counter()
            documents.append((end - solved) * 1e3)
        yield Edit(kind, outcome, verdicts[1:], documents[1:])  # the first round imports what it needs


def _verdicts(program: TensorProgram, text: str) -> None:
    try:
        schedule(program, dependences(program), compose(from_text(text), program))
    except Conflict:
        return


def _outcome(service: Service, group: str, text: str) -> str:
    try:
        document = service.answer("kernel", {"group": group, "recipe": text}, _silent)
    except Unsupported:
        return "no kernel"
    return "a kernel" if document["legal"] else "refused, with repairs"


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
        "over_budget": sum(value > BUDGET for value in medians),
    }


def show(found: Sequence[Edit], figures: dict[str, Any]) -> None:
    """The table and the summary."""
    console = Console(width=None if Console().is_terminal else 110)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("edit\nmilliseconds")
    for name in ("outcome", "to verdicts", "to the document", "slowest round", "budget"):
        table.add_column(name, justify="left" if name == "outcome" else "right")
    for edit in found:
        over = median(edit.documents) > BUDGET
        table.add_row(
            edit.kind,
            edit.outcome,
            f"{median(edit.verdicts):.1f}",
            f"{median(edit.documents):.1f}",
            f"{max(edit.documents):.1f}",
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
