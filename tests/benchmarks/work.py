"""`Work` against what the emulator counts, family by family: requests, sectors, bank conflicts, passes and launches.

    python -m tests.benchmarks.work [--quick] [--model NAME ...] [--json FILE]

Every kernel of the shared models and suite rows that is small enough runs whole on the CPU.  `Work` lets one warp stand
for all, with every mask holding; what masks and other warps change is computed from the tile program
(`tests.benchmarks.work_walk`), rule by rule.  Exit code 1 where a difference is left that no rule explains.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import Emulation
from engine.explore.addresses import dummy_inputs
from engine.kernels.families import FAMILIES, family_of
from engine.kernels.nodes import Kernel
from tests.benchmarks import report
from tests.benchmarks.work_walk import COUNTS, PASSES, visits, walk

NAME = "work"
ROOT = Path(__file__).parents[2]
SHARED = (
    "bert_base_b1_s128", "bert_base_fp16_b8_s128", "llama_2l_fp16_b2_s128_op20", "mobilenet_v2_b1", "deepfm_b256_ts17",
    "segformer_b0_b1_512", "crnn_vgg16_b1_ts17", "mixer_b16_b2",
)  # fmt: skip
STITCHED = ("layernorm", "dropoutgrad_reducesum")
ROWS = (
    "gta/gemv-512x16", "gta/gemm-16x512x128", "gta/mean-512x7x7", "gta/variance-512x7x7", "gta/scan-16x512x128",
    "gta/conv2d-C0-b1", "alcop-matmul/1024x64x512", "batched/12x512x64x512",
)  # fmt: skip
SMALL = ("bert_tiny", "softmax_96x512", "transpose_2x12x64x64", "column_sum_1000x384", "add_relu_odd_3x5x127")
MOST_VISITS = 2**25
"""Accesses of single threads up to which a kernel is emulated and walked."""
DATA = "addresses depend on data: sectors and conflicts are not compared"
ENDS = "the data end loops: requests are those of evenly spread data, and not compared"
GLOBAL = ("global load", "global store", "async copy")


@dataclass(frozen=True)
class Row:
    """One kernel: `Work`, the emulator's counts, and what explains the difference."""

    family: str
    file: str
    group: str
    blocks: int
    threads: int
    launches: int
    """Of the group's kernel in a run of the group; `Work` is of one."""
    work: dict[str, int]
    counted: dict[str, int]
    explained: dict[str, dict[str, int]]
    """Rule -> part of `work` - `counted`, where it is not 0."""
    left: dict[str, int]
    """What no rule explains."""
    note: str = ""

    @property
    def is_equal(self) -> bool:
        return self.work == self.counted


def compare(kernel: Kernel, file: str = "") -> Row | str:
    """One kernel, emulated whole; or why it is not compared."""
    asked = visits(kernel.tile)
    if asked > MOST_VISITS:
        return f"{asked:,} accesses of threads, up to {MOST_VISITS:,} are emulated"
    values = dummy_inputs(kernel)
    if values is None:
        return "its addresses depend on inputs that are no whole numbers"
    run, _, _ = emulate(kernel.source, values, timeout=300)
    if run.findings:
        return f"line {run.findings[0].line}: {run.findings[0].message}"
    walked, counted = walk(kernel.tile), _counted(run)
    names = [name for name in COUNTS if name != PASSES or kernel.facts.shared_passes]
    work = {name: getattr(kernel.facts, name) for name in names}
    compared = [name for name in names if not walked.depends_on_data or name.endswith("requests")]
    compared = [] if walked.ends_by_data else compared
    explained = {rule: {n: part[n] for n in compared if part[n]} for rule, part in walked.because.items()}
    left = {n: work[n] - counted[n] - sum(part[n] for part in walked.because.values()) for n in compared}
    return Row(
        family=family_of(kernel.group).name,
        file=file,
        group=kernel.group.name,
        blocks=kernel.facts.blocks,
        threads=kernel.facts.threads,
        launches=1,
        work=work,
        counted={name: counted[name] for name in names},
        explained={rule: part for rule, part in explained.items() if part},
        left={name: value for name, value in left.items() if value},
        note=ENDS if walked.ends_by_data else DATA if walked.depends_on_data else "",
    )


def _counted(run: Emulation) -> dict[str, int]:
    outside = [site for site in run.counts if site.kind in GLOBAL]
    shared = [site for site in run.counts if site.kind.startswith("shared")]
    found = (
        sum(site.requests for site in outside),
        sum(site.sectors for site in outside),
        sum(site.requests for site in shared),
        sum(site.conflicts for site in run.counts),
        sum(site.passes for site in run.counts),
    )
    return dict(zip(COUNTS, found, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    rows: list[Row] = []
    skipped = 0
    for file, kernel in _kernels(options.model or _files(options.quick)):
        row = compare(kernel, file)
        if isinstance(row, str):
            skipped += 1
            print(f"{file} {kernel.group.name}: not compared, {row}", flush=True)
            continue
        rows.append(row)
        _print(row)
    summary = summarize(rows) | {"not_compared": skipped}
    for key, value in summary.items():
        print(f"{key:24} {value}")
    if options.json:
        report.write(options.json, NAME, report.environment("numpy"), [asdict(row) for row in rows], summary)
    return 1 if summary["unexplained"] else 0


def _files(is_quick: bool) -> Iterator[str]:
    yield from (str(ROOT / "resources" / "models" / f"{name}.onnx") for name in SMALL)
    if not is_quick:
        yield from (f"suite:{row}" for row in ROWS)
        yield from (str(ROOT.parent / "shared" / "akg" / "stitch" / f"{name}.json") for name in STITCHED)
        yield from (str(ROOT.parent / "shared" / "models" / f"{name}.onnx") for name in SHARED)


def _kernels(files: Iterable[str]) -> Iterator[tuple[str, Kernel]]:
    for file in files:
        if not file.startswith("suite:") and not Path(file).exists():
            print(f"{file} is absent", flush=True)
            continue
        for group in engine.fuse(engine.load(file)).groups:
            yield file.removeprefix("suite:") if file.startswith("suite:") else Path(file).stem, engine.compile(group)


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures that the goal names."""
    families = {family.name: [row for row in rows if row.family == family.name] for family in FAMILIES}
    return {
        "kernels": len(rows),
        "equal": sum(row.is_equal for row in rows),
        "explained": sum(not row.is_equal and not row.left for row in rows),
        "unexplained": sum(bool(row.left) for row in rows),
        "families": {name: len(of) for name, of in families.items()},
    }


def _print(row: Row) -> None:
    print(f"{row.family:12} {row.file} {row.group}: {row.blocks:,} blocks of {row.threads}, {row.launches} launch")
    for name in row.work:
        print(f"  {name:16} Work {row.work[name]:>12,}  counted {row.counted[name]:>12,}", end="")
        print(f"  difference {row.work[name] - row.counted[name]:,}")
        for rule, part in row.explained.items():
            if name in part:
                print(f"    {part[name]:,}: {rule}")
        if name in row.left:
            print(f"    {row.left[name]:,}: NOT EXPLAINED")
    if row.note:
        print(f"  {row.note}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the example models alone")
    parser.add_argument("--model", action="append", help="a file or suite:NAME/ROW; may be repeated")
    parser.add_argument("--json", type=Path, help="write rows and summary here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
