"""Every value of the built-in model that a statement could compute again, one kernel each, against the reference."""

from __future__ import annotations

from itertools import permutations

import pytest

import engine
from app.session.named_models import path_of
from engine.fusion.nodes import FusionGroup
from engine.scheduling.nodes import HONOURED


def handed_on(group: FusionGroup) -> list[tuple[str, str]]:
    """Every two statements of which the second reads what the first computes without reducing."""
    return [
        (made.name, reader.name)
        for made, reader in permutations(group.program.statements, 2)
        if made.reduction is None and any(access.array == made.write.array for access in reader.reads())
    ]


@pytest.mark.slow
def test_every_value_that_can_be_computed_again_is_checked() -> None:
    plan = engine.fuse(engine.load(path_of("example")))
    made = refused = 0
    for group in plan.groups:
        for pair in handed_on(group):
            wish = engine.entry(pair[0], rewrite=("recompute", pair[1]))
            kernel = engine.compile(group, engine.default_recipe(group).advise("user", wish))
            (verdict,) = [v for v in kernel.verdicts if v.placed.entry == wish]
            if verdict.outcome == HONOURED:
                made += 1
                assert engine.check(kernel).status == "pass", f"{group.name}: {wish}"
            else:
                refused += 1
                assert "looks up positions" in verdict.because
    assert (made, refused) == (25, 2)
