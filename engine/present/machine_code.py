"""A kernel's machine code in sentences: its instructions by pipe, and whether they are those that Work counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from engine.execution.nvrtc import compile_cuda
from engine.execution.sass import disassemble, instruction_mix
from engine.execution.sass.mix import GLOBAL, PIPES, SHARED, TENSOR
from engine.kernels.nodes import Kernel
from engine.tile.main_loop import LoopRequests, main_loop_requests

LINE_INFO = "-lineinfo"
"""NVRTC's option for line tables; unlike -G it leaves the generated code as it is."""


def machine_code(kernel: Kernel) -> str:
    """The SASS of a kernel for its target.  Raises as NVRTC does, and EngineError without a disassembler."""
    cubin = compile_cuda(kernel.source.text, kernel.target.architecture, (LINE_INFO,)).cubin
    return disassemble(cubin, kernel.group.name)


def mix_sentences(kernel: Kernel, text: str) -> Iterator[str]:
    """ "Main loop, lines 334 to 533: 8 tensor, 16 ALU, ...": what a listing of nvdisasm holds.

    Of a kernel of several launches the text is all of them: nothing is said of loops and elements.
    """
    mix = instruction_mix(text)
    yield f"{sum(mix.program.values()):,} instructions: {_in_words(mix.program)}"
    if kernel.tile.later:
        return
    asked = main_loop_requests(kernel.tile)
    if mix.loop:
        first, last = mix.lines
        yield f"Main loop, lines {first:,} to {last:,}: {_in_words(mix.loop)}"
        if asked.in_loop:
            yield _comparison(asked, mix.loop)
        return
    if asked.in_loop:
        yield "The compiler wrote all iterations of the main loop out"
        return
    yield _comparison(asked, mix.program)
    program = kernel.program
    elements = sum(program.arrays[name].elements for name in program.outputs)
    threads = sum(launch.blocks * math.prod(launch.block) for launch in kernel.launches)
    each = sum(mix.program.values()) * threads / elements
    yield f"{each:.3g} instructions of a thread for each of {elements:,} elements, slow paths and skipped ones included"


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[pipe]:,} {pipe}" for pipe in PIPES if counts.get(pipe))


def _comparison(asked: LoopRequests, found: Mapping[str, int]) -> str:
    """Whether the machine code does what Work counts, in as many iterations as it has written out."""
    pairs = {
        "products on tensor cores": (asked.tensor, found.get(TENSOR, 0)),
        "requests of global memory": (asked.outside, found.get(GLOBAL, 0)),
        "requests of shared memory": (asked.shared, found.get(SHARED, 0)),
    }
    own, theirs = next(((a, b) for a, b in pairs.values() if a), (1, 1))
    copies = theirs // own if theirs >= own and theirs % own == 0 and asked.in_loop else 1
    counted = ", ".join(f"{a:,} {what}" for what, (a, b) in pairs.items() if a or b)
    if not counted:
        return "No requests of memory, and Work counts none"
    differing = [f"{b:,} {what} in place of {a * copies:,}" for what, (a, b) in pairs.items() if b != a * copies]
    where = f"Each of {copies} iterations written out" if copies > 1 else "One iteration" if asked.in_loop else "A warp"
    return f"{where} has not what Work counts: {', '.join(differing)}" if differing else (
        f"{where} has what Work counts: {counted}"
    )
