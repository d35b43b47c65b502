"""The default schedule: what shares loops, in which order, checked by isl on random programs too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.scheduling.nodes import (
    Band,
    Sequence,
    statements_of,
)
from engine.support.errors import Illegal
from engine.tensor.nodes import TensorProgram
from tests.benchmarks.programs import convolution
from tests.scheduling import isl_oracle
from tests.scheduling.solving import outline, solved
from tests.support import irregular_programs as irregular
from tests.support import programs
from tests.support.random_programs import random_program

DEFAULTS = {
    "softmax": (
        programs.softmax(),
        """\
  band i = 0 … 63  parallel
    sequence S0 → S1 S2 → S3
      band j = 0 … 127
        S0
      band j = 0 … 127
        S1
        S2
      band j = 0 … 127  parallel
        S3""",
    ),
    "layernorm": (
        programs.layernorm(),
        """\
  band i = 0 … 63  parallel
    sequence S0 → S1 S2 → S3 → S4
      band j = 0 … 127
        S0
      band j = 0 … 127
        S1
        S2
      S3
      band j = 0 … 127  parallel
        S4""",
    ),
    "matmul": (
        programs.matmul_bias_relu(),
        """\
  band i = 0 … 63  parallel
       j = 0 … 31  parallel
    sequence S0 → S1 S2
      band k = 0 … 127
        S0
      S1
      S2""",
    ),
    "chain": (
        programs.elementwise_chain(3),
        """\
  band i = 0 … 31  parallel
       j = 0 … 47  parallel
    S0
    S1
    S2""",
    ),
    "column reduction": (
        programs.column_reduction(),
        """\
  band j = 0 … 47  parallel
    sequence S0 S1 → S2
      band i = 0 … 63
        S0
        S1
      band i = 0 … 63  parallel
        S2""",
    ),
    "a vector over the columns comes first": (
        programs.bias_cast(),
        """\
  sequence S0 → S1 S2
    band j = 0 … 31  parallel
      S0
    band i = 0 … 63  parallel
         j = 0 … 31  parallel
      sequence S1 → S2
        band k = 0 … 127
          S1
        S2""",
    ),
    "terms in order": (
        replace(
            programs.matmul_bias_relu(associative=False),
            statements=programs.matmul_bias_relu(associative=False).statements[:1],
        ),
        """\
  band i = 0 … 63  parallel
       j = 0 … 31  parallel
    band k = 0 … 127
      S0""",
    ),
}


def test_a_padding_does_not_take_the_rows_and_columns_of_a_convolution_from_the_outer_band() -> None:
    """They could share the images alone; each nest of its own has four parallel loops around everything in it."""
    program = convolution(images=2, size=6, channels=4, filters=5)
    root = solved(program).tree.root
    assert isinstance(root, Sequence)
    assert [statements_of(child) for child in root.children] == [("S0",), ("S1", "S2", "S3")]
    assert [[m.name for m in child.members] for child in root.children] == [list("nhwc"), list("nhwf")]
    assert all(m.parallel for child in root.children for m in child.members)


def test_a_softmax_stays_one_nest_although_its_division_has_more_parallel_loops_alone() -> None:
    root = solved(programs.softmax()).tree.root
    assert isinstance(root, Band) and [m.name for m in root.members] == ["i"]


def centred_sum(rows: int = 8, columns: int = 32) -> TensorProgram:
    """m = row sum of x; d = a b; c = d (x - m); s = row sum of c: nothing in d waits for m."""
    box, ij = [("i", rows), ("j", columns)], ("i", "j")
    at, apply = programs.at, programs.apply
    square = (rows, columns)
    return programs.program(
        "centred_sum",
        {"x": square, "a": square, "b": square, "m": (rows,), "d": square, "c": square, "s": (rows,)},
        [
            programs.statement("S0", box, at("m", "i"), at("x", *ij), ("sum", "j")),
            programs.statement("S1", box, at("d", *ij), apply("mul", at("a", *ij), at("b", *ij))),
            programs.statement(
                "S2", box, at("c", *ij), apply("mul", at("d", *ij), apply("sub", at("x", *ij), at("m", "i")))
            ),
            programs.statement("S3", box, at("s", "i"), at("c", *ij), ("sum", "j")),
        ],
        "s",
    )


def test_a_statement_that_waits_for_nothing_keeps_its_parallel_loop() -> None:
    """S1 could join the loop of the second sum, which carries its terms; S2 must wait, so it joins."""
    program = centred_sum()
    expected = """\
  band i = 0 … 7  parallel
    sequence S0 → S1 → S2 S3
      band j = 0 … 31
        S0
      band j = 0 … 31  parallel
        S1
      band j = 0 … 31
        S2
        S3"""
    assert outline(solved(program), program) == expected


def test_a_statement_stays_with_its_reduction_where_nothing_is_to_wait_for() -> None:
    program = centred_sum()
    program = replace(program, statements=program.statements[1:], inputs=(*program.inputs, "m"))
    assert "band j = 0 … 31\n      S1\n      S2\n      S3" in outline(solved(program), program)


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_schedules(name: str) -> None:
    program, expected = DEFAULTS[name]
    assert outline(solved(program), program) == expected


def test_default_schedule_of_attention_shares_batch_and_rows() -> None:
    program = programs.attention()
    text = outline(solved(program), program)
    assert text.startswith(
        "  band b = 0 … 5  parallel\n       i = 0 … 39  parallel\n    sequence S0 S1 S2 → S3 S4 → S5 → S6"
    )


def test_transposed_statements_share_one_nest() -> None:
    program = programs.transpose_add()
    (member, other), child = (b := solved(program).tree.root).members, b.child
    assert {s: str(row) for s, row in member.rows.items()} == {"S0": "i", "S1": "b", "S2": "b"}
    assert {s: str(row) for s, row in other.rows.items()} == {"S0": "j", "S1": "a", "S2": "a"}
    assert child.statements == ("S0", "S1", "S2")


def test_names_are_unique_on_a_path() -> None:
    """s[a] = sum over b of x[a, b], read as y[b, a]: two dimensions want the name of the other's iterator."""
    box = [("i", 8), ("j", 8)]
    first = programs.statement("S0", box, programs.at("t", "i", "j"), programs.at("x", "i", "j"))
    turned = [("j", 8), ("i", 8)]
    second = programs.statement("S1", turned, programs.at("u", "j", "i"), programs.at("t", "j", "i"))
    program = programs.program("turned", {"x": (8, 8), "t": (8, 8), "u": (8, 8)}, [first, second], "u")
    names = [m.name for m in solved(program).tree.root.members]
    assert len(set(names)) == 2


