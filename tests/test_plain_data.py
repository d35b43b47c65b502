"""Documents as plain data and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.documents import model as documents
from engine.support.errors import BadInput
from engine.support.serialization import from_columns, from_json, to_columns, to_json

KINDS = [kind for kind in vars(documents).values() if is_dataclass(kind)]


def strategy(hint: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of an annotation, by the annotation alone."""
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{f.name: strategy(hints[f.name], depth + 1) for f in fields(hint)})
    if get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis:
        item = get_args(hint)[0]
        if depth > 3:
            return st.just(())
        return st.lists(strategy(item, depth + 1), max_size=2).map(tuple)
    if get_origin(hint) is tuple:
        return st.tuples(*(strategy(item, depth + 1) for item in get_args(hint)))
    if get_origin(hint) is Mapping:
        key, item = get_args(hint)
        return st.dictionaries(strategy(key), strategy(item, depth + 1), max_size=2)
    if get_args(hint):
        return st.one_of(*(strategy(option, depth) for option in get_args(hint)))
    plain = {str: st.text(max_size=4), int: st.integers(), bool: st.booleans(), type(None): st.none()}
    return plain.get(hint, st.floats(allow_nan=False))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_document_comes_back_equal(kind: type) -> None:
    @given(strategy(kind))
    @settings(max_examples=15, deadline=None)
    def check(value: object) -> None:
        assert from_json(kind, json.loads(json.dumps(to_json(value), allow_nan=False))) == value

    check()


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_documents_in_columns_come_back_equal(kind: type) -> None:
    @given(st.lists(strategy(kind), max_size=3))
    @settings(max_examples=15, deadline=None)
    def check(values: list[object]) -> None:
        data = json.loads(json.dumps(to_columns(kind, values), allow_nan=False))
        assert from_columns(kind, data) == tuple(values)

    check()


@dataclass(frozen=True, slots=True)
class Sample:
    ratio: float
    sizes: Mapping[str, tuple[int, ...]]
    note: str | None = None


def test_numbers_that_json_cannot_hold() -> None:
    plain = to_json(Sample(math.inf, {"a": (1, 2)}))
    assert plain == {"ratio": "inf", "sizes": {"a": [1, 2]}, "note": None}
    assert from_json(Sample, plain) == Sample(math.inf, {"a": (1, 2)})
    assert math.isnan(from_json(Sample, {"ratio": "nan", "sizes": {}}).ratio)
    assert from_json(Sample, {"ratio": 3, "sizes": {}}).ratio == 3.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "value: must be an object, not a list"),
        ({"sizes": {}}, "ratio: is missing"),
        ({"ratio": 1.0, "sizes": {}, "extra": 1}, "extra: is unknown"),
        ({"ratio": "many", "sizes": {}}, "ratio: must be a number, not 'many'"),
        ({"ratio": True, "sizes": {}}, "ratio: must be a number, not True"),
        ({"ratio": 1.0, "sizes": {"a": [1, "2"]}}, r"sizes\.a\[1\]: must be a whole number, not '2'"),
        ({"ratio": 1.0, "sizes": {}, "note": 3}, "note: must be text, not 3"),
    ],
)
def test_wrong_data_names_the_place(data: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        from_json(Sample, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1.0], "value: must be an object, not a list"),
        ({"ratio": [1.0], "sizes": [{}]}, "value: must have the columns ratio, sizes, note"),
        ({"ratio": [1.0], "sizes": [{}], "note": [None], "more": [1]}, "must have the columns ratio, sizes, note"),
        ({"ratio": [1.0, "x"], "sizes": [{}, {}], "note": [None, None]}, r"ratio\[1\]: must be a number"),
        ({"ratio": [1.0], "sizes": [{}, {}], "note": [None]}, "has columns of different lengths"),
    ],
)
def test_wrong_columns_name_the_place(data: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        from_columns(Sample, data)


def test_a_whole_number_that_no_float_holds_is_refused() -> None:
    assert from_json(tuple[float, ...], [10**308]) == (1e308,)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"\[1\]: must be a number below 1.8e308, not 1000"):
        from_json(tuple[float, ...], [1, 10**309])  # type: ignore[arg-type]


def test_values_that_are_not_plain_are_mistakes_of_the_program() -> None:
    with pytest.raises(TypeError, match="object"):
        to_json(object())
