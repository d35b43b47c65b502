"""Schedule one group under its constraint tree, with a verdict for every entry.

Entries of the root are added one after the other while a schedule exists.  Children are alternatives: the first whose
entries all hold is taken, deeper alternatives included; when none does, the first one is followed as far as it holds.
Where no kernel follows then, soft entries of the root are given up that stand in its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time

from engine.poly.dependences import dependences as dependences_of
from engine.poly.nodes import Dependence
from engine.recipe import Path
from engine.scheduling.bands import join_bands
from engine.scheduling.build import ScheduleBuilder
from engine.scheduling.candidate import RuleKey, ScheduleCandidate, SettledEntries, attach_entries, rule_keys
from engine.scheduling.conflict import with_repairs
from engine.scheduling.integer import Deadline, OutOfTime
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import (
    INFEASIBLE,
    NOT_REACHED,
    RELAXED,
    WHOLE,
    Conflict,
    ConstraintNode,
    ConstraintTree,
    Lowering,
    Node,
    Options,
    PlacedEntry,
    Scheduled,
    Verdict,
    entries_of,
)
from engine.scheduling.problem import ScheduleProblem, prepare
from engine.scheduling.rules import STEERING, ScheduleRule, check_number, rules_of
from engine.scheduling.unsat_core import Blame, Clash, largest_part
from engine.scheduling.verdict_table import VerdictTable
from engine.support.errors import Fault, Illegal, OverBudget
from engine.tensor.nodes import TensorProgram

_ATTEMPTS = 30_000
"""Attempts of one solve; an unconstrained one needs about one per statement and dimension."""


def schedule(
    program: TensorProgram,
    dependences: Iterable[Dependence],
    tree: ConstraintTree,
    options: Options = WHOLE,
    lower: Lowering | None = None,
) -> Scheduled:
    """The execution order of a group under its constraints, checked whole.

    Every entry of `tree` gets a verdict.  A program that has no order of its loops as they are is scheduled with sums,
    shifts and reversals of iterators.  lower: whether a kernel follows a schedule; an alternative without one gives way
    to the next, and where no kernel follows any, `because` of the first legal schedule says why.  Raises Conflict when
    a required entry cannot hold, Illegal when the program has no schedule even without entries, OverBudget when the
    search takes too long.  Within the limits of `options` the same arguments give the same tree, verdicts and log, byte
    for byte.
    """
    started = perf_counter()
    dependences = tuple(dependences)
    deadline = Deadline(options.seconds, program.name, options.should_stop)
    problem = prepare(program, dependences)
    solve = _Solve(program, problem, options, deadline, lower=lower, patience=options.explaining)
    solve.open_up()
    try:
        found, verdicts, log = solve.run(tree)
    except Conflict as conflict:
        if not options.repairing:
            raise
        raise with_repairs(conflict, program, tree, solve.still_conflicting) from None
    spent = perf_counter() - started - solve.checking - solve.lowering
    return Scheduled(found.tree, verdicts, spent * 1e3, solve.checking * 1e3, log, because=found.because)


@dataclass(slots=True)
class _Solve:
    program: TensorProgram
    problem: ScheduleProblem
    options: Options
    deadline: Deadline
    trial: bool = False
    """Whether to stop at the first failed required entry, without explaining it: for verifying repairs."""
    table: VerdictTable = field(default_factory=VerdictTable)
    log: list[str] = field(default_factory=list)
    _built: dict[tuple[RuleKey, ...], tuple[Node | None, tuple[str, ...]]] = field(default_factory=dict)

    lower: Lowering | None = None
    patience: float = 0.0
    """Seconds that are left for explanations."""
    candidates: dict[tuple[tuple[RuleKey, ...], tuple[Path, ...]], ScheduleCandidate] = field(default_factory=dict)
    """Rules and entries of a leaf -> its schedule, in the order in which they were tried: none is lowered twice."""
    repairing: Deadline | None = None
    """Of all trials of repairs together."""
    chosen: ScheduleCandidate | None = None
    """The last leaf that holds all that is required and has a kernel."""
    refusal: str = ""
    """Why the last leaf was given up."""
    checking: float = 0.0
    lowering: float = 0.0
    """Seconds that went to checks of whole schedules, and to code generation."""
    clash: Clash = field(default_factory=Clash)
    """The first required entry that cannot hold and the entries that exclude it."""

    def run(self, tree: ConstraintTree) -> tuple[ScheduleCandidate, tuple[Verdict, ...], tuple[str, ...]]:
        """The schedule, the verdicts and the log; Conflict when a required entry cannot hold.

        Where no kernel follows any legal schedule, the first one that was found.
        """
        check_number(self.program, entries_of(tree.root))
        refused = [v.placed for v in tree.rewrites if v.outcome == INFEASIBLE and v.placed.entry.required]
        if refused:
            self.clash = Clash((refused[0],))
            raise self.clash.error(self.table.of_tree(tree), is_last_answer=bool(self.options.repairing))
        log = tuple(self.log)
        try:
            if not self.settle(tree.root, SettledEntries(), strict=False) and self.candidates:
                self._drop_soft(tree.root, log)
        except OutOfTime as late:
            if not self._legal_candidates():
                raise
            self.log.append(f"{late.reason}: no other schedule was tried")
        legal = self._legal_candidates()
        if not legal:
            self._explain_unheld()
            raise self.clash.error(self.table.of_tree(tree), is_last_answer=bool(self.options.repairing))
        found = self.chosen or legal[0]
        self.table.record(*found.verdicts)
        return found, self.table.of_tree(tree), (*self.log, *self._built[rule_keys(found.rules)][1])

    def _legal_candidates(self) -> list[ScheduleCandidate]:
        return [each for each in self.candidates.values() if each.unheld is None]

    def _drop_soft(self, root: ConstraintNode, log: Sequence[str]) -> None:
        """Give up soft entries of the root, later ones first, that cost the kernel.  log: before it was settled."""
        before = self.table, self.log

        def settles(entries: Sequence[PlacedEntry]) -> bool:
            self.table, self.log = VerdictTable(), list(log)
            return self.settle(replace(root, entries=tuple(entries)), SettledEntries(), strict=False)

        kept = [placed for placed in root.entries if placed.entry.required]
        if len(kept) == len(root.entries) or not settles(kept):
            self.table, self.log = before
            return
        dropped: list[Verdict] = []
        for placed in (placed for placed in root.entries if not placed.entry.required):
            if settles((*kept, placed)):
                kept.append(placed)
            else:
                dropped.append(Verdict(placed, INFEASIBLE, self.refusal))
        settles(kept)
        self.table.record(*dropped)
        self.log += [f"given up: {verdict.placed.entry}: {verdict.because}" for verdict in dropped]

    def _explain_unheld(self) -> None:
        """Find out what excludes the first required entry that every rule allows and no schedule has."""
        for candidate in self.candidates.values():
            verdict = candidate.unheld
            if verdict is None:
                continue
            self.table.record(*candidate.verdicts)
            rule = self._rule(verdict.placed)
            others = [r for r in candidate.rules if r.placed != verdict.placed]
            if candidate.clash and candidate.clash[-1] == verdict.placed:
                self.clash = Clash(candidate.clash)
            else:
                self.clash = Clash((verdict.placed,)) if rule is None else self._clash(rule, others)
            return

    def still_conflicting(self, program: TensorProgram, tree: ConstraintTree) -> tuple[PlacedEntry, ...]:
        """The entries that conflict after a change of the tree or of the program; none when that repairs it."""
        options = self.options
        self.repairing = self.repairing or Deadline(options.repairing, self.program.name, options.should_stop)
        left = self.repairing.seconds_left()
        again = _Solve(program, self.problem, self.options, self.repairing, trial=True, patience=left)
        if program is self.program:
            again._built = self._built
        else:
            again.problem = prepare(program, dependences_of(program))
            again.open_up()
        try:
            again.run(tree)
        except Conflict as conflict:
            return conflict.conflicting
        return ()

    def open_up(self) -> None:
        """Retry with skewing, shifting and reversal if there is no schedule without; Illegal if there is none with them
        either."""
        if self.build(()) is not None:
            return
        self.options = replace(self.options, skew=True, shift=True, reverse=True)
        self._built.clear()
        if self.build(()) is None:
            raise Illegal("schedule", self.program.name, "no order of its loops keeps all its dependences")
        self.log.append("the loops as they are have no legal order: sums, shifts and reversals are allowed")

    def build(self, rules: Sequence[ScheduleRule]) -> Node | None:
        """The tree under some rules; None when there is none.  OverBudget past the limits, OutOfTime among them."""
        key = rule_keys(rules)
        if key not in self._built:
            self.deadline.seconds_left()
            builder = ScheduleBuilder.of(self.problem, tuple(rules), self.options, _ATTEMPTS, self.deadline)
            node = builder.build()
            self._built[key] = (None if node is None else join_bands(self.problem, node), tuple(builder.log))
        return self._built[key][0]

    def settle(self, node: ConstraintNode, above: SettledEntries, strict: bool) -> bool:
        """Whether the entries of a node and of one of its alternatives, on top of what holds above, have a kernel.

        strict: every entry must hold.  Otherwise only required ones must.
        """
        below = any(placed.entry.required for child in node.children for placed in entries_of(child))
        here = self._all(node.entries, above) if strict else self._as_many(node.entries, above, below)
        if here is None:
            return False
        if not node.children:
            return self._has_kernel(here, node.entries if strict else ())
        for number, child in enumerate(node.children):
            if self.settle(child, here, strict=True):
                for passed in node.children[number + 1 :]:
                    self.table.record_not_reached(passed, "an alternative before it holds")
                return True
            reason = self.table.first_reason(child) or self.refusal
            self.log.append(f"alternative {number + 1} of {len(node.children)} given up: {reason}")
        if strict:
            return False
        for number, child in enumerate(node.children):
            if self.settle(child, here, strict=False):
                self.log.append("no alternative holds whole; the first one is followed as far as it holds")
                for passed in node.children[number + 1 :]:
                    self.table.record_not_reached(passed, "an alternative before it is followed as far as it holds")
                return True
        return False

    def _has_kernel(self, settled: SettledEntries, alternative: Iterable[PlacedEntry]) -> bool:
        """Whether the schedule of a leaf holds all that is required and has a kernel.

        alternative: the entries that are given up where it has none.
        """
        key = (rule_keys(settled.rules), tuple(placed.path for placed in settled.entries))
        if key not in self.candidates:
            if self._legal_candidates():
                self.deadline.seconds_left()  # the first legal schedule is told in any case, late ones are not lowered
            self.candidates[key] = self._follow(settled)
        candidate = self.candidates[key]
        unheld = candidate.unheld
        if unheld is not None:
            self.refusal = f"{unheld.placed.entry}: {unheld.because}"
        elif candidate.because:
            self.refusal = f"no kernel follows it: {candidate.because}"
        else:
            self.chosen = candidate
            return True
        for placed in alternative:
            because = unheld.because if unheld and unheld.placed == placed else self.refusal
            self.table.record(Verdict(placed, INFEASIBLE, because))
        return False

    def _follow(self, settled: SettledEntries) -> ScheduleCandidate:
        """The schedule of settled entries, checked whole, and whether a kernel follows it."""
        node = self.build(settled.rules)
        assert node is not None, "a settled set of rules has a schedule"
        found = attach_entries(self.problem, node, settled.rules, settled.entries)
        if found.unheld is not None or self.trial:
            return found
        started = perf_counter()
        broken = check_schedule(self.program, self.problem.dependences(), found.tree)
        if broken:
            text = f"{broken[0].witness.text}, at {broken[0].level}"
            raise Fault("schedule", self.program.name, text, "the scheduler is wrong: report it")
        checked = perf_counter()
        because = self.lower(found.tree, found.verdicts) if self.lower else ""
        lowered = perf_counter()
        self.checking += checked - started
        self.lowering += lowered - checked
        return replace(found, because=because)

    def _all(self, entries: tuple[PlacedEntry, ...], above: SettledEntries) -> SettledEntries | None:
        try:
            return self._all_in_time(entries, above)
        except OutOfTime as late:
            if self.trial:
                raise
            self.refusal = late.reason
            return None

    def _all_in_time(self, entries: tuple[PlacedEntry, ...], above: SettledEntries) -> SettledEntries | None:
        known = {r.key for r in above.rules}
        found = {r.key: r for r in map(self._rule, entries) if r is not None}
        rules = tuple(rule for says, rule in found.items() if says not in known)
        whole = (*above.rules, *rules)
        if self._exists(whole):
            return SettledEntries(whole, above.entries + entries)
        kept = above.rules
        for rule in rules:
            if not self._exists((*kept, rule)):
                self.table.record(self._blame(rule, kept))
                break
            kept = (*kept, rule)
        return None

    def _as_many(self, entries: Iterable[PlacedEntry], above: SettledEntries, below: bool) -> SettledEntries | None:
        """Add required entries first, then soft ones; a soft entry that fails is dropped, or kept for the statements
        that can obey.  Soft entries for which no time is left are dropped, too.

        below: whether required entries follow, which what is kept may exclude.
        """
        rules, kept = above.rules, list(above.entries)
        known = {r.key for r in rules}
        refused: dict[RuleKey, Verdict] = {}
        ordered = sorted(entries, key=lambda p: not p.entry.required)
        whole = {r.key: r for r in map(self._rule, ordered) if r is not None and r.key not in known}
        with suppress(OutOfTime):  # most often all hold: one build, not one each
            if len(whole) > 1 and self._exists((*rules, *whole.values())):
                return SettledEntries((*rules, *whole.values()), (*kept, *ordered))
        for placed in ordered:
            rule = self._rule(placed)
            if rule is None or rule.key in known:
                kept.append(placed)
                continue
            if rule.key in refused and not placed.entry.required:
                self.table.record(replace(refused[rule.key], placed=placed))
                continue
            try:
                holds = self._exists((*rules, rule))
            except OutOfTime as late:
                if placed.entry.required or self.trial:
                    raise
                self.table.record(Verdict(placed, NOT_REACHED, late.reason))
                continue
            if holds:
                rules += (rule,)
                known.add(rule.key)
                kept.append(placed)
                continue
            verdict = self._blame(rule, rules)
            self.table.record(verdict)
            if placed.entry.required:
                self.clash = self.clash if self.clash.entries else self._clash(rule, rules)
                return None
            part = None
            with suppress(OutOfTime):
                part = None if self.trial and not below else largest_part(rule, rules, self._exists)
            if part is not None:
                rules += (part,)
                names = ", ".join(self.problem.statements[s].name for s in sorted(part.statements))
                verdict = replace(verdict, outcome=RELAXED, because=f"holds for {names} only; {verdict.because}")
                self.table.record(verdict)
            refused[rule.key] = verdict
            self.log.append(f"given up: {placed.entry}: {verdict.because}")
        return SettledEntries(rules, tuple(kept))

    def _clash(self, last: ScheduleRule, kept: Sequence[ScheduleRule]) -> Clash:
        with self._explaining():
            clash = Blame(self.problem, self._node_or_none).clash(last, kept)
        if clash.finding is not None:
            self.table.record(clash.finding)
        return clash

    def _rule(self, placed: PlacedEntry) -> ScheduleRule | None:
        return rules_of(self.problem, placed) if placed.entry.field in STEERING else None

    def _exists(self, rules: Sequence[ScheduleRule]) -> bool:
        try:
            return self.build(rules) is not None
        except OutOfTime:
            raise
        except OverBudget:
            self.log.append(f"gave up after {_ATTEMPTS} attempts under {len(rules)} entries")
            return False

    def _blame(self, rule: ScheduleRule, kept: Sequence[ScheduleRule]) -> Verdict:
        if self.trial:
            return Verdict(rule.placed, INFEASIBLE, "it cannot hold")
        with self._explaining():
            return Blame(self.problem, self._node_or_none).verdict(rule, kept)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Give builds no more than the time that is left for explanations."""
        usual, begin = self.deadline, process_time()
        self.deadline = Deadline(self.patience, self.program.name, self.options.should_stop)
        try:
            yield
        finally:
            self.deadline = usual
            self.patience = max(0.0, self.patience - (process_time() - begin))

    def _node_or_none(self, rules: Sequence[ScheduleRule]) -> Node | None:
        return self.build(rules) if self._exists(rules) else None
