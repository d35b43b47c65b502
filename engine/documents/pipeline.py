"""Documents of a kernel's software pipeline: its chart over time, its shared memory, and the effect of other
parameters.

Plain data like `engine/documents/model.py`, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.documents.model import TermDoc, Time
from engine.kernels.gemm.nodes import FusedGemm
from engine.tensorize.space import GemmConfig

COPY, WAIT, COMPUTE, STORE = ROWS = ("copy", "wait", "compute", "store")
"""Rows of the chart."""


@dataclass(frozen=True, slots=True)
class BarDoc:
    """An activity of one block over some time."""

    row: str
    """"copy" (issuing), "wait" (with the barrier), "compute" or "store"."""
    step: int
    """Iteration of the main loop; -1 before it, `ChartDoc.steps` after it."""
    tile: int | None
    """Number of the tile that is copied, waited for or used; None for no tile of the main loop, such as what is copied
    once before it."""
    stage: int | None
    """Buffer of the tile that it is copied to or read from; None where there is no tile."""
    start: float
    """Cycles since the block began, as all times of a chart."""
    end: float
    kind: str = ""
    """"stall" where nothing is left to do but wait for memory, "shared" where the units serve other blocks,
    "hazard", or ""."""
    because: str = ""
    lines: tuple[int, ...] = ()
    """Of the CUDA text."""


@dataclass(frozen=True, slots=True)
class FlightDoc:
    """One tile's time in one buffer."""

    stage: int
    tile: int
    copied: float
    """When its copy is issued."""
    arrived: float
    read: float
    """When its use begins."""
    freed: float
    """When its use ends."""


@dataclass(frozen=True, slots=True)
class HazardDoc:
    """A data race: a use not ordered after its copy, or a copy not ordered after the last use of its buffer."""

    kind: str
    """"not waited for", "no barrier", "overwritten" or "wrong tile"."""
    step: int
    stage: int
    text: str


@dataclass(frozen=True, slots=True)
class SharedDoc:
    """One buffer of shared memory."""

    name: str
    array: str
    offset: int
    """Bytes from the start of the block's shared memory."""
    size: int
    """Bytes of all stages."""
    stages: int
    in_loop: bool
    """Whether the main loop copies to it; else it is used after the loop, and may lie over buffers of the loop."""
    row_bytes: int
    swizzle: str
    """"rows of 64 bytes, chunks permuted", or that there is no swizzle."""
    chunks: tuple[tuple[int, ...], ...] = ()
    """First rows of 128 bytes: which 16-byte chunk of the tile lies at each place, counted along its row."""
    rows: tuple[tuple[int, ...], ...] = ()
    """The tile's row of each of these chunks."""
    passes: int = 0
    """Passes over the banks when eight rows of one chunk are read together: 1 has no conflict."""
    passes_unpermuted: int = 0
    """The same if the chunks lay in order."""


@dataclass(frozen=True, slots=True)
class ChoiceDoc:
    """One parameter: its value and the values it may have."""

    name: str
    """"rows", "columns", "depth", "warps", "stages", "register_stages" or "split"."""
    title: str
    value: int
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChartDoc:
    """One block of a pipelined kernel over time, predicted by a model, and what belongs to it."""

    group: str
    recipe: str
    title: str
    """"Block 0 of 768"."""
    loop: str
    """Dimension that the main loop walks; "" where there is none, then `because` says so."""
    because: str
    steps: int
    stages: int
    register_stages: int
    resident: int
    """Blocks that share the SM."""
    registers: int
    """Of a thread, as NVRTC says; 0 where it was not asked, then an estimate stands in for it."""
    bars: tuple[BarDoc, ...]
    flights: tuple[FlightDoc, ...]
    """Of the tiles that are shown."""
    hazards: tuple[HazardDoc, ...]
    folded: tuple[int, int]
    """First step that is left out, and how many; (0, 0) where all are shown."""
    folded_cycles: float
    """Time that is left out with them: later bars have their own times less this."""
    cycles: float
    """Of the whole block, what is left out included."""
    stalled: float
    """Cycles of these without work, waiting for memory."""
    clock: float
    """Cycles of a microsecond."""
    time: Time
    """Of the launch, as every view tells it."""
    alcop: Time
    """The same by ALCOP's model, whose clock the bars follow."""
    baseline: Time
    """The same by its bottleneck model."""
    terms: tuple[TermDoc, ...]
    """Of ALCOP's model."""
    shared: tuple[SharedDoc, ...]
    shared_bytes: int
    shared_limit: int
    gemm: FusedGemm | None
    """None for a kernel that is no tiled contraction, as `knobs`."""
    knobs: GemmConfig | None
    choices: tuple[ChoiceDoc, ...]


@dataclass(frozen=True, slots=True)
class QuantityDoc:
    """One figure now and under other parameters, as text with units."""

    name: str
    now: str
    then: str
    limit: str
    binding: bool
    """Whether this is what limits the blocks on an SM."""


@dataclass(frozen=True, slots=True)
class RefusalDoc:
    """Why parameter values are impossible, with figures, and the nearest possible ones."""

    text: str
    nearest: GemmConfig | None
    offer: str
    """"3 stages"; "" where nothing near can be."""


@dataclass(frozen=True, slots=True)
class WhatIfDoc:
    """Predicted effect of other parameters, by the estimate alone."""

    knobs: GemmConfig
    choices: tuple[ChoiceDoc, ...]
    quantities: tuple[QuantityDoc, ...]
    now: Time
    then: Time | None
    """None where the knobs are refused."""
    alcop: tuple[float | None, float | None]
    """Microseconds of both by ALCOP's model, with the registers that the compiler gave the present kernel."""
    sweep: tuple[tuple[int, float], ...]
    """(stages, predicted microseconds) of those that fit, everything else as chosen."""
    refusal: RefusalDoc | None


@dataclass(frozen=True, slots=True)
class VariantDoc:
    """A kernel compiled with other parameters, with the compiler's figures beside the model's."""

    group: str
    recipe: str
    """The advice that it starts from."""
    knobs: GemmConfig
    changed: str
    """The whole advice with the user's entries for these knobs, as text."""
    entries: tuple[str, ...]
    architecture: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    blocks_per_sm: int
    time: Time
    """As every view tells it, before the compiler's registers are known."""


@dataclass(frozen=True, slots=True)
class ListingDoc:
    """A kernel in a lower language, linked to the CUDA text."""

    group: str
    recipe: str
    language: str
    """"PTX" or "SASS"."""
    architecture: str
    text: str
    lines: tuple[tuple[int, int], ...]
    """(line of this text, line of the CUDA text) where the compiler says so, both from 1."""
    because: str = ""
    """Why there is no listing: what is missing, and how to get it."""
    mix: tuple[str, ...] = ()
    """Of SASS: its instructions by pipe, in sentences."""
