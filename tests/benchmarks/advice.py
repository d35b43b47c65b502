"""Memory traffic without advice, under published advice, under ours: `python -m tests.benchmarks.advice [--quick]`.

Every figure is counted: the emulator, with its checks on, runs the first, the middle and the last two blocks of a
kernel in one order and counts the requests of warps to global memory and the 32-byte sectors that they touch.  Nothing
is timed.  The arrays hold zeros; kernels whose addresses depend on values are left out, saying so.

The useful bytes of a sample are what the operator must move at least, times the share of its results that the sample
wrote.  Sectors for a useful byte therefore compare kernels that cut the same work into blocks of other sizes: 1/32 is
full sectors, each moved once; operands that every block reads again and results of an intermediate step raise it.

Our kernel equals or beats the published one where it takes no more sectors for a useful byte and launches no fewer
threads.  Sectors a request say nothing by themselves: an access twice as wide touches twice the sectors and needs half
the requests.  So what is better is said apart: fewer sectors for a useful byte, fewer requests for a useful byte, and
more of the requests 16 bytes a thread.

Where no advice was published, ours is compared with what AKG's generator (`published_rule`) makes of the operator.

Where our advisers wrote alternatives, the one that was chosen is also compared with the one in the order of the text.
For that the groups of the shared models are searched, too; those whose choice is another order are counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

import engine
from engine.kernels.advice import AS_IN_TEXT
from engine.recipe import Scenario
from tests.benchmarks import report
from tests.benchmarks.counting import ORDER, Counted, count, gains, shortfalls
from tests.benchmarks.published_rule import rule_advice
from tests.scheduling import published_files
from tests.scheduling.published_files import ADVICE, LEGAL, TRANSPOSE, TWO_ITERATORS

AKG, MODELS = ADVICE.parent, ADVICE.parents[1] / "models"
OUR_MODELS = Path(engine.__file__).parents[1] / "resources" / "models"
NONE, PUBLISHED, CORRECTED, RULE, TEXT, OURS = "none", "published", "corrected", "rule", "text", "ours"
"""Advice: none at all; the file as published; a copy without its contradiction; AKG's generator's; of our alternatives
those in the order of the text; our advisers'."""
QUICK = ("Fused_Cast_BiasAdd_Gelu_fusion_7971173442909348882", TWO_ITERATORS)
"""A file that is followed and one that is refused, both small."""
T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Count, print the tables, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.advice", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--quick", action="store_true", help="two of the published operators only")
    options = parser.parse_args(arguments)
    where = {**report.environment("numpy"), "blocks": "first, middle and last two", "order": ORDER}
    names = [*LEGAL, TRANSPOSE, TWO_ITERATORS] if ADVICE.is_dir() else []
    pairs = [pair(name) for name in _progress(QUICK if options.quick and names else names, "Published advice")]
    files, refused = ([], {}) if options.quick else _files()
    searched = [] if options.quick else [of_model(*one) for one in _progress(_model_groups(), "Groups of models")]
    others = [without_published(name, group) for name, group in _progress(files, "Other operators")]
    figures = summary(pairs, others, searched)
    orders = [one for one in searched if one.saved]
    show(pairs, others, figures, refused, orders)
    if options.json:
        kinds = {"published": pairs, "akg": others, "model": orders}
        rows = [row(one, kind) for kind, found in kinds.items() for one in found]
        report.write(options.json, "advice", {**where, "origin": "counted", "files_refused": refused}, rows, figures)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One group under each kind of advice: what was counted, or why there is nothing to count."""

    operator: str
    group: str
    ways: Mapping[str, Counted | str]

    @property
    def rival(self) -> str:
        """What ours is compared with: the published advice, its corrected copy, the rule's, else no advice; of a
        model's group the order of the text."""
        plain = NONE if NONE in self.ways else TEXT
        return next((way for way in (PUBLISHED, CORRECTED, RULE) if isinstance(self.ways.get(way), Counted)), plain)

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Where ours is behind its rival; () when it equals or beats it."""
        ours, rival = self.ways[OURS], self.ways[self.rival]
        if isinstance(ours, str):
            return ("not counted",)
        return shortfalls(ours, rival) if isinstance(rival, Counted) else ()

    @property
    def saved(self) -> Fraction | None:
        """Share of the sectors in the order of the text that our choice saves; None where ours had no alternative."""
        ours, text = self.ways[OURS], self.ways.get(TEXT)
        if not isinstance(ours, Counted) or not isinstance(text, Counted):
            return None
        return 1 - ours.sectors_per_byte / text.sectors_per_byte

    @property
    def gains(self) -> tuple[str, ...]:
        """Where ours is strictly ahead of its rival."""
        return self.against(self.rival, gains)

    def against(self, way: str, compare: Callable[[Counted, Counted], tuple[str, ...]]) -> tuple[str, ...]:
        """What `compare` says of ours and another way; () where one of them is not counted."""
        ours, other = self.ways[OURS], self.ways.get(way)
        return compare(ours, other) if isinstance(ours, Counted) and isinstance(other, Counted) else ()


def pair(name: str) -> Comparison:
    """A published operator: without advice, under its file (and, if that is refused, a corrected copy), under ours."""
    group = published_files.group_of(published_files.operator(name))
    ours = engine.default_recipe(group)

    def published() -> engine.Recipe:
        return ours.with_group(group.name, engine.published_advice(published_files.trick(name), group))

    ways = {NONE: _attempt(group, lambda: _without(ours, group)), PUBLISHED: _attempt(group, published)}
    if isinstance(ways[PUBLISHED], str):
        ways[CORRECTED] = _attempt(
            group, lambda: engine.merge_advice(ours, group, published_files.corrected(name), name)
        )
    return Comparison(name, group.name, {**ways, **_rule(group, ours), **_ours(group, ours)})


def without_published(name: str, group: engine.FusionGroup) -> Comparison:
    """A group for which no advice was published."""
    ours = engine.default_recipe(group)
    ways = {NONE: _attempt(group, lambda: _without(ours, group)), **_rule(group, ours)}
    return Comparison(name, group.name, {**ways, **_ours(group, ours)})


def of_model(name: str, group: engine.FusionGroup) -> Comparison:
    """A group of a model: only what our choice saves over the order of the text, counted where it is another."""
    recipe = engine.default_recipe(group)
    text = _as_in_text(recipe, group.name)
    if text == recipe or _chooses_first(recipe, text, group.name):
        ways: dict[str, Counted | str] = {OURS: "not counted"}
        return Comparison(name, group.name, ways if text == recipe else {TEXT: "the same as ours", **ways})
    return Comparison(name, group.name, _ours(group, recipe))


def _chooses_first(recipe: engine.Recipe, text: engine.Recipe, group: str) -> bool:
    """Whether the alternatives in the order of the text are the first ones."""
    both = zip(recipe.groups[group], text.groups[group], strict=True)
    return all(a.scenario.alternatives[:1] == b.scenario.alternatives for a, b in both)


def _model_groups() -> list[tuple[str, engine.FusionGroup]]:
    """(file, group) of the shared models and ours, each program once."""
    found: dict[str, tuple[str, engine.FusionGroup]] = {}
    for path in sorted([*MODELS.glob("*.onnx"), *OUR_MODELS.glob("*.onnx")]):
        for group in engine.fuse(engine.load(path)).groups:
            program = group.program
            found.setdefault(repr((program.arrays, program.statements)), (path.stem, group))
    return list(found.values())


def _rule(group: engine.FusionGroup, recipe: engine.Recipe) -> dict[str, Counted | str]:
    """What the published generator's advice comes to; nothing for an operator that it skips."""
    advice = rule_advice(group)
    return {} if advice is None else {RULE: _attempt(group, lambda: recipe.with_group(group.name, advice))}


