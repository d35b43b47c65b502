"""Invariants of an `OperatorGraph`, and topological sorting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from engine.graph.nodes import DTYPES, Operator, OperatorGraph


def check_graph(graph: OperatorGraph) -> tuple[str, ...]:
    """Violated invariants in words: duplicate producers, dangling tensors, cycles, unknown types; () for a sound
    graph.
    """
    sources = {*graph.inputs, *graph.constants}
    known = sources.union(*(filter(None, op.outputs) for op in graph.operators))
    return (
        *duplicate_producers(graph.operators, sources),
        *_disorder(graph, sources),
        *(f"output {name} is never written" for name in graph.outputs if name not in known),
        *(f"update of {u.target} from {u.value}: no such tensor" for u in graph.updates if u.value not in known),
        *(f"update of {u.target}: it is no graph input" for u in graph.updates if u.target not in graph.inputs),
        *_types(graph),
    )


def duplicate_producers(operators: Iterable[Operator], sources: Iterable[str]) -> list[str]:
    """Tensors written twice, and operator names used twice."""
    writer = dict.fromkeys(sources, "the graph's inputs and constants")
    names: set[str] = set()
    found = []
    for op in operators:
        if op.name in names:
            found.append(f"two operators are called {op.name}")
        names.add(op.name)
        for output in filter(None, op.outputs):
            if output in writer:
                found.append(f"{output} is written by {writer[output]} and by {op.name}")
            writer[output] = op.name
    return found


def _disorder(graph: OperatorGraph, sources: set[str]) -> list[str]:
    """Reads of tensors that nothing writes, and reads before the write."""
    written = graph.producer().keys()
    ready = set(sources)
    found = []
    for op in graph.operators:
        for name in op.inputs:
            if name and name not in ready:
                why = "before it is written" if name in written else "but nothing writes it"
                found.append(f"{op.name} reads {name} {why}")
        ready.update(op.outputs)
    return found


def _types(graph: OperatorGraph) -> list[str]:
    """Tensors of unknown element type, and tensors without a shape that no entry of `unsupported` explains."""
    found = [f"{t.name} has unknown type {t.dtype}" for t in graph.tensors.values() if t.dtype not in DTYPES]
    missing = [name for name in (*graph.inputs, *graph.outputs, *graph.constants) if name not in graph.tensors]
    for op in graph.operators:
        if op.name not in graph.unsupported:
            missing += [name for name in (*op.inputs, *op.outputs) if name and name not in graph.tensors]
    return found + [f"{name} has no shape and type" for name in dict.fromkeys(missing)]


def in_order(operators: Sequence[Operator]) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    """The operators in topological order, and the names of a cycle that prevents it (or ()).

    Operators that already stand in order keep their places.
    """
    writer = {output: at for at, op in enumerate(operators) for output in op.outputs if output}
    before = [{writer[name] for name in op.inputs if name in writer} for op in operators]
    if all(max(earlier, default=-1) < at for at, earlier in enumerate(before)):
        return tuple(operators), ()
    try:
        order = tuple(TopologicalSorter(dict(enumerate(before))).static_order())
    except CycleError as error:
        return (), tuple(operators[at].name for at in error.args[1])
    return tuple(operators[at] for at in order), ()


def unique_names(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Operators with unique names.  A missing or repeated name becomes that of the first output, numbered where
    needed.
    """
    taken: set[str] = set()
    result = []
    for op in operators:
        base = op.name or next((name for name in op.outputs if name), op.kind)
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}#{count}"
        taken.add(name)
        result.append(op if op.name == name else replace(op, name=name))
    return tuple(result)
