"""Made-up answers to what could be otherwise, for the window's tests: a softmax whose row maximum is read too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.documents.exploration import (
    ArrowDoc,
    AttemptDoc,
    CellDoc,
    DecisionRow,
    DecisionsDoc,
    LanesDoc,
    MoveDoc,
    MovesDoc,
    OrderDoc,
    PointDoc,
    SpaceAxisDoc,
    SpaceDoc,
    WarpDoc,
    WhyDoc,
)
from engine.documents.model import RepairDoc, TermDoc, Time

NOW = 18.3
DOWN, ACROSS = 6, 12
EXTENTS = {"i": 49_152, "j": 512}
ONLY = "# the order i j is the only one"
ILLEGAL = "required S2 @ j: parallel true"


def with_lines(recipe: str, lines: Sequence[str]) -> str:
    """The user's advice with more entries."""
    head = "" if "advice user\n" in recipe else "advice user\n"
    return recipe + head + "".join(f"  {line}\n" for line in lines)


def moves(group: str, recipe: str) -> MovesDoc:
    """Three gains, one loss, three steps that cannot be taken."""
    possible = (
        ("block", "Rows per block 8 → 16", ("all @ i: mark block 16",), 17.2),
        ("order", "Swizzle rows by 128 B", ("S0 @ j: mark vector 8",), 17.6),
        ("split", "Split max, combine online", ("S0 @ j: split 4", "S2 @ j: split 4"), 17.9),
        ("warp", "Warps per block 8 → 4", ("all @ i: mark warp 4",), 18.5),
    )
    impossible = (
        ("join", "Fuse S2, S3 at j", "flow of m runs backwards", "S2(i=2, j=9) writes m, S3(i=2, j=3) reads it first"),
        ("parallel", "Parallel S2 j", "the sum is carried by j", "S2(i=2, j=3) then S2(i=2, j=4)"),
        ("cut", "Distribute i after S1", "collides with “all @ outermost: pin i” of stitch", ""),
    )
    return MovesDoc(
        group,
        recipe,
        tuple(
            MoveDoc(
                kind, title, ("S0",), lines, with_lines(recipe, lines), Time(time, "predicted", "uncalibrated"),
                1 - time / NOW, "", "",
            )
            for kind, title, lines, time in possible
        ),
        tuple(
            MoveDoc(kind, title, ("S2",), (), "", None, 0.0, why, witness) for kind, title, why, witness in impossible
        ),
        True,
    )  # fmt: skip


def decisions(group: str, recipe: str) -> DecisionsDoc:
    """Four statements, i outside and j inside; j cannot come first for the sums."""
    rows = []
    for name in ("S0", "S1", "S2", "S3"):
        carried = name in ("S0", "S2")
        outer = CellDoc("parallel", True, "", "", "")
        inner = CellDoc("used", False, "i is used by the dimension further out", "", "")
        rows.append(DecisionRow(name, "i", EXTENTS["i"], (outer, inner)))
        witness = f"{name}(i=2, j=3) then {name}(i=2, j=4)"
        first = (
            CellDoc("impossible", False, "the flow of m runs backwards", witness, "")
            if carried
            else CellDoc("parallel", False, "", "", f"{name} @ outermost: pin j")
        )
        second = (
            CellDoc("legal", True, "carries the sum", witness, "") if carried else CellDoc("parallel", True, "", "", "")
        )
        rows.append(DecisionRow(name, "j", EXTENTS["j"], (first, second)))
    return DecisionsDoc(group, recipe, ("i", "j"), tuple(rows))