def _ours(group: engine.FusionGroup, recipe: engine.Recipe) -> dict[str, Counted | str]:
    """Our advice, and where it has alternatives those in the order of the text alone."""
    ours = _attempt(group, lambda: recipe)
    text = _as_in_text(recipe, group.name)
    if text == recipe:
        return {OURS: ours}
    return {TEXT: ours if _chooses_first(recipe, text, group.name) else _attempt(group, lambda: text), OURS: ours}


def _as_in_text(recipe: engine.Recipe, group: str) -> engine.Recipe:
    """A recipe whose alternatives are those in the order of the text, else the first."""

    def chosen(scenario: Scenario) -> Scenario:
        textual = [s for s in scenario.alternatives if AS_IN_TEXT in s.label and "strips" not in s.label]
        return replace(scenario, alternatives=(*textual, *scenario.alternatives)[:1])

    advice = tuple(replace(one, scenario=chosen(one.scenario)) for one in recipe.groups[group])
    return recipe.with_group(group, advice)


def _without(recipe: engine.Recipe, group: engine.FusionGroup) -> engine.Recipe:
    return recipe.with_group(group.name, ())


def _attempt(group: engine.FusionGroup, recipe: Callable[[], engine.Recipe]) -> Counted | str:
    """What is counted under a recipe, or why the advice or the kernel is refused."""
    try:
        return count(engine.compile(group, recipe()))
    except engine.EngineError as error:
        return str(error)


