"""Documents that answer questions about a kernel: moves, decisions, iteration spaces, addresses, comparisons.

Plain data like `engine/documents/model.py`, for the same reason.  `QUESTIONS` at the end lists what may be asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.documents.model import EntryDoc, RepairDoc, TermDoc, Time
from engine.documents.pipeline import ChartDoc, ListingDoc, VariantDoc

# Views draw addresses by them, and may import nothing of the engine but documents.
from engine.target.hardware import BANK_BYTES as BANK_BYTES
from engine.target.hardware import BANKS as BANKS
from engine.target.hardware import SECTOR as SECTOR


@dataclass(frozen=True, slots=True)
class MoveDoc:
    """One possible edit, tried before it is shown, with its predicted effect or the reason why it is impossible."""

    kind: str
    """"order", "cut", "join", "parallel", "vector", "block", "thread", "lane", "warp", "tile", "stages", "split",
    "recompute"."""
    title: str
    """"Rows per block 1 → 2", "Interchange i and j"."""
    statements: tuple[str, ...]
    entries: tuple[str, ...]
    """What the move says, as lines of the text form."""
    recipe: str
    """The group's whole advice after the move, as text; "" for one that is impossible."""
    time: Time | None
    """Predicted under the move; None where it is impossible."""
    gain: float
    """Part of the present predicted time that the move saves; negative for a loss."""
    why_not: str
    """The dependence, the entry or the limit that forbids it; "" for a possible move."""
    witness: str
    """Two concrete instances, or ""."""


@dataclass(frozen=True, slots=True)
class MovesDoc:
    """All moves of a group under its advice, the largest predicted gain first."""

    group: str
    recipe: str
    possible: tuple[MoveDoc, ...]
    impossible: tuple[MoveDoc, ...]
    complete: bool
    """Whether every move was tried; False when a newer request came first."""


@dataclass(frozen=True, slots=True)
class CellDoc:
    """One cell of the solver's table: an iterator of a statement as one schedule dimension, with the outer ones
    fixed."""

    state: str
    """"parallel", "legal" (in order), "impossible", or "used" (by a dimension further out)."""
    chosen: bool
    because: str
    """For what is not parallel: the dependence that it carries or breaks."""
    witness: str
    entry: str
    """The line of the text form that asks for it; "" where it is impossible or chosen already."""


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One iterator of one statement."""

    statement: str
    iterator: str
    extent: int
    cells: tuple[CellDoc, ...]
    """One for each dimension."""


@dataclass(frozen=True, slots=True)
class DecisionsDoc:
    """The solver's table for a group: iterators of every statement against the dimensions of its schedule."""

    group: str
    recipe: str
    dimensions: tuple[str, ...]
    """Schedule dimensions, outermost first."""
    rows: tuple[DecisionRow, ...]


@dataclass(frozen=True, slots=True)
class PointDoc:
    """One statement instance in the picture of an iteration space."""

    statement: str
    position: tuple[int, ...]
    """Values of the axes, in the order of `SpaceDoc.axes`; 0 along one that the statement does not have."""
    rank: int
    """Place in the order of execution among the points shown; equal ranks may run at the same time."""
    text: str
    """"S2(i=2, j=9)"."""


@dataclass(frozen=True, slots=True)
class ArrowDoc:
    """A dependence between two points shown."""

    source: int
    """Index into `SpaceDoc.points`."""
    sink: int
    array: str
    kind: str
    """"flow", "anti", "output" or "reduction"."""
    violated: bool
    text: str
    """"S2(i=2, j=9) writes m, S3(i=2, j=3) reads it"."""


@dataclass(frozen=True, slots=True)
class SpaceAxisDoc:
    """One axis of the picture."""

    name: str
    """A schedule dimension."""
    extent: int
    shown: int
    """Values drawn: 0 to shown - 1."""
    tile: int
    """Values of one tile along it as the schedule maps it (block, thread or split); 1 for none."""
    tile_because: str
    """"block 4", "vector 4", or ""."""


