"""Why the family of a group has no kernel of a schedule that the general family took."""

from __future__ import annotations

from dataclasses import replace

import pytest

import engine
from engine.kernels.families import family_of, lower
from engine.kernels.family import Setting


def own_refusal(kernel: engine.Kernel) -> engine.Unsupported:
    """The error of the group's own family; the kernel is the general one and tells the reason."""
    group = replace(kernel.group, program=kernel.program)
    with pytest.raises(engine.Unsupported) as refused:
        lower(group, kernel.schedule, Setting(kernel.target, kernel.recipe.numerics), fitting_only=True)
    assert kernel.family == "general"
    assert kernel.tile.misfit == f"{family_of(group).name}: {refused.value.reason}"
    return refused.value
