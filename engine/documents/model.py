"""Plain-data documents: what the worker process sends, the window shows and `--json` prints.

Only numbers, text, booleans, tuples and other documents, so that `text.to_json` and `text.from_json` carry them across
the process boundary.  The window renders these and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.documents.uncompiled import UncompiledDoc as UncompiledDoc
from engine.execution.nodes import PREDICTED, Timing
from engine.execution.nodes import Check as Check
from engine.execution.nodes import SiteCount as SiteCount
from engine.support.values import value


@dataclass(frozen=True, slots=True)
class Time:
    """A time with its origin ("predicted", "measured" or "synthetic")."""

    microseconds: float
    origin: str
    note: str = ""
    """Device and date, or "uncalibrated"."""
    low: float = 0.0
    high: float = 0.0
    samples: tuple[float, ...] = ()
    device: str = ""
    """Of a measured time: the GPU's name."""
    date: str = ""
    """When it was measured: ISO 8601, "2026-11-18T09:12:00+00:00"."""
    rounds: int = 0
    """Rounds of equal length that `samples` was taken in; 0 where it is not known."""
    noise: str = ""
    """Why the samples say little; "" for a quiet run."""


def time_doc(timing: Timing) -> Time:
    """A measured time, ready to show."""
    environment = timing.environment or {}
    note = ", ".join(str(environment[key]) for key in ("device", "date") if key in environment)
    if timing.noise:
        note = f"{note}; noisy: {timing.noise}"
    return Time(
        timing.microseconds, timing.origin, note, timing.low, timing.high, timing.samples,
        environment.get("device", ""), environment.get("date", ""), timing.rounds, timing.noise,
    )  # fmt: skip


@value(frozen=True, slots=True)
class OperatorDoc:
    """One operator of the file."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shape: str
    """Shape and type of the first output, "1 x 128 x 768 float32"."""
    scope: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    """Names and values as text, ("perm", "0,2,1,3"); long values are cut short, arrays tell type and shape."""


@value(frozen=True, slots=True)
class NodeDoc:
    """One launch: a group at one place of the graph."""

    id: str
    """"GROUP#INSTANCE"."""
    group: str
    instance: int
    title: str
    shape: str
    operators: tuple[str, ...]
    scope: str
    """Module path common to its operators ("encoder.layer.0.attention"), or ""."""
    fixed: bool = False
    """Whether a person made these operators one kernel."""


@value(frozen=True, slots=True)
class EdgeDoc:
    """A tensor between two launches, or operators that no kernel computes; "" stands for the graph's inputs and
    outputs."""

    source: str
    target: str
    tensor: str
    shape: str
    bytes: int
    because: str
    """Why it is a boundary."""
    fixed: bool = False
    """Whether a person keeps operators at its two ends apart."""


@value(frozen=True, slots=True)
class LinkDoc:
    """A tensor passed between operators inside a launch; for "packing", two parts that only share a launch."""

    node: str
    """The launch."""
    producer: str
    consumer: str
    """Operators."""
    tensor: str
    scheme: str
    """"register", "shuffle", "shared", "global" or "packing"."""
    bytes: int
    """Bytes saved from global memory: the read, and the write if no other launch reads the tensor."""
    because: str


@dataclass(frozen=True, slots=True)
class PublishedTime:
    """Somebody else's measurement of their kernel."""

    who: str
    """The library: "cuBLAS"."""
    device: str
    microseconds: float
    source: str
    """Where it was printed, and between which sizes it lies."""


@dataclass(frozen=True, slots=True)
class GroupDoc:
    """A fusion group with its figures."""

    name: str
    title: str
    kind: str
    shape: str
    dtype: str
    instances: int
    statements: tuple[str, ...]
    """Printed statements."""
    because: str
    boundaries: tuple[str, ...]
    """Why each neighbour is not in the group."""
    bytes: int
    flops: int
    bound: str
    """"memory", "compute" or "latency": what the model says limits it."""
    floor: float
    """Microseconds to move `bytes` once at the target's bandwidth."""
    time: Time | None = None
    """One launch; None until predicted."""
    share: float = 0.0
    """Part of the whole model's predicted time, all instances together, 0..1."""
    fits_tensor_cores: bool = False
    """Whether tensor cores can compute its matrix products without rounding their operands further."""
    published: tuple[PublishedTime, ...] = ()
    """What others measured of their kernels for the same, the nearest GPU and size first."""


