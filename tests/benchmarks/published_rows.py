"""Rows of a folder laid out like `shared/measured`, each with the problem that it times; files may be missing.

A row that cannot be expressed keeps its class and says why; whole models, training steps and GPUs that nothing here
describes are no rows of any class and are counted apart.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.target import target_of_device
from tests.benchmarks.published_problems import Problem, problem

SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
NO_OPERATOR = "no operator of a class"
NO_TARGET = "no such target"


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the name and the launch of a published kernel say of it."""

    name: str
    """Its tile as the library writes it: "128x64"."""
    block: tuple[int, int]
    """Rows and columns of ours: libraries count columns first."""
    threads: int
    depth: int | None = None
    stages: int | None = None
    slices: int = 1
    """Of the block's threads along the depth, each of which computes the whole tile."""


@dataclass(frozen=True, slots=True)
class Row:
    """One published time."""

    source: str
    number: int
    operator: str
    """"gemm", "softmax": the first part of its class."""
    dtype: str
    device: str
    """A target's name, or the device's where no target describes it."""
    library: str
    microseconds: float
    problem: Problem | None
    why_not: str = ""
    schedule: Schedule | None = None

    @property
    def name(self) -> str:
        """Unique among all files."""
        return f"{self.source}:{self.number}"

    @property
    def kind(self) -> str:
        """Its class: "gemm/bf16/h100/cublas"."""
        return f"{self.operator}/{self.dtype}/{self.device}/{self.library}"


def read_rows(folder: Path) -> list[Row]:
    """All rows of the files that there are."""
    return [row for reader in (_xla, _neusight, _liger, _kernelbench, _nsight) for row in reader(folder)]


