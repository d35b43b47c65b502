"""Results of running a kernel: emulator counts and findings, comparison with the reference, times with an origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PREDICTED, MEASURED, SYNTHETIC, PUBLISHED = "predicted", "measured", "synthetic", "published"
"""Origins of a time.  No series, table or plot mixes them."""
ORDERS = ("late", "early")
"""Schedules of the emulated machine.  "late": threads run forwards, asynchronous copies land at their wait; "early":
threads, warps and blocks run backwards, copies land when they are issued.  A missing barrier or wait shows in one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a kernel that a run showed, with the line of the CUDA text."""

    kind: str
    """"race", "out of bounds", "uninitialised", "written twice", "not written", "divergent barrier", "unfinished team",
    "unfinished copy", "misaligned", "hang", "crash", "wrong result", "stray write", "layout" (of the machine code)."""
    line: int
    """1-based line of the CUDA text; 0 if unknown."""
    message: str
    other_line: int = 0
    """The second access of a race."""


@dataclass(frozen=True, slots=True)
class SiteCount:
    """Events counted at one line of the CUDA text, over all emulated blocks."""

    line: int
    kind: str
    """"global load", "global store", "shared load", "shared store" or "async copy"."""
    width: int
    """Bytes one thread moves in one access."""
    requests: int
    """Warp-wide instructions."""
    sectors: int
    """32-byte sectors touched in global memory; 0 for shared memory."""
    conflicts: int
    """Extra shared-memory passes caused by bank conflicts; 0 for global memory."""
    passes: int = 0
    """Passes over the banks of shared memory that loads from it need; 0 for others."""


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """The addresses of one warp at one access, the first time that it came there."""

    line: int
    kind: str
    """As in `SiteCount`."""
    width: int
    """Bytes of one thread."""
    parameter: str
    """The buffer's identifier in the CUDA text; "" for shared memory."""
    touched: int
    """32-byte sectors of global memory, or passes over the banks of shared memory."""
    offsets: tuple[int, ...]
    """Of each of the 32 lanes: bytes from the start of the buffer or of the block's shared memory; -1: took no part."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """One run of the emulator over some blocks in one thread and copy order."""

    order: str
    """"late" or "early": when asynchronous copies land; threads run forwards in one and backwards in the other."""
    blocks_run: int
    blocks_total: int
    findings: tuple[Finding, ...]
    counts: tuple[SiteCount, ...]
    accesses: tuple[WarpAccess, ...] = ()
    """Of the traced warp, in the order in which it came to them."""


@dataclass(frozen=True, slots=True)
class Check:
    """Comparison of a kernel with the reference implementation: which blocks ran, and how far the results differ.

    It passes where `max_error` is at most `tolerance` and no run found anything else (`findings`)."""

    group: str
    status: str
    """"pass", "fail" or "unsupported"."""
    max_error: float = 0.0
    """Largest error of an element, in the unit of `tolerance`: relative to its own size plus the largest ordinary size
    of its array (`engine.verify.tolerance`); of a whole model's output, to the larger of its size and its spread."""
    tolerance: float = 0.0
    """Largest error that right kernels of the group's roundings can have; where elements have limits of their own, that
    of the element of `max_error`, whose error is the largest part of its limit."""
    tolerance_because: str = ""
    blocks_run: int = 0
    blocks_total: int = 0
    elements_compared: int = 0
    orders: tuple[str, ...] = ()
    """Of `ORDERS`, those that ran, at each level."""
    findings: tuple[Finding, ...] = ()
    """What is wrong, each with its line of the CUDA text."""
    message: str = ""
    """Why it failed or is unsupported; of one that passed where no block of the large launch ran, what ran instead."""
    counts: tuple[SiteCount, ...] = ()
    levels: Mapping[str, str] = field(default_factory=dict)
    """What ran -> what it came to: {"source": "pass", "ptx": "unsupported: no instruction foo"}; "not run" for a level
    that nobody asked for.  Empty for a check at one level."""

    def __str__(self) -> str:
        compared = f"{self.elements_compared:,} values compared, {self.blocks_run:,} of {self.blocks_total:,} blocks"
        found = f", error {self.max_error:.1e} of {self.tolerance:.1e}, {compared}" if self.elements_compared else ""
        told = filter(None, (self.message, *(one.message for one in self.findings)))
        return "\n".join((f"{self.group}: {self.status}{found}", *(f"  {line}" for line in told)))


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel compiled by NVRTC for one architecture."""

    architecture: str
    registers: int
    spill_bytes: int
    static_shared_bytes: int
    cubin: bytes = field(repr=False)
    log: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GpuState:
    """State of the GPU at one moment of a measurement, from NVML."""

    seconds: float
    """Since the first sample."""
    sm_clock: int
    """MHz."""
    memory_clock: int
    """MHz."""
    temperature: int
    """Degrees Celsius."""
    power: float
    """Watts."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one kernel in microseconds, with where they come from."""

    origin: str
    microseconds: float
    """Median of the samples, or the model's figure."""
    samples: tuple[float, ...] = ()
    low: float = 0.0
    """20th percentile of the samples; 0 for a predicted time."""
    high: float = 0.0
    """80th percentile of the samples; 0 for a predicted time."""
    environment: Mapping[str, str] | None = None
    """Device, driver, clocks, versions, date for measured times; model and calibration for predicted ones."""
    rounds: int = 0
    """Rounds of equal length that `samples` was taken in; 0 where it is not known."""
    noise: str = ""
    """Why the samples say little; "" for a quiet run."""
    states: tuple[GpuState, ...] = ()
    """The GPU after each round; none where it cannot be asked."""

    def __str__(self) -> str:
        spread = f", {self.low:.3g} to {self.high:.3g} in {len(self.samples):,} samples" if self.samples else ""
        return f"{self.microseconds:.3g} µs {self.origin}{spread}" + (f"; {self.noise}" if self.noise else "")


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that gave no time."""

    kind: str
    """"compile", "crash", "hang", "wrong result" or "out of memory"."""
    message: str
