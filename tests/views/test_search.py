"""The search language: what it finds, against NetworkX on random graphs, and what it refuses."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from itertools import pairwise
from time import perf_counter

import networkx
import pytest

from engine.documents.model import ModelDoc, OperatorDoc, StatementDoc
from tests.app.fake_documents import model
from views.search.hits import Hit, hits, summary
from views.search.index import SearchIndex
from views.search.query import QUERY_LENGTH, QueryError, check_regex, parse


def operator(name: str, kind: str, inputs: str = "", outputs: str = "", **attributes: str) -> OperatorDoc:
    read, written = tuple(inputs.split()), tuple(outputs.split())
    return OperatorDoc(name, kind, read, written, "", attributes=tuple(attributes.items()))


def with_operators(*operators: OperatorDoc) -> ModelDoc:
    """The fake model with other operators, of which its launch softmax_0#0 computes those called /h.0/attn."""
    inside = tuple(each.name for each in operators if each.name.startswith("/h.0/attn/"))
    nodes = tuple(replace(node, operators=inside if node.id == "softmax_0#0" else ()) for node in model().nodes)
    return replace(model(), operators=operators, nodes=nodes)


SMALL = with_operators(
    operator("/h.0/attn/MatMul", "MatMul", "x w", "a"),
    operator("/h.0/attn/Mul", "Mul", "a s", "b"),
    operator("/h.0/attn/Softmax", "Softmax", "b", "c", axis="-1"),
    operator("/h.0/Transpose", "Transpose", "c", "d", perm="0,2,1,3"),
    operator("/h.0/Transpose_1", "Transpose", "d", "e", perm="0,1"),
    operator("/h.0/ReduceMean", "ReduceMean", "e", "f", axis="1"),
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("attn", [0, 1, 2]),
        ("ATTN mul", [0, 1]),
        ("name:mul", [0, 1]),
        ("name:softmax", [2]),
        ("type:Mul", [1]),
        ("type:matmul", [0]),
        ("type:*mul", [0, 1]),
        ("type:Reduce*", [5]),
        ("attr:axis", [2, 5]),
        ("attr:axis=-1", [2]),
        ("attr:perm=0,2,1,3", [3]),
        ("attr:perm=0,2", []),
        ("type:Transpose attr:perm=0,1", [4]),
        (r"/Transpose_\d$/", [4]),
        ("/attn/", [0, 1, 2]),
        ("/h.0/Transpose", [3, 4]),
        ("MatMul > * > Softmax", [0, 1, 2]),
        ("matmul>*>softmax", [0, 1, 2]),
        ("MatMul > Softmax", []),
        ("MatMul > ** > Softmax", [0, 1, 2]),
        ("Mul > ** > Softmax", [1, 2]),
        ("Softmax > ** > MatMul", []),
        ("* > * > * > * > * > *", [0, 1, 2, 3, 4, 5]),
        ("* > * > * > * > * > * > *", []),
        ("attr:axis=-1 > Transpose", [2, 3]),
        (r"/Softmax$/ > Transpose > name:_1", [2, 3, 4]),
    ],
)
def test_operators_found(query: str, expected: list[int]) -> None:
    assert list(SearchIndex(SMALL).find(query).operators) == expected


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("/(a/", "unterminated"),
        ("/(a+)+b/", "for ever"),
        ("/(a|aa)*b/", "for ever"),
        ("/((a?){3}){3}/", "for ever"),
        (r"/(a)\1/", "references"),
        ("/a*a*a*a*b/", "repeats"),
        ("/" + "a?" * 20 + "/", "optional"),
        ("/" + "a{9}{9}/", "multiple repeat"),
        ("MatMul >", "both sides"),
        ("> MatMul", "both sides"),
        ("MatMul > > Add", "both sides"),
        ("** > Add", "between"),
        ("Add > ** Mul > Add", "alone"),
        ("type:", "needs a type"),
        ("attr:=3", "needs a name"),
        ("time>x", "needs a number"),
        ("time>", "needs a number"),
        (" > ".join("a" * 13), "at most 12 steps"),
        ("a" * (QUERY_LENGTH + 1), "at most"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(query: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        SearchIndex(SMALL).find(query)


@pytest.mark.parametrize(
    "query",
    [
        "/a+b+c*/", "/(ab)+/", r"/layer\.(1|2)\./", "/[a+|]*/", r"/\(a+\)+/", "/(?:a)b?/", "foo:bar", "/o",
        "a" * QUERY_LENGTH,
    ],
)
def test_what_is_harmless_is_accepted(query: str) -> None:
    assert len(parse(query)) == 1


def test_groups_are_found_by_title_kind_and_time() -> None:
    index = SearchIndex(model())
    assert set(index.find("ffn up").groups) == {"matmul_4"}
    long = {group.name for group in model().groups if group.share > 0.2}
    assert set(index.find("time>20%").groups) == set(index.find("time > 20").groups) == long != set()
    assert set(index.find("type:contraction time>20%").groups) == long
    assert not index.find("time>99.9").groups


@pytest.mark.parametrize("seed", range(40))
def test_paths_are_those_that_networkx_finds(seed: int) -> None:
    lot = random.Random(seed)
    count = lot.randint(2, 10)
    kinds = [lot.choice("ABC") for _ in range(count)]
    edges = {(a, b) for b in range(count) for a in range(b) if lot.random() < 0.35}
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    operators = [
        operator(f"n{b}", kind, " ".join(f"t{a}" for a in range(b) if (a, b) in edges), f"t{b}")
        for b, kind in enumerate(kinds)
    ]
    steps = [lot.choice(["A", "B", "*", "C"]) for _ in range(lot.randint(2, 4))]
    far = [lot.random() < 0.3 for _ in steps[1:]]
    query = steps[0] + "".join(f"{' > **' * is_far} > {step}" for is_far, step in zip(far, steps[1:], strict=True))
    on_path, starts = naive(graph, kinds, steps, far)
    found = SearchIndex(with_operators(*operators)).find(query)
    assert (set(found.operators), set(found.starts)) == (on_path, starts), query


def naive(graph: networkx.DiGraph, kinds: list[str], steps: list[str], far: list[bool]) -> tuple[set[int], set[int]]:
    """Every choice of an operator for each step; between far ones every simple path."""
    fits = [[node for node in graph if step in ("*", kinds[node])] for step in steps]
    chosen = [[node] for node in fits[0]]
    for number, is_far in enumerate(far):
        reach = networkx.descendants if is_far else graph.__class__.successors
        chosen = [
            [*path, node] for path in chosen for node in fits[number + 1]
            if node in set(reach(graph, path[-1]))
        ]  # fmt: skip
    on_path = {node for path in chosen for node in path}
    for path in chosen:
        for (a, b), is_far in zip(pairwise(path), far, strict=True):
            if is_far:
                on_path |= {node for simple in networkx.all_simple_paths(graph, a, b) for node in simple}
    return on_path, {path[0] for path in chosen}


def test_no_accepted_expression_takes_long() -> None:
    """Random expressions of those letters that make matching slow, on names that make it slower."""
    lot = random.Random(1)
    names = ["a" * 200, "ab" * 100, "a" * 199 + "b"]
    accepted = 0
    for _ in range(2000):
        pattern = "".join(lot.choice("aab().*+?|{3}[]") for _ in range(lot.randint(3, 14)))
        try:
            compiled = check_regex(pattern)
        except QueryError:
            continue
        accepted += 1
        begin = perf_counter()
        for name in names:
            compiled.search(name[:128])
        assert perf_counter() - begin < 2.0, pattern
    assert accepted > 200


def test_a_slow_expression_says_that_it_did_not_look_at_every_name() -> None:
    many = [operator("ab" * 60 + string.ascii_letters[k % 26], "Add") for k in range(3000)]
    found = SearchIndex(with_operators(*many)).find("/a.*b.*c.*!/")
    assert not found.is_whole and "slow" in summary(SearchIndex(with_operators(*many)), found)
    assert SearchIndex(with_operators(*many)).find("/z$/").is_whole


def test_hits_name_statements_groups_and_operators() -> None:
    index = SearchIndex(SMALL)
    found = index.find("softmax")
    listed = hits(index, found, (), "softmax")
    assert [hit.group for hit in listed] == ["softmax_0", "softmax_0", "softmax_0", "softmax_0"][: len(listed)]
    assert [hit.node for hit in listed if hit.node] == ["softmax_0#0"] * 3, "every operator of a group whose name fits"
    assert summary(index, found) == "3 operators in 1 group"
    assert summary(index, index.find("nothing_like_it")) == "nothing found"
    assert summary(index, index.find("type:Transpose")) == "2 operators, none of them in a kernel"
    path = index.find("MatMul > * > Softmax")
    assert summary(index, path) == "3 operators in 1 group, 1 place where a path begins"


def test_what_is_called_as_was_typed_is_the_first_hit() -> None:
    """Return went to the first group in the file's order that held any operator with the word in its name."""
    rows = SearchIndex(with_operators(*(operator(f"/h.0/attn/{name}", "Mul") for name in ("pooler_0b", "pooler_0"))))

    def first(text: str) -> Hit:
        return hits(rows, rows.find(text), (), text)[0]

    assert first("pooler_0").group == "pooler_0" and set(rows.find("pooler_0").groups) == {"softmax_0", "pooler_0"}
    assert first("Pooler").group == "pooler_0", "its title"
    statement = StatementDoc("S0", "y[i] = sum(k) pooler_0[i, k]", "ReduceSum", ("i", "k"), "")
    assert hits(rows, rows.find("pooler_0"), (statement,), "pooler_0")[0].group == "pooler_0", "before a statement"
    assert first("oole").group == "pooler_0", "part of its own name"
    assert first("/h.0/attn/pooler_0").title == "/h.0/attn/pooler_0", "not the group that holds it, nor one before it"
