"""Published speed-ups of ALCOP's 22 operators beside those that three models predict.

A speed-up is of the best program with pipelined copies over the best one without, from the tiles that the paper's
templates have.  The models choose and time their own programs: ALCOP's, its bottleneck baseline, and the estimate that
the program uses everywhere, with operands in L2 where they fit it.  Nothing was fitted to these 22 figures.

    python -m tests.benchmarks.alcop [--operator NAME ...] [--json FILE]

Published: Huang et al., "ALCOP", MLSys 2023, labels of figure 10 (A100; against TVM with the same template, no copy
pipelined).  Needs no GPU and compiles nothing with NVRTC.  A rank correlation counts order alone (Spearman).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import engine
from engine.cost.alcop import allowed_registers, predict_bottleneck, predict_pipeline
from engine.cost.alcop_work import alcop_work_of_config
from engine.cost.estimate import model_microseconds
from engine.cost.nodes import Work
from engine.cost.tile_order import lost_part
from engine.kernels.gemm.limits import SEARCH_LIMITS, first_broken
from engine.kernels.gemm.nodes import FusedGemm, Reach
from engine.kernels.gemm.problem import gemm_axes
from engine.kernels.gemm.promise import fused_gemm_of_tile
from engine.kernels.gemm.work import work
from engine.suite import read_suite
from engine.support.errors import Unsupported
from engine.target import Target, target
from engine.target.hardware import VECTOR_BYTES
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tensorize.space import GemmConfig
from tests.benchmarks import report
from tests.benchmarks.pipelines_rows import contraction_group

NAME, SUITE, TARGET = "alcop", "alcop", "a100"
PUBLISHED = {
    "MM_Square_1k": 1.32, "MM_Square_2k": 1.31, "MM_Square_4k": 1.34, "MM_BERT_MHA1": 1.28, "MM_BERT_MHA2": 1.23,
    "MM_BERT_FC1": 1.17, "MM_BERT_FC2": 1.69, "MM_Conv1x1_1": 1.09, "MM_Conv1x1_2": 1.08, "MM_RN50_FC": 1.73,
    "BMM_BERT_QK": 1.08, "BMM_BERT_SV": 1.19, "BMM_GPT2_QK": 1.01, "BMM_GPT2_SV": 1.54, "Conv2D_RN50_1": 0.95,
    "Conv2D_RN50_2": 1.12, "Conv2D_RN50_3": 1.21, "Conv2D_RN50_4": 1.22, "Conv3D1": 1.00, "Conv3D2": 1.20,
    "Conv3D3": 1.36, "Conv3D4": 1.17,
}  # fmt: skip
@dataclass(frozen=True)
class Template:
    """Fragments of a warp's tile along a side, and fragments along the depth of a tile."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    chunks: tuple[int, ...]


TEMPLATES = {
    "MM": Template((1, 2, 4), (1, 2), (2, 4)),
    "BMM": Template((1, 2, 4), (1, 2, 4), (1, 2, 4, 8)),
    "Conv2D": Template((1, 2), (1, 2, 4), (1, 2, 4)),
    "Conv3D": Template((1, 2, 4), (1, 2, 4), (1, 2, 4)),
}
"""Of the paper's artifact; 1, 2 or 4 warps along each side, 1 or 2 to 6 buffers in shared memory, 1, 2 or 4 sets of
registers in all of them."""
WARPS, STAGES, SETS = (1, 2, 4), (1, 2, 3, 4, 5, 6), (1, 2, 4)
MODELS = ("estimate", "alcop", "bottleneck")
"""What predicts: ours, the paper's, and its baseline."""
Time = Callable[[FusedGemm, GemmConfig, Target], float]


