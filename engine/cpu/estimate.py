"""The time of a kernel on a CPU: what its slowest part needs of vector units, caches and memory, and threads' start.

Cores that have work run beside each other; each level of the caches moves its bytes while the units compute, so the
time is that of the largest term (Williams, Waterman and Patterson, Roofline, 2009), with memory shared by all cores;
parts of the times of the second and third cache are added to that of computing.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.cpu.nodes import CpuWork
from engine.documents.model import TermDoc, Time
from engine.execution.nodes import PREDICTED
from engine.support.units import MICROSECONDS
from engine.target.cpu import CpuTarget

PIPES = 2
"""Vector instructions that a core begins in a clock."""
EXPOSED = {"second cache": 0.25, "third cache": 1.0}
"""Parts of the caches' times that no computation hides (fitted to products and convolutions on a Xeon)."""
MEMORY, COMPUTE, LATENCY = "memory", "compute", "latency"


@dataclass(frozen=True, slots=True)
class CpuPrediction:
    """A modelled time and the terms that it is made of."""

    microseconds: float
    bound: str
    """"memory", "compute" or "latency"."""
    terms: tuple[TermDoc, ...]
    note: str
    origin: str = PREDICTED

    def time(self) -> Time:
        """As a document for the window and the command line."""
        return Time(self.microseconds, self.origin, self.note)

    def __str__(self) -> str:
        lines = [f"{self.microseconds:.3g} µs {self.origin} ({self.note}), {self.bound} bound"]
        return "\n".join(lines + [f"  {t.name:20} {t.value:>10.3g} {t.unit:6} {t.because}" for t in self.terms]) + "\n"


def estimate_cpu(work: CpuWork, machine: CpuTarget) -> CpuPrediction:
    """The modelled time of one launch with warm caches."""
    cores = min(machine.cores.value, max(1, work.tasks))
    waves = -(-work.tasks // cores) * cores / max(1, work.tasks)  # the last round may leave cores idle
    through = {
        "products": (work.flops / (machine.fma_rate.value * work.rate_share), f"{work.flops:,} operations", COMPUTE),
        "vector units": (
            work.vector_ops / (PIPES * machine.clock.value), f"{work.vector_ops:,} instructions on vectors", COMPUTE,
        ),
        "first cache": (work.bytes_l1 / machine.l1_bandwidth.value, f"{work.bytes_l1:,} bytes", COMPUTE),
        "second cache": (work.bytes_l2 / machine.l2_bandwidth.value, f"{work.bytes_l2:,} bytes", MEMORY),
        "third cache": (work.bytes_l3 / machine.l3_bandwidth.value, f"{work.bytes_l3:,} bytes", MEMORY),
    }  # fmt: skip
    terms = {name: (seconds / cores * waves, because, kind) for name, (seconds, because, kind) in through.items()}
    # Products keep the vector units busy, too, and wait for the farther caches: these add up.
    computing = terms["products"][0] + terms["vector units"][0]
    computing += sum(part * terms[name][0] for name, part in EXPOSED.items())
    if work.bytes_compulsory > machine.l3_bytes.value:
        seconds = work.bytes_compulsory / machine.dram_bandwidth.value
        terms["memory"] = seconds, f"{work.bytes_compulsory:,} bytes, more than the third cache holds", MEMORY
    starts = work.regions * machine.fork_overhead.value if work.tasks > 1 else 0.0
    terms["start of threads"] = starts, f"{work.regions} parallel regions", LATENCY
    slowest = max((t for name, t in terms.items() if name != "start of threads"), key=lambda t: t[0])
    longest = max(computing, slowest[0])
    bound = LATENCY if starts > longest else COMPUTE if computing >= slowest[0] else slowest[2]
    documents = tuple(
        TermDoc(name, seconds * MICROSECONDS, "µs", because) for name, (seconds, because, _) in terms.items()
    )
    measured = all("measured" in figure.source for figure in (machine.fma_rate, machine.l2_bandwidth))
    note = "by rates that this machine was measured at" if measured else "uncalibrated"
    return CpuPrediction((longest + starts) * MICROSECONDS, bound, documents, note)