def _files() -> tuple[list[tuple[str, engine.FusionGroup]], dict[str, str]]:
    """(file, group) of every other operator, and why a file does not load."""
    paths = [*AKG.glob("*.json"), *AKG.glob("stitch/*.json"), *ADVICE.glob("operators/*.json")]
    paired = {*LEGAL, TRANSPOSE, TWO_ITERATORS}
    found: list[tuple[str, engine.FusionGroup]] = []
    refused: dict[str, str] = {}
    for path in sorted(path for path in paths if path.stem not in paired):
        try:
            found += [(path.stem, group) for group in engine.fuse(engine.load(path)).groups]
        except engine.EngineError as error:
            refused[path.stem] = error.reason
    return found, refused


def _progress(of: Sequence[T], what: str) -> Iterator[T]:
    return iter(track(of, what, console=Console(stderr=True), transient=True))


def row(one: Comparison, kind: str) -> dict[str, Any]:
    """A comparison for the document."""
    return {
        "operator": one.operator,
        "group": one.group,
        "kind": kind,
        "ways": {way: _figures(found) for way, found in one.ways.items()},
        "compared_with": one.rival,
        "equals_or_beats": not one.shortfalls,
        "shortfalls": one.shortfalls,
        "alternatives": TEXT in one.ways,
        "saved_over_text": None if one.saved is None else float(one.saved),
        "gains": one.gains,
    }


def _figures(found: Counted | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"refused": found}
    return {
        "blocks": found.blocks,
        "threads": found.threads,
        "parallelism": found.parallelism,
        "blocks_run": found.blocks_run,
        "loads": found.loads,
        "stores": found.stores,
        "sectors": found.sectors,
        "useful_bytes": float(found.useful),
        "sectors_per_request": found.sectors_per_request,
        "sectors_per_useful_byte": float(found.sectors_per_byte),
        "requests_per_useful_byte": float(found.requests_per_byte),
        "widest_share": found.widest_share,
        "efficiency": found.efficiency,
        "relaxed": found.relaxed,
        "faults": found.faults,
    }


def summary(
    pairs: Sequence[Comparison], others: Sequence[Comparison], searched: Sequence[Comparison] = ()
) -> dict[str, Any]:
    """The figures that the goals name.

    share_16_byte: of a group's requests under our advice, the mean over the other groups; None without any.  rule_*:
    ours against AKG's generator, over every group that both of them have a kernel for.  groups_with_alternatives: those
    for which our advisers wrote some, out of groups_advised.  other_order_chosen: where the first one takes other
    sectors than the order of the text; least_saved and mean_saved: how many fewer, as shares.
    """
    offered = [one for one in (*pairs, *others, *searched) if TEXT in one.ways]
    saved = [float(one.saved) for one in offered if one.saved]
    counted = [found for one in others if isinstance(found := one.ways[OURS], Counted)]
    everything = [found for one in (*pairs, *others) for found in one.ways.values() if isinstance(found, Counted)]
    against_rule = [one for one in (*pairs, *others) if isinstance(one.ways.get(RULE), Counted)]
    return {
        "pairs": len(pairs),
        "published_refused": sum(isinstance(one.ways[PUBLISHED], str) for one in pairs),
        "published_equal_or_beaten": sum(not one.shortfalls for one in pairs),
        "published_no_more_sectors": sum(_no_more_sectors(one, one.rival) for one in pairs),
        "published_strictly_better": sum(bool(one.gains) and not one.shortfalls for one in pairs),
        "groups": len(others),
        "groups_not_counted": len(others) - len(counted),
        "groups_no_more_sectors": sum(_no_more_sectors(one, NONE) for one in others),
        "share_16_byte": sum(found.widest_share for found in counted) / len(counted) if counted else None,
        **_against_rule(against_rule),
        "groups_advised": len(pairs) + len(others) + len(searched),
        "groups_with_alternatives": len(offered),
        "other_order_chosen": len(saved),
        "least_saved": min(saved, default=0.0),
        "mean_saved": sum(saved) / len(saved) if saved else None,
        "faults": sum(len(found.faults) for found in everything),
    }


