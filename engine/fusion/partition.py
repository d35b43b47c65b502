"""The partition of a program into kernels under a policy, what several kernels compute copied into each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.fusion.anchors import is_product
from engine.fusion.group_signature import Patterns
from engine.fusion.group_times import Group, GroupTime, GroupTimes, Saving
from engine.fusion.legality import KernelLegality
from engine.fusion.shape import Shape
from engine.fusion.split_reductions import in_parts
from engine.fusion.steps import Steps, steps_of
from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.nodes import STITCH, CandidateKernel, Fixed, PlanFigures, Why
from engine.fusion.stitching.policies import ChosenKernels, choose
from engine.fusion.stitching.search import accurate, moving
from engine.graph.nodes import Operator
from engine.target import Target
from engine.tensor.nodes import Array, Statement, TensorProgram
from engine.tensor.rewrite import rename_statement
from engine.tensor.traffic import compulsory_bytes


@dataclass(frozen=True, slots=True)
class FusionRequest:
    """What kernels a program is to be partitioned into."""

    policy: str
    target: Target
    time_of: GroupTime
    """What a kernel takes."""
    fixed: Fixed = field(default_factory=Fixed)
    """What a person decided about groups: it stays, and the rest is explored."""
    numerics: Mapping[str, str] = field(default_factory=dict)
    """How kernels round, which decides what they take."""
    packing: bool = True
    """Whether independent kernels may share a launch."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Kernels of statements with their loop spaces, in an order that respects data flow."""

    program: TensorProgram
    """With the copies that some kernels hold of what others compute as well."""
    groups: tuple[Group, ...]
    chosen: ChosenKernels
    times: GroupTimes = field(repr=False, compare=False)
    """Of its groups, and of those that may come to their place."""
    numbers: tuple[int, ...]
    """The number of each group among the chosen kernels; of several that became one, that of the last."""
    views: Mapping[str, str]
    """Array -> the array whose storage it is: a kernel that writes several parts of one calls each by its own name."""
    refusals: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(array, reading operator) -> why that operator did not join the group that makes the array, where that is known
    from elsewhere than the choice of kernels."""
    firsts: Mapping[int, int] = field(default_factory=dict)
    """Number of a group that is several of the chosen kernels -> that of the first, which reads its operands."""
    savings: Mapping[int, Saving] = field(default_factory=dict)
    """Number of a group that is several of the chosen kernels -> what that saves."""
    spent: Mapping[int, float] = field(default_factory=dict)
    """Number of such a group -> its microseconds beside those that the search's models tell of the others."""

    def why(self, first: int, second: int) -> Why:
        """Why two groups, by their places, are not one."""
        made = {self.views.get(s.write.array, s.write.array) for s in self.groups[first][0]}
        for statement in self.groups[second][0]:
            for access in statement.reads():
                known = self.refusals.get((access.array, statement.operator)) if access.array in made else None
                if known:
                    return Why(False, known, None)
        number = self.numbers[second]
        return self.chosen.why(self.numbers[first], self.firsts.get(number, number))

    def figures(self, places: Iterable[int] | None = None) -> PlanFigures:
        """What the kernels come to, or those of the groups at some places."""
        graph, assessor = self.chosen.graph, self.chosen.assessor
        found = PlanFigures(0, 0, 0, 0.0)
        for place in range(len(self.groups)) if places is None else places:
            statements, _ = self.groups[place]
            kernel = graph.kernels[self.numbers[place]]
            is_bound = not any(map(is_product, statements))
            if self.numbers[place] in self.spent:
                spent = self.spent[self.numbers[place]]
                moved = self.moved_bytes(statements)
            else:
                cost = assessor.cost(kernel)
                moved = cost.bytes_read + cost.bytes_written if cost else 0
                spent = accurate(assessor, kernel) if cost and is_bound else moving(cost, assessor.target)
            found = PlanFigures(
                found.kernels + 1, found.memory_bound + is_bound, found.bytes + moved, found.microseconds + spent
            )
        return found

    def moved_bytes(self, statements: Sequence[Statement]) -> int:
        """Bytes of global memory that a kernel of some statements must read or write."""
        needed = self.program.needed_outside(statements)
        return sum(compulsory_bytes(self.program.cut_out(statements, needed)))

    def with_groups(self, groups: Mapping[int, Group], places: Sequence[int]) -> Partition:
        """Some groups in the place of others.  groups: by their places now, in an order to launch them."""
        ordered, numbers = tuple(groups[place] for place in places), tuple(self.numbers[place] for place in places)
        return replace(self, groups=ordered, numbers=numbers)

    def joined_time(self, places: Iterable[int], saving: Saving) -> float:
        """What the search's models say of groups that become one: theirs, less what the estimate says that it saves."""
        return self.figures(places).microseconds - saving.separate + saving.fused