@dataclass(frozen=True, slots=True)
class SpaceDoc:
    """Iteration space of a group along one to three schedule dimensions, at a small size with the same dependences."""

    group: str
    recipe: str
    dimensions: tuple[str, ...]
    """All that may be chosen, outermost first."""
    axes: tuple[SpaceAxisDoc, ...]
    """Across, down, and into the page."""
    order: tuple[str, ...]
    """The axes as the schedule runs them, outermost first."""
    requested: bool
    """Whether the order is one that was asked for and cannot hold; else it is the schedule in use, or one that can."""
    statements: tuple[str, ...]
    points: tuple[PointDoc, ...]
    arrows: tuple[ArrowDoc, ...]
    dependences: int
    violated: int
    """Dependences of the group (not arrows) that the order breaks."""
    verdict: str
    """"legal, 9 of 9 dependences", or what is violated, in one sentence, with two instances at the real size."""
    repairs: tuple[RepairDoc, ...]


@dataclass(frozen=True, slots=True)
class OrderDoc:
    """Result of dragging axes or tiles: whether the new order is legal."""

    entries: tuple[str, ...]
    recipe: str
    """The group's whole advice with these entries, as text."""
    legal: bool
    """Whether every dependence holds and no required entry is in the way."""
    because: str
    """The dependence with two instances; for a legal one also what the kernel cannot take of it."""


@dataclass(frozen=True, slots=True)
class LanesDoc:
    """The addresses of one warp at one access of the CUDA text, the first time that warp 0 of a block came there."""

    line: int
    kind: str
    """"global load", "global store", "async copy", "shared load" or "shared store"."""
    array: str
    width: int
    """Bytes of one thread."""
    addresses: tuple[int, ...]
    """Byte offset in the array of each of the 32 lanes; -1 for a lane that did not take part."""
    sectors: int
    """32-byte sectors touched; for shared memory passes over the banks."""
    ideal: int
    """The least for the bytes that are read or written; for shared memory for lanes that each move their own."""


@dataclass(frozen=True, slots=True)
class WarpDoc:
    """What one warp touches, access by access, as the emulator saw it run."""

    group: str
    recipe: str
    block: int
    lanes: tuple[LanesDoc, ...]


