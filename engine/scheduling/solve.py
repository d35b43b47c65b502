"""Schedule one group under its constraint tree, with a verdict for every entry.

Entries of the root are added one after the other while a schedule exists.  Children are alternatives: the first whose
entries all hold is taken, deeper alternatives included; when none does, the first one is followed as far as it holds.
Where no kernel follows then, soft entries of the root are given up that stand in its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time

from engine.poly.dependences import dependences as dependences_of
from engine.poly.nodes import Dependence
from engine.recipe import Path, Value
from engine.scheduling.bands import join_bands
from engine.scheduling.build import ScheduleBuilder
from engine.scheduling.candidate import ScheduleCandidate, attach_entries
from engine.scheduling.conflict import explain_clash, with_repairs
from engine.scheduling.integer import Deadline, OutOfTime
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import (
    DISABLED,
    INFEASIBLE,
    NOT_REACHED,
    RELAXED,
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
from engine.scheduling.unsat_core import Blame, largest_part
from engine.support.errors import Fault, Illegal, OverBudget
from engine.tensor.nodes import TensorProgram

_ATTEMPTS = 30_000
"""Attempts of one solve; an unconstrained one needs about one per statement and dimension."""
_EXPLAINING, _REPAIRING = 0.5, 0.7
"""Seconds of the processor for finding out which entries exclude each other, and for trying repairs."""
_PLAIN = Options()


def schedule(
    program: TensorProgram,
    dependences: Iterable[Dependence],
    tree: ConstraintTree,
    options: Options = _PLAIN,
    lower: Lowering | None = None,
) -> Scheduled:
    """The execution order of a group under its constraints, checked whole.

    Every entry of `tree` gets a verdict.  A program that has no order of its loops as they are is scheduled with sums,
    shifts and reversals of iterators.  lower: whether a kernel follows a schedule; an alternative without one gives way
    to the next, and where no kernel follows any, `because` of the first legal schedule says why.  Raises Conflict when
    a required entry cannot hold, Illegal when the program has no schedule even without entries, OverBudget when the
    search takes too long.  The same arguments give the same tree, verdicts and log, byte for byte.
    """
    started = perf_counter()
    dependences = tuple(dependences)
    deadline = Deadline(options.seconds, program.name)
    solve = _Solve(program, prepare(program, dependences), options, deadline, lower=lower)
    solve.open_up()
    try:
        found, verdicts, log = solve.run(tree)
    except Conflict as conflict:
        raise with_repairs(conflict, program, tree, solve.still_conflicting) from None
    spent = perf_counter() - started - solve.checking - solve.lowering
    return Scheduled(found.tree, verdicts, spent * 1e3, solve.checking * 1e3, log, because=found.because)


_Kept = tuple[str, str, Value, frozenset[int]]
"""Identity of a rule, without its author: field, dimension, value and statements."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """Entries that hold so far on the path down the constraint tree, and the tree they give."""

    rules: tuple[ScheduleRule, ...] = ()
    entries: tuple[PlacedEntry, ...] = ()
    """All entries that are not given up, those without a rule included."""


@dataclass(slots=True)
class _Solve:
    program: TensorProgram
    problem: ScheduleProblem
    options: Options
    deadline: Deadline
    trial: bool = False
    """Whether to stop at the first failed required entry, without explaining it: for verifying repairs."""
    found: dict[tuple[int, ...], Verdict] = field(default_factory=dict)
    """Verdicts by the path of the entry."""
    log: list[str] = field(default_factory=list)
    _built: dict[tuple[_Kept, ...], tuple[Node | None, tuple[str, ...]]] = field(default_factory=dict)

    lower: Lowering | None = None
    patience: float = _EXPLAINING
    """Seconds that are left for explanations."""
    candidates: dict[tuple[tuple[_Kept, ...], tuple[Path, ...]], ScheduleCandidate] = field(default_factory=dict)
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
    clash: tuple[PlacedEntry, ...] = ()
    """The first required entry that cannot hold and the entries that exclude it, as few as possible."""

    def run(self, tree: ConstraintTree) -> tuple[ScheduleCandidate, tuple[Verdict, ...], tuple[str, ...]]:
        """The schedule, the verdicts and the log; Conflict when a required entry cannot hold.

        Where no kernel follows any legal schedule, the first one that was found.
        """
        check_number(self.program, entries_of(tree.root))
        self.clash = tuple(v.placed for v in tree.rewrites if v.outcome == INFEASIBLE and v.placed.entry.required)[:1]
        if self.clash:
            raise explain_clash(self.clash, self.verdicts(tree))
        log = tuple(self.log)
        if not self.settle(tree.root, _Settled(), strict=False) and self.candidates:
            self._drop_soft(tree.root, log)
        legal = [each for each in self.candidates.values() if each.unheld is None]
        if not legal:
            self._explain_unheld()
            raise explain_clash(self.clash, self.verdicts(tree))
        found = self.chosen or legal[0]
        self.found |= {verdict.placed.path: verdict for verdict in found.verdicts}
        return found, self.verdicts(tree), (*self.log, *self._built[_key(found.rules)][1])

    def _drop_soft(self, root: ConstraintNode, log: Sequence[str]) -> None:
        """Give up soft entries of the root, later ones first, that cost the kernel.  log: before it was settled."""
        before = self.found, self.log

        def settles(entries: Sequence[PlacedEntry]) -> bool:
            self.found, self.log = {}, list(log)
            return self.settle(replace(root, entries=tuple(entries)), _Settled(), strict=False)

        kept = [placed for placed in root.entries if placed.entry.required]
        if len(kept) == len(root.entries) or not settles(kept):
            self.found, self.log = before
            return
        dropped: list[Verdict] = []
        for placed in (placed for placed in root.entries if not placed.entry.required):
            if settles((*kept, placed)):
                kept.append(placed)
            else:
                dropped.append(Verdict(placed, INFEASIBLE, self.refusal))
        settles(kept)
        self.found |= {verdict.placed.path: verdict for verdict in dropped}
        self.log += [f"given up: {verdict.placed.entry}: {verdict.because}" for verdict in dropped]

    def _explain_unheld(self) -> None:
        """Find out what excludes the first required entry that every rule allows and no schedule has."""
        for candidate in self.candidates.values():
            verdict = candidate.unheld
            if verdict is None:
                continue
            self.found |= {each.placed.path: each for each in candidate.verdicts}
            rule = self._rule(verdict.placed)
            others = [r for r in candidate.rules if r.placed != verdict.placed]
            if candidate.clash and candidate.clash[-1] == verdict.placed:
                self.clash = candidate.clash
            else:
                self.clash = (verdict.placed,) if rule is None else self._clash(rule, others)
            return

    def still_conflicting(self, program: TensorProgram, tree: ConstraintTree) -> tuple[PlacedEntry, ...]:
        """The entries that conflict after a change of the tree or of the program; none when that repairs it."""
        self.repairing = self.repairing or Deadline(_REPAIRING, self.program.name, process_time)
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
        key = _key(rules)
        if key not in self._built:
            self.deadline.seconds_left()
            builder = ScheduleBuilder.of(self.problem, tuple(rules), self.options, _ATTEMPTS, self.deadline)
            node = builder.build()
            self._built[key] = (None if node is None else join_bands(self.problem, node), tuple(builder.log))
        return self._built[key][0]

    def settle(self, node: ConstraintNode, above: _Settled, strict: bool) -> bool:
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
                    self._not_reached(passed, "an alternative before it holds")
                return True
            findings = (self.found.get(p.path) for p in entries_of(child))
            failed = next((v for v in findings if v and v.outcome == INFEASIBLE), None)
            reason = f"{failed.placed.entry}: {failed.because}" if failed else self.refusal
            self.log.append(f"alternative {number + 1} of {len(node.children)} given up: {reason}")
        if strict:
            return False
        for number, child in enumerate(node.children):
            if self.settle(child, here, strict=False):
                self.log.append("no alternative holds whole; the first one is followed as far as it holds")
                for passed in node.children[number + 1 :]:
                    self._not_reached(passed, "an alternative before it is followed as far as it holds")
                return True
        return False

    def _has_kernel(self, settled: _Settled, alternative: Iterable[PlacedEntry]) -> bool:
        """Whether the schedule of a leaf holds all that is required and has a kernel.

        alternative: the entries that are given up where it has none.
        """
        key = (_key(settled.rules), tuple(placed.path for placed in settled.entries))
        if key not in self.candidates:
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
            self._record(Verdict(placed, INFEASIBLE, because))
        return False

    def _follow(self, settled: _Settled) -> ScheduleCandidate:
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
        self.deadline.extend(lowered - checked)
        return replace(found, because=because)

    def _all(self, entries: Iterable[PlacedEntry], above: _Settled) -> _Settled | None:
        entries = tuple(entries)
        known = {r.key for r in above.rules}
        found = {r.key: r for r in map(self._rule, entries) if r is not None}
        rules = tuple(rule for says, rule in found.items() if says not in known)
        whole = (*above.rules, *rules)
        if self._exists(whole):
            return _Settled(whole, above.entries + entries)
        kept = above.rules
        for rule in rules:
            if not self._exists((*kept, rule)):
                self._record(self._blame(rule, kept))
                break
            kept = (*kept, rule)
        return None

    def _as_many(self, entries: Iterable[PlacedEntry], above: _Settled, below: bool) -> _Settled | None:
        """Add required entries first, then soft ones; a soft entry that fails is dropped, or kept for the statements
        that can obey.

        below: whether required entries follow, which what is kept may exclude.
        """
        rules, kept = above.rules, list(above.entries)
        known = {r.key for r in rules}
        refused: dict[_Kept, Verdict] = {}
        for placed in sorted(entries, key=lambda p: not p.entry.required):
            rule = self._rule(placed)
            if rule is None or rule.key in known:
                kept.append(placed)
                continue
            if rule.key in refused and not placed.entry.required:
                self._record(replace(refused[rule.key], placed=placed))
                continue
            if self._exists((*rules, rule)):
                rules += (rule,)
                known.add(rule.key)
                kept.append(placed)
                continue
            verdict = self._blame(rule, rules)
            self._record(verdict)
            if placed.entry.required:
                self.clash = self.clash or self._clash(rule, rules)
                return None
            part = None if self.trial and not below else largest_part(rule, rules, self._exists)
            if part is not None:
                rules += (part,)
                names = ", ".join(self.problem.statements[s].name for s in sorted(part.statements))
                verdict = Verdict(placed, RELAXED, f"holds for {names} only; {verdict.because}", verdict.witness)
                self._record(verdict)
            refused[rule.key] = verdict
            self.log.append(f"given up: {placed.entry}: {verdict.because}")
        return _Settled(rules, tuple(kept))

    def _clash(self, last: ScheduleRule, kept: Sequence[ScheduleRule]) -> tuple[PlacedEntry, ...]:
        with self._explaining():
            clash, finding = Blame(self.problem, self._node_or_none).clash(last, kept)
        if finding is not None:
            self._record(finding)
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
        self.deadline = Deadline(self.patience, self.program.name, process_time)
        try:
            yield
        finally:
            self.deadline = usual
            self.patience = max(0.0, self.patience - (process_time() - begin))

    def _node_or_none(self, rules: Sequence[ScheduleRule]) -> Node | None:
        return self.build(rules) if self._exists(rules) else None

    def _record(self, verdict: Verdict) -> None:
        self.found[verdict.placed.path] = verdict

    def _not_reached(self, node: ConstraintNode, because: str) -> None:
        for placed in entries_of(node):
            self.found.setdefault(placed.path, Verdict(placed, NOT_REACHED, because))

    def verdicts(self, tree: ConstraintTree) -> tuple[Verdict, ...]:
        """One verdict for every entry of the tree, in its order, and those of the rewrites before it."""
        result = [
            self.found.get(p.path, Verdict(p, NOT_REACHED, "the solve ended before it")) for p in entries_of(tree.root)
        ]
        result += [Verdict(p, NOT_REACHED, "too many alternatives; this one was left out") for p in tree.beyond]
        return (*result, *(Verdict(p, DISABLED, "switched off") for p in tree.disabled), *tree.rewrites)


def _key(rules: Sequence[ScheduleRule]) -> tuple[_Kept, ...]:
    return tuple(dict.fromkeys(rule.key for rule in rules))
