"""Hypothesis strategies for advice and recipes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from engine.recipe import AUTHORS, MARKS, Advice, Entry, Recipe, Scenario, Value

words = st.sampled_from(
    ["S0", "S1", "i", "j", "in", "rewrite", "all", "any", "true", "or", "after", "x.y", "a b", "#", '"', "ü", "3", ""]
)
names = st.one_of(words, st.text(min_size=1, max_size=6)).filter(bool)
numbers = st.one_of(
    st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
values: st.SearchStrategy[Value] = st.recursive(
    numbers, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5
)
name_tuples = st.lists(names, min_size=1, max_size=3).map(tuple)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[tuple[str, ...], ...]:
    listed = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    at = draw(st.integers(1, len(listed) - 1))
    return (tuple(listed[:at]), tuple(listed[at:]))


fields = st.one_of(
    st.tuples(st.sampled_from(["pin", "equal"]), name_tuples),
    st.tuples(st.just("parallel"), st.booleans()),
    st.tuples(st.just("cut"), cuts()),
    st.tuples(st.just("split"), st.integers(1, 1024)),
    st.tuples(st.just("mark"), st.tuples(st.sampled_from(MARKS), st.one_of(st.integers(1, 512), st.text(max_size=6)))),
    st.tuples(st.sampled_from(["terms", "objective"]), values),
)
dimensions = st.one_of(
    st.sampled_from(
        ["", "outermost", "innermost", "after i", "after  i", "after ", "after", "any", "depth", "depth 0", "depth 12"]
    ),
    names,
)
reasons = st.one_of(
    st.just(""), st.sampled_from(["rows # are", '"quoted"', " blank ", "two\nlines", "a: b @ c"]), st.text()
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    name, value = draw(fields)
    statements = tuple(draw(st.lists(names, max_size=2)))
    return Entry(
        statements, draw(dimensions), name, value, draw(st.booleans()), draw(reasons), enabled=draw(st.booleans())
    )


@st.composite
def rewrites(draw: st.DrawFn) -> Entry:
    value = draw(st.one_of(st.just(("associative",)), st.tuples(st.just("recompute"), names)))
    required, enabled = draw(st.booleans()), draw(st.booleans())
    return Entry((draw(names),), "", "rewrite", value, required, draw(reasons), enabled)


labels = st.one_of(st.just(""), st.text(max_size=5))
leaves = st.builds(Scenario, st.lists(entries(), max_size=3).map(tuple), st.just(()), labels)
scenarios = st.recursive(
    leaves,
    lambda inner: st.builds(
        Scenario, st.lists(entries(), max_size=2).map(tuple), st.lists(inner, max_size=2).map(tuple), labels
    ),
    max_leaves=4,
)


@st.composite
def advice_of_an_author(draw: st.DrawFn) -> Advice:
    scenario = draw(scenarios)
    own = tuple(draw(st.lists(rewrites(), max_size=2)))
    entries = tuple(draw(st.permutations((*scenario.entries, *own))))
    return Advice(draw(st.sampled_from(AUTHORS)), replace(scenario, entries=entries))


advices = st.lists(advice_of_an_author(), max_size=3).map(tuple)
short = st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2)
recipes = st.builds(
    Recipe,
    st.text(max_size=5),
    st.dictionaries(st.text(max_size=4), st.integers(1, 4096), max_size=2),
    short,
    short,
    st.dictionaries(st.text(max_size=4), advices, max_size=2),
)