@dataclass(frozen=True, slots=True)
class FigureDoc:
    """One figure of two kernels side by side."""

    name: str
    unit: str
    a: float | None
    b: float | None
    origin: str
    """"predicted", "measured", "counted" or "compiled"; one origin for both."""
    smaller_is_better: bool


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a comparison of two texts."""

    mark: str
    """"+", "-" or " "."""
    text: str
    a: int
    """Line number in the first text, 0 where it is not in it."""
    b: int


@dataclass(frozen=True, slots=True)
class DiffDoc:
    """Two recipes of one group: entries, schedule, CUDA text and figures."""

    group: str
    a: str
    b: str
    """Advice as text."""
    entries: tuple[str, ...]
    """ "- AUTHOR: ENTRY" and "+ AUTHOR: ENTRY", readable lines."""
    schedule: tuple[DiffLine, ...]
    """Lines of the schedule, marked " ", "-" or "+"."""
    cuda: tuple[DiffLine, ...]
    """The same of the CUDA text."""
    figures: tuple[FigureDoc, ...]
    """Predicted terms and counts of both kernels, also those that are equal."""

    def __str__(self) -> str:
        """The entries, and the figures that differ: "time: 4.9 -> 4.7 µs, predicted"."""
        differing = (one for one in self.figures if one.a != one.b)
        said = (f"{f.name}: {_number(f.a)} -> {_number(f.b)} {f.unit}, {f.origin}" for f in differing)
        return "\n".join([*self.entries, *said]) or f"{self.group}: no difference"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class WhyDoc:
    """Why two launches are not one kernel."""

    producer: str
    consumer: str
    """Launches, "GROUP#INSTANCE"."""
    legal: bool
    """Whether one kernel could compute both."""
    because: str
    terms: tuple[TermDoc, ...]
    """"memory", "calls" and "penalty" of one kernel instead of two; none where it is not legal."""
    microseconds: float
    """What one kernel would save, the sum of the terms; negative where it would cost."""


@dataclass(frozen=True, slots=True)
class RegroupDoc:
    """Effect of fixing other groups on the whole plan."""

    legal: bool
    because: str
    """Why it cannot be, with the operators and figures; else the change in predicted time."""
    terms: tuple[TermDoc, ...]
    """Change of "kernels", "memory" and "time"; less is better."""


JOIN, SPLIT, TAKE_OUT, RELEASE = "join", "split", "take out", "release"


@dataclass(frozen=True, slots=True)
class FusionEdit:
    """A requested change of fusion groups.

    "join": the operators become one kernel.  "split": the first stays, the second and what needs it in its group become
    another kernel.  "take out": the operator leaves its group.  "release": nothing is fixed about the operators.
    """

    kind: str
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptDoc:
    """Local effect of a requested change of fusion groups, evaluated around the operators it names."""

    legal: bool
    because: str
    """Why it cannot be, with the operators and figures in the way; else what it asks for."""
    hint: str
    operators: tuple[str, ...]
    """Those that would be one kernel, or would be parted."""
    places: int
    """Equal places of the graph in which it would be done."""
    terms: tuple[TermDoc, ...]
    """Change of "kernels", "memory" and "time" in all places together; less is better.  None where it is not legal, or
    where it takes exploring the rest to tell."""
    groups: tuple[tuple[str, ...], ...]
    apart: tuple[tuple[str, str], ...]
    """Pairs of operators kept apart once the change is made."""


@dataclass(frozen=True, slots=True)
class ConflictDoc:
    """What the verdicts of a `KernelDoc` that is not `complete` leave open."""

    group: str
    recipe: str
    entries: tuple[EntryDoc, ...]
    """With the smallest conflicts in their verdicts."""
    conflicting: tuple[tuple[int, ...], ...]
    repairs: tuple[RepairDoc, ...]
    """As in `KernelDoc`."""
    complete: bool
    """False when a newer request came first: the fields are empty then."""


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """What may be asked of the worker about a group under some advice."""

    document: type
    """The document that answers it."""
    function: str
    """"MODULE:NAME" of the function that makes the document; only the worker imports it.

    Its parameters are the question's arguments, but for those that the worker has: `kernel`, `group`, `recipe`, `plan`,
    `should_stop` and `known` (engine/service.py).
    """
    title: str
    """What the list of jobs says before the group's name."""


QUESTIONS = {
    "conflict": QuestionKind(ConflictDoc, "engine.explore.conflicts:conflict", "Looking for the smallest conflict of"),
    "moves": QuestionKind(MovesDoc, "engine.explore.moves:moves", "Trying the next steps of"),
    "decisions": QuestionKind(DecisionsDoc, "engine.explore.decisions:decisions", "Looking at the decisions of"),
    "space": QuestionKind(SpaceDoc, "engine.explore.space:space", "Drawing the iteration space of"),
    "order": QuestionKind(OrderDoc, "engine.explore.order:order", "Trying an order of"),
    "addresses": QuestionKind(WarpDoc, "engine.api:addresses", "Running one block of"),
    "chart": QuestionKind(ChartDoc, "engine.api:chart", "Drawing the pipeline of"),
    "variant": QuestionKind(VariantDoc, "engine.explore.variant:variant", "Compiling other knobs of"),
    "listing": QuestionKind(ListingDoc, "engine.explore.listing:listing", "Listing the instructions of"),
}
"""Verb of the request -> its kind; the worker and the window both read this table."""
