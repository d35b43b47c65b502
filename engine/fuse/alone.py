"""Some statements of a program as a program of their own: what its costs are asked of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from engine.tensor.nodes import Statement, TensorProgram


class Alone:
    """Cuts programs out of one program; who reads what is found once for all of them."""

    def __init__(self, program: TensorProgram) -> None:
        self._program = program

    def __call__(self, statements: Sequence[Statement]) -> TensorProgram:
        """Statements that read what others make and give out what others read."""
        made = dict.fromkeys(s.write.array for s in statements)
        read = dict.fromkeys(array for s in statements for array in s.sources)
        inside = {s.name for s in statements}
        inputs = tuple(a for a in read if a not in made or a in self._inputs)
        outputs = tuple(a for a in made if a in self._outputs or self._readers.get(a, inside) - inside)
        return replace(self._program, statements=tuple(statements), inputs=inputs, outputs=outputs)

    @cached_property
    def _readers(self) -> Mapping[str, set[str]]:
        """Array -> the names of the statements that read it."""
        found: dict[str, set[str]] = {}
        for statement in self._program.statements:
            for array in statement.sources:
                found.setdefault(array, set()).add(statement.name)
        return found

    @cached_property
    def _inputs(self) -> frozenset[str]:
        return frozenset(self._program.inputs)

    @cached_property
    def _outputs(self) -> frozenset[str]:
        return frozenset(self._program.outputs)
