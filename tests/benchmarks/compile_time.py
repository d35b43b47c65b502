"""Processor time from a file to the machine code of all its kernels, beside that of commit c3aab03 on this machine.

Both engines run in processes of their own, one after the other in turns; the least of each counts, because whatever
else the machine does only adds.  NVRTC's process counts, its start and that of the engine do not.  c3aab03's engine is
taken out of the repository's history.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from engine.support.errors import Unsupported

BEFORE = "c3aab03"
ROOT = Path(__file__).parents[2]
MODELS = ROOT.parent / "shared" / "models"
NAMES = ("bert_base_fp16_b8_s128", "llama_2l_fp16_b2_s128_op20", "resnet50_b8")
WARM = "suite:alcop/MM_RN50_FC"
"""What is compiled first, so that imports and NVRTC's start are not counted."""
TURNS = 3
Parts = tuple[float, float]
"""Seconds until all texts are there, and until NVRTC has compiled them."""

MEASURE = """
import json, os, sys, time
from pathlib import Path
import engine

def spent():
    own, total = os.getpid(), time.process_time()
    for child in Path(f"/proc/{own}/task/{own}/children").read_text().split():
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total

def compiled(file):
    begin = spent()
    plan = engine.fuse(engine.load(file), "a100")
    recipe = engine.default_recipe(plan)
    kernels = [engine.compile(group, recipe) for group in plan.groups]
    text = spent()
    for kernel in kernels:
        engine.nvrtc(kernel, "sm_80")
    return text - begin, spent() - text

warm, *files = sys.argv[1:]
compiled(warm)
json.dump({"engine": engine.__file__, "spent": [compiled(file) for file in files]}, sys.stdout)
"""
"""Run with either engine on the path: both have the verbs that it calls."""


def over_before() -> tuple[float, str]:
    """How many times what c3aab03 takes a model takes now, at worst; and each with its two parts, for people."""
    if not MODELS.is_dir():
        raise Unsupported("compile time", str(MODELS), "is absent", "lay the shared files beside the repository")
    with tempfile.TemporaryDirectory() as folder:
        _take_out(Path(folder))
        turns = [(_seconds(Path(folder)), _seconds(ROOT)) for _ in range(TURNS)]
    before, now = ([_least(spent) for spent in zip(*runs, strict=True)] for runs in zip(*turns, strict=True))
    times = [sum(mine) / sum(theirs) for mine, theirs in zip(now, before, strict=True)]
    told = (
        f"{name} {each:.2f}: texts {mine[0]:.2f} s, {theirs[0]:.2f}, NVRTC {mine[1]:.2f}, {theirs[1]:.2f}"
        for name, each, mine, theirs in zip(NAMES, times, now, before, strict=True)
    )
    return max(times), "; ".join(told)


def _least(turns: Sequence[Parts]) -> Parts:
    """The least of each part."""
    return min(text for text, _ in turns), min(code for _, code in turns)


def _take_out(folder: Path) -> None:
    """The engine of c3aab03 and what it reads, in a folder."""
    command = ["git", "-C", str(ROOT), "archive", BEFORE, "engine", "resources"]
    try:
        taken = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        hint = "run it in a clone with its history"
        raise Unsupported("compile time", BEFORE, "is not in the repository's history", hint) from error
    with tarfile.open(fileobj=io.BytesIO(taken.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _seconds(root: Path) -> list[Parts]:
    """Of the processor, for each model, with the engine in a folder."""
    files = [str(MODELS / f"{name}.onnx") for name in NAMES]
    command = [sys.executable, "-c", MEASURE, WARM, *files]
    with tempfile.TemporaryDirectory() as cache:  # nothing is compiled already
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "LOOMSCOPE_CACHE": cache}
        ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    assert Path(found["engine"]).is_relative_to(root), f"{found['engine']} was measured instead of {root}"
    return [(text, code) for text, code in found["spent"]]
