"""`check_graph` finds each kind of broken promise, and nothing in a sound graph."""

from __future__ import annotations

from dataclasses import replace

from engine.graph.check import check_graph, in_order
from engine.graph.nodes import Operator, OperatorGraph, Tensor, Update


def graph() -> OperatorGraph:
    operators = (Operator("a", "Relu", ("x",), ("s",)), Operator("b", "Exp", ("s",), ("y",)))
    tensors = {name: Tensor(name, (2, 3), "float32") for name in "xsy"}
    return OperatorGraph("g", operators, tensors, ("x",), ("y",), {})


def test_a_sound_graph_has_no_violations() -> None:
    assert check_graph(graph()) == ()
    assert check_graph(replace(graph(), updates=(Update("x", "s"),))) == ()


def test_each_violation_is_named() -> None:
    sound = graph()
    a, b = sound.operators
    for broken, words in [
        (replace(sound, operators=(b, a)), "b reads s before it is written"),
        (replace(sound, operators=(a, replace(b, inputs=("z",)))), "b reads z but nothing writes it"),
        (replace(sound, operators=(a, replace(b, outputs=("s",)))), "s is written by a and by b"),
        (replace(sound, operators=(a, replace(b, name="a"))), "two operators are called a"),
        (replace(sound, outputs=("q",)), "output q is never written"),
        (replace(sound, tensors={**sound.tensors, "s": Tensor("s", (2,), "float3")}), "s has unknown type float3"),
        (replace(sound, tensors={"x": sound.tensors["x"], "y": sound.tensors["y"]}), "s has no shape and type"),
        (replace(sound, updates=(Update("y", "s"),)), "update of y: it is no graph input"),
        (replace(sound, updates=(Update("x", "q"),)), "update of x from q: no such tensor"),
    ]:
        assert any(words in violation for violation in check_graph(broken)), words


def test_order_of_operators() -> None:
    a, b = graph().operators
    assert in_order((b, a)) == ((a, b), ())
    assert in_order((a, b)) == ((a, b), ())
    order, cycle = in_order((replace(a, inputs=("y",)), b))
    assert order == () and {"a", "b"} == set(cycle)
