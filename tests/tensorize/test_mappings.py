"""Mappings to intrinsics: the published counts and examples, sizes that differ, and products in other clothes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Array, Guard, Iterator, Literal, Reduction, Statement
from engine.tensorize.abstractions import ABSTRACTIONS, AVX512_VNNI, Abstraction, abstraction
from engine.tensorize.mappings import IntrinsicMapping, Matrices, mappings, matches, multiply
from engine.tensorize.product import BAND, ONES, products

MMA = ABSTRACTIONS["mma_m16n8k16_f16"]
BATCHED_DOT = abstraction(
    "batched_dot_b8k4",
    {"b": 8, "l": 4},
    ("bl", "bl", "b"),
    ("float16", "float16", "float32"),
)
"""8 dot products at once, which no machine has: what a depthwise convolution would like to have."""
HALVES = ("float16", "float16", "float32")
TOY = abstraction("toy", {"i": 2, "j": 2, "l": 2}, ("il", "lj", "ij"), HALVES)


def index(text: str) -> Index:
    """ "2p+r-1" as an index of one-letter iterators."""
    found = Index()
    for term in text.replace("-", "+-").split("+"):
        sign, term = (-1, term[1:]) if term.startswith("-") else (1, term)
        number, letter = term.rstrip("abcdefghijklmnopqrstuvwxyz"), term.lstrip("0123456789")
        value = Index.of(letter) * int(number or 1) if letter else Index.of(int(number))
        found = found + value * sign
    return found


def statement(
    extents: Mapping[str, int], reduced: str, y: str, x: str, w: str, dtypes: tuple[str, ...] = HALVES
) -> Statement:
    """y[..] = sum(reduced) x[..] * w[..], indices separated by spaces."""
    held = dtypes[2]
    total = Reduction("sum", tuple(reduced), 0.0, held)
    reads = [Access(name, tuple(map(index, at.split()))) for name, at in (("x", x), ("w", w))]
    return Statement(
        "S0", "op", tuple(Iterator(n, e) for n, e in extents.items()), Access("y", tuple(map(index, y.split()))),
        Apply("mul", tuple(Apply("cast", (r,), held) for r in reads), held), total,
    )  # fmt: skip


def arrays(dtypes: tuple[str, ...] = HALVES) -> dict[str, Array]:
    return {name: Array(name, (64, 64), dtype) for name, dtype in zip("xwy", dtypes, strict=True)}


def found(made: Statement, to: Abstraction = MMA, dtypes: tuple[str, ...] = HALVES) -> tuple[IntrinsicMapping, ...]:
    forms = products(made, arrays(dtypes))
    assert not isinstance(forms, str), forms
    result = mappings(forms, to)
    assert not isinstance(result, str), result
    return result


GEMM = statement({"i": 64, "j": 64, "k": 64}, "k", "i j", "i k", "k j")
CONV1D = statement({"n": 2, "k": 32, "p": 8, "c": 16, "r": 3}, "cr", "n k p", "n c p+r", "k c r")
CONV2D = statement(
    {"n": 2, "k": 32, "p": 8, "q": 8, "c": 16, "r": 3, "s": 3}, "crs", "n k p q", "n c p+r q+s", "k c r s"
)
CONV3D = statement(
    {"n": 2, "k": 32, "d": 4, "p": 8, "q": 8, "c": 16, "t": 3, "r": 3, "s": 3}, "ctrs",
    "n k d p q", "n c d+t p+r q+s", "k c t r s",
)  # fmt: skip


@pytest.mark.parametrize(
    ("made", "count"), [(GEMM, 1), (CONV1D, 6), (CONV2D, 35), (CONV3D, 180)], ids=["gemm", "conv1d", "conv2d", "conv3d"]
)
def test_published_counts(made: Statement, count: int) -> None:
    assert len(found(made)) == count


def test_counts_agree_with_every_subset_of_the_matches() -> None:
    forms = products(CONV2D, arrays())
    assert not isinstance(forms, str)
    each = matches(forms[0], MMA)
    assert len(each) == 3 * 3 - 2, "p with r and q with s share an index"
    unions = {
        tuple(frozenset(match[axis] for match in chosen) for axis in range(3))
        for size in range(1, len(each) + 1)
        for chosen in itertools.combinations(each, size)
    }
    assert {tuple(frozenset(i.name for i in axis) for axis in m.axes) for m in found(CONV2D)} == unions


@pytest.mark.parametrize(
    ("what", "made"),
    {
        "strided": statement({"n": 2, "k": 8, "p": 8, "c": 4, "r": 3}, "cr", "n k p", "n c 2p+r", "k c r"),
        "dilated": statement({"n": 2, "k": 8, "p": 8, "c": 4, "r": 3}, "cr", "n k p", "n c p+2r", "k c r"),
        "transposed": statement({"n": 2, "k": 8, "p": 8, "c": 4, "r": 3}, "cr", "n k p", "n c p-r+2", "c k r"),
    }.items(),
)
def test_windows_of_every_kind_count_as_the_plain_one(what: str, made: Statement) -> None:
    assert len(found(made)) == 6


def test_published_validation_example() -> None:
    software = np.array([[1, 0, 1, 1, 1, 1, 1], [0, 1, 0, 0, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]], bool)
    matching = np.array([[1, 0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]], bool)
    intrinsic = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]], bool)
    assert not Matrices(software, matching, intrinsic).why_invalid()
    whole = next(m for m in found(CONV2D) if not m.outer)
    mine = whole.matrices()
    order = [[i.name for axis in whole.axes for i in axis].index(name) for name in "nkpqcrs"]
    assert np.array_equal(mine.software[:, order], software)
    assert np.array_equal(mine.matching[:, order], matching)
    assert np.array_equal(mine.intrinsic, intrinsic)


def test_a_mapping_that_moves_an_operand_too_little_or_too_much_is_invalid() -> None:
    software = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]], bool)
    intrinsic = software.copy()
    exchanged = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]], bool)
    assert "Z * Y" in Matrices(software, exchanged, intrinsic).why_invalid()
    nothing = np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1]], bool)
    assert Matrices(multiply(intrinsic, nothing), nothing, intrinsic).why_invalid().endswith("X * Y^T is not Z")


def test_published_physical_mapping() -> None:
    sizes = {"n": 1, "k": 4, "p": 2, "q": 2, "c": 1, "r": 3, "s": 3}
    conv = statement(sizes, "crs", "n k p q", "n c p+r q+s", "k c r s")
    whole = next(m for m in found(conv, TOY) if not m.outer)
    assert str(whole) == "i = n p q, j = k, l = c r s"
    flat = whole.flat_indices()
    extents = {i.name: i.extent for i in whole.product.iterators}
    assert flat["i"] == index("4n+2p+q") and flat["l"] == index("9c+3r+s")
    assert str(flat["i"].mod(2, extents)) == "q" and str(flat["i"].floordiv(2, extents)) == "2*n + p"
    assert [a.tiles for a in whole.tiled_axes()] == [2, 2, 5]
    assert [a.padding for a in whole.tiled_axes()] == [0, 0, 1]
    assert whole.calls == 20 and whole.cost == 160 and whole.padding == pytest.approx(1 - 9 / 10)
    assert not whole.why_not_strict()


def test_the_inverse_finds_every_iterator_again() -> None:
    for mapping in found(CONV2D):
        flat, inverse = mapping.flat_indices(), mapping.inverse()
        extents = {i.name: i.extent for axis in mapping.axes for i in axis}
        for name, at in inverse.items():
            assert at.substitute(flat, extents) == Index.of(name)
        assert set(inverse) == set(extents)


def value_of(at: Index, point: Mapping[str, int]) -> int:
    return at.substitute({name: Index.of(value) for name, value in point.items()}, {}).constant


def by_calls(mapping: IntrinsicMapping, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    """Run the physical mapping: gather padded operands of each call, multiply, scatter."""
    flat = mapping.tiled_axes()
    factors = (w, x) if mapping.is_swapped else (x, w)
    inverse = mapping.inverse()
    outer = [range(i.extent) for i in mapping.outer]
    for around in itertools.product(*outer):
        fixed = dict(zip((i.name for i in mapping.outer), around, strict=True))
        for tile in itertools.product(*(range(a.tiles) for a in flat)):
            inner = itertools.product(*(range(a.size) for a in flat))
            for within in inner:
                at = {a.name: t * a.size + w for a, t, w in zip(flat, tile, within, strict=True)}
                if any(at[a.name] >= a.extent for a in flat):
                    continue  # a zero that fills the tile
                point = fixed | {name: value_of(i, at) for name, i in inverse.items()}
                operands = mapping.product.operands
                a, b, d = (tuple(value_of(i, point) for i in operand.indices) for operand in operands)
                y[d] += factors[0][a] * factors[1][b]


@pytest.mark.parametrize("number", range(6))
def test_each_mapping_computes_the_convolution(number: int) -> None:
    conv = statement({"n": 2, "k": 3, "p": 3, "c": 2, "r": 2}, "cr", "n k p", "n c p+r", "k c r")
    rng = np.random.default_rng(7)
    x, w = rng.integers(-4, 5, (2, 2, 4)), rng.integers(-4, 5, (3, 2, 2))
    got = np.zeros((2, 3, 3), int)
    by_calls(found(conv, TOY)[number], x, w, got)
    windows = np.lib.stride_tricks.sliding_window_view(x, 2, axis=2)
    assert np.array_equal(got, np.einsum("ncpr,kcr->nkp", windows, w))


def test_a_vector_gets_an_axis_of_one() -> None:
    (only,) = found(statement({"m": 64, "k": 32}, "k", "m", "m k", "k"))
    assert str(only) == "i = m, j = unit.j, l = k"
    assert only.padding == pytest.approx(7 / 8)
    assert only.why_not_strict() == "j has 1 of 8"


def test_factors_change_places_where_only_then_no_axis_is_missing() -> None:
    bytes_ = ("int8", "uint8", "int32")
    gemv = statement({"m": 64, "k": 32}, "k", "m", "m k", "k", bytes_)
    (only,) = found(gemv, AVX512_VNNI, bytes_)
    assert only.is_swapped and str(only) == "i = m, l = k" and only.padding == 0
    assert not found(GEMM)[0].is_swapped


DEPTHWISE = statement({"n": 2, "c": 16, "p": 8, "q": 8, "r": 3, "s": 3}, "rs", "n c p q", "n c p+r q+s", "c r s")


def test_channels_of_their_own_stay_loops_around_a_matrix_product_and_fill_a_batch() -> None:
    to_matrix = found(DEPTHWISE)
    assert all("c" in {i.name for i in m.outer} and m.padding >= 7 / 8 for m in to_matrix)
    to_batch = found(DEPTHWISE, BATCHED_DOT)
    assert all(str(m).startswith("b = c,") for m in to_batch) and len(to_batch) == 3, "l = r, s or both"


def test_groups_of_channels_are_cut_apart() -> None:
    made = statement({"n": 2, "k": 32, "p": 8, "c": 8, "r": 3}, "cr", "n k p", "n c p+r", "k c r")
    group = Index.of("k").floordiv(16, {"k": 32}) * 8 + Index.of("c")
    image = Access("x", (Index.of("n"), group, index("p+r")))
    assert isinstance(made.expression, Apply)
    weight = made.expression.operands[1]
    made = Statement(
        "S0", "conv", made.iterators, made.write,
        Apply("mul", (Apply("cast", (image,), "float32"), weight), "float32"), made.reduction,
    )  # fmt: skip
    listed = found(made)
    assert len(listed) == 6 and listed[0].product.splits == (("k", 16),)
    for mapping in listed:
        assert "k.outer" in {i.name for i in mapping.outer}
        assert [i.name for i in mapping.axes[1]] == ["k.inner"]


def summing(read: Access, extents: Mapping[str, int], reduced: str, y: str) -> Statement:
    return Statement(
        "S0", "sum", tuple(Iterator(n, e) for n, e in extents.items()), Access("y", tuple(map(index, y.split()))),
        Apply("cast", (read,), "float32"), Reduction("sum", tuple(reduced), 0.0, "float32"),
    )  # fmt: skip


def test_a_sum_is_a_product_with_ones() -> None:
    made = summing(Access("x", (index("i"), index("j"))), {"i": 16, "j": 64}, "j", "i")
    (only,) = found(made)
    assert str(only) == "i = i, j = unit.j, l = j"
    assert only.product.factors[1].array == ONES


def test_a_sum_of_squares_is_one_too() -> None:
    x = Apply("cast", (Access("x", (index("i"), index("j"))),), "float32")
    half = Access("x", (index("i"), index("j")))
    square = summing(half, {"i": 16, "j": 64}, "j", "i")
    square = Statement("S0", "var", square.iterators, square.write, Apply("mul", (x, x), "float32"), square.reduction)
    assert str(found(square, BATCHED_DOT)[0]) == "b = i, l = j"
    forms = products(square, arrays())
    assert not isinstance(forms, str) and [f.factors[1].array for f in forms] == ["x", ONES]


def test_running_sums_are_a_product_with_a_band() -> None:
    at = index("j-k")
    read = Access("x", (index("i"), at), (Guard(at),), Literal(0.0, "float16"))
    made = summing(read, {"i": 16, "j": 64, "k": 64}, "k", "i j")
    (only,) = found(made)
    assert str(only) == "i = i, j = j, l = x.1"
    assert [str(f) for f in only.product.factors] == ["x[i, x.1]", f"{BAND}[x.1, j]"]


COPY = Statement("S0", "copy", (Iterator("i", 4),), Access("y", (index("i"),)), Access("x", (index("i"),)))
REFUSED = [
    (COPY, MMA, "no sum"),
    (GEMM, AVX512_VNNI, "x holds float16, avx512_vpdpbusd_16x4 takes uint8"),
    (
        statement({"i": 8, "j": 8, "k": 8}, "jk", "i", "i k", "i j"), MMA,
        "no summed iterator moves x and w and nothing else, as l of mma_m16n8k16_f16 does",
    ),
    (
        statement({"i": 8, "k": 8}, "k", "i", "i k", "i k", ("bfloat16",) * 2 + ("float32",)), MMA,
        "x holds bfloat16, mma_m16n8k16_f16 takes float16",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "to", "reason"), REFUSED, ids=[reason for *_, reason in REFUSED])
def test_what_has_no_mapping_says_why(made: Statement, to: Abstraction, reason: str) -> None:
    dtypes = ("bfloat16",) * 2 + ("float32",) if "bfloat16" in reason else HALVES
    forms = products(made, arrays(dtypes))
    said = forms if isinstance(forms, str) else mappings(forms, to)
    assert isinstance(said, str) and reason in said


def test_all_iterators_together_need_no_partner_for_the_window() -> None:
    alone = found(statement({"k": 32, "p": 8, "c": 16, "r": 3}, "cr", "k p", "c p+r", "k c r"))
    assert [str(m) for m in alone] == ["i = p, j = k, l = c r", "i = p, j = k, l = c"]
    (only,) = found(statement({"k": 32, "p": 8, "r": 3}, "r", "k p", "p+r", "k r"))
    assert str(only) == "i = p, j = k, l = r"


def test_past_the_limit_single_matches_and_all_of_them() -> None:
    sizes = {"a": 2, "b": 2, "d": 2, "e": 2, "n": 8, "f": 16, "g": 2, "h": 2, "k": 2}
    made = statement(sizes, "fghk", "a b d e n", "a b d e f g h k", "f g h k n")
    assert 4 * 4 > 15
    listed = found(made)
    assert len(listed) == 16 + 1
    assert sum(math.prod(len(axis) for axis in mapping.axes) == 1 for mapping in listed) == 16
