"""How far untuned kernels are from the best that a search could choose: `python -m tests.benchmarks.defaults [MODEL]`.

By the one estimate, of every group of ten models: the default kernel, and the best of the programs that a search looks
at (`engine.kernels.large_spaces`), of which the few of least promised time are compiled.  A search that runs 500 trials
on the model cannot find a better one.  What is divided are the times of whole models; a group counts once for each of
its launches.  Every time is predicted: this tests the advisers, and says nothing about a GPU.  Exit code 1 where a
model is past the goal; some minutes for all.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import engine
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.suite import is_reference, model_file, read_suite
from engine.support.errors import EngineError
from engine.tuning.problem import SearchProblem, problem
from tests.benchmarks import report

NAME = "defaults"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"
MODELS = (
    "bert_base_b1_s128", "bert_base_fp16_b8_s128", "convnext_tiny_b1", "deepfm_b256_ts17", "gpt2_small_b1_s128",
    "llama_2l_fp16_b2_s128_op20", "mixer_b16_b2", "resnet50_b8", "segformer_b0_b1_512", "vit_b16_b1",
)  # fmt: skip
GOAL = 1.05
COMPILED = 6
"""Programs of least promised time of a group: what is made of one may be predicted otherwise."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group of a model."""

    model: str
    group: str
    launches: int
    """That the model makes of its kernel."""
    default: float
    """Microseconds."""
    best: float
    programs: int
    """Of the search space; 0 where there is nothing to search."""
    program: str
    """The best one, "" where it is the default."""

    @property
    def lost(self) -> float:
        """Microseconds of the model."""
        return self.launches * (self.default - self.best)


def row_of(model: str, group: FusionGroup, recipe: Recipe) -> Row:
    """The default kernel of a group beside the best."""
    default = engine.predict(engine.compile(group, recipe)).microseconds
    found, best, program = problem(group, recipe), default, ""
    programs = found.programs if isinstance(found, SearchProblem) else ()
    if isinstance(found, SearchProblem):
        for one in heapq.nsmallest(COMPILED, programs, key=found.rank):
            with suppress(EngineError):
                time = engine.predict(engine.compile(group, found.recipe_of(one))).microseconds
                best, program = min((best, program), (time, str(one)))
    return Row(model, group.name, len(group.instances), default, best, len(programs), program)


def rows_of(path: Path, target: str) -> Iterator[Row]:
    """All groups of a model."""
    plan = engine.fuse(engine.load(path), target=target)
    recipe = engine.default_recipe(plan)
    for group in plan.groups:
        yield row_of(path.stem, group, recipe)


def _names(given: str) -> Iterator[str]:
    """That, or each row of a whole suite."""
    is_suite = is_reference(given) and "/" not in given
    yield from (f"{given}/{row.name}" for row in read_suite(given.partition(":")[2]).rows) if is_suite else (given,)


def _file(name: str) -> Path:
    """The file of a model or of a row of a suite."""
    if is_reference(name):
        return model_file(name)
    return Path(name) if name.endswith(".onnx") else SHARED / f"{name}.onnx"


def _told(model: str, rows: Sequence[Row]) -> float:
    """Default time over best time of a model, and a line of it and of each group that loses much."""
    default, best = sum(r.launches * r.default for r in rows), sum(r.launches * r.best for r in rows)
    print(f"{model}: default {default:.4g} µs, best {best:.4g} µs predicted, {default / best:.3f}", flush=True)
    for row in sorted(rows, key=lambda row: -row.lost)[:3]:
        if row.lost > default * (GOAL - 1) / 10:
            print(f"    {row.lost:.3g} µs of {row.group} x {row.launches}: {row.default:.4g} for {row.best:.4g}, "
                  f"{row.program} of {row.programs:,}")  # fmt: skip
    return default / best


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each model and what its groups lose, write the document."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=__doc__.splitlines()[0])
    told = "files, names of shared models, suite:NAME, suite:NAME/ROW"
    parser.add_argument("model", nargs="*", default=MODELS, metavar="MODEL", help=told)
    parser.add_argument("--target", default="h200", help="what kernels are for (h200)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    ratios: dict[str, float] = {}
    try:
        for path in [_file(name) for given in options.model for name in _names(given)]:
            of_model = list(rows_of(path, options.target))
            ratios[path.stem] = _told(path.stem, of_model)
            rows += of_model
    except EngineError as error:
        print(error, file=sys.stderr)
        return 2
    met = sum(ratio <= GOAL for ratio in ratios.values())
    print(f"{met} of {len(ratios)} models are within {GOAL - 1:.0%} of the best, on {options.target}")
    if options.json:
        summary = {"models": ratios, "goal": GOAL, "met": met, "origin": "predicted"}
        report.write(options.json, NAME, report.environment("onnx"), [asdict(row) for row in rows], summary)
    return int(met < len(ratios))


if __name__ == "__main__":
    sys.exit(main())