@dataclass(frozen=True)
class Row:
    """One operator: its published speed-up and those that the models predict for programs of their own choice."""

    operator: str
    published: float
    estimate: float
    alcop: float
    bottleneck: float
    tiles: dict[str, list[str]]
    """Model -> the unpipelined and the pipelined configuration that it chose."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    chosen = options.operator or [row.name for row in read_suite(SUITE).rows]
    rows = []
    for name in chosen:
        rows.append(row_of(name))
        print(_line(rows[-1]), flush=True)
    summary = summarize(rows)
    print(*report.figures_in_words(summary), sep="\n")
    if options.json:
        report.write(options.json, NAME, report.environment("numpy"), [asdict(row) for row in rows], summary)
    return 0


def row_of(name: str) -> Row:
    """Predicted speed-ups of one operator."""
    machine, gemm = target(TARGET), _gemm(name)
    gains: dict[str, float] = {}
    tiles: dict[str, list[str]] = {}
    template = next(t for kind, t in TEMPLATES.items() if name.startswith(kind))
    configs = configurations(gemm, template, machine)
    for model, time in zip(MODELS, (_estimated, _by_alcop, _by_bottleneck), strict=True):
        times = {config: time(gemm, config, machine) for config in configs}
        plain = min((c for c in configs if c.stages == c.register_stages == 1), key=times.__getitem__)
        piped = min((c for c in configs if c.stages > 1), key=times.__getitem__)
        gains[model], tiles[model] = times[plain] / times[piped], [str(plain), str(piped)]
    return Row(name, PUBLISHED[name], **gains, tiles=tiles)


def _gemm(name: str) -> FusedGemm:
    """An operator of the suite as a product on tensor cores."""
    group = contraction_group(engine.fuse(engine.load(f"suite:{SUITE}/{name}"), target=TARGET).groups)
    kernel = engine.compile(group, engine.default_recipe(group, target=TARGET))
    gemm = fused_gemm_of_tile(kernel.program, kernel.tile)
    if gemm is None or gemm_axes(kernel.program) is None or not gemm.problem.unit:
        raise Unsupported("benchmark", name, "is not computed by tensor cores")
    return channels_last(gemm) if name.startswith("Conv") else gemm


def channels_last(gemm: FusedGemm) -> FusedGemm:
    """A convolution as the artifact lays it out: ONNX has channels before pixels, where copies take single elements."""
    whole = VECTOR_BYTES // gemm.problem.element_bytes
    reach = Reach(gemm.problem.element_bytes, along_side=1, along_depth=whole, singly_along_depth=True)
    problem, epilogue = replace(gemm.problem, widths=(whole, whole)), replace(gemm.epilogue, widest=whole)
    return replace(gemm, problem=problem, reaches=(reach, reach), epilogue=epilogue)


def configurations(gemm: FusedGemm, template: Template, machine: Target) -> list[GemmConfig]:
    """What a template offers and the machine can run."""
    found = []
    for rows, columns, row_warps, column_warps, chunks, stages, sets in product(
        template.rows, template.columns, WARPS, WARPS, template.chunks, STAGES, SETS
    ):
        part = rows * FRAGMENT_SIZE, columns * FRAGMENT_SIZE
        block = part[0] * row_warps, part[1] * column_warps, chunks * FRAGMENT_SIZE
        config = GemmConfig(block, part, stages, sets)
        if first_broken(gemm.problem, config, machine, SEARCH_LIMITS) is None:
            found.append(config)
    return found


def _estimated(gemm: FusedGemm, config: GemmConfig, machine: Target) -> float:
    try:
        return model_microseconds(_warm(work(gemm, config, machine), machine), machine)
    except Unsupported:
        return math.inf


def _warm(work: Work, machine: Target) -> Work:
    """The paper runs a kernel 200 times in a row: of its operands and results stays in L2 what the estimate says of
    bytes that are read again."""
    lost = lost_part(work.dram_bytes_read + work.dram_bytes_written, machine.l2_bytes.value)
    read, written = (round(lost * moved) for moved in (work.dram_bytes_read, work.dram_bytes_written))
    return replace(work, dram_bytes_read=read, dram_bytes_written=written)


def _by_alcop(gemm: FusedGemm, config: GemmConfig, machine: Target) -> float:
    return _paper(predict_pipeline, gemm, config, machine)


def _by_bottleneck(gemm: FusedGemm, config: GemmConfig, machine: Target) -> float:
    return _paper(predict_bottleneck, gemm, config, machine)


def _paper(predict: Callable[..., Any], gemm: FusedGemm, config: GemmConfig, machine: Target) -> float:
    """A model of the paper; it says nothing of spills, so that a thread gets all its registers or no time."""
    found = alcop_work_of_config(gemm.problem, config)
    if (found.registers or 0) > allowed_registers(found.threads, machine):
        return math.inf
    try:
        return float(predict(found, machine).microseconds)
    except Unsupported:
        return math.inf


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Rank correlations with the published speed-ups, and geometric means of all four."""
    published = [row.published for row in rows]
    ranks = {f"{m}_rank": report.rank_figure([getattr(row, m) for row in rows], published) for m in MODELS}
    means = {f"{m}_speedup": geometric_mean(getattr(row, m) for row in rows) for m in MODELS}
    return {"operators": len(rows), **ranks, **means, "published_speedup": geometric_mean(published)}


def _line(row: Row) -> str:
    told = ", ".join(f"{model} {getattr(row, model):5.2f}" for model in MODELS)
    tiles = " -> ".join(row.tiles["estimate"])
    return f"{row.operator:14} published {row.published:.2f}; predicted: {told}; tiles {tiles}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=__doc__.partition("\n")[0])
    parser.add_argument("--operator", action="append", help="a row of the suite; may be repeated")
    parser.add_argument("--json", type=Path, help="write rows and summary here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
