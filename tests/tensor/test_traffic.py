"""Compulsory traffic and operation counts on programs small enough to count by hand."""

from __future__ import annotations

from engine.tensor.index import Element, Index
from engine.tensor.nodes import Access, Apply, Array, Iterator, Literal, Reduction, Scalar, Statement, TensorProgram
from engine.tensor.traffic import compulsory_bytes, flop_counts

ROW, COLUMN, TERM = Index.of("i"), Index.of("j"), Index.of("k")


def program(arrays: list[Array], statements: list[Statement], inputs: str, outputs: str) -> TensorProgram:
    return TensorProgram(
        "p", {a.name: a for a in arrays}, tuple(statements), tuple(inputs.split()), tuple(outputs.split())
    )


def statement(
    name: str, box: dict[str, int], write: Access, expression: Scalar, reduction: Reduction | None = None
) -> Statement:
    return Statement(name, name, tuple(Iterator(n, e) for n, e in box.items()), write, expression, reduction)


def apply(function: str, *operands: Scalar) -> Apply:
    return Apply(function, operands, "float32")


def test_a_product_reads_its_operands_once_and_counts_two_operations_a_term() -> None:
    a, b, c = Array("a", (64, 32), "float32"), Array("b", (32, 16), "float16"), Array("c", (64, 16), "float32")
    product = apply("mul", Access("a", (ROW, TERM)), Access("b", (TERM, COLUMN)))
    s0 = statement(
        "S0", {"i": 64, "j": 16, "k": 32}, Access("c", (ROW, COLUMN)), product, Reduction("sum", ("k",), 0.0, "float32")
    )
    p = program([a, b, c], [s0], "a b", "c")
    assert compulsory_bytes(p) == (64 * 32 * 4 + 32 * 16 * 2, 64 * 16 * 4)
    assert flop_counts(p) == (2 * 64 * 16 * 32, 0)


def test_a_temporary_is_free_and_a_second_read_of_an_input_too() -> None:
    x, m, y = Array("x", (8, 100), "float32"), Array("m", (8,), "float32"), Array("y", (8, 100), "float32")
    box = {"i": 8, "j": 100}
    read = Access("x", (ROW, COLUMN))
    s0 = statement("S0", box, Access("m", (ROW,)), read, Reduction("max", ("j",), float("-inf"), "float32"))
    s1 = statement("S1", box, Access("y", (ROW, COLUMN)), apply("exp", apply("sub", read, Access("m", (ROW,)))))
    p = program([x, m, y], [s0, s1], "x", "y")
    assert compulsory_bytes(p) == (3200, 3200)
    flops, special = flop_counts(p)
    assert special == 800
    assert flops == 800 * (1 + 1 + 6)


def test_a_slice_counts_what_it_reads_and_two_slices_no_more_than_the_array() -> None:
    x, y = Array("x", (100,), "float32"), Array("y", (30,), "float32")
    head = statement("S0", {"i": 30}, Access("y", (ROW,)), Access("x", (ROW + 10,)))
    assert compulsory_bytes(program([x, y], [head], "x", "y"))[0] == 120
    # 10..39 and 20..49 overlap: the hull 10..49 is 40 elements, not 60.
    both = apply("add", Access("x", (ROW + 10,)), Access("x", (ROW + 20,)))
    overlapping = statement("S0", {"i": 30}, Access("y", (ROW,)), both)
    assert compulsory_bytes(program([x, y], [overlapping], "x", "y"))[0] == 160
    # 0..29 and 70..99 do not: their sum, not their hull.
    apart = statement("S0", {"i": 30}, Access("y", (ROW,)), apply("add", Access("x", (ROW,)), Access("x", (ROW + 70,))))
    assert compulsory_bytes(program([x, y], [apart], "x", "y"))[0] == 240


def test_a_strided_read_counts_its_elements_only() -> None:
    x, y = Array("x", (100,), "float32"), Array("y", (50,), "float32")
    every_second = statement("S0", {"i": 50}, Access("y", (ROW,)), Access("x", (ROW * 2,)))
    assert compulsory_bytes(program([x, y], [every_second], "x", "y")) == (200, 200)


def test_an_indirect_read_is_bounded_by_the_table_and_by_the_number_of_reads() -> None:
    ids, y = Array("ids", (6,), "int64"), Array("y", (6, 10), "float32")
    row = Index.of(Element("ids", (ROW,), 0, 999))
    gather = statement("S0", {"i": 6, "j": 10}, Access("y", (ROW, COLUMN)), Access("table", (row, COLUMN)))
    large = program([Array("table", (1000, 10), "float32"), ids, y], [gather], "table ids", "y")
    assert compulsory_bytes(large) == (6 * 10 * 4 + 6 * 8, 240)
    row = Index.of(Element("ids", (ROW,), 0, 1))
    gather = statement("S0", {"i": 6, "j": 10}, Access("y", (ROW, COLUMN)), Access("table", (row, COLUMN)))
    small = program([Array("table", (2, 10), "float32"), ids, y], [gather], "table ids", "y")
    assert compulsory_bytes(small) == (2 * 10 * 4 + 6 * 8, 240)


def test_a_partial_write_counts_its_part_and_an_unread_input_nothing() -> None:
    x, y = Array("x", (10,), "float32"), Array("y", (100,), "float32")
    part = statement("S0", {"i": 10}, Access("y", (ROW + 5,)), Literal(1.0, "float32"))
    assert compulsory_bytes(program([x, y], [part], "x y", "y")) == (0, 40)