@dataclass(frozen=True, slots=True)
class ModelDoc:
    """An opened file: the fusion plan as a graph with predicted times."""

    name: str
    path: str
    target: str
    operators: tuple[OperatorDoc, ...]
    nodes: tuple[NodeDoc, ...]
    edges: tuple[EdgeDoc, ...]
    groups: tuple[GroupDoc, ...]
    unsupported: tuple[tuple[str, str], ...]
    """(operator, reason)."""
    total: Time | None
    seconds: tuple[tuple[str, float], ...]
    """How long each stage took to open it: ("load", 0.3), ("fuse", 0.2), ..."""
    links: tuple[LinkDoc, ...] = ()
    """Tensors passed between operators inside the launches."""
    uncompiled: tuple[UncompiledDoc, ...] = ()
    """Operators that no kernel computes, in order; those of `unsupported` and those that the host runs."""
    numerics: tuple[tuple[str, str], ...] = ()
    """How its kernels round: ("arithmetic", "opmath")."""
    is_planned: bool = True
    """Whether kernels are planned; all operators are `uncompiled` until then."""

    @property
    def host(self) -> tuple[tuple[str, str], ...]:
        """(operator, what a host program does for it between launches)."""
        return tuple([(each.operator, each.because) for each in self.uncompiled if each.on_host])


def launch_of_operators(model: ModelDoc) -> dict[str, NodeDoc]:
    """Operator -> the launch that computes it; folded constants and unsupported operators have none."""
    return {operator: node for node in model.nodes for operator in node.operators}


def with_times(model: ModelDoc, times: Mapping[str, Time], bounds: Mapping[str, str] | None = None) -> ModelDoc:
    """The model where one launch of a group takes `times[group]`; shares and total follow.

    A group that is not in `times` has no time.  bounds: group -> what limits it now, where that is known.
    """
    known = {group.name: times[group.name] for group in model.groups if group.name in times}
    total = sum(known[group.name].microseconds * group.instances for group in model.groups if group.name in known)
    limits = bounds or {}

    def of(group: GroupDoc) -> GroupDoc:
        time = known.get(group.name)
        share = time.microseconds * group.instances / total if time and total else 0.0
        return replace(group, time=time, share=share, bound=limits.get(group.name) or group.bound)

    first = next(iter(known.values()), None)
    whole = Time(total, first.origin, first.note) if first and total else None
    return replace(model, groups=tuple(map(of, model.groups)), total=whole)


@dataclass(frozen=True, slots=True)
class ScheduleDoc:
    """One node of a schedule tree, ready to paint."""

    kind: str
    """"domain", "band", "sequence" or "statement"."""
    text: str
    statements: tuple[str, ...]
    dimension: str
    """For a band: its dimension's name."""
    parallel: bool
    chips: tuple[str, ...]
    """Marks in few words: "block 6144", "lane 32", "vector 4", "3 stages"."""
    children: tuple[ScheduleDoc, ...]
    extent: int = 0
    """For a band: how many values its dimension has."""
    rows: tuple[str, ...] = ()
    """For a band: its dimension in iterators, where that is no plain one: ("i + j",)."""


@dataclass(frozen=True, slots=True)
class EntryDoc:
    """One recipe entry with its verdict."""

    path: tuple[int, ...]
    author: str
    statements: tuple[str, ...]
    dimension: str
    text: str
    """The entry as a line of the text form, also what the editor shows."""
    because: str
    required: bool
    enabled: bool
    outcome: str
    verdict: str
    """Why that outcome."""
    witness: str
    """Two concrete instances, or ""."""


@dataclass(frozen=True, slots=True)
class ScenarioDoc:
    """One alternative of an author's advice (`either` and `or` of the text form)."""

    path: tuple[int, ...]
    """The advice's number, then the alternative's at each level; its entries' paths go on from here."""
    author: str
    label: str
    outcome: str
    """"taken", "infeasible" (tried, something required in it cannot hold) or "not reached"."""


