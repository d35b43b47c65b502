"""A CPU as figures, each with where it comes from, and the CPUs that are known by name."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from engine.target.devices import A100
from engine.target.nodes import Figure, Target

_GIGA, _KIB, _MIB = 1e9, 1024, 1024**2

FLAGS = {
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt", "-mpopcnt"),
    "avx512": ("-mavx512f", "-mavx512cd", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"),
    "avx512_vnni": ("-mavx512vnni",),
    "avx512_bf16": ("-mavx512bf16",),
    "avx_vnni": ("-mavxvnni",),
}
"""Features of instruction sets that kernels use -> what turns them on in g++ and clang++."""


@dataclass(frozen=True)
class CpuTarget:
    """One CPU.  Rates are of one core; the source of each figure says what it is."""

    name: str
    """What the command line calls it: "cpu", "zen4"."""
    title: str
    features: tuple[str, ...]
    """Of `FLAGS`."""
    cores: Figure
    """That kernels run on, one thread each."""
    clock: Figure
    """Hz, under load."""
    fma_rate: Figure
    """float32 operations/s of one core, a fused multiply-add is two."""
    l1_bytes: Figure
    """Data cache of one core."""
    l2_bytes: Figure
    """Of one core."""
    l3_bytes: Figure
    """That all cores share."""
    l1_bandwidth: Figure
    """Bytes/s that one core loads from its first cache."""
    l2_bandwidth: Figure
    l3_bandwidth: Figure
    dram_bandwidth: Figure
    """Bytes/s of all cores together, reads and writes."""
    fork_overhead: Figure
    """Seconds from one parallel region to the next where there is nothing to do."""

    @property
    def vector_bytes(self) -> int:
        """Of the widest registers that kernels use."""
        return 64 if "avx512" in self.features else 32

    @property
    def registers(self) -> int:
        """Vector registers that a program can name."""
        return 32 if "avx512" in self.features else 16

    @property
    def lanes(self) -> int:
        """float32 numbers of a vector."""
        return self.vector_bytes // 4

    @property
    def fp32_rate(self) -> Figure:
        """float32 operations/s of all cores."""
        return replace(self.fma_rate, value=self.fma_rate.value * self.cores.value)

    @property
    def flags(self) -> tuple[str, ...]:
        """What tells the compiler which instructions there are."""
        return tuple(flag for feature in self.features for flag in FLAGS[feature])

    def figures(self) -> dict[str, Figure]:
        """Every figure by field name, in the order above."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Figure)}

    def for_fusion(self) -> Target:
        """The machine as the search of fusions asks for it: a worker is a core, whose second cache is what blocks
        share; what nothing of it limits keeps a GPU's figure."""
        because = f"{self.title} as the search of fusions sees it"
        near = Figure(int(self.l2_bytes.value) // 2, "bytes", f"{because}: half of the second cache")
        return replace(
            A100,
            name=self.name,
            title=self.title,
            sms=Figure(self.cores.value, "cores", because),
            clock=self.clock,
            dram_bandwidth=self.dram_bandwidth,
            l2_bytes=self.l3_bytes,
            l2_bandwidth=replace(self.l3_bandwidth, value=self.l3_bandwidth.value * self.cores.value),
            shared_per_sm=near,
            shared_per_block=near,
            fp32_rate=self.fp32_rate,
            launch_overhead=self.fork_overhead,
            ramp=Figure(0.0, "s", because),
        )

    def __str__(self) -> str:
        lines = [f"target {self.name}: {self.title}, {', '.join(self.features)}"]
        return "\n".join(lines + [f"  {name:20} {figure}" for name, figure in self.figures().items()]) + "\n"


def _cpu_of_sheet(
    name: str, title: str, features: tuple[str, ...], clock: float, cache: tuple[int, int, int]
) -> CpuTarget:
    """A CPU of which only the data sheet is known.  clock: GHz.  cache: KiB, KiB and MiB of the three levels."""
    sheet, assumed = "data sheet", "assumed: the order of magnitude, until `loomscope calibrate --target cpu`"
    lanes = 16 if "avx512" in features else 8
    first, second, third = cache
    return CpuTarget(
        name,
        title,
        features,
        cores=Figure(2, "cores", "assumed: what a small virtual machine has"),
        clock=Figure(clock * _GIGA, "Hz", f"{sheet}: all cores busy, wide vectors"),
        fma_rate=Figure(2 * 2 * lanes * clock * _GIGA, "operations/s", f"{sheet}: two pipes of {lanes} lanes"),
        l1_bytes=Figure(first * _KIB, "bytes", sheet),
        l2_bytes=Figure(second * _KIB, "bytes", sheet),
        l3_bytes=Figure(third * _MIB, "bytes", sheet),
        l1_bandwidth=Figure(2 * 4 * lanes * clock * _GIGA, "bytes/s", f"{sheet}: two loads a clock"),
        l2_bandwidth=Figure(32 * clock * _GIGA, "bytes/s", assumed),
        l3_bandwidth=Figure(12 * clock * _GIGA, "bytes/s", assumed),
        dram_bandwidth=Figure(20 * _GIGA, "bytes/s", assumed),
        fork_overhead=Figure(2e-6, "s", assumed),
    )


_AVX512 = ("avx2", "avx512")
NAMED_CPUS = {
    cpu.name: cpu
    for cpu in (
        _cpu_of_sheet("avx2", "a CPU with AVX2 and FMA", ("avx2",), 3.0, (32, 512, 16)),
        _cpu_of_sheet("skylake-avx512", "Intel Xeon, Skylake", _AVX512, 2.4, (32, 1024, 24)),
        _cpu_of_sheet(
            "sapphire-rapids", "Intel Xeon, Sapphire Rapids", (*_AVX512, "avx512_vnni", "avx512_bf16", "avx_vnni"),
            2.6, (48, 2048, 60),
        ),
        _cpu_of_sheet("zen4", "AMD EPYC, Zen 4", (*_AVX512, "avx512_vnni", "avx512_bf16"), 3.1, (32, 1024, 32)),
    )
}  # fmt: skip
"""CPUs by name whose code is made on any machine; it runs where all their features are."""
