"""Small files that ask for much are refused by name or compiled, within 20 s and 2 GiB, never with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.graph.hostile_files import FILES, MEMORY

ROOT = Path(__file__).parents[2]
SECONDS = 20.0
REFUSED = {
    "group 0": "attribute group is 0", "brackets for axes": "is no axis of an operand", "step 0": "has no result",
    "range to 1e12": "at most 2^31 in one tensor", "recurrence of 5,000 steps": "5000 steps one after the other",
    "300 scans of 9,000": "all scans of a file may be 10000", "range to 2^31": "has 2147483648 elements",
    "loop of 1e7": "decides what runs when the data are there", "input twice": "stands twice among the inputs",
    "link to itself": "is a link that leads nowhere", "weights too short": "16 float32 elements need 64",
}  # fmt: skip
"""What the answer to a file says that cannot be compiled, whole or in part."""
LONG = ("chain of 120", "chain of 400", "concatenation of 3,000", "sum of 3,000", "10,000 outputs", "20,000 inputs")


def check(names: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "tests.graph.hostile_files", str(folder), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30 * len(names) + 60)
    assert done.returncode == 0, done.stderr[-3000:]
    told = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[0] for line in told] == names
    for name, seconds, memory, ended in told:
        assert float(seconds) < SECONDS and int(memory) < MEMORY, (name, seconds, memory)
        if name in REFUSED:
            assert REFUSED[name] in ended and (ended.startswith("compiled") or " 2: " in ended), (name, ended)
        else:
            assert ended == "compiled", (name, ended)


def test_small_files_that_ask_for_much(tmp_path: Path) -> None:
    check([name for name in FILES if name not in LONG], tmp_path)


@pytest.mark.slow(sentinel=False)
@pytest.mark.parametrize("name", LONG)
def test_long_files(name: str, tmp_path: Path) -> None:
    check([name], tmp_path)
