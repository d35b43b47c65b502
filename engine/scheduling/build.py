"""Build a schedule tree under rules, dimension by dimension from outermost, fusing as far as no parallel loop is lost.

A dimension comes from the search for one iterator of each statement; from the linear solver where entries ask for
coefficients, or where the options let it try what the search does not find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field
from itertools import count

from engine.scheduling.fusion import Group, partition
from engine.scheduling.ilp_rows import General, Next
from engine.scheduling.integer import Deadline
from engine.scheduling.nodes import Band, Leaf, Member, Node, Options, Sequence
from engine.scheduling.problem import AffineRow, Row, Rows, ScheduleProblem, coefficients, row_of
from engine.scheduling.rules import ScheduleRule, accepts, cut_order, must_part, preferences
from engine.scheduling.search import Budget, Choice, choices
from engine.scheduling.terms import CONSTANT


@dataclass(slots=True)
class _Choices:
    """Choices for one dimension, best first; generated lazily and cached."""

    preferences: Mapping[int, Sequence_[int]]
    more: Iterator[Choice]
    found: list[Choice] = field(default_factory=list)

    def __iter__(self) -> Iterator[Choice]:
        for position in count():
            if position == len(self.found):
                choice = next(self.more, None)
                if choice is None:
                    return
                self.found.append(choice)
            yield self.found[position]


@dataclass(slots=True)
class ScheduleBuilder:
    """State of one solve: its rules, budget and decisions."""

    problem: ScheduleProblem
    rules: Sequence_[ScheduleRule]
    budget: Budget
    general: General
    log: list[str] = field(default_factory=list)
    _known: dict[tuple[Group, tuple[Rows, ...], bool], _Choices] = field(default_factory=dict)

    @staticmethod
    def of(
        problem: ScheduleProblem, rules: Sequence_[ScheduleRule], options: Options, attempts: int, deadline: Deadline
    ) -> ScheduleBuilder:
        """A new solve."""
        return ScheduleBuilder(problem, rules, Budget(attempts), General(problem, rules, options, deadline))

    def build(self) -> Node | None:
        """A tree of one-member bands that obeys all rules; None if the search finds none."""
        everything = tuple(range(len(self.problem.statements)))
        together = self._node(everything, dict.fromkeys(everything, ()), inside=False, since=0)
        common = 0 if together is None else _common(together)
        if not common or self._is_steered() or self._is_held_together():
            return together
        # Building separate nests writes its own log; the first one is restored if they are not taken.
        decided, self.log = self.log, []
        apart = self._apart(everything, common)
        if apart is None:
            self.log = decided
        return apart or together

    def _apart(self, everything: Group, common: int) -> Node | None:
        """Separate nests for groups that have more than `common` parallel loops alone.

        A padding shares only the images with the convolution that reads it, where both have rows and columns, too.
        """
        rows: dict[int, Rows] = dict.fromkeys(everything, ())
        if common >= min(self._loops_left(s, ()) for s in everything):
            return None

        def whole(group: Group) -> bool:
            return self._count_shared_loops(group) == min(self._loops_left(s, ()) for s in group)

        parts = partition(self.problem, everything, (), whole)
        if parts is None or min(map(self._count_shared_loops, parts)) <= common:
            return None
        return self._sequence(parts, rows, False, "they have more parallel loops apart")

    def _count_shared_loops(self, group: Group) -> int:
        """Number of parallel loops around all statements of a group, the best choice taken each time."""
        rows: dict[int, Rows] = dict.fromkeys(group, ())
        for depth in range(min(map(self.problem.rank, group))):
            choice = next(iter(self._choices(group, rows, depth > 0)), None)
            if choice is None or not self._carries_nothing(choice, rows):
                return depth
            rows = {s: (*rows[s], row) for s, row in choice.items()}
        return min(map(self.problem.rank, group))

    def _node(self, component: Group, rows: Mapping[int, Rows], inside: bool, since: int) -> Node | None:
        """The subtree of a component (statements joined by dependences) whose statements already have `rows`.

        A loop around all of them comes first; where there is none, or none works out, they are cut into a sequence.
        since: number of rows outside the innermost sequence.
        """
        self.budget.spend(self.problem.program.name)
        full = [s for s in component if len(rows[s]) == self.problem.rank(s)]
        # Statements whose rows are complete cannot get another loop, so those with rows left must be cut from them.
        apart = must_part(self.problem, self.rules, component, rows)
        if len(full) == len(component) and not apart:
            return Leaf(self._names(component))
        if not full and not apart:
            early = self._thin(component, rows, inside)
            if early:
                parts = [early, tuple(s for s in component if s not in early)]
                return self._sequence(parts, rows, inside, "values without the outer loop are made before")
            # Best first; a worse choice is tried only where no tree goes on below a better one.
            for found in self._next(component, rows, inside, since):
                member = self._member(found, rows)
                below = {s: (*rows[s], row) for s, row in found.items()}
                child = self._node(component, below, inside or member.parallel, since)
                if child is not None:
                    return Band((member,), True, child)
        return self._cut(component, rows, inside)

    def _next(self, component: Group, rows: Mapping[int, Rows], inside: bool, since: int) -> Iterator[Next]:
        """Rows for the next dimension of a component, best first: from the iterator search, or from the linear solver
        if rules need it."""
        above = {s: rows[s] for s in component}
        wanted = self.general.rules_by_position(above)
        if wanted:
            yield from self._solve_rows(above, inside, since, wanted)
            return
        for choice in self._choices(component, rows, inside):
            named = self.general.rules_by_name(choice)
            if named:
                yield from self._solve_rows(above, inside, since, named, choice)
            else:
                yield choice
        options = self.general.options
        if options.skew or options.shift or options.reverse:
            yield from self._solve_rows(above, inside, since)

    def _solve_rows(
        self,
        rows: Mapping[int, Rows],
        inside: bool,
        since: int,
        here: Sequence_[ScheduleRule] = (),
        choice: Choice | None = None,
    ) -> Iterator[Next]:
        self.budget.spend(self.problem.program.name)
        found = self.general.rows(rows, inside, since, here, choice)
        if found is None or not accepts(self.problem, self.rules, rows, found):
            return
        # A constant that an entry asks for must stay; any other offset is free.
        if not any(k == CONSTANT for rule in here if rule.demand for c in rule.demand.constraints for *_, k in c.terms):
            found = self._from_zero(found)
        self.general.remember(rows, found, here)
        yield found

    def _from_zero(self, found: Next) -> Next:
        """The rows with a common constant added so that the smallest value is zero."""
        low = min(self._range(s, row)[0] for s, row in found.items())
        if low == 0:
            return found
        return {
            s: row_of(
                coefficients(row, self.problem.rank(s)), (row.constant if isinstance(row, AffineRow) else 0) - low
            )
            for s, row in found.items()
        }

    def _range(self, statement: int, row: Row) -> tuple[int, int]:
        """The smallest and the largest value of a row."""
        if isinstance(row, int):
            return 0, self.problem.extents[statement][row] - 1
        ends = [c * (n - 1) for c, n in zip(row.coefficients, self.problem.extents[statement], strict=True)]
        return row.constant + sum(min(e, 0) for e in ends), row.constant + sum(max(e, 0) for e in ends)

    def _choices(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> _Choices:
        """Choices for the next dimension; cached, because the fusion test and the loop built after it ask the same."""
        key = (component, tuple(rows[s] for s in component), inside)
        if key not in self._known:
            wanted = preferences(self.problem, self.rules, component, rows, inside)
            # The statement with most candidates leads: its preference order decides, the others follow by propagation.
            leader = max(component, key=lambda s: (len(wanted[s]), -s))
            found = choices(self.problem, wanted, leader, self.budget)
            self._known[key] = _Choices(wanted, (c for c in found if accepts(self.problem, self.rules, rows, c)))
        return self._known[key]

    def _member(self, found: Next, rows: Mapping[int, Rows]) -> Member:
        problem = self.problem
        used = Counter(problem.names[s][problem.leading(s, (*rows[s], row))] for s, row in found.items())
        ranges = [self._range(s, row) for s, row in found.items()]
        return Member(
            name=used.most_common(1)[0][0],
            rows={problem.statements[s].name: problem.index(s, row) for s, row in found.items()},
            parallel=self._carries_nothing(found, rows),
            extent=max(high for _, high in ranges) - min(0, *(low for low, _ in ranges)) + 1,
        )

    def _carries_nothing(self, found: Next, rows: Mapping[int, Rows]) -> bool:
        """Whether the dimension carries no dependence: it iterates no reduction and keeps dependent instances at
        distance zero."""
        problem = self.problem
        for s, row in found.items():
            moved = 1 << row if isinstance(row, int) else sum(1 << k for k, c in enumerate(row.coefficients) if c)
            if problem.reduced[s] & moved or problem.distance(s, rows[s], row):
                return False
        edges = (e for e in problem.edges.values() if e.source in found and e.sink in found)
        return not any(problem.between(e, rows[e.source], rows[e.sink], found[e.source], found[e.sink]) for e in edges)

    def _thin(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> Group:
        """Producers that would take the outer loop from the other statements, and can run before them.

        A vector over the columns, made in the group and used in every row, would put the column loop outside; such
        producers (no reduction, fewer loops left, nothing read from the others) get a nest of their own instead.
        """
        offered = self._choices(component, rows, inside)
        choice = next(iter(offered), None)
        if choice is None or self._is_steered():
            return ()
        left = {s: self._loops_left(s, rows[s]) for s in component}
        leader = max(component, key=lambda s: (left[s], -s))
        first = offered.preferences[leader][0]
        if choice[leader] == first:
            return ()
        thin: dict[int, None] = {}
        among = frozenset(component)
        for s in component:
            if left[s] < left[leader] and not self.problem.reduced[s] and self._sources(s, among) <= thin.keys():
                thin[s] = None
        rest = tuple(s for s in component if s not in thin)
        better = next(iter(self._choices(rest, rows, inside)), None)
        return tuple(thin) if better is not None and better[leader] == first else ()

    def _loops_left(self, statement: int, rows: Rows) -> int:
        """Number of unused iterators that are not reduced."""
        unused = self.problem.unused_iterators(statement, rows)
        reduced = self.problem.reduced[statement]
        return sum(not reduced >> k & 1 for k in unused) if reduced else len(unused)

    def _cut(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> Node | None:
        """Split a component into a sequence of independently scheduled parts; None if that fails too."""
        if len(component) == 1:
            return None
        known: dict[Group, Next | None] = {}
        self.general.forget(component, len(rows[component[0]]))

        def find_shared(group: Group) -> Next | None:
            if group not in known:
                known[group] = self._shared_loop(group, rows, inside)
            return known[group]

        def is_parallel(group: Group) -> bool:
            found = find_shared(group)
            return found is not None and self._carries_nothing(found, rows)

        order = cut_order(self.rules, component)
        parts = partition(self.problem, component, order, lambda group: find_shared(group) is not None, is_parallel)
        if parts is None:
            return None
        alone: list[Group] = [(s,) for part in parts for s in part]
        if len(parts) > 1:
            # Last attempt before every statement gets a nest of its own.
            parts = [piece for part in parts for piece in self._without_early(part, component, rows, inside)]
            node = self._sequence(parts, rows, inside, "no parallel loop is common to all")
            if node is not None or len(alone) == len(parts):
                return node
        single = partition(self.problem, component, order, lambda group: False)
        return None if single is None else self._sequence(single, rows, inside, "nothing can be shared here")

    def _without_early(self, part: Group, component: Group, rows: Mapping[int, Rows], inside: bool) -> Iterator[Group]:
        """Split a part if some statements need not wait for the rest of the component and would lose a parallel loop.

        A part with a reduction that waits for the part before it has a loop in order; statements of it that need
        no other value of the component get a parallel loop of their own instead, before it.
        """
        among = frozenset(component)
        waits = len(part) > 1 and any(not self._sources(s, among) <= set(part) for s in part)
        choice = next(iter(self._choices(part, rows, inside)), None) if waits and not self._is_steered() else None
        if choice is None or self._carries_nothing(choice, rows):
            yield part
            return
        early: dict[int, None] = {}
        for s in part:
            if not self.problem.reduced[s] and self._sources(s, among) <= early.keys():
                early[s] = None
        if early:
            yield tuple(early)
        yield tuple(s for s in part if s not in early)

    def _sources(self, statement: int, among: frozenset[int]) -> set[int]:
        """The statements of `among` whose values or reads this one must wait for."""
        return {other for other, _ in self.problem.links[statement] if other < statement and other in among}

    def _is_steered(self) -> bool:
        """Whether rules cut statements or constrain coefficients; such rules may relate any statements."""
        return any(rule.field == "cut" or rule.demand for rule in self.rules)

    def _is_held_together(self) -> bool:
        """Whether an entry pins the outermost loop of all statements at once, and so asks for one common nest."""
        everything = range(len(self.problem.statements))
        pins = [rule for rule in self.rules if rule.field == "pin" and rule.address.kind == "outermost"]
        return any(rule.statements.issuperset(everything) for rule in pins)

    def _shared_loop(self, group: Group, rows: Mapping[int, Rows], inside: bool) -> Next | None:
        """The next loop that all statements of a group can share, empty where all have theirs; None without one."""
        full = sum(len(rows[s]) == self.problem.rank(s) for s in group)
        if full not in (0, len(group)) or must_part(self.problem, self.rules, group, rows):
            return None
        if full:
            return {}
        depth = len(rows[group[0]])
        self.general.forget(group, depth)
        found = next(self._next(group, rows, inside, since=depth), None)
        self.general.forget(group, depth)
        return found

    def _sequence(self, parts: Sequence_[Group], rows: Mapping[int, Rows], inside: bool, because: str) -> Node | None:
        children: list[Node] = []
        for part in parts:  # what an attempt at a common loop has recorded holds for no loop of a part
            self.general.forget(part, len(rows[part[0]]))
        for part in parts:
            child = self._node(part, {s: rows[s] for s in part}, inside, len(rows[part[0]]))
            if child is None:
                return None
            # A sequence directly inside a sequence is one sequence.
            children += child.children if isinstance(child, Sequence) else (child,)
        self.log.append(f"cut: {' | '.join(' '.join(self._names(part)) for part in parts)} ({because})")
        return Sequence(tuple(children))

    def _names(self, component: Group) -> tuple[str, ...]:
        return tuple(self.problem.statements[s].name for s in component)


def _common(node: Node) -> int:
    """Number of parallel loops around everything in a tree of one-member bands."""
    count = 0
    while isinstance(node, Band) and node.members[0].parallel:
        count, node = count + 1, node.child
    return count
