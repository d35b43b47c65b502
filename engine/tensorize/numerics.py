"""Which numerics a recipe may ask for."""

from __future__ import annotations

from collections.abc import Mapping

from engine.support.errors import BadInput
from engine.tensor.numerics import ARITHMETIC, FAITHFUL, OPMATH
from engine.tensorize.intrinsics import INTRINSICS


def check_numerics(numerics: Mapping[str, str], subject: str) -> None:
    """BadInput, about `subject`, for what no stage reads."""
    known = {("tensor_cores", i.numerics) for i in INTRINSICS.values() if i.numerics}
    known |= {(ARITHMETIC, FAITHFUL), (ARITHMETIC, OPMATH)}
    if asked := set(numerics.items()) - known:
        words = ", ".join(f"{key} {value}" for key, value in sorted(asked))
        hint = f"leave it empty, or say {', '.join(f'{key} {word}' for key, word in sorted(known))}"
        raise BadInput("recipe", subject, f"asks for {words}, which nothing here follows", hint)
