"""The engine as a process: one JSON request a line on standard input, replies a line each on standard output.

    request  {"id": 7, "verb": "kernel", "arguments": {"group": "softmax_0", "recipe": null}}
    replies  {"id": 7, "event": "progress", "value": {"text", "done", "total"}}      any number
             {"id": 7, "event": "sample", "value": {"group", "microseconds"}}        while measuring
             {"id": 7, "event": "state", "value": {"group", "clock", "temperature"}} while measuring: MHz, °C
             {"id": 7, "event": "part", "value": {"key", "items"}}                   the next items of a long list
             {"id": 7, "event": "result", "value": DOCUMENT}                         exactly one of
             {"id": 7, "event": "error", "value": PROBLEM}                           these two

Lists of more than `PART` items in a result are sent ahead of it in parts: parsing JSON cannot be interrupted, and a
line of many megabytes would stall the window.

Requests are served in order.  The window cancels by killing this process; it holds no state that has to be saved.

The verb `moves` yields to others: it compiles many kernels, and answers with what it has (`complete` false) as soon as
another request waits, which a thread that reads ahead finds out.  Asked again, it continues from there.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from queue import Queue
from typing import Any, NoReturn, TextIO, TypeVar

import engine
from engine.documents.exploration import MoveDoc, Wish
from engine.documents.model import KernelDoc, ModelDoc, Problem
from engine.execution.machine import machine
from engine.explore.fusion_attempts import Attempts
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.graph.nodes import OperatorGraph
from engine.scheduling.nodes import Conflict
from engine.scheduling.untaken_entries import NoKernel
from engine.support.errors import BadInput, EngineError, Unsupported
from engine.support.garbage_collection import cycles_left_alone
from engine.support.serialization import from_json, to_json
from engine.target import DEFAULT_TARGET
from engine.tensorize.space import GemmConfig

Result = TypeVar("Result")
Item = TypeVar("Item")
Arguments = Mapping[str, Any]
Send = Callable[[str, Any], None]
"""Sends one event with its value."""
PART = 1000
"""Items of one of a result's lists on one line, at most."""
MOST_MOVES, MOST_KERNELS = 64, 256
"""Pairs of group and advice whose moves and whose kernels are kept: every edit adds one."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The open file, its plan and the target GPU."""

    graph: OperatorGraph
    plan: FusionPlan
    target: str


