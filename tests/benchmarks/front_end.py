"""Processor time from a file to the texts of all its kernels, beside that of commit c3aab03 on the same machine.

Both engines run in processes of their own, one after the other in turns; the least of each counts, because whatever
else the machine does only adds.  c3aab03's is taken out of the repository's history.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from engine.support.errors import Unsupported

BEFORE = "c3aab03"
ROOT = Path(__file__).parents[2]
MODELS = ROOT.parent / "shared" / "models"
NAMES = ("bert_base_fp16_b8_s128", "llama_2l_fp16_b2_s128_op20", "resnet50_b8")
WARM = "suite:alcop/MM_RN50_FC"
"""What is compiled first, so that imports are not counted: they take as long as they did."""
TURNS = 3

MEASURE = """
import json, sys, time
import engine

def texts(file):
    plan = engine.fuse(engine.load(file), "a100")
    recipe = engine.default_recipe(plan)
    for group in plan.groups:
        engine.compile(group, recipe)

warm, *files = sys.argv[1:]
texts(warm)
spent = []
for file in files:
    begin = time.process_time()
    texts(file)
    spent.append(time.process_time() - begin)
json.dump({"engine": engine.__file__, "spent": spent}, sys.stdout)
"""
"""Run with either engine on the path: both have the verbs that it calls."""


def over_before() -> tuple[float, str]:
    """How many times what c3aab03 takes a model takes now, at worst; and each, for people."""
    if not MODELS.is_dir():
        raise Unsupported("front end", str(MODELS), "is absent", "lay the shared files beside the repository")
    with tempfile.TemporaryDirectory() as folder:
        _take_out(Path(folder))
        turns = [(_seconds(Path(folder)), _seconds(ROOT)) for _ in range(TURNS)]
    before, now = ([min(spent) for spent in zip(*runs, strict=True)] for runs in zip(*turns, strict=True))
    times = [mine / theirs for mine, theirs in zip(now, before, strict=True)]
    told = (
        f"{name} {each:.2f}: {mine:.2f} s, {theirs:.2f}"
        for name, each, mine, theirs in zip(NAMES, times, now, before, strict=True)
    )
    return max(times), "; ".join(told)


def _take_out(folder: Path) -> None:
    """The engine of c3aab03 and what it reads, in a folder."""
    command = ["git", "-C", str(ROOT), "archive", BEFORE, "engine", "resources"]
    try:
        taken = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        hint = "run it in a clone with its history"
        raise Unsupported("front end", BEFORE, "is not in the repository's history", hint) from error
    with tarfile.open(fileobj=io.BytesIO(taken.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _seconds(root: Path) -> list[float]:
    """Of the processor, for each model, with the engine in a folder."""
    files = [str(MODELS / f"{name}.onnx") for name in NAMES]
    command = [sys.executable, "-c", MEASURE, WARM, *files]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    assert Path(found["engine"]).is_relative_to(root), f"{found['engine']} was measured instead of {root}"
    return list(found["spent"])
