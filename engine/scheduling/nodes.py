"""Inputs and results of scheduling: constraint tree, schedule tree, verdicts, conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from engine.poly.nodes import Dependence
from engine.recipe import Entry
from engine.support.errors import Illegal
from engine.support.html import html_text
from engine.support.text_table import TitledTable
from engine.support.values import value
from engine.tensor.index import Index


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry with its author and its place in the recipe, so that a verdict can point back at it."""

    entry: Entry
    author: str
    path: tuple[int, ...]
    """(advice number, alternative numbers ..., entry number): stable as long as the recipe is."""


@dataclass(frozen=True, slots=True)
class ConstraintNode:
    """Entries that must hold together; children are alternatives for the rest, best first."""

    entries: tuple[PlacedEntry, ...] = ()
    children: tuple[ConstraintNode, ...] = ()


def entries_of(node: ConstraintNode) -> list[PlacedEntry]:
    """The entries of a subtree in order, each once although alternatives of other authors repeat it."""
    found = {placed.path: placed for placed in node.entries}
    for child in node.children:
        for placed in entries_of(child):
            found.setdefault(placed.path, placed)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class ConstraintTree:
    """The composed advice of one group.  `disabled` keeps the entries that are switched off, to report them."""

    root: ConstraintNode = ConstraintNode()
    disabled: tuple[PlacedEntry, ...] = ()
    beyond: tuple[PlacedEntry, ...] = ()
    """Entries of alternatives beyond `MAX_SCENARIOS`, to report them."""
    rewrites: tuple[Verdict, ...] = ()
    """Verdicts of the rewrites, which were applied before the tree was composed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A choice attached to a schedule dimension for the stages after scheduling."""

    name: str
    """One of `recipe.MARKS`, or "split"."""
    value: int | str
    author: str
    path: tuple[int, ...] = ()
    required: bool = False
    statements: tuple[str, ...] = ()
    """The statements that its entry speaks of, where the choice is about them; empty means all below the dimension."""


@value(frozen=True, slots=True)
class Member:
    """One dimension of a band: an affine row for every statement below it."""

    name: str
    """The dimension's name: the iterator most statements use there, e.g. "i"."""
    rows: Mapping[str, Index]
    """Statement -> its row over its own iterators; a statement with all of them used has a constant row."""
    parallel: bool
    """Whether no dependence is carried by this dimension."""
    extent: int
    marks: tuple[Mark, ...] = ()
    tiling: TilePart | None = None
    """Set where this is a part of a dimension that a `split` entry makes two."""


@dataclass(frozen=True, slots=True)
class TilePart:
    """How a dimension of row r was made two: the tile, of row floor(r / factor), and the place in it, r mod factor."""

    whole: Member
    factor: int
    is_tile: bool


@value(frozen=True, slots=True)
class Leaf:
    """Statements that run at one point, in this order."""

    statements: tuple[str, ...]


@value(frozen=True, slots=True)
class Sequence:
    """Subtrees that run one after the other; each holds its own statements."""

    children: tuple[Node, ...]


@value(frozen=True, slots=True)
class Band:
    """Nested loops around `child`; `permutable` when they may be interchanged and tiled."""

    members: tuple[Member, ...]
    permutable: bool
    child: Node


Node = Band | Sequence | Leaf


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it, top down."""
    yield node
    match node:
        case Band(_, _, child):
            yield from walk(child)
        case Sequence(children):
            for child in children:
                yield from walk(child)


def statements_of(node: Node) -> tuple[str, ...]:
    """The statements below a node, in the order in which they appear."""
    return tuple(s for leaf in walk(node) if isinstance(leaf, Leaf) for s in leaf.statements)


@dataclass(frozen=True, slots=True)
class ScheduleTree:
    """The execution order of one group.  Printed by `tree_text.show`; there is no parser, because it is derived."""

    root: Node


@dataclass(frozen=True, slots=True)
class Witness:
    """Two concrete instances that a schedule runs in the wrong order."""

    dependence: Dependence
    source: tuple[int, ...]
    """Iterator values of the instance that must come first, in the order of the statement's iterators."""
    sink: tuple[int, ...]
    text: str
    """For a person: "S1[i=2, j=9] writes m[2], S2[i=2, j=3] reads it first"."""


