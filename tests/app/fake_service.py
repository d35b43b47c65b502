"""A stand-in for `engine.service`: the same protocol, made-up documents, samples of origin "synthetic"."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

import fake_documents as documents  # noqa: E402
import fake_exploration as exploration  # noqa: E402

from engine.documents.model import ProblemDoc, Time  # noqa: E402
from engine.support.serialization import to_json  # noqa: E402

SAMPLES, PAUSE = 20, 0.05
"""Of a measurement, and the seconds between two of them; more samples (FAKE_SAMPLES) come as much faster."""
SLOW = 0.5
"""Seconds that an answer about advice with the remark "# slow" takes."""


def main() -> None:
    """Answers requests until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer(request["id"], request["verb"], request.get("arguments", {}))


def send(number: int, event: str, value: object) -> None:
    """Writes one reply."""
    sys.stdout.write(json.dumps({"id": number, "event": event, "value": value}) + "\n")
    sys.stdout.flush()


def fail(number: int, stage: str, subject: str, reason: str, hint: str = "") -> None:
    """Answers with a Problem."""
    send(number, "error", to_json(ProblemDoc(stage, subject, reason, hint)))


def answer(number: int, verb: str, arguments: dict[str, object]) -> None:
    """Answers one request."""
    group, recipe = str(arguments.get("group", "")), arguments.get("recipe")
    if verb == "machine":
        gpu = os.environ.get("FAKE_GPU", "")
        lacking = "" if gpu else "There is no NVIDIA GPU: install an NVIDIA driver and PyCUDA"
        send(number, "result", {"gpu": gpu, "compiler": "g++ 12.2", "nvrtc": "13.0", "lacking": lacking})
    elif verb == "open":
        opened(number, str(arguments["path"]))
    elif verb == "kernel":
        kernel(number, group, None if recipe is None else str(recipe))
    elif verb == "check":
        for done in range(4):
            send(number, "progress", {"text": f"block {done * 12}", "done": done, "total": 4})
        send(number, "result", to_json(documents.check(group)))
    elif verb == "compile":
        send(number, "result", {"group": group, "compiled": to_json(documents.kernel(group).compiled)})
    elif verb == "measure":
        measure(number, group)
    elif verb == "conflict":
        time.sleep(SLOW)
        send(number, "result", to_json(documents.conflict(group, str(recipe))))
    elif verb in ("moves", "decisions", "addresses"):
        time.sleep(SLOW if "# slow" in str(recipe) else 0.0)
        send(number, "result", to_json(getattr(exploration, verb)(group, str(recipe))))
    elif verb == "space":
        send(number, "result", to_json(exploration.space(group, str(recipe), arguments["axes"], arguments["order"])))
    elif verb == "order":
        found = exploration.order(group, str(recipe), arguments["order"], arguments["tiles"])
        send(number, "result", to_json(found))
    elif verb == "fuse":
        send(number, "result", to_json(documents.model()))
    elif verb in ("attempt", "why"):
        send(number, "result", to_json(getattr(exploration, verb)(arguments)))
    else:
        fail(number, "service", verb, "no such verb")


def opened(number: int, path: str) -> None:
    """A model; a path with "broken" in it does not parse."""
    if "broken" in path:
        fail(number, "graph", Path(path).name, "this is not an ONNX file", "export the model again")
        return
    for done, stage in enumerate(("load", "fuse", "predict")):
        send(number, "progress", {"text": stage, "done": done, "total": 3})
    send(number, "result", to_json(documents.model()))


def kernel(number: int, group: str, recipe: str | None) -> None:
    """A kernel; a recipe line without a colon does not parse."""
    for index, line in enumerate((recipe or "").splitlines(), 1):
        if line.strip() and ":" not in line and not line.strip().startswith(("advice", "#", "either", "or")):
            fail(
                number,
                "schedule",
                f"line {index}",
                f"`{line.strip()}` is not an entry",
                "write STATEMENTS @ DIMENSION: FIELD VALUE",
            )
            return
    send(number, "progress", {"text": f"scheduling {group}", "done": 0, "total": 1})
    send(number, "result", to_json(documents.kernel(group, recipe)))


def measure(number: int, group: str) -> None:
    """Samples spread over a second, at a pace at which a test can cancel between two of them."""
    if not os.environ.get("FAKE_GPU"):
        fail(number, "measure", group, "this machine has no GPU", "run on a machine with a CUDA device")
        return
    samples: list[float] = []
    count, started = int(os.environ.get("FAKE_SAMPLES", SAMPLES)), time.monotonic()
    for index in range(count):
        time.sleep(max(started + (index + 1) * PAUSE * SAMPLES / count - time.monotonic(), 0.0))
        samples.append(25.0 + (index * 7 % 5) * 0.2)
        send(number, "sample", {"group": group, "microseconds": samples[-1]})
        if index % 5 == 4:
            send(number, "state", {"group": group, "clock": 1980 - index // 50, "temperature": 40 + index // 10})
    middle = sorted(samples)[len(samples) // 2]
    device, date = os.environ["FAKE_GPU"], "2026-11-18T09:12:00+00:00"
    found = Time(middle, "synthetic", "fake device", 25.0, 25.8, tuple(samples), device, date, count // 5)
    send(number, "result", to_json(found))


if __name__ == "__main__":
    main()