def _against_rule(found: Sequence[Comparison]) -> dict[str, Any]:
    """Ours against AKG's generator, group by group and by the mean share of 16-byte requests."""
    both = [(one.ways[OURS], one.ways[RULE]) for one in found]
    counted = [(a, b) for a, b in both if isinstance(a, Counted) and isinstance(b, Counted)]
    return {
        "rule_groups": len(counted),
        "rule_no_more_sectors": sum(a.sectors_per_byte <= b.sectors_per_byte for a, b in counted),
        "rule_fewer_sectors": sum(a.sectors_per_byte < b.sectors_per_byte for a, b in counted),
        "rule_no_more_requests": sum(a.requests_per_byte <= b.requests_per_byte for a, b in counted),
        "rule_fewer_requests": sum(a.requests_per_byte < b.requests_per_byte for a, b in counted),
        "rule_no_fewer_threads": sum(a.parallelism >= b.parallelism for a, b in counted),
        "rule_share_16_byte": sum(b.widest_share for _, b in counted) / len(counted) if counted else None,
        "rule_share_16_byte_ours": sum(a.widest_share for a, _ in counted) / len(counted) if counted else None,
    }


def _no_more_sectors(one: Comparison, way: str) -> bool:
    ours, rival = one.ways[OURS], one.ways[way]
    if isinstance(ours, str) or isinstance(rival, str):
        return isinstance(ours, Counted)
    return ours.sectors_per_byte <= rival.sectors_per_byte


def show(
    pairs: Sequence[Comparison],
    others: Sequence[Comparison],
    figures: Mapping[str, Any],
    refused: Mapping[str, str],
    orders: Sequence[Comparison] = (),
) -> None:
    """The tables, what was refused, the summary."""
    console = Console(width=None if Console().is_terminal else 170)
    if pairs:
        console.print(_table("Published operators, counted over sampled blocks", "ours against published", pairs))
    if others:
        console.print(_table("Other AKG operators, counted over sampled blocks", "against the rule, or none", others))
    for one in orders:
        saved = float(one.saved or 0)
        console.print(f"{one.operator}, {one.group}: another order than the text's saves {saved:.1%} of its sectors")
    for line in _reasons((*pairs, *others, *orders), refused):
        console.print(line, highlight=False)
    console.print("  ".join(report.figures_in_words(figures)))


def _table(title: str, verdict: str, found: Sequence[Comparison]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("operator", overflow="fold", max_width=48)
    table.add_column("advice", no_wrap=True)
    for name in (
        "blocks x threads", "threads of\nthe launch", "requests:\nload + store", "sectors", "sectors a\nrequest",
        "16-byte\nrequests", "useful of\nmoved bytes",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(verdict, overflow="fold")
    for one in found:
        for way, counted in one.ways.items():
            name = one.operator.removeprefix("Fused_") if way == NONE else one.group if way == OURS else ""
            table.add_row(name, way, *_cells(counted), _verdict(one) if way == OURS else "", end_section=way == OURS)
    return table


def _cells(found: Counted | str) -> Iterator[str]:
    if isinstance(found, str):
        yield "refused"
        yield from [""] * 6
        return
    yield f"{found.blocks} x {found.threads}"
    yield str(found.parallelism)
    yield f"{found.loads} + {found.stores}"
    yield str(found.sectors)
    yield f"{found.sectors_per_request:.2f}"
    yield f"{found.widest_share:.0%}"
    yield f"{found.efficiency:.1%}"


def _verdict(one: Comparison) -> str:
    if one.shortfalls:
        return f"[red]{', '.join(one.shortfalls)}[/]"
    ours, rival = one.ways[OURS], one.ways[one.rival]
    if not isinstance(ours, Counted) or not isinstance(rival, Counted):
        return "[green]has no rival[/]"
    return f"[green]beats: {', '.join(one.gains)}[/]" if one.gains else "[green]equals[/]"


def _reasons(found: Sequence[Comparison], refused: Mapping[str, str]) -> Iterator[str]:
    """What was refused, relaxed or at fault, and why."""
    for one in found:
        for way, counted in one.ways.items():
            if isinstance(counted, str):
                yield f"{one.operator}, {one.group}, advice {way}: {counted}"
                continue
            for fault in counted.faults:
                yield f"[red]{one.operator}, {one.group}, advice {way}: {fault}[/]"
            if way not in (OURS, RULE, TEXT):
                for entry in counted.relaxed:
                    yield f"{one.operator}, {one.group}, advice {way} is not followed: {entry}"
    for name, reason in refused.items():
        yield f"{name} does not load: {reason}"
    if not ADVICE.is_dir():
        yield f"nothing to compare: {ADVICE} is absent"


if __name__ == "__main__":
    main()