def partition(program: TensorProgram, without_kernel: Sequence[Operator], request: FusionRequest) -> Partition:
    """Partition a program whose layout statements are folded.

    without_kernel: operators of the graph that the program lacks.
    """
    program = in_parts(program) if request.policy == STITCH else program
    fits = KernelLegality(program.arrays, request.target)
    times = GroupTimes(program, request.target, request.time_of, request.numerics)
    steps = steps_of(program, without_kernel, fits, times, request.fixed)
    patterns = Patterns(program.arrays, ())
    assessor = Assessor(steps.flow, fits, patterns.statement, request.target, request.fixed)
    chosen = choose(assessor, request.policy, _EstimateJudge(assessor, times), request.packing)
    return _with_copies(program, steps, chosen, request)


class _EstimateJudge:
    """Confirms joined kernels by the estimate; those that differ in names alone are asked about once."""

    def __init__(self, assessor: Assessor, times: GroupTimes) -> None:
        self._assessor, self._times = assessor, times
        self._known: dict[tuple[CandidateKernel, ...], bool] = {}
        """By the first kernels alike: the joined one, then its parts."""

    def __call__(self, parts: Sequence[CandidateKernel], whole: CandidateKernel) -> bool:
        key = tuple(map(self._assessor.first, (whole, *parts)))
        if key not in self._known:
            self._known[key] = self._pays(parts, whole)
        return self._known[key]

    def _pays(self, parts: Sequence[CandidateKernel], whole: CandidateKernel) -> bool:
        statements, shape = self._group(whole)
        if len({s.write.array for s in statements}) < len(statements):
            return True  # writers of parts of one array get names of their own later: until then none compiles
        return self._times.saving((statements, shape), map(self._group, parts)).pays

    def _group(self, kernel: CandidateKernel) -> Group:
        return self._assessor.flow.statements(kernel.members), _shape(self._assessor, kernel)


def _with_copies(program: TensorProgram, steps: Steps, chosen: ChosenKernels, request: FusionRequest) -> Partition:
    """The groups of the chosen kernels, each statement in one of them only."""
    graph, flow = chosen.graph, steps.flow
    order = [n for n in graph.in_order if any(flow.steps[m].statements for m in graph.kernels[n].members)]
    owner: dict[int, int] = {}
    for n in order:
        for member in graph.kernels[n].members:
            if member not in owner or member in graph.kernels[n].roots:
                owner[member] = n
    arrays = dict(program.arrays)
    views: dict[str, str] = {}
    groups: list[Group] = []
    for n in order:
        kernel = graph.kernels[n]
        copied = {a for m in kernel.members if owner[m] != n for a in flow.steps[m].made}
        statements = flow.statements(kernel.members)
        known = steps.shapes.get(min(kernel.members)) if kernel.closed else None  # a closed kernel is one step
        shape = known or _shape(chosen.assessor, kernel)
        if copied:
            statements, shape = _copies(statements, shape, copied, n, arrays)
        groups.append((name_parts(statements, arrays, views), shape))
    ordered = tuple(s for group, _ in groups for s in group)
    program = replace(program, arrays=arrays, statements=ordered)
    times = GroupTimes(program, request.target, request.time_of, request.numerics)
    return Partition(program, tuple(groups), chosen, times, tuple(order), views)


def _shape(assessor: Assessor, kernel: CandidateKernel) -> Shape:
    """The loop space of a kernel: that of the first one alike, in the kernel's own names."""
    first = assessor.first(kernel)
    fit = assessor.fit(first)
    assert not isinstance(fit, str), fit
    theirs, own = (assessor.flow.statements(one.members) for one in (first, kernel))
    return fit.shape.with_names({s.name: mine.name for s, mine in zip(theirs, own, strict=True)})


def _copies(
    statements: Sequence[Statement], shape: Shape, copied: set[str], number: int, arrays: dict[str, Array]
) -> tuple[tuple[Statement, ...], Shape]:
    """The statements of a group with new names for those that another group has as well."""
    used = {array for s in statements for array in s.arrays}
    arrays_of = {array: f"{array}~{number}" if array in copied else array for array in used}
    names: dict[str, str] = {}
    for statement in statements:
        names[statement.name] = f"{statement.name}~{number}" if statement.write.array in copied else statement.name
    for array in copied:
        arrays[arrays_of[array]] = replace(arrays[array], name=arrays_of[array])
    made = tuple(rename_statement(s, names[s.name], s.operator, arrays_of) for s in statements)
    return made, shape.with_names(names)


def name_parts(
    statements: Sequence[Statement], arrays: dict[str, Array], views: dict[str, str]
) -> tuple[Statement, ...]:
    """The statements of a group, each writer of an array but the first under a name of its own.

    arrays, views: those of the program, to which the names are added.
    """
    written: dict[str, int] = {}
    made: list[Statement] = []
    for statement in statements:
        array = views.get(statement.write.array, statement.write.array)
        number = written[array] = written.get(array, -1) + 1
        view = f"{array}|{number}" if number else array
        if number:
            views[view] = array
            arrays[view] = replace(arrays[array], name=view)
        if view != statement.write.array:
            statement = replace(statement, write=replace(statement.write, array=view))
        made.append(statement)
    return tuple(made)
