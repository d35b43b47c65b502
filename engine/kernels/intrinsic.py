"""The instruction that a kernel's `intrinsic` mark names, where the machine and the recipe allow it."""

from __future__ import annotations

from collections.abc import Callable

from engine.kernels.family import Setting
from engine.kernels.marks import Marks
from engine.target import Target
from engine.tensorize.bind import is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic


def marked_intrinsic(marks: Marks, setting: Setting, misfit: Callable[[Intrinsic], str]) -> Intrinsic | None:
    """The instruction that an `intrinsic` mark names, if it computes what it should; else a note says why not.

    misfit: why an instruction does not compute it; "" where it does.
    """
    name = marks.word("intrinsic")
    if name is None:
        return None
    intrinsic, architecture = INTRINSICS.get(name), setting.machine.architecture
    if intrinsic is None:
        why_not = f"known are {', '.join(INTRINSICS)}"
    elif not has_instruction(setting.machine, intrinsic):
        instruction = intrinsic.ptx.partition(".row")[0]
        why_not = f"{architecture} has no {instruction}, the first with it is {intrinsic.architecture}"
    else:
        why_not = misfit(intrinsic)
        if not why_not and not is_allowed(intrinsic, setting.numerics):
            asked = f'the recipe\'s numerics must say "tensor_cores": "{intrinsic.numerics}"'
            why_not = f"{intrinsic.because}; {asked}"
    if why_not:
        marks.refuse({"intrinsic": f"runs on CUDA cores: {why_not}"})
        return None
    return intrinsic


def has_instruction(machine: Target, intrinsic: Intrinsic) -> bool:
    """Whether a machine's generation has an instruction."""
    return _generation(machine.architecture) >= _generation(intrinsic.architecture)


def _generation(architecture: str) -> int:
    """The number in "sm_90a"."""
    return int("".join(filter(str.isdecimal, architecture)))
