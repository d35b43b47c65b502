"""The GPUs that recipes may name.

Sources, in the order of how far they can be trusted: "measured" (a published measurement on that GPU), "data sheet" and
"programming guide" (NVIDIA's), "model" (a figure of a published cost model), "inferred" (derived here; the text says
from what), "fitted" (to published rows, which it names), "assumed" (taken over from another GPU).

A GPU of a new instruction set is also named in `engine.target.ARCHITECTURES`, and in the help of `--target`
(`app.cli.options`), which must not import the engine.
"""

from __future__ import annotations

from dataclasses import replace

from engine.target.hardware import BANK_BYTES, BANKS, BLOCK_REGISTERS, MAX_THREADS
from engine.target.nodes import Figure, Target

_GUIDE = "CUDA programming guide, technical specifications per compute capability"
_L2 = "te42kyfo/gpu-benches, gpu-l2-cache"
_GIGA, _TERA, _KIB = 1e9, 1e12, 2**10

H200 = Target(
    name="h200",
    title="NVIDIA H200 SXM",
    architecture="sm_90a",
    sms=Figure(132, "SMs", "data sheet"),
    clock=Figure(1.83 * _GIGA, "Hz", "data sheet: the clock behind 989 TFLOP/s of bf16; less under power limits"),
    dram_bytes=Figure(141 * _GIGA, "bytes", "data sheet"),
    dram_bandwidth=Figure(
        4.3 * _TERA, "bytes/s", "measured: device-to-device copy on one H200, reads and writes; the data sheet says 4.8"
    ),
    dram_latency=Figure(0.6e-6, "s", "inferred from published latency floors of small kernels on H100 and H200"),
    l2_bytes=Figure(44e6, "bytes", f"measured: reads are fast up to it on one H200 ({_L2}); the data sheet says 50 MB"),
    l2_bandwidth=Figure(9.7 * _TERA, "bytes/s", f"measured: 25 MB read cyclically on one H200 ({_L2})"),
    shared_per_sm=Figure(228 * _KIB, "bytes", _GUIDE),
    shared_per_block=Figure(227 * _KIB, "bytes", _GUIDE),
    shared_reserved=Figure(1 * _KIB, "bytes", _GUIDE),
    shared_bandwidth=Figure(BANKS * BANK_BYTES, "bytes/clock/SM", "data sheet: 32 banks of 4 bytes"),
    registers_per_sm=Figure(BLOCK_REGISTERS, "registers", _GUIDE),
    registers_per_thread=Figure(255, "registers", _GUIDE),
    threads_per_sm=Figure(2048, "threads", _GUIDE),
    threads_per_block=Figure(MAX_THREADS, "threads", _GUIDE),
    warps_per_sm=Figure(64, "warps", _GUIDE),
    blocks_per_sm=Figure(32, "blocks", _GUIDE),
    fp32_rate=Figure(132 * 128 * 2 * 1.83 * _GIGA, "operations/s", "data sheet: 128 lanes an SM at the clock above"),
    tensor_rate=Figure(
        0.629 * 989 * _TERA,
        "operations/s",
        "measured: mma.sync reaches 0.629 of the peak on H800 (Luo et al., arXiv 2402.13499); the data sheet says 989",
    ),
    tf32_rate=Figure(0.629 * 494 * _TERA, "operations/s", "inferred: the share of 16-bit operands, of the sheet's 494"),
    int8_rate=Figure(0.629 * 1979 * _TERA, "operations/s", "inferred: the same share, of the sheet's 1979"),
    special_rate=Figure(132 * 16 * 1.83 * _GIGA, "results/s", "programming guide: 16 results per clock and SM"),
    launch_overhead=Figure(
        2.0e-6, "s", "inferred: 2.7 µs of an 8 x 128^3 batched product on H200, less one memory round trip"
    ),
    ramp=Figure(2.0e-6, "s", "assumed: that of the H100"),
)

H100 = replace(
    H200,
    name="h100",
    title="NVIDIA H100 SXM, 80 GB",
    dram_bytes=Figure(80 * _GIGA, "bytes", "data sheet"),
    dram_bandwidth=Figure(
        3.0 * _TERA, "bytes/s", "measured: the best published row kernels reach 0.90 of the data sheet's 3.35"
    ),
    l2_bytes=Figure(38e6, "bytes", f"measured: reads are fast up to it on one H100 PCIe ({_L2}); data sheet 50 MB"),
    l2_bandwidth=Figure(9.7 * _TERA, "bytes/s", "assumed: that of the H200, with the same SMs and clock"),
    launch_overhead=Figure(2.0e-6, "s", "assumed: that of the H200"),
)