HONOURED, RELAXED, INFEASIBLE = "honoured", "relaxed", "infeasible"
NOT_REACHED, DISABLED, NO_MATCH = "not reached", "disabled", "matches nothing"
OUTCOMES = (HONOURED, RELAXED, INFEASIBLE, NOT_REACHED, DISABLED, NO_MATCH)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one entry; `outcome` is one of `OUTCOMES`."""

    placed: PlacedEntry
    outcome: str
    because: str
    witness: Witness | None = None
    is_final: bool = True
    """Whether `because` names no more entries than have a part in it; else more time would name fewer."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A dependence that a schedule breaks."""

    witness: Witness
    level: str
    """The schedule dimension or sequence where the order goes wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the scheduler may do beyond giving each dimension one iterator of each statement.

    Where the loops as they are cannot be shared, `skew` (sums of iterators), `shift` (constants) and `reverse`
    (negative coefficients) are tried before statements are cut apart.  They may serialise loops: off by default.
    """

    skew: bool = False
    shift: bool = False
    reverse: bool = False
    seconds: float = 60.0
    """Of the processor, for one search with its code generation.  Past it the search tells what it has, or raises
    OverBudget where it has nothing."""
    explaining: float = 2.0
    repairing: float = 2.0
    """Seconds of the processor for the smallest sets of entries that conflict, and for repairs of a conflict."""
    should_stop: Callable[[], bool] = lambda: False
    """Whether nobody waits for the result any more; polled as the limits are."""


WHOLE = Options()
"""The limits of scripts: all that is known of a conflict in one answer."""
FIRST_ANSWER = Options(seconds=1.5, explaining=0.03, repairing=0.0)
"""The limits of an edit: its verdicts come at once; the smallest conflicts and repairs are another question."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Result of a search: a tree, verdicts, timings and the log of decisions."""

    tree: ScheduleTree
    """Where it is not legal, the statements alone, without loops."""
    verdicts: tuple[Verdict, ...]
    milliseconds: float = 0.0
    """The search for the tree."""
    checking: float = 0.0
    """Milliseconds for the check of whole trees."""
    log: tuple[str, ...] = field(default=())
    """Decisions in order, for `explain`: fusion tests, cuts, alternatives given up and why."""
    legal: bool = True
    """Whether all dependences and all required entries hold; kernels have no say in it."""
    because: str = ""
    """Why it is not legal, or why no kernel follows it or takes its required entries as given; "" where one does."""

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table().html() + html_text("Decisions", "\n".join(self.log))

    def _table(self) -> TitledTable:
        kernel = f"; no kernel: {self.because}" if self.because else ""
        return verdict_table(f"Legal schedule{kernel}" if self.legal else f"Not legal: {self.because}", self.verdicts)


def verdict_table(title: str, verdicts: tuple[Verdict, ...]) -> TitledTable:
    """What became of entries."""
    rows = ((v.placed.author, v.placed.entry, v.outcome, v.because) for v in verdicts)
    return TitledTable(title, ("author", "entry", "verdict", "why"), rows, len(verdicts))


Lowering = Callable[[ScheduleTree, tuple[Verdict, ...]], str]
"""Code generation, as the search for a schedule asks it: why no kernel follows a legal schedule with the verdicts of
its entries, "" where one does."""


RELAX, SWITCH_OFF, REPLACE, CUT, REWRITE = "relax", "switch off", "replace", "cut", "rewrite"


@dataclass(frozen=True, slots=True)
class Repair:
    """A single change that resolves a conflict, verified before it is offered."""

    kind: str
    """RELAX: make the entry soft.  SWITCH_OFF: disable it.  REPLACE: write another in its place.  CUT: split the
    statements elsewhere, or into more parts.  REWRITE: change the program first (`entry` says how)."""
    text: str
    """For a person, one line."""
    entry: Entry
    """The entry that replaces `placed`, or is added."""
    placed: PlacedEntry | None = None
    """The entry that changes, or that gets a neighbour; None for REWRITE, which is the user's."""
    added: bool = False
    """Whether `entry` is put below `placed`, which stays."""
    leaves: tuple[PlacedEntry, ...] = ()
    """What still cannot hold afterwards, where the change only brings the next conflict; else none."""


class Conflict(Illegal):
    """Required entries that cannot hold together.

    `verdicts` says what became of every entry, so that a window can show them.  `conflicting` is a set of entries of
    which none can be left out: without any one of them the rest holds, unless the verdict says that the smallest set
    was not found in time.  `repairs` are single changes that solve it.  `is_final`: whether both were looked for to
    the end.
    """

    def __init__(
        self,
        subject: str,
        reason: str,
        hint: str,
        verdicts: tuple[Verdict, ...],
        conflicting: tuple[PlacedEntry, ...] = (),
        repairs: tuple[Repair, ...] = (),
    ) -> None:
        super().__init__("schedule", subject, reason, hint)
        self.verdicts = verdicts
        self.conflicting = conflicting
        self.repairs = repairs
        self.is_final = True
