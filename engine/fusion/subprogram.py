"""Programs of some statements of a program, for models that take whole programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.tensor.nodes import Statement, TensorProgram


class Subprograms:
    """Cuts programs out of one, whose inputs, outputs and readers it looks up once."""

    def __init__(self, program: TensorProgram) -> None:
        self._program = program
        self._inputs, self._outputs = frozenset(program.inputs), frozenset(program.outputs)

    def __call__(self, statements: Sequence[Statement]) -> TensorProgram:
        """The statements as a program: inputs are arrays that others make, outputs those that others read."""
        made = dict.fromkeys(s.write.array for s in statements)
        read = dict.fromkeys(array for s in statements for array in s.sources)
        inside, readers = {s.name for s in statements}, self._program.readers
        inputs = tuple(a for a in read if a not in made or a in self._inputs)
        outputs = tuple(a for a in made if a in self._outputs or any(s.name not in inside for s in readers.get(a, ())))
        return replace(self._program, statements=tuple(statements), inputs=inputs, outputs=outputs)
