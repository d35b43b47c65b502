"""The published search spaces have their published sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.support.errors import BadInput
from engine.support.serialization import from_json
from engine.tensorize.space import ALCOP_SPACES, GemmConfig, PublishedSpace

SIZES = {"dense": (1_620, 108), "batched": (4_860, 324), "conv2d": (2_430, 162), "conv3d": (3_645, 243)}
"""Published, pipelined and not: ALCOP's artifact."""


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_the_published_ones(name: str) -> None:
    pipelined, baseline = SIZES[name]
    space = ALCOP_SPACES[name]
    assert len(space) == pipelined == len(set(space.points()))
    unpipelined = replace(space, stages=(1,), register_stages=(1,))
    assert len(unpipelined) == baseline == len(set(unpipelined.points()))
    assert all(knobs.stages == knobs.register_stages == 1 for knobs in unpipelined.points())


def test_points_are_whole_fragments_shared_by_at_most_sixteen_warps() -> None:
    for space in ALCOP_SPACES.values():
        for knobs in space.points():
            assert all(size % 16 == 0 for size in (*knobs.block, *knobs.part))
            assert knobs.block[0] % knobs.part[0] == 0 == knobs.block[1] % knobs.part[1]
            assert 1 <= knobs.parts <= 16


def test_knobs_below_one_are_refused() -> None:
    for wrong in ({"block": [128, 0, 32]}, {"part": [-16, 16]}, {"stages": 0}, {"slices": -1}):
        with pytest.raises(BadInput, match="1 or more"):
            from_json(GemmConfig, {"block": [64, 64, 32], "part": [32, 32], **wrong})
    given = {"block": [64, 64, 32], "part": [32, 32], "stages": 2}
    assert from_json(GemmConfig, given) == GemmConfig((64, 64, 32), (32, 32), 2)


def test_a_space_is_every_combination_of_its_choices() -> None:
    space = PublishedSpace((1, 2), (4,), (2,), row_warps=(1,), column_warps=(2,), stages=(3,), register_stages=(1,))
    assert list(space.points()) == [GemmConfig((16, 128, 32), (16, 64), 3), GemmConfig((32, 128, 32), (32, 64), 3)]
