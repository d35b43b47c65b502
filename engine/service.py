"""The engine as a process: one JSON request a line on standard input, replies a line each on standard output.

    request  {"id": 7, "verb": "kernel", "arguments": {"group": "softmax_0", "recipe": null}}
    replies  {"id": 7, "event": "progress", "value": {"text", "done", "total"}}      any number
             {"id": 7, "event": "sample", "value": {"group", "microseconds"}}        while measuring
             {"id": 7, "event": "result", "value": DOCUMENT}                         exactly one of
             {"id": 7, "event": "error", "value": PROBLEM}                           these two

Requests are served in order.  The window cancels by ending this process: nothing here needs saving.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TextIO, TypeVar

import engine
from engine.documents import KernelDoc, Problem
from engine.errors import BadInput, EngineError
from engine.fuse.nodes import FusionGroup, FusionPlan
from engine.graph.nodes import OperatorGraph
from engine.run.machine import machine
from engine.schedule.nodes import Conflict
from engine.text import to_json

Result = TypeVar("Result")
Arguments = Mapping[str, Any]
Send = Callable[[str, Any], None]
"""Sends one event with its value."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The file that the verbs after "open" speak of."""

    graph: OperatorGraph
    plan: FusionPlan
    target: str


class Service:
    """Answers requests about one open file; compiled kernels are kept by group and recipe."""

    def __init__(self) -> None:
        self._opened: Opened | None = None
        self._kernels: dict[tuple[str, str | None], engine.Kernel] = {}

    def answer(self, verb: str, arguments: Arguments, send: Send) -> Any:
        """The result of one request as plain data; EngineError where there is none."""
        match verb:
            case "open":
                return self._open(arguments, send)
            case "kernel":
                return to_json(self._kernel_or_refusal(arguments, send))
            case "check":
                return self._check(arguments, send)
            case "compile":
                return self._compile(arguments, send)
            case "measure":
                return self._measure(arguments, send)
            case "diff":
                return self._diff(arguments, send)
            case "machine":
                return to_json(machine())
            case _:
                raise BadInput("service", f"verb {verb}", "there is no such verb")

    def _open(self, arguments: Arguments, send: Send) -> Any:
        target = arguments.get("target") or "h200"
        spent: list[tuple[str, float]] = []

        def timed(stage: str, text: str, run: Callable[[], Result]) -> Result:
            send("progress", {"text": text, "done": len(spent), "total": 3})
            started = time.perf_counter()
            result = run()
            spent.append((stage, time.perf_counter() - started))
            return result

        path, sizes = _argument(arguments, "path"), arguments.get("dimensions") or None
        graph = timed("load", "reading the file", lambda: engine.load(path, dims=sizes))
        plan = timed("fuse", "planning the kernels", lambda: engine.fuse(graph, target=target))
        document = timed("predict", "predicting their times", lambda: engine.model_doc(graph, plan, target=target))
        self._opened = Opened(graph, plan, target)
        self._kernels.clear()
        return to_json(replace(document, seconds=tuple(spent)))

    def _check(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        send("progress", {"text": f"running {kernel.group.name} on the CPU", "done": 1, "total": 2})
        return to_json(engine.check_doc(engine.check(kernel)))

    def _compile(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        compiled = []
        for done, architecture in enumerate(engine.ARCHITECTURES):
            send("progress", {"text": f"NVRTC for {architecture}", "done": done, "total": len(engine.ARCHITECTURES)})
            compiled.append(to_json(engine.compiled_doc(engine.nvrtc(kernel, architecture))))
        return {"group": kernel.group.name, "compiled": compiled}

    def _measure(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        name = kernel.group.name
        timing = engine.measure(
            kernel, on_sample=lambda microseconds: send("sample", {"group": name, "microseconds": microseconds})
        )
        if isinstance(timing, engine.Failure):
            raise EngineError("measure", name, f"{timing.kind}: {timing.message}")
        return to_json(engine.time_doc(timing))

    def _diff(self, arguments: Arguments, send: Send) -> Any:
        """Two advice texts of one group, "a" and "b", with their kernels."""
        sides = ({**arguments, "recipe": _argument(arguments, side)} for side in ("a", "b"))
        a, b = (self._kernel(side, send) for side in sides)
        return to_json(engine.compare(a, b))

    def _kernel_or_refusal(self, arguments: Arguments, send: Send) -> KernelDoc:
        """The compiled group, or the verdicts of required entries that cannot hold together."""
        try:
            return engine.kernel_doc(self._kernel(arguments, send))
        except Conflict as conflict:
            group = _group(self._file().plan, _argument(arguments, "group"))
            return engine.refused_doc(group, self._recipe(group, arguments.get("recipe")), conflict)

    def _kernel(self, arguments: Arguments, send: Send) -> engine.Kernel:
        """The compiled group of a request, from the last time where nothing changed."""
        group, text = _group(self._file().plan, _argument(arguments, "group")), arguments.get("recipe")
        key = (group.name, text)
        if key not in self._kernels:
            send("progress", {"text": f"scheduling {group.name}", "done": 0, "total": 1})
            self._kernels[key] = engine.compile(group, self._recipe(group, text))
        return self._kernels[key]

    def _recipe(self, group: FusionGroup, text: str | None) -> engine.Recipe:
        """The advisers' recipe of a group, or what `text` says in its place."""
        recipe = engine.default_recipe(group, target=self._file().target)
        return recipe if text is None else engine.edited(recipe, group, text)

    def _file(self) -> Opened:
        if self._opened is None:
            raise BadInput("service", "file", "none is open yet", "send `open` first")
        return self._opened


def _argument(arguments: Arguments, name: str) -> str:
    """An argument that the verb cannot do without."""
    if name not in arguments:
        raise BadInput("service", f"argument {name}", "it is missing from the request")
    return str(arguments[name])


def _group(plan: FusionPlan, name: str) -> FusionGroup:
    try:
        return plan.group(name)
    except KeyError as error:
        raise BadInput("service", f"group {name}", "the open file has no such group") from error


def serve(requests: Iterable[str], replies: TextIO) -> None:
    """Answer every request line until there are no more."""
    service = Service()
    for line in requests:
        try:
            request = json.loads(line)
            number, verb, arguments = request["id"], request["verb"], request.get("arguments") or {}
        except (ValueError, KeyError, TypeError) as error:
            print(f"not a request: {line.strip()[:200]} ({error})", file=sys.stderr, flush=True)
            continue

        def send(event: str, value: Any, number: int = number) -> None:
            replies.write(json.dumps({"id": number, "event": event, "value": value}) + "\n")
            replies.flush()

        try:
            send("result", service.answer(verb, arguments, send))
        except EngineError as error:
            send("error", to_json(Problem(error.stage, error.subject, error.reason, error.hint)))


def main() -> None:
    """Serve standard input.  What libraries print goes to standard error, so that only replies are on the stream."""
    replies = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