A100 = replace(
    H200,
    name="a100",
    title="NVIDIA A100 SXM, 80 GB",
    architecture="sm_80",
    sms=Figure(108, "SMs", "data sheet"),
    clock=Figure(1.41 * _GIGA, "Hz", "data sheet"),
    dram_bytes=Figure(80 * _GIGA, "bytes", "data sheet"),
    dram_bandwidth=Figure(1.8 * _TERA, "bytes/s", "assumed: 0.90 of the data sheet's 2.04, the ratio seen on H100"),
    dram_latency=Figure(0.6e-6, "s", "assumed: that of the H200"),
    l2_bytes=Figure(28e6, "bytes", f"measured: reads are fast up to it on one A100 80 GB ({_L2}); data sheet 40 MB"),
    l2_bandwidth=Figure(5.4 * _TERA, "bytes/s", f"measured: 25 MB read cyclically on one A100 ({_L2}); data sheet 7.2"),
    shared_per_sm=Figure(164 * _KIB, "bytes", _GUIDE),
    shared_per_block=Figure(163 * _KIB, "bytes", _GUIDE),
    fp32_rate=Figure(108 * 64 * 2 * 1.41 * _GIGA, "operations/s", "data sheet: 64 lanes an SM at the clock above"),
    tensor_rate=Figure(312 * _TERA, "operations/s", "data sheet: dense 16-bit operands, by mma.sync"),
    tf32_rate=Figure(156 * _TERA, "operations/s", "data sheet: dense"),
    int8_rate=Figure(624 * _TERA, "operations/s", "data sheet: dense"),
    special_rate=Figure(108 * 16 * 1.41 * _GIGA, "results/s", "programming guide: 16 results per clock and SM"),
    launch_overhead=Figure(2.0e-6, "s", "assumed: that of the H200"),
    ramp=Figure(2.0e-6, "s", "fitted: bf16 products below 15 µs of OpenXLA's table, those of even digests alone"),
)

H100_PCIE = replace(
    H100,
    name="h100-pcie",
    title="NVIDIA H100 PCIe, 80 GB",
    sms=Figure(114, "SMs", "data sheet"),
    clock=Figure(1.755 * _GIGA, "Hz", "data sheet: the clock behind 756 TFLOP/s of bf16; less under 350 W"),
    dram_bandwidth=Figure(0.9 * 2.04 * _TERA, "bytes/s", "assumed: 0.90 of the data sheet's 2.04, as on SXM"),
    l2_bandwidth=Figure(6.9 * _TERA, "bytes/s", f"measured: 25 MB read cyclically on one H100 PCIe ({_L2})"),
    fp32_rate=Figure(114 * 128 * 2 * 1.755 * _GIGA, "operations/s", "data sheet: 128 lanes an SM at the clock above"),
    tensor_rate=Figure(0.629 * 756 * _TERA, "operations/s", "inferred: the share of mma.sync on H800, of 756"),
    tf32_rate=Figure(0.629 * 378 * _TERA, "operations/s", "inferred: the share of 16-bit operands, of the sheet's 378"),
    int8_rate=Figure(0.629 * 1513 * _TERA, "operations/s", "inferred: the same share, of the sheet's 1513"),
    special_rate=Figure(114 * 16 * 1.755 * _GIGA, "results/s", "programming guide: 16 results per clock and SM"),
)

A100_PCIE_80 = replace(
    A100,
    name="a100-pcie-80",
    title="NVIDIA A100 PCIe, 80 GB",
    dram_bandwidth=Figure(0.9 * 1.935 * _TERA, "bytes/s", "assumed: 0.90 of the data sheet's 1.935, the ratio on H100"),
)

A100_PCIE_40 = replace(
    A100,
    name="a100-pcie-40",
    title="NVIDIA A100 PCIe, 40 GB",
    dram_bytes=Figure(40 * _GIGA, "bytes", "data sheet"),
    dram_bandwidth=Figure(0.9 * 1.555 * _TERA, "bytes/s", "assumed: 0.90 of the data sheet's 1.555, the ratio on H100"),
)

DEVICES = {device.name: device for device in (H200, H100, H100_PCIE, A100, A100_PCIE_80, A100_PCIE_40)}
"""Every known GPU by name."""
