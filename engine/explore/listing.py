"""A kernel's PTX or SASS, with each line linked to its line of the CUDA text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.documents.pipeline import ListingDoc
from engine.execution.nvrtc import compile_ptx
from engine.execution.sass import NO_TOOL, disassembler
from engine.kernels.nodes import Kernel
from engine.present.machine_code import LINE_INFO, machine_code, mix_sentences
from engine.scheduling.text import to_text
from engine.support.errors import BadInput

PTX, SASS = LANGUAGES = ("PTX", "SASS")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_SASS_LINE = re.compile(r'//##\s+File\s+"([^"]*)",\s+line\s+(\d+)')
_OWN = "kernel.cu"
"""What NVRTC calls the CUDA text."""


def listing(kernel: Kernel, language: str) -> ListingDoc:
    """The kernel for its target; without a disassembler a listing of SASS says so and is empty.

    Raises BadInput for another language, CompileError and MissingCapability as NVRTC does.
    """
    architecture = kernel.target.architecture
    text, because = "", ""
    mix: tuple[str, ...] = ()
    match language:
        case "PTX":
            text = compile_ptx(kernel.source.text, architecture, (LINE_INFO,))
            links = tuple(_ptx_links(text))
        case "SASS":
            because = "" if disassembler() else NO_TOOL
            text = machine_code(kernel) if disassembler() else ""
            links = tuple(_sass_links(text))
            mix = tuple(mix_sentences(kernel, text)) if text else ()
        case _:
            raise BadInput("explore", f"language {language}", "is not known", f"one of {', '.join(LANGUAGES)}")
    return ListingDoc(kernel.group.name, to_text(kernel.advice), language, architecture, text, links, because, mix)


def _ptx_links(text: str) -> Iterator[tuple[int, int]]:
    """(line of the listing, line of the CUDA text): from each `.loc` on, until the next."""
    lines = text.splitlines()
    files = [found for line in lines if (found := _FILE.match(line))]
    own = {found[1] for found in files if found[2].endswith(_OWN)}
    current = 0
    for number, line in enumerate(lines, 1):
        found = _LOC.match(line)
        if found:
            places = [(found[1], found[2]), (found[3], found[4])]
            current = next((int(at) for file, at in places if file in own and at), 0)
        # An instruction: labels are not indented, directives begin with a dot.
        elif current and line.startswith("\t") and not line.lstrip().startswith("."):
            yield number, current


def _sass_links(text: str) -> Iterator[tuple[int, int]]:
    """The same for SASS, where a remark before instructions names their line, from the innermost call outwards."""
    current, is_open = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        found = _SASS_LINE.search(line)
        if found:
            own = int(found[2]) if found[1].endswith(_OWN) else 0
            inlined = re.search(rf'inlined at "[^"]*{re.escape(_OWN)}", line (\d+)', line)
            place = int(inlined[1]) if inlined else own
            current = place or (current if is_open else 0)
            is_open = True
        elif line.strip().startswith("/*"):
            is_open = False
            if current:
                yield number, current
