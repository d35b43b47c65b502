"""Lower operator graphs to tensor programs."""

from __future__ import annotations

from collections.abc import Iterable

from engine.graph.akg import IN_PLACE
from engine.graph.host import COUNTS
from engine.graph.nodes import COMPILED_DTYPES, Operator, OperatorGraph
from engine.support.errors import Unsupported
from engine.tensor.build import StatementBuilder, box
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.operators import rule_of
from engine.tensor.repeated_operators import Repeats

WITHOUT_EXPRESSION = {
    **dict.fromkeys(("NonZero", "Unique", "NonMaxSuppression"), COUNTS),
    **dict.fromkeys(("Bernoulli", "Multinomial"), "draws at random"),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), "draws at random"),
    **dict.fromkeys(("If",), "decides what runs when the data are there"),
    **dict.fromkeys(("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"), "works on lists of tensors"),
    **dict.fromkeys(("SequenceInsert", "SequenceLength", "SequenceMap"), "works on lists of tensors"),
    **dict.fromkeys(("ConcatFromSequence", "SplitToSequence"), "works on lists of tensors"),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), "works on what may be absent"),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"), "works on texts"),
}
"""Reasons why some operators cannot be expressions over boxes of fixed size, where a host program cannot run them."""

EMPTY_OPERANDS = ("Concat",)
"""Operators that give elements where their first operand has none."""


def lower(graph: OperatorGraph) -> TensorProgram:
    """The tensor program of every supported operator, without the reasons for the others."""
    return lower_supported(graph)[0]


def lower_supported(graph: OperatorGraph) -> tuple[TensorProgram, dict[str, str]]:
    """Lower every supported operator to statements S0, S1, ... in graph order; return the reasons for the others, those
    that the host runs among them.

    Arrays have the names of the graph's tensors; what operators need in between is called "TENSOR.max" and so on.
    What is skipped leaves its tensors open: what it reads counts as an output of the program, what it
    writes as an input.  In-place updates come last, as writes to an array that is both input and output.
    Raises BadInput where shapes contradict each other.
    """
    build, skipped = _lower_operators(graph)
    _update_in_place(graph, build)
    wanted = {*graph.outputs, *(update.target for update in graph.updates)}
    wanted.update(name for op in graph.operators if op.name in skipped for name in op.inputs)
    statements = build.needed_statements(wanted)
    written = {s.write.array for s in statements}
    read = set[str]().union(*(s.sources for s in statements))
    targets = {update.target for update in graph.updates}
    fixed = [name for name in graph.constants if name in read]
    foreign = [name for op in graph.operators if op.name in skipped for name in op.outputs if name in read]
    inputs = (*graph.inputs, *fixed, *foreign)
    outputs = [n for n in dict.fromkeys((*graph.outputs, *_in_order(wanted, statements))) if n in written]
    used = {*inputs, *outputs, *read, *written, *targets}
    return TensorProgram(
        name=graph.name,
        arrays={name: array for name, array in build.arrays.items() if name in used},
        statements=statements,
        inputs=tuple(dict.fromkeys(inputs)),
        outputs=tuple(outputs),
        constants=tuple(fixed),
    ), skipped


def unsupported_operators(graph: OperatorGraph) -> dict[str, str]:
    """The operators that neither a kernel nor the host runs, with the reason in words."""
    return {name: reason for name, reason in lower_supported(graph)[1].items() if name not in graph.host}


def _lower_operators(graph: OperatorGraph) -> tuple[StatementBuilder, dict[str, str]]:
    build = StatementBuilder(graph)
    repeats = Repeats(build)
    skipped: dict[str, str] = {}
    for op in graph.operators:
        if op.name not in graph.unsupported and repeats.again(op):
            continue
        if op.name in graph.host:
            skipped[op.name] = graph.host[op.name].because
            continue
        # That an operator can have no tensor expression is a better reason than that its shapes are unknown.
        general = WITHOUT_EXPRESSION.get(op.kind)
        reason = f"{op.kind} {general}" if general else graph.unsupported.get(op.name) or _obstacle(op, build)
        if reason:
            skipped[op.name] = reason
            continue
        if all(0 in build.shape(name) for name in op.outputs if name):
            continue
        rule = rule_of(op)
        assert rule is not None
        try:
            repeats.lower(op, rule.lower)
        except Unsupported as error:
            skipped[op.name] = error.reason
    return build, skipped


def _obstacle(op: Operator, build: StatementBuilder) -> str:
    """Why an operator cannot be compiled whatever its attributes are; "" if it can."""
    if rule_of(op) is None:
        return f"{op.kind} has no tensor expression yet"
    for name in filter(None, (*op.inputs, *op.outputs)):
        is_pair = op.kind == "DequantizeLinear" and build.pairs(name) is not None
        if build.dtype(name) not in COMPILED_DTYPES and not is_pair:
            return f"{name} holds {build.dtype(name)}; kernels are generated for {', '.join(COMPILED_DTYPES)}"
    results = [name for name in op.outputs if name]
    empty = [name for name in op.inputs[:1] if name and 0 in build.shape(name)]
    if empty and op.kind not in EMPTY_OPERANDS and not all(0 in build.shape(name) for name in results):
        return f"{empty[0]} has no elements"
    return ""


def _update_in_place(graph: OperatorGraph, build: StatementBuilder) -> None:
    """Append the in-place updates, after all reads of the old contents."""
    writers = {op.inputs[:2]: op for op in graph.operators if op.kind in IN_PLACE}
    for update in graph.updates:
        build.operator(writers[update.target, update.value], _write_back)


def _write_back(op: Operator, build: StatementBuilder) -> None:
    space = box(build.shape(op.inputs[0]))
    build.emit(op.inputs[0], space, build.broadcast(op.inputs[1], space), because="in-place update")


def _in_order(names: set[str], statements: Iterable[Statement]) -> list[str]:
    """Those of `names` that statements write, in the order of the last write."""
    return list(dict.fromkeys(s.write.array for s in statements if s.write.array in names))