def space(group: str, recipe: str, axes: Sequence[str], order: Sequence[str] = ()) -> SpaceDoc:
    """S2 along j in order, S3 beside it; asked for in parallel, S3 reads what S2 has not written yet."""
    across, down = axes[:2] if len(axes) > 1 else ("j", "i")
    violated = bool(order) or any(line.strip() == ILLEGAL for line in recipe.splitlines())
    shown = {"i": DOWN, "j": ACROSS}
    points: list[PointDoc] = []
    place: dict[tuple[str, int, int], int] = {}
    for i in range(DOWN):
        for number, name in enumerate(("S2", "S3")):
            for j in range(ACROSS):
                value = {"i": i, "j": j}
                place[name, i, j] = len(points)
                rank = (i * 2 + number) * ACROSS + j
                points.append(PointDoc(name, (value[across], value[down]), rank, f"{name}(i={i}, j={j})"))
    arrows = [
        ArrowDoc(place["S2", i, j], place["S2", i, j + 1], "m", "flow", False, "")
        for i in range(DOWN)
        for j in range(ACROSS - 1)
    ]
    if violated:
        text = "S2(i=2, j=9) writes m, S3(i=2, j=3) reads it first"
        arrows.append(ArrowDoc(place["S2", 2, 9], place["S3", 2, 3], "m", "flow", True, text))
    tiles = {"i": (1, ""), "j": (4, "vector 4")}
    return SpaceDoc(
        group=group,
        recipe=recipe,
        dimensions=("i", "j"),
        axes=tuple(SpaceAxisDoc(name, EXTENTS[name], shown[name], *tiles[name]) for name in (across, down)),
        order=tuple(order) or ("i", "j"),
        requested=violated,
        statements=("S2", "S3"),
        points=tuple(points),
        arrows=tuple(arrows),
        dependences=9,
        violated=int(violated),
        verdict="Time (2, 3, 1) of the read comes before (2, 9, 0) of the write."
        if violated
        else "legal, 9 of 9 dependences",
        repairs=_repairs(recipe) if violated and not order else (),
    )


def order(group: str, recipe: str, wanted: Sequence[str], tiles: Mapping[str, int]) -> OrderDoc:
    """Tiles hold up to 8 values; an interchange is legal unless the advice says otherwise in a remark."""
    lines = [f"all @ {name}: split {size}" for name, size in tiles.items()]
    if wanted and tuple(wanted) != ("i", "j"):
        lines.append(f"all @ outermost: pin {wanted[0]}")
        legal = ONLY not in recipe
        because = "every dependence keeps its direction" if legal else "breaks 1 of 9 dependences"
        return OrderDoc(tuple(lines), with_lines(recipe, lines), legal, because)
    too_large = [f"{name} by {size}" for name, size in tiles.items() if size > 8]
    because = f"a tile of {too_large[0]} exceeds the registers of a lane" if too_large else "all dependences hold"
    return OrderDoc(tuple(lines), with_lines(recipe, lines), not too_large, because)


def addresses(group: str, recipe: str) -> WarpDoc:
    """A load by eight bytes each and a store whose lanes are a row apart; two bytes each without `vector 8`."""
    width = 16 if "vector 8" in recipe else 2
    contiguous = tuple(lane * width for lane in range(32))
    apart = tuple(lane * 1024 if lane < 30 else -1 for lane in range(32))
    banks = tuple(lane * 8 for lane in range(32))
    return WarpDoc(
        group,
        recipe,
        0,
        (
            LanesDoc(18, "global load", "x", width, contiguous, width, width),
            LanesDoc(26, "shared store", "shared_memory", 4, banks, 2, 1),
            LanesDoc(30, "global store", "y", 2, apart, 30, 2),
        ),
    )


def _repairs(recipe: str) -> tuple[RepairDoc, ...]:
    soft = recipe.replace(ILLEGAL, ILLEGAL.removeprefix("required "))
    return (
        RepairDoc("replace", (9, 0), "cut S2 | S3 at j", recipe.replace(ILLEGAL, "all @ j: cut S2 | S3"), True),
        RepairDoc("relax", (9, 0), "make “S2 @ j: parallel true” optional", soft, True),
    )


def attempt(arguments: dict[str, object]) -> AttemptDoc:
    """Every wish is legal; "release" leaves nothing fixed."""
    operators = tuple(arguments["operators"])  # type: ignore[arg-type]
    terms = (
        TermDoc("kernels", -12, "kernels", "around these operators"),
        TermDoc("memory", -12_000_000, "bytes", "that cross global memory"),
        TermDoc("time", -14.4, "µs", "predicted by FusionStitching's model, uncalibrated"),
    )
    groups = () if arguments["kind"] == "release" else (operators,)
    return AttemptDoc(True, "as one kernel", "", operators, 12, terms, groups, ())


def why(arguments: dict[str, object]) -> WhyDoc:
    """Two launches that could be one kernel and are not."""
    terms = (TermDoc("memory", 0.4, "µs", "1.2 MB no longer cross"), TermDoc("penalty", -2.0, "µs", "of instructions"))
    ends = str(arguments["producer"]), str(arguments["consumer"])
    return WhyDoc(*ends, True, "one kernel would be slower", terms, -1.6)
