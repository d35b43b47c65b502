"""Works that another process makes ahead: the same plan whoever made them, and nobody waits for what was not begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import default_works
from engine.default_works import WorksAhead, default_microseconds
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.support.process_pool import process_pool
from tests.support import large_models

OPERATORS = 400


class Recorder(Executor):
    """Keeps what is submitted, and does with its future what it is told."""

    def __init__(self, begin: Callable[[Future[Any], FusionGroup], None]) -> None:
        self.groups: list[FusionGroup] = []
        self.futures: list[Future[Any]] = []
        self._begin = begin

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        self.groups.append(args[0])
        self.futures.append(future)
        self._begin(future, args[0])
        return future


def lie_still(future: Future[Any], group: FusionGroup) -> None:
    """Nobody begins."""


def die(future: Future[Any], group: FusionGroup) -> None:
    """The process dies after it has begun."""
    future.set_running_or_notify_cancel()
    future.set_exception(BrokenExecutor())


@pytest.fixture
def irregular(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[engine.OperatorGraph]:
    """A graph of blocks in random order, of which a plan asks ahead; nothing of it was compiled before."""
    model = large_models.blocks(OPERATORS)
    model.save(tmp_path)
    monkeypatch.setattr(default_works, "_works", {})
    monkeypatch.setattr("engine.fusion.plan.MANY_PAIRS", 2)
    yield engine.load(tmp_path / f"{model.name}.onnx")


def told(plan: FusionPlan) -> tuple[object, ...]:
    """What is seen of a plan."""
    return plan.groups, plan.launches, plan.boundaries


def test_a_plan_is_the_same_whoever_makes_its_works(
    irregular: engine.OperatorGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = engine.fuse(irregular)
    default_works._works.clear()
    made: list[str] = []
    original = default_works._keep

    def recording(key: default_works.Key, work: Any) -> None:
        made.append(key[0])  # type: ignore[arg-type]
        original(key, work)

    monkeypatch.setattr(default_works, "_keep", recording)
    asked: list[int] = []
    with process_pool(1) as pool:
        submit = pool.submit
        monkeypatch.setattr(pool, "submit", lambda *args: (asked.append(1), submit(*args))[1])
        together = engine.fuse(irregular, executor=pool)
    assert told(together) == told(alone)
    assert len(asked) > 20 and len(made) == len(set(made)), "each work is made once"


@pytest.mark.parametrize("begin", [lie_still, die])
def test_what_nobody_makes_is_made_here(irregular: engine.OperatorGraph, begin: Callable[..., None]) -> None:
    alone = engine.fuse(irregular)
    default_works._works.clear()
    executor = Recorder(begin)
    assert told(engine.fuse(irregular, executor=executor)) == told(alone)
    assert len(executor.groups) > 20


def test_who_waits_makes_the_next_that_was_not_begun(irregular: engine.OperatorGraph) -> None:
    first, second, third = expected(irregular, 3)
    executor = Recorder(lie_still)
    ahead = WorksAhead(executor)
    for group in (first, second, third):
        ahead.expect(group)
        ahead.expect(group)
    assert executor.groups == [first, second, third], "what is expected already is not submitted again"
    executor.futures[0].set_running_or_notify_cancel()
    original = executor.futures[2].cancel

    def cancel() -> bool:  # asked for last: now the first one ends
        executor.futures[0].set_result(None)
        return original()

    executor.futures[2].cancel = cancel  # type: ignore[method-assign]
    assert ahead.microseconds(first) == float("inf"), "what the process said: there is no kernel"
    known = set(default_works._works)
    assert {default_works._key(group) for group in (second, third)} <= known, "made here while it was waited for"
    assert ahead.microseconds(second) == default_microseconds(second) < float("inf")


def expected(graph: engine.OperatorGraph, count: int) -> list[FusionGroup]:
    """Groups that a plan of a graph asks for ahead."""
    executor = Recorder(lie_still)
    engine.fuse(graph, executor=executor)
    default_works._works.clear()
    return executor.groups[:count]
