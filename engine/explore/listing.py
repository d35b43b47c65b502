"""A kernel's PTX or SASS, with each line linked to its line of the CUDA text."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.documents.pipeline import ListingDoc
from engine.execution.nvrtc import compile_cuda, compile_ptx
from engine.kernels.nodes import Kernel
from engine.scheduling.text import to_text
from engine.support.errors import BadInput, EngineError

PTX, SASS = LANGUAGES = ("PTX", "SASS")
NO_TOOL = "SASS needs NVIDIA's disassembler nvdisasm, which is not on this machine: pip install nvidia-cuda-nvdisasm"
LINE_INFO = "-lineinfo"
"""NVRTC's option for line tables; unlike -G it leaves the generated code as it is."""
SECONDS = 60.0
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
    match language:
        case "PTX":
            text = compile_ptx(kernel.source.text, architecture, (LINE_INFO,))
            links = tuple(_ptx_links(text))
        case "SASS":
            tool = disassembler()
            because = "" if tool else NO_TOOL
            text = _disassemble(tool, kernel, architecture) if tool else ""
            links = tuple(_sass_links(text))
        case _:
            raise BadInput("explore", f"language {language}", "is not known", f"one of {', '.join(LANGUAGES)}")
    return ListingDoc(kernel.group.name, to_text(kernel.advice), language, architecture, text, links, because)


@cache
def disassembler() -> str | None:
    """The path of nvdisasm: on the search path, or in NVIDIA's wheel."""
    found = shutil.which("nvdisasm")
    if found:
        return found
    packages = find_spec("nvidia")
    folders = packages.submodule_search_locations or () if packages else ()
    wheels = (path for folder in folders for path in Path(folder).glob("*/bin/nvdisasm"))
    return next((str(path) for path in sorted(wheels)), None)


def _disassemble(tool: str, kernel: Kernel, architecture: str) -> str:
    cubin = compile_cuda(kernel.source.text, architecture, (LINE_INFO,)).cubin
    with TemporaryDirectory(prefix="loomscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            ran = subprocess.run(
                [tool, "--print-code", "--print-line-info-inline", str(path)],
                capture_output=True, text=True, timeout=SECONDS, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError("explore", kernel.group.name, f"nvdisasm failed: {error}") from error
    return ran.stdout


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