class Service:
    """Answers requests about one open file; compiled kernels and tried moves are cached by group and recipe.

    is_awaited: whether another request waits; polled by answers that can be cut short.
    """

    def __init__(self, is_awaited: Callable[[], bool] = lambda: False) -> None:
        self._is_awaited = is_awaited
        self._opened: Opened | None = None
        self._known_attempts: Attempts | None = None
        self._kernels: dict[tuple[str, str | None], engine.Kernel] = {}
        self._moves: dict[tuple[str, str | None], dict[str, MoveDoc | None]] = {}

    def answer(self, verb: str, arguments: Arguments, send: Send) -> Any:
        """The result of one request, a document or plain data; EngineError where there is none."""
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
            case "moves":
                return self._tried_moves(arguments)
            case "decisions":
                return to_json(engine.decisions(*self._advised(arguments)))
            case "space":
                drawn = _names(arguments, "axes"), _names(arguments, "order")
                return to_json(engine.space(*self._advised(arguments), *drawn))
            case "addresses":
                return self._addresses(arguments, send)
            case "chart":
                return to_json(engine.chart(self._kernel(arguments, send)))
            case "listing":
                return to_json(engine.listing(self._kernel(arguments, send), _text(arguments, "language")))
            case "variant":
                return to_json(engine.variant(*self._advised(arguments), _knobs(arguments)))
            case "ablation":
                group, best = self._advised(arguments)
                _, before = self._advised({**arguments, "recipe": _text_or_none(arguments, "before")})
                return to_json(engine.ablate(group, best, before))
            case "why":
                pair = _text(arguments, "producer"), _text(arguments, "consumer")
                return to_json(engine.why_apart(self._file().plan, *pair))
            case "regroup":
                return to_json(engine.regroup(self._file().plan, _fixed(arguments), target=self._file().target))
            case "attempt":
                wish = Wish(_text(arguments, "kind"), _names(arguments, "operators"))
                return to_json(self._attempts().attempt(wish))
            case "fuse":
                return self._fuse(arguments, send)
            case "order":
                asked = _names(arguments, "order"), _sizes(arguments, "tiles")
                return to_json(engine.order(*self._advised(arguments), *asked))
            case "machine":
                return to_json(machine())
            case _:
                raise BadInput("service", f"verb {verb}", "there is no such verb")

    def _open(self, arguments: Arguments, send: Send) -> ModelDoc:
        target = _text_or_none(arguments, "target") or DEFAULT_TARGET
        spent: list[tuple[str, float]] = []

        def timed(stage: str, text: str, run: Callable[[], Result]) -> Result:
            send("progress", {"text": text, "done": len(spent), "total": 3})
            started = time.perf_counter()
            result = run()
            spent.append((stage, time.perf_counter() - started))
            return result

        path, sizes = _text(arguments, "path"), _sizes(arguments, "dimensions") or None
        graph = timed("load", "reading the file", lambda: engine.load(path, dims=sizes))
        fixed = _fixed(arguments)
        plan = timed("fuse", "planning the kernels", lambda: engine.fuse(graph, target=target, fixed=fixed))
        keep = partial(_ahead, send)
        document = timed("predict", "predicting their times", lambda: engine.model_doc(graph, plan, target, keep))
        self._open_plan(Opened(graph, plan, target))
        return replace(document, seconds=tuple(spent))

    def _fuse(self, arguments: Arguments, send: Send) -> ModelDoc:
        """Fuse the open graph again with other groups fixed; where they are illegal, nothing changes."""
        opened, fixed = self._file(), _fixed(arguments)
        send("progress", {"text": "exploring the rest", "done": 0, "total": 2})
        plan = engine.fuse(opened.graph, target=opened.target, fixed=fixed)
        send("progress", {"text": "predicting the times", "done": 1, "total": 2})
        document = engine.model_doc(opened.graph, plan, opened.target, partial(_ahead, send))
        self._open_plan(replace(opened, plan=plan))
        return document

    def _open_plan(self, opened: Opened) -> None:
        """Replace the open plan and clear the caches about the groups of the old one."""
        self._opened = opened
        self._known_attempts = None
        self._kernels.clear()
        self._moves.clear()

    def _attempts(self) -> Attempts:
        """The evaluator of fusion edits of the present plan."""
        if self._known_attempts is None:
            opened = self._file()
            self._known_attempts = engine.attempts(opened.plan, target=opened.target)
        return self._known_attempts

    def _check(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        send("progress", {"text": f"running {kernel.group.name} on the CPU", "done": 1, "total": 2})
        return to_json(engine.check_doc(engine.check(kernel)))

    def _addresses(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        send("progress", {"text": f"running a block of {kernel.group.name} on the CPU", "done": 1, "total": 2})
        return to_json(engine.addresses(kernel))

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
            kernel,
            on_sample=lambda microseconds: send("sample", {"group": name, "microseconds": microseconds}),
            on_state=lambda state: send(
                "state", {"group": name, "clock": state.sm_clock, "temperature": state.temperature}
            ),
        )
        if isinstance(timing, engine.Failure):
            raise EngineError("measure", name, f"{timing.kind}: {timing.message}")
        return to_json(engine.time_doc(timing))

    def _diff(self, arguments: Arguments, send: Send) -> Any:
        """Two advice texts of one group, "a" and "b", with their kernels."""
        sides = ({**arguments, "recipe": _text(arguments, side)} for side in ("a", "b"))
        a, b = (self._kernel(side, send) for side in sides)
        return to_json(engine.compare(a, b))

    def _kernel_or_refusal(self, arguments: Arguments, send: Send) -> KernelDoc:
        """The compiled group, or the verdicts of required entries that cannot hold together or are not taken."""
        try:
            return engine.kernel_doc(self._kernel(arguments, send))
        except Conflict as conflict:
            return engine.refused_doc(*self._advised(arguments), conflict)
        except NoKernel as refused:
            reason = f"the order is legal, and no kernel follows it: {refused.reason}"
            raise Unsupported(refused.stage, refused.subject, reason, refused.hint) from refused

    def _kernel(self, arguments: Arguments, send: Send) -> engine.Kernel:
        """The compiled group of a request, cached by group and advice."""
        key = (_text(arguments, "group"), _text_or_none(arguments, "recipe"))
        kernel = self._kernels.pop(key, None)
        if kernel is None:
            group, recipe = self._advised(arguments)
            send("progress", {"text": f"scheduling {group.name}", "done": 0, "total": 1})
            kernel = engine.compile(group, recipe)
            _make_room(self._kernels, MOST_KERNELS)
        self._kernels[key] = kernel  # at the end: the first key is the one that was not asked for longest
        return kernel

    def _tried_moves(self, arguments: Arguments) -> Any:
        """Next steps: all, or those that could be tried before another request came."""
        key = (_text(arguments, "group"), _text_or_none(arguments, "recipe"))
        known = self._moves.pop(key, {})
        _make_room(self._moves, MOST_MOVES)
        self._moves[key] = known
        return to_json(engine.moves(*self._advised(arguments), should_stop=self._is_awaited, known=known))

    def _advised(self, arguments: Arguments) -> tuple[FusionGroup, engine.Recipe]:
        """The group of a request with the advisers' recipe, or with what the request's text says in its place."""
        group, text = _group(self._file().plan, _text(arguments, "group")), _text_or_none(arguments, "recipe")
        recipe = engine.default_recipe(group, target=self._file().target)
        return group, recipe if text is None else engine.edited(recipe, group, text)

    def _file(self) -> Opened:
        if self._opened is None:
            raise BadInput("service", "file", "none is open yet", "send `open` first")
        return self._opened


def _make_room(kept: dict[Any, Any], most: int) -> None:
    """Drop the first keys, so that one more makes at most `most`."""
    while len(kept) >= most:
        del kept[next(iter(kept))]


def _text(arguments: Arguments, name: str) -> str:
    """A required text argument."""
    if name not in arguments:
        raise BadInput("service", f"argument {name}", "it is missing from the request")
    value = arguments[name]
    return value if isinstance(value, str) else _refuse(arguments, name, "a text")


def _text_or_none(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    return value if value is None or isinstance(value, str) else _refuse(arguments, name, "a text")


def _names(arguments: Arguments, name: str) -> tuple[str, ...]:
    """A list of texts; empty where it is left out."""
    value = arguments.get(name) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        return _refuse(arguments, name, "a list of texts")
    return tuple(value)


def _fixed(arguments: Arguments) -> engine.Fixed:
    """Groups of operators, and pairs of them kept apart; none where they are left out."""

    def lists(name: str) -> list[tuple[str, ...]]:
        value = arguments.get(name) or []
        if not isinstance(value, list | tuple):
            return _refuse(arguments, name, "a list of lists of operators")
        return [_names({name: item or None}, name) for item in value]

    pairs = lists("apart")
    if any(len(pair) != 2 for pair in pairs):
        return _refuse(arguments, "apart", "pairs of operators")
    return engine.Fixed(tuple(lists("groups")), tuple((a, b) for a, b in pairs))


def _sizes(arguments: Arguments, name: str) -> dict[str, int]:
    """A whole number for each name; empty where it is left out."""
    value = arguments.get(name) or {}
    if not isinstance(value, dict) or not all(type(size) is int for size in value.values()):
        return _refuse(arguments, name, "an object of whole numbers")
    return dict(value)


def _knobs(arguments: Arguments) -> GemmConfig:
    """The knobs of a contraction."""
    if not isinstance(arguments.get("knobs"), dict):
        raise BadInput("service", "argument knobs", "must be an object")
    return from_json(GemmConfig, arguments["knobs"])


def _refuse(arguments: Arguments, name: str, wanted: str) -> NoReturn:
    raise BadInput("service", f"argument {name}", f"must be {wanted}, not {json.dumps(arguments[name])[:80]}")


def _group(plan: FusionPlan, name: str) -> FusionGroup:
    try:
        return plan.group(name)
    except KeyError as error:
        raise BadInput("service", f"group {name}", "the open file has no such group") from error


class Requests:
    """Request lines in order, read ahead by a thread, so that one can be seen to wait before it is taken."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines: Queue[str | None] = Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self._lines.put(line)
        finally:  # also after a read error: without the end mark `serve` would wait for ever
            self._lines.put(None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines.get, None)

    def is_one_waiting(self) -> bool:
        """Whether a request has arrived that was not taken yet; the end of the stream is none."""
        waiting = self._lines.queue
        return bool(waiting) and waiting[0] is not None


def serve(lines: Iterable[str], replies: TextIO) -> None:
    """Answer every request line until there are no more."""
    requests = Requests(lines)
    service = Service(requests.is_one_waiting)
    for line in requests:
        try:
            request = json.loads(line)
            number, verb, arguments = request["id"], request["verb"], request.get("arguments") or {}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            print(f"not a request: {line.strip()[:200]} ({error})", file=sys.stderr, flush=True)
            continue

        def send(event: str, value: Any, number: Any = number) -> None:
            replies.write(json.dumps({"id": number, "event": event, "value": value}) + "\n")
            replies.flush()

        try:
            if not isinstance(arguments, dict):
                raise BadInput("service", f"arguments of {verb}", "must be an object")
            with cycles_left_alone():
                send("result", _without_long_lists(service.answer(verb, arguments, send), send))
        except EngineError as error:
            send("error", to_json(Problem(error.stage, error.subject, error.reason, error.hint)))


def _without_long_lists(result: Any, send: Send) -> Any:
    """Send all but the last part of a document's long lists ahead; the rest of the document as plain data.

    The window decodes the first parts while later ones are made.
    """
    if not is_dataclass(result):
        return to_json(result)
    left: dict[str, Any] = {}
    for field in fields(result):
        items = getattr(result, field.name)
        left[field.name] = to_json(_ahead(send, field.name, items) if isinstance(items, tuple) else items)
    return left


def _ahead(send: Send, key: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Send all but the last part of a list; the items of the last part."""
    last = max(len(items) - 1, 0) // PART * PART
    for start in range(0, last, PART):
        send("part", {"key": key, "items": to_json(items[start : start + PART])})
    return items[last:]


def main() -> None:
    """Serve standard input.  What libraries print goes to standard error, so that only replies are on the stream."""
    # Ctrl-C at the terminal reaches this process as well; the window that started it ends it.  A handler that does
    # nothing, not SIG_IGN: children inherit an ignored signal over exec, but not a handler, and must end by Ctrl-C.
    signal.signal(signal.SIGINT, lambda *_: None)
    replies = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
