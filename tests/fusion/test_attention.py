"""Attention as one group: what is recognised, what is left apart, and the reasons of both."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.fusion.attention import attention_of
from engine.fusion.attention_cost import query_tile
from engine.fusion.nodes import FusionPlan
from engine.recipe import walk_entries
from engine.support.errors import Unsupported
from tests.kernels.test_tensor_cores import advised
from tests.semantics.single import Node, write_model
from tests.support.attentions import Attention

MODELS = Path(__file__).parents[3] / "shared" / "models"
PLAIN = Attention(queries=70, keys=90, mask="add", heads=3)


def planned(case: Attention, folder: Path, *more: Node, outputs: tuple[str, ...] = ("y",)) -> FusionPlan:
    return engine.fuse(engine.load(case.model(folder, *more, outputs=outputs)))


def attentions(plan: FusionPlan) -> list[engine.FusionGroup]:
    return [group for group in plan.groups if group.kind == "attention"]


VARIANTS = [
    PLAIN,
    replace(PLAIN, mask=""),
    replace(PLAIN, mask="causal", dtype="float32"),
    replace(PLAIN, mask="padding", scale="before"),
    replace(PLAIN, scale="", mask=""),
    replace(PLAIN, heads=4, shared_by=2, batch=2),
    replace(PLAIN, queries=1, heads=160),
    replace(PLAIN, depth=256, head=256),
    replace(PLAIN, depth=320, head=320),
]


@pytest.mark.parametrize("case", VARIANTS)
def test_the_ways_that_exporters_write_it(case: Attention, tmp_path: Path) -> None:
    plan = planned(case, tmp_path)
    (group,) = attentions(plan)
    assert len(plan.launches) == 1
    assert group.name == "attention_0"
    found = attention_of(group.program)
    assert [s.because for s in found.softmax] == ["row maximum", "exponentials, none above 1", "row sum", "quotient"]
    assert found.key.extent == case.keys
    assert [i.extent for i in found.queries] == ([case.queries] if case.queries > 1 else [])
    assert len(found.chain) == (case.scale == "after") + (case.mask != "")


def test_the_reason_has_bytes_and_times(tmp_path: Path) -> None:
    """Queries, keys, values, mask and results move; scores and weights, written and read, no longer do."""
    (group,) = attentions(planned(PLAIN, tmp_path))
    outside = 2 * (3 * (70 * 32 + 2 * 90 * 32) + 70 * 90 + 3 * 70 * 32)
    between = 2 * 2 * 2 * 3 * 70 * 90
    assert f"{outside / 1e3:.3g} kB moved in place of {(outside + between) / 1e3:.3g} kB" in group.because
    fused, separate = map(float, re.findall(r"([\d.]+) µs predicted in place of ([\d.]+)", group.because)[0])
    assert fused < separate
    assert f"{engine.predict(engine.compile(group)).microseconds:.3g}" == f"{fused:.3g}"


def test_statements_after_it_stay_in_its_kernel(tmp_path: Path) -> None:
    plan = planned(PLAIN, tmp_path, ("Relu", ["y"], ["z"], {}), outputs=("z",))
    assert len(attentions(plan)) == len(plan.launches) == 1


LONG = Attention(queries=1024, keys=1024, depth=272, head=272, heads=8, batch=16)
"""Two blocks make a result, and both compute the scores."""
DECODE_ON_CUDA_CORES = replace(PLAIN, queries=1, keys=4096, depth=128, head=128, heads=32, dtype="float32")
"""15 of 16 rows of its tile are no queries, and on CUDA cores that counts."""
LONGER = replace(PLAIN, keys=150)
"""Rows that no block holds whole: those of `PLAIN` are, and a kernel of them stores what others read."""
REFUSED = [
    # case, nodes after it, outputs, reason
    (LONGER, [], ("y", "p"), "the result of the softmax is an output too"),
    (LONGER, [("Relu", ["p"], ["z"], {})], ("y", "z"), "the result of the softmax is read elsewhere too, by n6"),
    (LONGER, [], ("y", "s"), "s, between the products, is an output too"),
    (replace(PLAIN, depth=392), [], ("y",), "queries of 392 elements do not fit the registers of a kernel, 384 do"),
    (LONG, [], ("y",), "one kernel would not be faster: "),
    (DECODE_ON_CUDA_CORES, [], ("y",), "one kernel would not be faster: "),
]


@pytest.mark.parametrize(("case", "more", "outputs", "because"), REFUSED)
def test_what_stays_apart_says_why(
    case: Attention, more: list[Node], outputs: tuple[str, ...], because: str, tmp_path: Path
) -> None:
    plan = planned(case, tmp_path, *more, outputs=outputs)
    assert attentions(plan) == []
    assert len(plan.launches) > 1
    assert [b.because for b in plan.boundaries if because in b.because]


LONG_KEYS = [
    # heads, keys, batch, blocks that fill 132 multiprocessors, blocks that share the keys
    (32, 4096, 1, 4, 32), (32, 4001, 1, 4, 32), (8, 4096, 1, 16, 16), (2, 65536, 1, 64, 64), (32, 1024, 8, 1, 1),
    (4, 64, 1, 1, 1),
]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize(("heads", "keys", "batch", "filling", "parts"), LONG_KEYS)
def test_keys_are_shared_where_queries_are_few(
    heads: int, keys: int, batch: int, filling: int, parts: int, tmp_path: Path
) -> None:
    """One query with long keys is one kernel, because its blocks share them; the advice says so with figures.

    More of them than fill the multiprocessors share them where that is predicted to be much faster.
    """
    case = replace(PLAIN, queries=1, keys=keys, depth=128, head=128, heads=heads, batch=batch, mask="")
    (group,) = attentions(planned(case, tmp_path))
    recipe = engine.default_recipe(group)
    kernel = engine.compile(group, recipe)
    assert kernel.tile.team == parts
    because = [entry.because for *_, entry in walk_entries(recipe.groups[group.name])]
    told = f"{heads} tile{'s' * (heads > 1)} of queries for 132 SMs: {parts} blocks share the keys of each"
    assert any(told in text for text in because) == (parts == filling > 1)
    if parts > filling:
        marks = f"split_k {filling}", "tile 32", "stages 3"
        fewer = advised(group, *(f"all @ j: mark {one}" for one in marks))
        assert fewer.tile.team == filling
        mine, theirs = (engine.predict(one).microseconds for one in (kernel, fewer))
        assert 1.1 * mine < theirs
        assert any(f"µs predicted, {theirs:.3g} for what the family" in text for text in because)


def test_a_softmax_along_another_axis_is_no_attention(tmp_path: Path) -> None:
    """Weights that add up to 1 over the queries cannot be made while keys go by."""
    nodes: list[Node] = [
        ("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": 1}), ("MatMul", ["p", "v"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"q": ("float32", (4, 64, 32)), "k": ("float32", (4, 32, 48)), "v": ("float32", (4, 48, 32))}
    plan = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"])))
    assert attentions(plan) == []


def test_a_program_without_one(tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["q", "k"], ["y"], {})]
    inputs = {"q": ("float32", (64, 32)), "k": ("float32", (32, 48))}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"]))).groups
    with pytest.raises(Unsupported, match="no product weighs"):
        attention_of(group.program)


FILLED = [(264, 128, (128, 264)), (100, 128, (64, 200)), (4, 100, (16, 28)), (200, 1, (16, 200))]


@pytest.mark.parametrize(("heads", "queries", "expected"), FILLED)
def test_tiles_fill_the_multiprocessors(heads: int, queries: int, expected: tuple[int, int], tmp_path: Path) -> None:
    case = replace(PLAIN, heads=heads, queries=queries, keys=64)
    (group,) = attentions(planned(case, tmp_path))
    assert query_tile(attention_of(group.program), 132) == expected


SHARED = {
    "bert_base_fp16_b8_s128": 12, "llama_2l_fp16_b2_s128_op20": 2, "vit_b16_b1": 12, "gpt2_small_b1_s128": 12,
    "segformer_b0_b1_512": 8,
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is absent: the real graphs are not shipped")
@pytest.mark.parametrize("name", SHARED)
def test_attentions_of_real_models(name: str) -> None:
    plan = engine.fuse(engine.load(MODELS / f"{name}.onnx"))
    assert sum(len(group.instances) for group in attentions(plan)) == SHARED[name]