@dataclass(frozen=True, slots=True)
class StatementDoc:
    """One statement of a group."""

    name: str
    text: str
    operator: str
    iterators: tuple[str, ...]
    placement: str
    """Where its result lives: "4 registers a lane", "shuffle over 32 lanes", "global"; with the reason."""


@dataclass(frozen=True, slots=True)
class LineDoc:
    """Link of one CUDA line (1-based) to statements and schedule dimensions."""

    line: int
    statements: tuple[str, ...]
    dimensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermDoc:
    """One readable term of a prediction: ("DRAM traffic", 1.2, "µs", "4.7 MB at 4.3 TB/s")."""

    name: str
    value: float
    unit: str
    because: str


@dataclass(frozen=True, slots=True)
class CompiledDoc:
    """NVRTC's figures for one architecture."""

    architecture: str
    registers: int
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class RepairDoc:
    """One change after which required entries no longer conflict; it was tried before it is offered."""

    kind: str
    """"relax", "switch off", "replace", "cut" or "rewrite"."""
    path: tuple[int, ...]
    """The entry that changes, or that gets a cut below it; () for "rewrite", which is an entry more of the user."""
    text: str
    """What changes, on one line."""
    recipe: str
    """The group's whole advice after the change, as text."""
    complete: bool
    """Whether everything required holds afterwards; else `text` says what still cannot."""


@dataclass(frozen=True, slots=True)
class LaunchDoc:
    """One launch of a kernel."""

    entry: str
    """Name of its function in the CUDA text."""
    blocks: int
    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block."""


@dataclass(frozen=True, slots=True)
class KernelDoc:
    """A compiled group: schedule, verdicts, CUDA text, prediction."""

    group: str
    recipe: str
    """The group's advice in the text form that the editor shows and parses."""
    legal: bool
    """Whether every dependence and every required entry holds in the schedule; `refused` speaks of its kernel."""
    dependences: int
    schedule: ScheduleDoc
    entries: tuple[EntryDoc, ...]
    statements: tuple[StatementDoc, ...]
    cuda: str = ""
    lines: tuple[LineDoc, ...] = ()
    launches: tuple[LaunchDoc, ...] = ()
    """In order: several where the schedule is cut into kernels that run one after the other."""
    stages: int = 0
    time: Time = Time(0.0, PREDICTED, "no kernel")
    terms: tuple[TermDoc, ...] = ()
    compiled: tuple[CompiledDoc, ...] = ()
    """NVRTC's figures, once the window has asked for them."""
    milliseconds: float = 0.0
    """Schedule to CUDA text."""
    explain: str = ""
    """Why it is fused, scheduled, placed and predicted so, as text."""
    conflicting: tuple[tuple[int, ...], ...] = ()
    """Paths of the required entries that cannot hold together, or that the kernel does not take."""
    repairs: tuple[RepairDoc, ...] = ()
    """Single changes that resolve the conflict, the smallest loss first."""
    scenarios: tuple[ScenarioDoc, ...] = ()
    """Alternatives, each before those nested in it."""
    intrinsic: str = ""
    """The instruction that multiplies on tensor cores, or ""."""
    family: str = ""
    """The kernel family that made it; "" where there is no kernel."""
    misfit: str = ""
    """Why the group's own family does not fit the schedule, where the general one made the kernel."""
    refused: str = ""
    """Why no kernel follows a legal schedule, or takes its required entries as given; "" where one does."""
    bound: str = ""
    """What the prediction says limits it: "memory", "compute" or "latency"; "" where nothing is predicted."""
    complete: bool = True
    """Whether reasons name as few entries as possible, and repairs were tried; else the question "conflict" does."""

    @property
    def has_kernel(self) -> bool:
        """Whether there is code for the schedule."""
        return self.legal and not self.refused


@dataclass(frozen=True, slots=True)
class ProblemDoc:
    """A row of the Problems panel, an error line of the command line."""

    stage: str
    subject: str
    reason: str
    hint: str
    severity: str = "error"

    @property
    def sentence(self) -> str:
        """ "SUBJECT: REASON", or the reason alone where it is about nothing that has a name."""
        return f"{self.subject}: {self.reason}" if self.subject else self.reason
