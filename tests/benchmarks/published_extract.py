"""Writes `resources/published/times.csv` from a folder laid out like `shared/measured`.

    python -m tests.benchmarks.published_extract --measured FOLDER [-o FILE]

Of NeuSight's products only those of one A100 and of the H100 are taken, one batch each: the table stays small.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import engine
from engine.documents.model import PublishedTime
from engine.measurements.published import TABLE, PublishedProblem, problem_of, write_table
from engine.support.errors import EngineError
from engine.target import DEVICES
from tests.benchmarks.published_problems import graph_of
from tests.benchmarks.published_rows import Row, read_rows

SOURCES = {
    "xla": "OpenXLA table", "neusight": "NeuSight", "liger": "Liger-Kernel benchmarks",
    "kernelbench-torch": "KernelBench", "kernelbench-inductor": "KernelBench", "nsight": "Kernel-Profiling",
}  # fmt: skip
WHO = {
    "cublas": "cuBLAS", "torch": "PyTorch", "inductor": "PyTorch inductor", "liger": "Liger", "triton": "Triton",
    "helion": "Helion", "huggingface": "Hugging Face", "cuda": "plain CUDA", "megatron": "Megatron",
}  # fmt: skip


def extract(folder: Path) -> Iterator[tuple[PublishedProblem, PublishedTime]]:
    """The rows of all files that a group of ours can be."""
    for row in read_rows(folder):
        if row.problem is None or not _is_wanted(row):
            continue
        try:
            groups = engine.fuse(graph_of(row.problem), target=row.device).groups
        except EngineError:
            continue
        found = problem_of(groups[0]) if len(groups) == 1 else None
        if found is not None:
            device = DEVICES[row.device].title.removeprefix("NVIDIA ").replace(",", "")
            numbers = " in tf32" if row.problem.tf32 else ""
            who = WHO.get(row.library, row.library) + numbers
            yield found, PublishedTime(who, device, row.microseconds, SOURCES[row.source])


def _is_wanted(row: Row) -> bool:
    if row.source == "neusight" and row.operator in ("gemm", "bmm"):
        return row.operator == "gemm" and row.device != "a100-pcie-40"
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.published_extract", description=__doc__)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, default=TABLE)
    options = parser.parse_args(arguments)
    write_table(extract(options.measured), options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
