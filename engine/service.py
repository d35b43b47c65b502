"""The engine as a process: one JSON request a line on standard input, replies a line each on standard output.

    request  {"id": 7, "verb": "kernel", "arguments": {"group": "softmax_0", "recipe": null}}
    replies  {"id": 7, "event": "progress", "value": {"text", "done", "total"}}      any number
             {"id": 7, "event": "sample", "value": {"group", "microseconds"}}        while measuring
             {"id": 7, "event": "state", "value": {"group", "clock", "temperature"}} while measuring: MHz, °C
             {"id": 7, "event": "part", "value": {"key", "items"}}                   the next items of a long list
             {"id": 7, "event": "preview", "value": {"document", "kept"}}            what is known before the result
             {"id": 7, "event": "result", "value": DOCUMENT}                         exactly one of
             {"id": 7, "event": "error", "value": PROBLEM}                           these two

Long lists of a result are sent ahead of it in parts (engine.documents.parts).  A preview is a document of the result's
kind; it takes the parts that were sent before it, and those of the fields in "kept" belong to the result, too.

Requests are served in order.  The window cancels by killing this process; it holds no state that has to be saved.

The verb `moves` yields to others: it compiles many kernels, and answers with what it has (`complete` false) as soon as
another request waits, which a thread that reads ahead finds out.  Asked again, it continues from there.  So does
`conflict`, the second answer about an edit, from the beginning.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, TextIO, TypeVar, get_type_hints

import engine
from engine.compilation import compile_for
from engine.cpu.nodes import CpuKernel
from engine.documents.difference import ModelComparisonDoc
from engine.documents.exploration import QUESTIONS, FusionEdit
from engine.documents.model import ModelDoc, OperatorDoc, ProblemDoc
from engine.documents.parts import Send, send_ahead, without_long_lists
from engine.execution.machine import machine
from engine.explore.fusion_attempts import Attempts
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.graph.load import symbolic_dimensions
from engine.present.model import operator_docs, unplanned_doc
from engine.scheduling.nodes import FIRST_ANSWER, Conflict, Options
from engine.scheduling.untaken_entries import NoKernel
from engine.support.cache import sweep_leftovers
from engine.support.child_processes import end_with_parent
from engine.support.errors import BadInput, EngineError, Unsupported
from engine.support.fault import as_engine_error
from engine.support.garbage_collection import cycles_left_alone
from engine.support.request_arguments import Arguments, read_argument, read_text
from engine.support.request_lines import Requests, widen
from engine.support.serialization import to_json
from engine.target import DEFAULT_TARGET
from engine.verify.levels import AUTO, choose_levels, join_levels

Result = TypeVar("Result")
Key = TypeVar("Key")
KEPT = 256
"""Pairs of group and advice whose kernels and tried moves are cached: every edit adds one."""
PREVIEWED = 10_000
"""Operators of a graph from which it is shown before its kernels are planned, which takes seconds."""


class Service:
    """Answers requests about one open file; compiled kernels and tried moves are cached by group and recipe.

    is_awaited: whether another request waits; polled by answers that can be cut short.
    """

    def __init__(self, is_awaited: Callable[[], bool] = lambda: False) -> None:
        self._is_awaited = is_awaited
        self._opened: FusionPlan | None = None
        self._attempts: Attempts | None = None
        self._advised: dict[str, engine.Recipe] = {}
        """Group -> the recipe of its advisers."""
        self._kernels: dict[tuple[str, str | None], engine.AnyKernel] = {}
        self._findings: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        """(question, group, recipe) -> what its function found before it was broken off."""

    def answer(self, verb: str, arguments: Arguments, send: Send) -> Any:
        """The result of one request, a document or plain data; EngineError where there is none."""
        verb = str(verb)  # a line may hold anything there, also what no table can be asked for
        if verb in QUESTIONS:
            return self._answer_question(verb, arguments, send)
        if verb not in REQUESTS:
            raise BadInput("service", f"verb {verb}", "there is no such verb")
        return REQUESTS[verb](self, arguments, send)

    def _answer_question(self, verb: str, arguments: Arguments, send: Send) -> Any:
        """Calls the function that answers a question, with what each of its parameters is named after."""
        asked = QUESTIONS[verb]
        module, _, name = asked.function.partition(":")
        function = getattr(import_module(module), name)
        group, recipe = self._group_and_recipe(arguments)

        def kernel() -> engine.Kernel:
            found = self._kernel(arguments, send)
            if isinstance(found, CpuKernel):
                reason = f"is for {found.target.name}, a CPU: this is told of kernels for GPUs"
                raise Unsupported("service", asked.title, f"the kernel {reason}")
            send("progress", {"text": f"{asked.title.lower()} {group.name}", "done": 1, "total": 2})
            return found

        # Called only for functions that ask for them: a kernel may take seconds to compile.
        given: dict[str, Callable[[], Any]] = {
            "group": lambda: group,
            "recipe": lambda: recipe,
            "kernel": kernel,
            "plan": self._plan,
            "should_stop": lambda: self._is_awaited,
            "known": lambda: _keep(self._findings, (verb, *_key(arguments)), dict),
        }
        kinds = get_type_hints(function)
        values = {}
        for parameter in signature(function).parameters.values():
            if parameter.name in given:
                values[parameter.name] = given[parameter.name]()
            else:
                kind = kinds[parameter.name]
                values[parameter.name] = read_argument(arguments, parameter.name, kind, parameter.default)
        return to_json(function(**values))

    def _open(self, arguments: Arguments, send: Send) -> ModelDoc:
        target = read_argument(arguments, "target", str, DEFAULT_TARGET)
        spent: list[tuple[str, float]] = []

        def time_stage(stage: str, text: str, run: Callable[[], Result]) -> Result:
            send("progress", {"text": text, "done": len(spent), "total": 3})
            started = time.perf_counter()
            result = run()
            spent.append((stage, time.perf_counter() - started))
            return result

        path, sizes = read_text(arguments, "path"), read_argument(arguments, "dimensions", dict[str, int], None)
        graph = time_stage("load", "reading the file", lambda: engine.load(path, dims=sizes))
        fixed, numerics = _read_fixed(arguments), read_argument(arguments, "numerics", dict[str, str], None)
        keep = partial(send_ahead, send)

        def plan_kernels() -> tuple[tuple[OperatorDoc, ...], FusionPlan]:
            operators = keep("operators", operator_docs(graph))  # the window reads them meanwhile
            if len(graph.operators) >= PREVIEWED:
                preview = without_long_lists(unplanned_doc(graph, target, operators), send)
                send("preview", {"document": preview, "kept": ["operators"]})
            return operators, engine.fuse(graph, target, fixed=fixed, numerics=numerics)

        operators, plan = time_stage("fuse", "planning the kernels", plan_kernels)
        document = time_stage(
            "predict", "predicting their times",
            lambda: engine.model_doc(graph, plan, keep=keep, operators=operators),
        )  # fmt: skip
        self._open_plan(plan)
        return replace(document, seconds=tuple(spent))

    def _dimensions(self, arguments: Arguments, send: Send) -> dict[str, list[str]]:
        """The symbolic dimensions of a file, which need not be the open one, and where they are used."""
        return symbolic_dimensions(Path(read_text(arguments, "path")))

    def _fuse(self, arguments: Arguments, send: Send) -> ModelDoc:
        """Fuse the open graph again with other groups fixed; where they are illegal, nothing changes."""
        before, fixed = self._plan(), _read_fixed(arguments)
        assert before.source is not None, "it was fused from a file"
        send("progress", {"text": "exploring the rest", "done": 0, "total": 2})
        keep = partial(send_ahead, send)
        operators = keep("operators", operator_docs(before.source))
        plan = engine.fuse(before.source, before.target, fixed=fixed, numerics=before.numerics)
        send("progress", {"text": "predicting the times", "done": 1, "total": 2})
        document = engine.model_doc(before.source, plan, keep=keep, operators=operators)
        self._open_plan(plan)
        return document

    def _open_plan(self, plan: FusionPlan) -> None:
        """Replace the open plan and clear the caches about the groups of the old one."""
        self._opened, self._attempts = plan, None
        self._advised.clear()
        self._kernels.clear()
        self._findings.clear()

    def _attempt(self, arguments: Arguments, send: Send) -> Any:
        """Legality and effect of a fusion edit of the present plan."""
        self._attempts = self._attempts or Attempts(self._plan())
        wish = FusionEdit(read_text(arguments, "kind"), read_argument(arguments, "operators", tuple[str, ...], ()))
        return to_json(self._attempts.attempt(wish))

    def _why(self, arguments: Arguments, send: Send) -> Any:
        pair = read_text(arguments, "producer"), read_text(arguments, "consumer")
        return to_json(engine.why_apart(self._plan(), *pair))

    def _regroup(self, arguments: Arguments, send: Send) -> Any:
        return to_json(engine.regroup(self._plan(), _read_fixed(arguments)))

    def _ablation(self, arguments: Arguments, send: Send) -> Any:
        """The recipe of a request entry by entry, against the one that its text "before" says."""
        group, best = self._group_and_recipe(arguments)
        _, before = self._group_and_recipe({**arguments, "recipe": arguments.get("before")})
        return to_json(engine.ablate(group, best, before))

    def _machine(self, arguments: Arguments, send: Send) -> Any:
        return to_json(machine())

    def _check(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        levels, checks = choose_levels(AUTO, kernel), {}
        for done, level in enumerate(levels, 1):
            text = f"running the {level} of {kernel.group.name} on the CPU"
            send("progress", {"text": text, "done": done, "total": len(levels) + 1})
            checks[level] = engine.check(kernel, level=level)
        return to_json(join_levels(checks))

    def _compile(self, arguments: Arguments, send: Send) -> Any:
        kernel = self._kernel(arguments, send)
        compiled: list[Any] = []
        if isinstance(kernel, CpuKernel):  # NVRTC has nothing to say of it
            return {"group": kernel.group.name, "compiled": compiled}
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
        sides = ({**arguments, "recipe": read_text(arguments, side)} for side in ("a", "b"))
        a, b = (self._kernel(side, send) for side in sides)
        return to_json(engine.compare(a, b))

    def _compare_model(self, arguments: Arguments, send: Send) -> ModelComparisonDoc:
        """The open plan, under the advice of its "recipes", beside another file under that of "other_recipes".

        The open plan stays open.
        """
        plan = self._plan()
        send("progress", {"text": "reading the other file", "done": 0, "total": 2})
        sizes = read_argument(arguments, "dimensions", dict[str, int], None)
        graph = engine.load(read_text(arguments, "path"), dims=sizes)
        target = read_argument(arguments, "target", str, plan.target)
        numerics = read_argument(arguments, "numerics", dict[str, str], None)
        other = engine.fuse(graph, target, fixed=_read_fixed(arguments), numerics=numerics)
        send("progress", {"text": "predicting the times", "done": 1, "total": 2})
        advice, others = (read_argument(arguments, key, dict[str, str], {}) for key in ("recipes", "other_recipes"))
        return engine.compare_plans((plan, advice), (other, others))

    def _kernel_or_refusal(self, arguments: Arguments, send: Send) -> Any:
        """The compiled group, or the verdicts of required entries that cannot hold together or are not taken."""
        try:
            return to_json(engine.kernel_doc(self._kernel(arguments, send)))
        except Conflict as conflict:
            return to_json(engine.refused_doc(*self._group_and_recipe(arguments), conflict))
        except NoKernel as refused:
            reason = f"the order is legal, and no kernel follows it: {refused.reason}"
            raise Unsupported(refused.stage, refused.subject, reason, refused.hint) from refused

    def _kernel(self, arguments: Arguments, send: Send) -> engine.AnyKernel:
        """The compiled group of a request, cached by group and advice."""

        def make() -> engine.AnyKernel:
            name, text = _key(arguments)
            group = self._plan().group(name)
            send("progress", {"text": f"scheduling {name}", "done": 0, "total": 1})
            # What nobody edited is waited for; an edit is answered soon, and "conflict" asks for what is left open.
            if text is not None:
                return compile_for(*self._group_and_recipe(arguments), options=FIRST_ANSWER)
            kernel = compile_for(group, self._advised.get(name), options=Options(repairing=0.0))
            self._advised[name] = kernel.recipe
            return kernel

        return _keep(self._kernels, _key(arguments), make)

    def _group_and_recipe(self, arguments: Arguments) -> tuple[FusionGroup, engine.Recipe]:
        """The group of a request with the advisers' recipe, or with what the request's text says in its place."""
        name, text = _key(arguments)
        group = self._plan().group(name)
        if name not in self._advised:
            self._advised[name] = engine.default_recipe(group)
        recipe = self._advised[name]
        return group, recipe if text is None else engine.replace_advice(recipe, group, text)

    def _plan(self) -> FusionPlan:
        if self._opened is None:
            raise BadInput("service", "file", "none is open yet", "send `open` first")
        return self._opened


REQUESTS: Mapping[str, Callable[[Service, Arguments, Send], Any]] = {
    "open": Service._open,
    "dimensions": Service._dimensions,
    "fuse": Service._fuse,
    "kernel": Service._kernel_or_refusal,
    "check": Service._check,
    "compile": Service._compile,
    "measure": Service._measure,
    "diff": Service._diff,
    "compare-model": Service._compare_model,
    "ablation": Service._ablation,
    "why": Service._why,
    "regroup": Service._regroup,
    "attempt": Service._attempt,
    "machine": Service._machine,
}
"""Verb -> what answers it, beside `QUESTIONS`: requests that change the service, send as they go, or name no group."""


def _keep(known: dict[Key, Result], key: Key, make: Callable[[], Result]) -> Result:
    """The cached value of a key, made now if there is none; the least recently used values go first."""
    value = known.pop(key) if key in known else make()
    while len(known) >= KEPT:
        del known[next(iter(known))]
    known[key] = value  # a dict is ordered by insertion: the last used value is the last
    return value


def _key(arguments: Arguments) -> tuple[str, str | None]:
    """The group of a request and its advice; None stands for the advisers'."""
    return read_text(arguments, "group"), read_argument(arguments, "recipe", str, None)


