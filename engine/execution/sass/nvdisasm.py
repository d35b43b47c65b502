"""The text of a cubin's machine code, by NVIDIA's nvdisasm where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.support.errors import EngineError

NO_TOOL = "SASS needs NVIDIA's disassembler nvdisasm, which is not on this machine: pip install nvidia-cuda-nvdisasm"
SECONDS = 60.0


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


def disassemble(cubin: bytes, subject: str) -> str:
    """The machine code of a cubin, with remarks of the lines that it comes from.  subject: what errors name.

    Raises EngineError where nvdisasm is missing or fails.
    """
    tool = disassembler()
    if tool is None:
        raise EngineError("sass", subject, NO_TOOL)
    with TemporaryDirectory(prefix="loomscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            ran = subprocess.run(
                [tool, "--print-code", "--print-line-info-inline", str(path)],
                capture_output=True, text=True, timeout=SECONDS, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError("sass", subject, f"nvdisasm failed: {error}") from error
    return ran.stdout
