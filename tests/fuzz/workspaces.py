"""Broken workspaces and journals: `python -m tests.fuzz.workspaces --seed N --count 10000 [--jobs 2]`.

A workspace of some groups with branched histories, as text or as an archive, or the journal of a window, is edited.
Then it is read as the command line and the window read it, and what is read is written and read again.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from app.session.fusion_constraints import FUSION, fixed_text
from app.session.history import NO_STEP, Checked, History, HistoryRecord, HistoryStep
from app.session.loom_file import (
    MEMBER,
    LoomFile,
    ModelReference,
    as_plain,
    find_model,
    present_recipe,
    read_loom,
    write_loom,
)
from app.session.recovery import read_journal
from engine.documents.model import Time
from tests.fuzz.json_edits import broken
from tests.fuzz.processes import REFUSALS, Case, command

MOST_EDITS = 3
ADVICE = "advice user\n  S0 @ innermost: mark vector 4\n  either\n    S1 @ i: split 8\n  or\n    all @ any: pin i, j\n"
WORDS: tuple[Any, ...] = (
    ADVICE, "advice user\n", "advice nobody\n", "fusion", "softmax_0", "example", "suite:alcop/MM_RN50_FC", "h100",
    '{"groups": "[[\\"a\\", \\"b\\"]]"}', '{"groups": 7}', '{"policy": ["stitch"]}', '["policy"]', '{"apart": "[[]]"}',
    '{"apart": "' + "[" * 2000 + '"}', "[" * 5000, '{"policy": "stitch"', "steps", "current", "parent", "visited",
    "measured", "predicted", [0, 1], [[0, 0]], [[9, 9]], "synthetic", {"text": "", "title": "", "parent": -1},
)  # fmt: skip


def _history(random: Random, texts: tuple[str, ...]) -> HistoryRecord:
    """A tree of a few steps, standing anywhere in it."""
    steps = [HistoryStep(random.choice(texts), "As advised", NO_STEP, Time(3.5, "predicted", "uncalibrated"))]
    for number in range(1, random.randint(1, 6)):
        steps.append(HistoryStep(random.choice(texts), f"step {number}", random.randrange(number),
                                 measured=Time(2.0, "measured", "H200", 1.9, 2.2, (1.9, 2.0, 2.2)),
                                 checked=Checked("pass", 8, 64, 2, 4096, 128), note="faster ✓"))  # fmt: skip
    visited = {step.parent: number for number, step in enumerate(steps) if number}
    return HistoryRecord(tuple(steps), random.randrange(len(steps)), 0, tuple(visited.items()), "advice nobody\n")


def made(random: Random) -> LoomFile:
    """A sound workspace."""
    groups = {f"softmax_{k}": _history(random, (ADVICE, "advice user\n", "")) for k in range(random.randint(1, 3))}
    if random.random() < 0.5:
        fixed = (fixed_text([("a", "b")], []), fixed_text([], [("a", "b")]), "{}")
        groups[FUSION] = _history(random, fixed)
    model = ModelReference(random.choice(("softmax.onnx", "example", "../m.onnx")), "ab" * 32)
    return LoomFile(model, "h100", {"batch": 4}, groups, "softmax_0", ("S1",), {"perspective": "Schedule"})


def _journal(random: Random, content: LoomFile) -> bytes:
    """The lines of a journal, one of them broken."""
    header = {"loom": "a.loom", "edits": 1, "workspace": as_plain(content)}
    step = as_plain(content)["groups"]["softmax_0"]["steps"][0]  # type: ignore[index]
    entry = {"group": "softmax_0", "steps": [[1, {**step, "parent": 0}]], "current": 0, "baseline": 0,
             "visited": [[0, 1]], "draft": "", "edits": 2}  # fmt: skip
    lines = [json.dumps(each).encode() for each in (header, entry, entry)]
    at = random.randrange(len(lines))
    lines[at] = broken((header, entry, entry)[at], WORDS, random, MOST_EDITS).replace(b"\n", b" ")
    return b"\n".join(lines) + b"\n"


def _archive(random: Random, text: bytes) -> bytes:
    """The text as the member of an archive that may be bent, too."""
    packed = io.BytesIO()
    kind = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(packed, "w", kind) as archive:
        for _ in range(random.choice((1, 1, 1, 3))):
            archive.writestr(random.choice((MEMBER, MEMBER, MEMBER, "../x", "other.json")), text)
            if random.random() < 0.05:
                archive.writestr(MEMBER, b" " * (80 << 20))
    data = bytearray(packed.getvalue())
    for _ in range(random.choice((0, 0, 1, 8))):
        # Half of the changes are in the directory of the archive, which stands at its end.
        at = random.choice((random.randrange(len(data)), len(data) - random.randint(1, 80)))
        data[at] = random.randrange(256)
    return bytes(data)


def mutant(seed: int, number: int) -> tuple[str, bytes]:
    """Name and content of file `number` of a seed."""
    random = Random(f"workspace {seed} {number}")
    content = made(random)
    kind = random.random()
    if kind < 0.25:
        return "left.journal", _journal(random, content)
    text = broken(as_plain(content), WORDS, random, MOST_EDITS)
    return "some.loom", _archive(random, text) if kind < 0.45 else text


def cases(seed: int) -> Case:
    """The cases of a seed."""

    def case(number: int, folder: Path) -> None:
        name, data = mutant(seed, number)
        (folder / name).write_bytes(data)
        use(folder / name)

    return case


def use(path: Path) -> None:
    """Read a file as its suffix says, follow what it names, and write it again."""
    if path.suffix == ".journal":
        left = read_journal(path)
        if left is None:
            return
        content = left.content
    else:
        content = read_loom(path)
    for trail in content.groups.values():
        History.of(trail)
    again = path.with_name("again.loom")
    write_loom(content, again)
    assert as_plain(read_loom(again)) == as_plain(content), "what is read is written and read again"
    present_recipe(content)
    find_model(content.model, path.parent)


def main() -> int:
    return command("tests.fuzz.workspaces", (__doc__ or "").splitlines()[0], cases, use, REFUSALS)


def warm_up() -> None:
    """Nothing: modules are loaded with this one."""


if __name__ == "__main__":
    raise SystemExit(main())
