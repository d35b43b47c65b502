"""The text of a kernel around what its family writes: comment, includes, function, and what calls it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from engine.cpu.nodes import CppSource
from engine.cpu.plan import RegionPlan
from engine.cpu.text import Text, held_type, stored_type
from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.target.cpu import CpuTarget
from engine.tensor.nodes import TensorProgram
from engine.tile.source import Parameter

ALIGNMENT = 64
"""Bytes that addresses of buffers are multiples of where we allocate them; kernels need none."""


class KernelText:
    """The text of one kernel in the making."""

    def __init__(
        self, group: FusionGroup, machine: CpuTarget, headers: Sequence[str] = ("scalar.hpp",),
        in_place: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """in_place: output -> the input in whose memory it may be written."""
        program, self._in_place = group.program, in_place or {}
        names = dict.fromkeys((*program.inputs, *program.outputs))
        self.buffers = tuple(self._parameter(program, name) for name in names)
        self.text = Text([*names, program.name])
        self._program, self.group = program, group
        add = self.text.add
        add(f"// {program.name}: {group.title}, for {machine.title}")
        for statement in program.statements:
            add(f"//   {statement}")
        add("")
        for header in headers:
            add(f"#include <{header}>")
        add("")

    @staticmethod
    def _parameter(program: TensorProgram, name: str) -> Parameter:
        array = program.arrays[name]
        size = DTYPES[array.dtype]
        read = any(name in s.sources for s in program.statements) and name in program.inputs
        return Parameter(name, name, array.dtype, array.elements, read, name in program.outputs, size)

    def parameters(self, arrays: Collection[str] | None = None) -> list[str]:
        """The buffers (those of some arrays) as parameters of a function."""
        return [self._parameter_text(b) for b in self.buffers if arrays is None or b.array in arrays]

    def names_of(self, arrays: Collection[str] | None = None) -> list[str]:
        """The same as arguments of a call."""
        return [b.parameter for b in self.buffers if arrays is None or b.array in arrays]

    @contextmanager
    def function(self, prepared: Sequence[tuple[str, str]] = ()) -> Iterator[None]:
        """What is added inside is the kernel's body.  prepared: (name, type) of the memory that is prepared for it."""
        parameters = self.parameters()
        parameters += [f"const {kind}* __restrict__ {name}" for name, kind in prepared]
        with self.text.block(f'extern "C" void {self._program.name}({", ".join(parameters)})'):
            yield
        self.text.add("")
        kinds = [*(stored_type(b.dtype) for b in self.buffers), *(kind for _, kind in prepared)]
        casts = ", ".join(f"static_cast<{kind}*>(buffers[{n}])" for n, kind in enumerate(kinds))
        call = f"{self._program.name}({casts});"
        self.text.add(f'extern "C" void call_{self._program.name}(void** buffers) {{ {call} }}')

    @contextmanager
    def prepare_function(self, prepared: Sequence[tuple[str, str]]) -> Iterator[None]:
        """What is added inside fills the memory that is prepared for the kernel, from buffers that the graph fixes."""
        self.text.add("")
        with self.text.block(f'extern "C" void prepare_{self._program.name}(void** buffers)'):
            for number, buffer in enumerate(self.buffers):
                kind = stored_type(buffer.dtype)
                if buffer.array in self._program.constants:
                    self.text.add(f"const {kind}* const {buffer.parameter} = static_cast<{kind}*>(buffers[{number}]);")
            for number, (name, kind) in enumerate(prepared, len(self.buffers)):
                self.text.add(f"{kind}* const {name} = static_cast<{kind}*>(buffers[{number}]);")
            yield

    def _parameter_text(self, buffer: Parameter) -> str:
        kind = f"{'' if buffer.written else 'const '}{stored_type(buffer.dtype)}*"
        is_apart = buffer.array not in self._in_place and buffer.array not in self._in_place.values()
        return f"{kind} __restrict__ {buffer.parameter}" if is_apart else f"{kind} {buffer.parameter}"

    def source(self, scratch_bytes: int = 0, prepared: tuple[int, ...] = ()) -> CppSource:
        """The finished text."""
        lines = self.text.lines
        text = "\n".join(line for line, _ in lines) + "\n"
        links = tuple(link for _, link in lines)
        return CppSource(text, self._program.name, self.buffers, links, prepared, scratch_bytes, self._in_place)


def scratch_arrays(text: Text, program: TensorProgram, plans: Sequence[RegionPlan], shared: Sequence[str]) -> int:
    """Arrays that pass between loops or regions and are no buffers, and the parts of sums that memory collects.

    Their bytes together.
    """
    total = 0
    for plan in plans:
        read = {s.write.array for s in plan.program.statements if plan.where[s.name].in_memory}
        for name in shared:
            if name in read or any(name in s.sources for s in plan.program.statements if name in plan.program.inputs):
                array = program.arrays[name]
                total += _scratch(text, name, stored_type(array.dtype), array.elements)
                shared = [other for other in shared if other != name]
        for statement in plan.program.statements:
            if statement.reduction is not None and not plan.where[statement.name].collects:
                array = program.arrays[statement.write.array]
                kind = held_type(statement.reduction.accumulate)
                total += _scratch(text, f"{array.name}_sums", kind, array.elements)
    return total


def _scratch(text: Text, name: str, kind: str, elements: int) -> int:
    assert text.name(name) == name, f"{name} is declared before all variables"
    text.add(f"static Scratch<{kind}> {name}_kept({elements});")
    text.add(f"{kind}* const {name} = {name}_kept.data;")
    return elements * 8
