"""Settings that hold for all tests."""

from __future__ import annotations

import gc
import os

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--slow-sentinels`: one case of each slow test function that has several, and no other test.

    `slow(sentinel=False)` is for functions of which one case alone takes long, `slow(sentinel=True)` for single tests.
    """
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
