"""Which trials a typed filter keeps: words that any of their texts begins with, and comparisons of figures.

    failed            trials without a time               stages=3 warps>4      values of dimensions
    time<40           microseconds                        spill                 a failure, mapping or group
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from views.tuning.trials import NONE, REUSED, Rows, Trials, Words

Kept = NDArray[np.bool_]
COMPARISON = re.compile(r"([^\s=<>!]+?)(<=|>=|!=|=|<|>)(\S+)")
COMPARE: dict[str, Callable[[NDArray[np.float64], float], Kept]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal, "!=": np.not_equal,
}  # fmt: skip
FIGURES = {"time": "microseconds", "promised": "promised", "trial": "number"}
"""What a person types -> the column."""


def filter_trials(trials: Trials, rows: Rows, text: str) -> tuple[Rows, str]:
    """The rows that every word of `text` keeps, and what of it means nothing here ("" where all of it does)."""
    unknown = ""
    for word in text.split():
        found = _rows_of_word(trials, rows, word)
        if found is None:
            unknown = unknown or word
        else:
            rows = rows[found]
    return rows, unknown


def _rows_of_word(trials: Trials, rows: Rows, word: str) -> Kept | None:
    match = COMPARISON.fullmatch(word)
    if match is not None:
        return _compare_figure(trials, rows, match[1], match[2], match[3])
    states = {"failed": lambda: np.isnan(trials.microseconds[rows]), "ok": lambda: ~np.isnan(trials.microseconds[rows])}
    states["reused"] = lambda: trials.column("state")[rows] == REUSED
    if word in states:
        return states[word]()
    return _containing(trials, rows, word.lower())


def _compare_figure(trials: Trials, rows: Rows, name: str, sign: str, value: str) -> Kept | None:
    """A comparison of a figure, or of a dimension's value; a dimension may be named by its beginning."""
    if name in FIGURES:
        number = _number(value)
        return None if number is None else COMPARE[sign](trials.column(FIGURES[name])[rows].astype(float), number)
    dimension = next((each for each in trials.dimensions if each.startswith(name)), "")
    if not dimension:
        return None
    codes, words = trials.value(dimension)[rows], trials.words.dimensions[dimension]
    number = _number(value)
    if number is None or sign in ("=", "!="):
        same = codes == words.find(value)
        return ~same & (codes != NONE) if sign == "!=" else same if sign == "=" else None
    sizes = np.array([_number(text) if _number(text) is not None else np.nan for text in words.texts] or [np.nan])
    return np.asarray((codes != NONE) & COMPARE[sign](sizes[codes], number))


def _containing(trials: Trials, rows: Rows, part: str) -> Kept | None:
    """Trials of which any word contains `part`; None where no word of any trial does."""
    found, any_word = np.zeros(len(rows), bool), False
    columns = [(trials.words.groups, trials.column("group")), (trials.words.mappings, trials.column("mapping"))]
    columns += [(trials.words.kinds, trials.column("kind"))]
    columns += [(trials.words.dimensions[name], trials.value(name)) for name in trials.dimensions]
    for words, codes in columns:
        hits = _matching(words, part)
        any_word = any_word or bool(hits.any())
        chosen = codes[rows]
        found |= (chosen != NONE) & np.append(hits, False)[chosen]
    return found if any_word else None


def _matching(words: Words, part: str) -> NDArray[np.bool_]:
    return np.array([part in text.lower() for text in words.texts], bool)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
