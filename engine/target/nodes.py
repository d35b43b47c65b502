"""A GPU as figures, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, its unit, and its origin: a vendor document, a published measurement, or an inference said as such."""

    value: float
    unit: str
    source: str

    def __str__(self) -> str:
        return f"{self.value:,.6g} {self.unit}  ({self.source})"


@dataclass(frozen=True)
class Target:
    """One GPU.  Rates are what a kernel can reach where that is known, else the data sheet's; the source says which."""

    name: str
    """What the command line calls it: "h200"."""
    title: str
    architecture: str
    """NVRTC's name of its instruction set: "sm_90a"."""
    sms: Figure
    """Streaming multiprocessors."""
    clock: Figure
    """Hz, under load."""
    dram_bytes: Figure
    dram_bandwidth: Figure
    """Bytes/s, reads and writes together."""
    dram_latency: Figure
    """Seconds from a load that misses every cache to its value, on a loaded machine."""
    l2_bytes: Figure
    l2_bandwidth: Figure
    """Bytes/s between L2 and all SMs."""
    shared_per_sm: Figure
    """Bytes that the blocks resident on one SM share."""
    shared_per_block: Figure
    """Bytes that one block may ask for."""
    shared_reserved: Figure
    """Bytes that the driver adds to every block."""
    shared_bandwidth: Figure
    """Bytes per clock and SM."""
    registers_per_sm: Figure
    registers_per_thread: Figure
    threads_per_sm: Figure
    threads_per_block: Figure
    warps_per_sm: Figure
    blocks_per_sm: Figure
    fp32_rate: Figure
    """Floating-point operations/s on the CUDA cores; a fused multiply-add is two."""
    tensor_rate: Figure
    """Floating-point operations/s of mma.sync on 16-bit operands, dense."""
    tf32_rate: Figure
    """The same on float32 operands rounded to tf32."""
    int8_rate: Figure
    """The same on 8-bit integers."""
    special_rate: Figure
    """Results/s of the special-function units (exponential, reciprocal, square root ...)."""
    launch_overhead: Figure
    """Seconds that a kernel costs even when it does nothing."""
    ramp: Figure
    """Seconds that a kernel loses besides: until its blocks all work, and while the last ones end."""

    @property
    def empty_kernel(self) -> float:
        """Seconds of a kernel before and after all that its blocks do: what one launch less saves."""
        return self.launch_overhead.value + self.ramp.value

    @property
    def sm_count(self) -> int:
        """`sms` as a number of blocks or waves is counted in."""
        return int(self.sms.value)

    def tensor_core_rate(self, operands: str) -> Figure:
        """Operations/s on operands of a type: float32 ones are rounded to tf32."""
        rates = {"float32": self.tf32_rate, "int8": self.int8_rate, "uint8": self.int8_rate}
        return rates.get(operands, self.tensor_rate)

    @property
    def resident_threads(self) -> int:
        """Threads that all SMs hold at once."""
        return self.sm_count * int(self.threads_per_sm.value)

    @property
    def shared_limit(self) -> int:
        """Bytes of shared memory that one block may ask for."""
        return int(self.shared_per_block.value)

    def __hash__(self) -> int:
        # Searches look targets up at every step, and a calibration makes thousands of targets of one name.
        return self._hash_of_figures

    @cached_property
    def _hash_of_figures(self) -> int:
        """Of numbers alone, whose hashes are the same in every process: a pickled target carries it along."""
        return hash(tuple(figure.value for figure in self.figures().values()))

    def figures(self) -> dict[str, Figure]:
        """Every figure by field name, in the order above."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Figure)}

    def __str__(self) -> str:
        lines = [f"target {self.name}: {self.title}, {self.architecture}"]
        return "\n".join(lines + [f"  {name:20} {figure}" for name, figure in self.figures().items()]) + "\n"