RANDOM = [*map(random_program, range(60))]
SPECIAL = [
    irregular.reshape(),
    irregular.padded(),
    irregular.concat(),
    irregular.overlapping(),
    irregular.shift_in_place(),
    programs.in_place_update((5, 6)),
    programs.softmax(5, 6, associative=False),
    programs.layernorm(5, 6, associative=False),
]


@pytest.mark.parametrize("program", RANDOM + SPECIAL, ids=lambda p: p.name)
def test_schedules_pass_isl_on_memory_accesses(program: TensorProgram) -> None:
    tree = solved(program).tree
    assert isl_oracle.legal(program, tree)
    assert isl_oracle.claims_hold(program, tree)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1500, 50))
def test_schedules_of_five_hundred_programs_pass_isl(seed: int) -> None:
    """500 random programs of 3 to 12 statements; half a minute:

    python -m pytest -m slow tests/scheduling/test_solve.py
    """
    for number in range(seed, seed + 50):
        program = random_program(number, 3 + number % 10)
        tree = solved(program).tree
        assert isl_oracle.legal(program, tree), program
        assert isl_oracle.claims_hold(program, tree), program


def test_a_program_without_any_order_is_illegal() -> None:
    """p[i] = p[n - 1 - i] in place reads values that are already gone, in every order."""
    from engine.tensor.index import Index

    mirrored = programs.at("p", Index.of("i") * -1 + 7)
    swap = programs.statement("S0", [("i", 8)], programs.at("p", "i"), mirrored)
    program = programs.program("mirror", {"p": (8,)}, [swap], "p", inputs="p")
    with pytest.raises(Illegal, match="mirror"):
        solved(program)