def _read_fixed(arguments: Arguments) -> engine.Fixed:
    """Groups of operators, and pairs of them kept apart; none where they are left out."""
    groups = read_argument(arguments, "groups", tuple[tuple[str, ...], ...], ())
    return engine.Fixed(groups, read_argument(arguments, "apart", tuple[tuple[str, str], ...], ()))


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
            replies.write(json.dumps({"id": number, "event": event, "value": value}, check_circular=False) + "\n")
            replies.flush()

        try:
            if not isinstance(arguments, dict):
                raise BadInput("service", f"arguments of {verb}", "must be an object")
            with cycles_left_alone():
                send("result", without_long_lists(service.answer(verb, arguments, send), send))
        except Exception as error:  # the last resort: the worker goes on, and the window keeps what it shows
            told = as_engine_error(error, f"request {verb}: {arguments}")
            send("error", to_json(ProblemDoc(told.stage, told.subject, told.reason, told.hint)))


def main() -> None:
    """Serve standard input.  What libraries print goes to standard error, so that only replies are on the stream."""
    # Ctrl-C at the terminal reaches this process as well; the window that started it ends it.  A handler that does
    # nothing, not SIG_IGN: children inherit an ignored signal over exec, but not a handler, and must end by Ctrl-C.
    signal.signal(signal.SIGINT, lambda *_: None)
    end_with_parent()
    sweep_leftovers()
    replies = sys.stdout
    widen(replies.fileno())
    with contextlib.redirect_stdout(sys.stderr):
        serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
