"""The language of the search field, as plain data.

    word  name:WORD  /REGEX/       in the name (a word also in the type and in its group's title)
    type:MatMul  type:Reduce*      the operator's type, or its group's
    attr:axis  attr:perm=0,2,1,3   an attribute, with its value
    time>5%                        groups that take more of the model's predicted time
    MatMul > * > Softmax           a path: each reads what the one before wrote; * is any operator, ** any number

Words beside each other must all hold.  In a path a bare word is a type.  Upper and lower case are the same.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

TOKEN = re.compile(
    r"\s*(?:(?P<regex>/.+?(?<!\\)/(?=\s|$))"
    r"|(?P<time>time\s*>\s*(?P<percent>[^\s%>]*)\s*%?)"
    r"|(?P<next>>)|(?P<word>[^\s>]+))"
)
PREFIXES = {"name": "a name", "type": "a type", "attr": "a name, as in attr:perm=0,2,1,3"}
"""Prefix -> what has to follow it."""
QUERY_LENGTH = 200
"""Characters of a query, at most."""
STEPS = 12
"""Steps of a path, at most."""
REPEATS, OPTIONS = 3, 8
"""Parts of a regular expression that may match any number of characters, and that may be left out, at most."""


class QueryError(Exception):
    """Why a query cannot be understood, in one sentence."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on an operator; texts are in lower case, except for those of regular expressions."""

    kind: str
    """"word", "name", "type", "attr", "regex" or "time"."""
    text: str
    value: str | None = None
    """Of an attribute; None where any will do."""
    percent: float = 0.0


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path: all terms must hold.  `many`: any number of any operators, also none."""

    terms: tuple[Condition, ...]
    many: bool = False


Query = tuple[PathStep, ...]
"""Steps of a path; one step where there is no `>`; none where nothing is asked."""


def parse(text: str) -> Query:
    """The query that `text` says; QueryError where it says none."""
    if len(text) > QUERY_LENGTH:
        raise QueryError(f"a query has at most {QUERY_LENGTH} characters")
    steps: list[list[Condition | str]] = [[]]
    text, at = text.rstrip(), 0
    while at < len(text):
        token = TOKEN.match(text, at)
        assert token is not None, "every other character is a word"
        at = token.end()
        if token["next"]:
            steps.append([])
        else:
            steps[-1].append(_term(token))
    if len(steps) == 1:
        return (PathStep(tuple(_word(each) for each in steps[0])),) if steps[0] else ()
    if len(steps) > STEPS:
        raise QueryError(f"a path has at most {STEPS} steps")
    path = tuple(_step(terms) for terms in steps)
    if path[0].many or path[-1].many:
        raise QueryError("** stands between two steps of a path")
    return path


def check_regex(pattern: str) -> re.Pattern[str]:
    """The compiled expression; QueryError for one that is wrong, or whose matching could take for ever."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # on "[[": what it may mean one day is not meant here
            compiled = re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise QueryError(f"/{pattern}/: {error}") from None
    bare = re.sub(r"\\.", "a", pattern)
    if re.search(r"\\[1-9]|\(\?P=|\(\?\(", pattern):
        raise QueryError(f"/{pattern}/: references back to a group are not supported")
    bare = re.sub(r"\[\^?\]?[^\]]*\]", "a", bare)
    if len(re.findall(r"[*+]|\{", bare)) > REPEATS:
        raise QueryError(f"/{pattern}/: more than {REPEATS} repeats could take too long")
    if len(re.findall(r"(?<!\()\?", bare)) > OPTIONS:
        raise QueryError(f"/{pattern}/: more than {OPTIONS} optional parts could take too long")
    if _repeats_choices(bare):
        raise QueryError(f"/{pattern}/: a repeat of repeats or alternatives could take for ever")
    return compiled


def _repeats_choices(bare: str) -> bool:
    """Whether a group that can match in several ways is itself repeated: (a+)*, (a|ab)*, (a?){9}."""
    varies = [False]
    for at, character in enumerate(bare):
        if character == "(":
            varies.append(False)
        elif character == ")" and len(varies) > 1:
            inside = varies.pop()
            if inside and bare[at + 1 : at + 2] in ("*", "+", "{"):
                return True
            varies[-1] |= inside
        elif character in "*+{|" or (character == "?" and bare[at - 1 : at] != "("):
            varies[-1] = True
    return False


def _term(token: re.Match[str]) -> Condition | str:
    """A term, or a bare word, whose meaning depends on where it stands."""
    if token["regex"]:
        pattern = token["regex"][1:-1]
        check_regex(pattern)
        return Condition("regex", pattern)
    if token["time"]:
        try:
            return Condition("time", "", percent=float(token["percent"]))
        except ValueError:
            raise QueryError("time> needs a number, as in time>5%") from None
    word = token["word"].lower()
    prefix, colon, rest = word.partition(":")
    if not colon or prefix not in PREFIXES:
        return word
    name, equals, value = rest.partition("=")
    if not (name if prefix == "attr" else rest):
        raise QueryError(f"{prefix}: needs {PREFIXES[prefix]}")
    return Condition("attr", name, value if equals else None) if prefix == "attr" else Condition(prefix, rest)


def _word(term: Condition | str) -> Condition:
    return Condition("word", term) if isinstance(term, str) else term


def _step(terms: list[Condition | str]) -> PathStep:
    if not terms:
        raise QueryError("a path needs something on both sides of >")
    if terms == ["**"]:
        return PathStep((), True)
    if "**" in terms:
        raise QueryError("** stands alone in its step")
    return PathStep(tuple(Condition("type", each) if isinstance(each, str) else each for each in terms if each != "*"))
