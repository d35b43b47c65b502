"""What a contraction's configuration refuses."""

from __future__ import annotations

import pytest

from engine.support.errors import BadInput
from engine.support.serialization import from_json
from engine.tensorize.space import GemmConfig


def test_knobs_below_one_are_refused() -> None:
    for wrong in ({"block": [128, 0, 32]}, {"part": [-16, 16]}, {"stages": 0}, {"slices": -1}):
        with pytest.raises(BadInput, match="1 or more"):
            from_json(GemmConfig, {"block": [64, 64, 32], "part": [32, 32], **wrong})
    given = {"block": [64, 64, 32], "part": [32, 32], "stages": 2}
    assert from_json(GemmConfig, given) == GemmConfig((64, 64, 32), (32, 32), 2)
