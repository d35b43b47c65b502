"""Edits that break a JSON document: its values, its structure, its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 4, 7, 8, 16, 32, 33, 1024, 4097, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63, 10**30, 10**390,
    0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = ("", " ", "x", "S0", "0", "-1", "1e9", "a\nb", "*/", "\\", "%s{}", "é", "٣", "😀", "\x00", "\ud800",
         "__class__", "a" * 5000, "[" * 2000, "{}", "[[]]", "null", "../x", "/dev/zero")  # fmt: skip
HOLLOW: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None})
MOST_BYTES = 3 << 20
"""A document that is as large as this grows no more."""

Place = tuple[Any, Any]
"""A list or an object, and where in it."""
Edit = Callable[[list[Any], Sequence[Any], Random], None]
"""Changes the only item of a list, a document.  The second argument holds words that its readers know."""


def broken(document: object, words: Sequence[Any], random: Random, most_edits: int) -> bytes:
    """The text of a document after some edits."""
    root: list[Any] = [deepcopy(document)]
    for edit in random.choices(EDITS, k=random.randint(1, most_edits)):
        edit(root, words, random)
        if len(json.dumps(root)) > MOST_BYTES:
            break
    indent = random.choice((None, 1))
    text = json.dumps(root[0], ensure_ascii=random.random() < 0.5)
    if indent and len(text) < 1 << 16:  # what nests deeply would be spaces for the most part
        text = json.dumps(root[0], ensure_ascii=False, indent=indent)
    data = text.encode(errors="surrogatepass")
    return random.choice(TEXT_EDITS)(data, random) if random.random() < 0.06 else data


def _places(value: Any) -> Iterator[Place]:
    """Every place below a value, without recursion: edits nest deeply."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for at, inner in holder.items() if isinstance(holder, dict) else enumerate(holder):
            yield holder, at
            if isinstance(inner, dict | list):
                waiting.append(inner)


def _place(root: list[Any], random: Random, kind: type | tuple[type, ...] = object) -> Place | None:
    found = [(holder, at) for holder, at in _places(root) if isinstance(holder[at], kind)]
    return random.choice(found) if found else None


def _strange(words: Sequence[Any], random: Random) -> Any:
    return deepcopy(random.choice((random.choice(NUMBERS), random.choice(TEXTS), random.choice(HOLLOW),
                                   random.choice(words))))  # fmt: skip


def change(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """Another value of the same type, so that readers go on for longer."""
    place = _place(root, random, (int, float, str))
    if place is None:
        return
    holder, at = place
    if isinstance(holder[at], bool):
        holder[at] = not holder[at]
    elif isinstance(holder[at], str):
        known = [word for word in words if isinstance(word, str)]
        others = [other[key] for other, key in _places(root) if isinstance(other[key], str)]
        holder[at] = random.choice((random.choice(known), random.choice(others), random.choice(TEXTS)))
    else:
        holder[at] = random.choice((random.choice(NUMBERS), holder[at] + 1, -holder[at], random.choice(NUMBERS[:12])))


def change_type(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """Any value, where another stood."""
    if place := _place(root, random):
        place[0][place[1]] = _strange(words, random)


def drop(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """A key or an item less."""
    place = _place(root, random)
    if place is not None and place[0] is not root:
        del place[0][place[1]]


def add(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """A key or an item more, known or not."""
    place = _place(root, random, (list, dict))
    if place is None:
        return
    inner = place[0][place[1]]
    if isinstance(inner, list):
        inner.insert(random.randint(0, len(inner)), _strange(words, random))
    else:
        inner[random.choice((*TEXTS, *(word for word in words if isinstance(word, str))))] = _strange(words, random)


def rename(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """Another key for a value."""
    found = [(holder, at) for holder, at in _places(root) if isinstance(holder, dict)]
    if found:
        holder, at = random.choice(found)
        others = [key for other, key in found]
        holder[random.choice((*others, *TEXTS))] = holder.pop(at)


def exchange(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """One part in the place of another, which may hold it."""
    source, target = _place(root, random), _place(root, random)
    if source and target:
        target[0][target[1]] = deepcopy(source[0][source[1]])


def multiply(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """A list whose items come again: references that are doubled, or work that grows."""
    place = _place(root, random, list)
    if place is not None and place[0][place[1]]:
        inner = place[0][place[1]]
        item = random.choice(inner)
        size = len(json.dumps(item)) + 2
        count = random.choice((1, 1, 2, 40, 2000))
        inner.extend(deepcopy(item) for _ in range(min(count, MOST_BYTES // size)))


def nest(root: list[Any], words: Sequence[Any], random: Random) -> None:
    """A value inside many lists, or inside many objects of one key."""
    place = _place(root, random)
    if place is None:
        return
    holder, at = place
    key = random.choice((None, None, at if isinstance(at, str) else "x"))
    for _ in range(random.choice((1, 1, 40, 120, 300))):
        holder[at] = [holder[at]] if key is None else {key: holder[at]}


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _change_byte(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + random.choice((b"\xff", b"\x00", b'"', b"]", b",", b"\xef\xbb\xbf")) + data[at + 1 :]


def _double_key(data: bytes, random: Random) -> bytes:
    """An object whose first key stands in it twice, with different values."""
    colon = data.find(b":")
    brace = data.rfind(b"{", 0, max(colon, 0))
    return data if brace < 0 else data[: brace + 1] + data[brace + 1 : colon] + b": null, " + data[brace + 1 :]


def _endless(data: bytes, random: Random) -> bytes:
    """A text that is nested past any parser's stack, or a number past any parser's digits."""
    inner = random.choice((b"[" * 200_000, b'{"x":' * 100_000, b"9" * 5000, b"-" + b"9" * 100_000, b"1e999999999"))
    at = data.find(b":")
    return data[: at + 1] + inner + data[at + 1 :]


TEXT_EDITS = (_cut, _change_byte, _double_key, _endless)
EDITS: tuple[Edit, ...] = (*[change] * 6, change_type, drop, add, rename, exchange, multiply, nest)
