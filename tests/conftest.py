"""Settings that hold for all tests."""

from __future__ import annotations

import gc
import os
import random

import pytest

# Before any test imports Qt: windows are painted in memory, on machines with and without a display.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Predictions are those of the target's description, whatever this user has measured.
os.environ["LOOMSCOPE_DATA"] = os.path.join(os.path.dirname(__file__), "no-data-of-the-user")


def pytest_collection_finish() -> None:
    """What collection made stays until the end: the cyclic collector need not visit it in each of its passes."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-sentinels", action="store_true", help="of every slow loop over cases, one case")


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a loop that is marked `few(N)`, all but N cases are slow.  With `--slow-sentinels`, one case of each slow
    test function that has several is run, and no other test.

    `slow(sentinel=True)` is for single tests that take two seconds or more: CI runs them all.
    `slow(sentinel=False)` is for functions of which one case alone takes long.
    """
    loops: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            loops.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in loops.values():
        _mark_all_but_few(of_one)
    if not config.getoption("--slow-sentinels"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow is not None and slow.kwargs.get("sentinel", "[" in item.nodeid):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = {of_one[len(of_one) // 2] for of_one in cases.values()}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _mark_all_but_few(items: list[pytest.Item]) -> None:
    """Chosen cases stay in the normal run, and stand for the others in that of the sentinels."""
    marker = items[0].get_closest_marker("few")
    assert marker is not None
    quick = [item for item in items if not item.get_closest_marker("slow")]
    kept = _spread(quick, marker.args[0])
    for item in quick:
        if item not in kept:
            item.add_marker(pytest.mark.slow(sentinel=False))


def _spread(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """Cases in which every value of every parameter is met first: an even stride may meet one of a grid's values alone.
    """
    left = random.Random(items[0].nodeid.partition("[")[0]).sample(items, len(items)) if items else []
    kept: list[pytest.Item] = []
    met: set[tuple[str, int]] = set()
    while left and len(kept) < count:
        best = max(left, key=lambda item: len(_values(item) - met))
        left.remove(best)
        kept.append(best)
        met |= _values(best)
    return kept


def _values(item: pytest.Item) -> set[tuple[str, int]]:
    """The parameters of a case, each with the place of its value."""
    found = getattr(item, "callspec", None)
    return set(found.indices.items()) if found else set()