def _table(folder: Path, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line, cells) of a CSV file, plain or compressed; nothing where it is missing."""
    for path in (folder / name, folder / f"{name}.gz", folder / name.removesuffix(".gz")):
        if path.is_file():
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
            yield from enumerate(csv.DictReader(io.StringIO(text)), 2)
            return


def _row(
    source: str, number: int, kind: tuple[str, str, str], device: str, time: float, one: Problem | None, why: str = "",
    schedule: Schedule | None = None,
) -> Row:  # fmt: skip
    """kind: operator, type and library.  device: as the source calls it."""
    operator, dtype, library = kind
    machine = target_of_device(device)
    short = "tf32" if one and one.tf32 else SHORT.get(dtype, dtype)
    name = machine.name if machine else device
    why = why or (NO_TARGET if machine is None else "")
    return Row(source, number, operator, short, name, library, time, None if why else one, why, schedule)


# OpenXLA's table of matrix products


def _xla(folder: Path) -> Iterator[Row]:
    devices = {"sm_90": "NVIDIA H100 80GB HBM3"}
    for number, cells in _table(folder, "xla_matmul_perf_table.csv.gz"):
        dtype = cells["dtype"].partition("x")[0]
        known = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}.get(dtype)
        b, m, n, k = (int(cells[name]) for name in "bmnk")
        one = _product(known, b, m, n, k, tf32=True) if known else None
        kind = ("bmm" if b > 1 else "gemm", known or dtype, "cublas")
        why = "" if known else f"element type {dtype}"
        device = devices.get(cells["device"], cells["device"])
        yield _row("xla", number, kind, device, float(cells["microseconds"]), one, why)


def _product(dtype: str, b: int, m: int, n: int, k: int, tf32: bool = False) -> Problem:
    rounds = tf32 and dtype == "float32"
    return problem("batched-matmul", dtype, rounds, b=b, m=m, n=n, k=k) if b > 1 else problem(
        "matmul", dtype, rounds, m=m, n=n, k=k
    )  # fmt: skip


# NeuSight

ELEMENTWISE = {
    "add": "add", "mul": "mul", "div": "div", "pow": "pow", "addu": "add-scalar", "mulu": "mul-scalar",
    "divu": "div-scalar", "powu": "pow-scalar", "relu": "relu", "gelu": "gelu", "tanh": "tanh",
}  # fmt: skip


def _neusight(folder: Path) -> Iterator[Row]:
    for number, cells in _table(folder, "neusight_a100_h100.csv.gz"):
        operator, dtype, device = cells["op"], cells["dtype"], cells["device"].partition(" (")[0]
        time = float(cells["microseconds"])
        if operator in ("linear", "bmm"):
            # Its second size is the depth, its third the columns.
            b, m, k, n = (int(cells[name]) for name in "BMNK")
            kind = ("gemm" if operator == "linear" else "bmm", dtype, "cublas")
            schedule = _schedule(cells["kernel"], cells["grid"], cells["block"], m, n)
            yield _row("neusight", number, kind, device, time, _product(dtype, b, m, n, k), "", schedule)
            continue
        rows, width = int(cells["B"]), int(cells["H"] or 1)
        if operator in ("ln", "softmax"):
            name = {"ln": "layernorm"}.get(operator, operator)
            yield _row("neusight", number, (name, dtype, "torch"), device, time, problem(name, dtype, m=rows, n=width))
        elif operator in ELEMENTWISE:
            one = problem(ELEMENTWISE[operator], dtype, elements=rows * width)
            yield _row("neusight", number, ("elementwise", dtype, "torch"), device, time, one)
        else:
            yield _row("neusight", number, (operator, dtype, "torch"), device, time, None, NO_OPERATOR)


def _schedule(kernel: str, grid: str, block: str, m: int, n: int) -> Schedule | None:
    """The tile of a named kernel of a library; None where the name says none, or several blocks share its depth."""
    found = re.search(r"tilesize(\d+)x(\d+)x(\d+)_stage(\d+)", kernel)
    found = found or re.search(r"gemm_(\d+)x(\d+)(?:_(\d+)x(\d+))?", kernel)
    if found is None or "splitK" in kernel or not block:
        return None
    first, second = int(found[1]), int(found[2])
    depth, stages = (int(found[3]), int(found[4])) if found[3] else (None, None)
    threads = int(block.partition("x")[0])
    launched = {int(part) for part in grid.split("x")[:2]}
    turned = {-(-n // first), -(-m // second)} != launched and {-(-m // first), -(-n // second)} == launched
    sides = (first, second) if turned else (second, first)
    # "sliced1x4": one part of the tile's depth, four of the block's threads along it.
    sliced = re.search(r"_sliced1x(\d+)", kernel)
    slices = int(sliced[1]) if sliced else 1
    name = f"{first}x{second}{sliced[0] if sliced else ''}"
    return Schedule(name, sides, threads, depth, stages, slices)


# Liger


def _liger(folder: Path) -> Iterator[Row]:
    for number, cells in _table(folder, "liger.csv.gz"):
        config = json.loads(cells["config"] or "{}")
        dtype = str(config.get("dtype", "torch.bfloat16")).removeprefix("torch.")
        library = cells["provider"]
        operator, one, why = _liger_problem(cells["kernel"], library, dtype, cells, config)
        if cells["mode"] != "forward":
            operator, why = f"{operator} {cells['mode']}", "more than the forward pass"
        time = float(cells["p50_us"])
        yield _row("liger", number, (operator, dtype, library), cells["gpu"], time, one, why)


def _liger_problem(
    kernel: str, library: str, dtype: str, cells: Mapping[str, str], config: Mapping[str, object]
) -> tuple[str, Problem | None, str]:
    """(operator of its class, problem, why there is none)."""

    def size(name: str) -> int:
        return int(cells["x"]) if cells["x_name"] == name else int(str(config[name]))

    try:
        match kernel:
            case "layer_norm":
                return "layernorm", problem("layernorm", dtype, m=size("M"), n=size("N")), ""
            case "rms_norm":
                return "rmsnorm", problem("rmsnorm", dtype, m=size("M"), n=size("H")), ""
            case "megatron_rms_norm":
                return "rmsnorm", problem("rmsnorm", dtype, m=size("S") * size("B"), n=size("H")), ""
            case "fused_add_rms_norm" if library.endswith("fused_add_rms_norm"):
                return "rmsnorm", problem("add-rmsnorm", dtype, m=size("M"), n=size("H")), ""
            case "softmax":
                return "softmax", problem("softmax", dtype, m=size("M"), n=size("N")), ""
            case "relu_squared":
                return "elementwise", problem("relu-squared", dtype, elements=size("M") * size("N")), ""
            case "megatron_swiglu" if library in ("liger", "liger_in_place"):
                return "elementwise", problem("swiglu", dtype, m=size("S") * size("B"), n=size("ffn_local")), ""
    except (KeyError, ValueError):
        return kernel, None, "its sizes are not told"
    return kernel, None, NO_OPERATOR


# KernelBench, level 1; its sizes are those of its repository (MIT), which the table does not hold

WIDE = {"elements": 4096 * 393216}
KERNELBENCH: Mapping[int, tuple[str, str, Mapping[str, int | tuple[int, ...]]]] = {
    1: ("gemm", "matmul", {"m": 4096, "n": 4096, "k": 4096}),
    2: ("gemm", "matmul", {"m": 2048, "n": 4096, "k": 8192}),
    3: ("bmm", "batched-matmul", {"b": 128, "m": 512, "n": 2048, "k": 1024}),
    6: ("gemm", "matmul", {"m": 256, "n": 256, "k": 524288}),
    7: ("gemm", "matmul", {"m": 32768, "n": 32768, "k": 64}),
    8: ("gemm", "matmul", {"m": 8205, "n": 5921, "k": 2949}),
    9: ("gemm", "matmul", {"m": 32768, "n": 32768, "k": 32}),
    10: ("gemm", "matmul", {"m": 16384, "n": 768, "k": 2048}),
    11: ("gemm", "matmul", {"m": 1048576, "n": 768, "k": 256}),
    4: ("gemm", "gemv", {"m": 2048, "k": 1048576}), 13: ("gemm", "matmul", {"m": 4096, "n": 4096, "k": 4096}),
    16: ("gemm", "matmul", {"m": 2048, "n": 4096, "k": 8192}),
    17: ("gemm", "matmul", {"m": 2048, "n": 4096, "k": 8192}),
    18: ("gemm", "matmul", {"m": 2048, "n": 4096, "k": 8192}),
    5: ("elementwise", "mul-scalar", {"elements": 65536 * 16384}),
    19: ("elementwise", "relu", WIDE), 20: ("elementwise", "leaky-relu", WIDE), 21: ("elementwise", "sigmoid", WIDE),
    22: ("elementwise", "tanh", WIDE), 26: ("elementwise", "gelu", WIDE), 27: ("elementwise", "selu", WIDE),
    28: ("elementwise", "hard-sigmoid", WIDE), 29: ("elementwise", "softplus", WIDE),
    30: ("elementwise", "softsign", WIDE), 31: ("elementwise", "elu", WIDE), 32: ("elementwise", "hard-tanh", WIDE),
    23: ("softmax", "softmax", {"m": 4096, "n": 393216}), 24: ("softmax", "log-softmax", {"m": 4096, "n": 393216}),
    82: ("depthwise", "depthwise", {"batch": 16, "channels": 64, "space": (512, 512), "kernel": (3, 3)}),
    83: ("depthwise", "depthwise", {"batch": 64, "channels": 8, "space": (512, 512), "kernel": (3, 1)}),
    84: ("depthwise", "depthwise", {"batch": 64, "channels": 128, "space": (256, 512), "kernel": (3, 3)}),
    85: ("depthwise", "depthwise", {"batch": 32, "channels": 128, "space": (128, 256), "kernel": (3, 7)}),
    97: ("attention", "attention", {"batch": 32, "heads": 32, "queries": 512, "keys": 512, "head": 1024}),
}  # fmt: skip
"""Problem -> (operator of its class, operator, sizes)."""
CONVOLUTIONS: Mapping[int, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
    # (batch, channels, space...), filters, (kernel..., stride...) and where not 0 and 1 (pad..., dilation...)
    50: ((256, 3, 224, 224), 96, (11, 11, 4, 4, 2, 2, 1, 1)), 54: ((16, 3, 64, 64, 64), 64, (3, 3, 3, 1, 1, 1)),
    55: ((8, 64, 512, 1024), 128, (3, 3, 1, 1)), 56: ((8, 64, 512, 256), 128, (5, 7, 1, 1)),
    59: ((16, 3, 256, 256, 10), 64, (3, 3, 1, 1, 1, 1)), 60: ((16, 3, 64, 64, 64), 64, (3, 5, 7, 1, 1, 1)),
    62: ((8, 32, 512, 512), 64, (5, 9, 1, 1)), 63: ((16, 16, 1024, 1024), 128, (3, 3, 1, 1)),
    66: ((8, 3, 16, 128, 128), 64, (3, 5, 7, 1, 1, 1)), 67: ((32, 64, 131072), 128, (3, 1)),
    76: ((64, 64, 524280), 128, (3, 3, 0, 4)), 80: ((8, 32, 512, 512), 64, (5, 9, 1, 1, 2, 4, 2, 3)),
    87: ((16, 64, 1024, 1024), 128, (1, 1, 1, 1)),
}  # fmt: skip


def _kernelbench(folder: Path) -> Iterator[Row]:
    for number, cells in _table(folder, "kernelbench_h100_modal.csv"):
        if cells["level"] != "level1":
            continue
        index = int(cells["problem"].partition("_")[0])
        operator, one = _kernelbench_problem(index)
        why = "" if one else NO_OPERATOR
        for library, column in (("torch", "eager_mean_us"), ("inductor", "inductor_mean_us")):
            if cells.get(column):
                kind = (operator or cells["problem"], "float32", library)
                yield _row(f"kernelbench-{library}", number, kind, "NVIDIA H100", float(cells[column]), one, why)


def _kernelbench_problem(index: int) -> tuple[str, Problem | None]:
    if index in CONVOLUTIONS:
        (batch, channels, *space), filters, (*rest,) = CONVOLUTIONS[index]
        axes = len(space)
        parts = [tuple(rest[n * axes : (n + 1) * axes]) for n in range(4)]
        one = problem(
            "conv", "float32", tf32=True, batch=batch, space=tuple(space), channels=channels, filters=filters,
            kernel=parts[0], stride=parts[1], pad=parts[2] or (0,) * axes, dilation=parts[3] or (1,) * axes,
        )  # fmt: skip
        return "conv", one
    if index in KERNELBENCH:
        operator, name, sizes = KERNELBENCH[index]
        return operator, problem(name, "float32", False, **sizes)
    return "", None


# H200, Nsight Compute

THOUSANDS = {"K": 1024}


def _nsight(folder: Path) -> Iterator[Row]:
    path = folder / "h200_nsight_xaheli.json"
    if not path.is_file():
        return
    number = 0
    for operator, table in json.loads(path.read_text(encoding="utf-8")).items():
        durations = table["metrics"].get("duration", {})
        for library in ("cuda", "triton", "helion"):
            for config, time in zip(table["configs"], durations.get(library, ()), strict=False):
                number += 1
                if time is None:
                    continue
                name, one, dtype = _nsight_problem(operator, config["name"], config["detail"])
                why = "" if one else "its sizes are not told" if name else NO_OPERATOR
                yield _row("nsight", number, (name or operator, dtype, library), "NVIDIA H200", time * 1e3, one, why)


def _nsight_problem(operator: str, name: str, detail: str) -> tuple[str, Problem | None, str]:
    """(operator of its class, problem, type).  Types are told only where several are compared."""
    sizes = [int(n) * THOUSANDS.get(unit, 1) for n, unit in re.findall(r"(\d+)(K?)(?![\w])", detail or name)]
    dtype = "bfloat16" if "BF16" in name else "float16" if "FP16" in name else "float32"
    if len(sizes) != 3:
        return {"vector_addition": "elementwise", "softmax_forward": "softmax"}.get(operator, ""), None, dtype
    elements = sizes[0] * sizes[1] * sizes[2]
    if operator == "vector_addition":
        return "elementwise", problem("add", dtype, elements=elements), dtype
    if operator == "softmax_forward":
        return "softmax", problem("softmax", dtype, m=sizes[0] * sizes[1], n=sizes[2]), dtype
    return "", None, dtype
