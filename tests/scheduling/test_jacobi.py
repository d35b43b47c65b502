"""PolyBench's jacobi over time steps, skewed and tiled over time and space by entries; the kernels are emulated."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine import Entry, entry
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.scheduling.nodes import Band, Conflict, Sequence, statements_of, walk
from tests.support.jacobi import jacobi_1d, jacobi_2d
from tests.support.make_models import Model

SKEW = entry(terms="shift", at="outermost", required=True, because="every sweep lags behind the one before")


def group_of(model: Model, folder: Path) -> FusionGroup:
    """The first group of a model's plan: the sweeps that one launch makes."""
    model.save(folder)
    return engine.fuse(engine.load(str(folder / f"{model.name}.onnx"))).groups[0]


def compiled(group: FusionGroup, *entries: Entry) -> Kernel:
    """The kernel under required entries and the advisers' advice."""
    return engine.compile(group, engine.default_recipe(group).advise("user", *entries, group=group.name))


def time_tiled(group: FusionGroup, factor: int) -> Kernel:
    """All sweeps share a loop, each a little behind the one before; a tile of it runs all of them in turn."""
    split = entry(split=factor, at="outermost", required=True)
    skewed = next(n for n in walk(compiled(group, SKEW, split).schedule.root) if isinstance(n, Band))
    tile = skewed.members[0].name
    parts = tuple((name,) for name in statements_of(skewed))
    return compiled(group, SKEW, split, entry(cut=parts, at=f"after {tile}", required=True))


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize(
    ("make", "sweeps", "factor"),
    [
        pytest.param(jacobi_1d, 8, 7, id="1d"),
        pytest.param(jacobi_2d, 6, 8, id="2d"),
        pytest.param(jacobi_1d, 40, 16, id="1d-mini", marks=pytest.mark.slow),
        pytest.param(jacobi_2d, 40, 8, id="2d-mini", marks=pytest.mark.slow),
    ],
)
def test_skewed_sweeps_are_tiled_over_time(make, sweeps: int, factor: int, tmp_path: Path) -> None:
    kernel = time_tiled(group_of(make(sweeps), tmp_path), factor)
    assert kernel.family == "general"
    assert all(v.outcome == "honoured" for v in kernel.verdicts if v.placed.author == "user")
    tile = next(node for node in walk(kernel.schedule.root) if isinstance(node, Band))
    assert tile.members[0].name.endswith("_tile") and isinstance(tile.child, Sequence)
    assert len({str(row) for row in tile.members[0].rows.values()}) > 4, "sweeps are shifted"
    told = f"one block runs it: iterations of its outermost loop {tile.members[0].name} follow each other"
    assert kernel.facts.blocks == 1 and told in engine.explain(kernel)
    places = [part.members[0] for part in tile.child.children if isinstance(part, Band)]
    assert len(places) == len(tile.child.children) and all(place.parallel for place in places)
    assert engine.check(kernel).status == "pass"


def test_a_tile_that_runs_a_sweep_before_what_it_reads_is_refused_with_instances(tmp_path: Path) -> None:
    group = group_of(jacobi_1d(4), tmp_path)
    split = entry(split=8, at="outermost", required=True)
    skewed = next(n for n in walk(compiled(group, SKEW, split).schedule.root) if isinstance(n, Band))
    first, *rest = statements_of(skewed)
    swapped = entry(cut=(tuple(rest), (first,)), at=f"after {skewed.members[0].name}", required=True)
    with pytest.raises(Conflict, match=r"S0\[\w+=\d+\] writes"):
        compiled(group, SKEW, split, swapped)
