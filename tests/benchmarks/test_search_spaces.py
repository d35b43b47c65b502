"""Spaces measured by others: how tables are read, what figures mean, and that the default strategy learns."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from engine.kernels.space import Program
from engine.support.errors import BadInput
from tests.benchmarks.search import main
from tests.benchmarks.search_spaces import (
    Genetic,
    MeasuredSpace,
    expected_random,
    race,
    read_spaces,
    score,
    standard_error,
)

SPACES = Path(__file__).parents[3] / "shared" / "measured" / "search_spaces"


def table(folder: Path, name: str = "bowl", side: int = 8) -> Path:
    """Three parameters; a bowl whose lowest place is inside, and a face of it that fails."""
    lines = ["x,y,z,mean_ms,std_ms,runs,compile_ms,benchmark_ms,status"]
    for x, y, z in itertools.product(range(1, side + 1), repeat=3):
        took = 1 + (x - 5) ** 2 / 4 + (y - 3) ** 2 / 3 + (z - 6) ** 2 / 20
        lines.append(f"{x},{y},{z},{took if x > 1 else ''},0,32,1,1,{'ok' if x > 1 else 'RuntimeFailedConfig'}")
    path = folder / f"{name}.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


@pytest.fixture
def space(tmp_path: Path) -> MeasuredSpace:
    table(tmp_path)
    (found,) = read_spaces(tmp_path)
    return found


def test_a_table_is_a_space(space: MeasuredSpace) -> None:
    assert (space.name, len(space.programs), len(space.ran), space.best) == ("bowl", 512, 448, 1.0)
    assert space.dimensions == dict.fromkeys("xyz", tuple(range(1, 9)))
    assert space.features(space.programs[0]) == (1.0, 1.0, 1.0)


def test_every_choice_is_another_figure() -> None:
    """A switch is 0 or 1, and words have places."""
    choices = {"switch": (0, 1), "count": (16, 48), "word": ("a", "b")}
    made = [Program("", tuple(zip(choices, point, strict=True))) for point in itertools.product(*choices.values())]
    found = MeasuredSpace("made", dict.fromkeys(made, 1.0))
    figures = itertools.product((0.0, 1.0), (math.log2(17), math.log2(49)), (0.0, 1.0))
    assert {found.features(program) for program in made} == set(figures)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no gzip", "is no table"),
        (gzip.compress(b"x,y\n1,2\n"), "is no table"),
        (gzip.compress(b"x,mean_ms,status\n1,fast,ok\n"), "is no table"),
        (gzip.compress(b"x,mean_ms,status\n1,,failed\n"), "has no times"),
    ],
    # gzip writes the second into its header, and two workers of pytest-xdist must collect the same names.
    ids=["plain text", "other columns", "time as a word", "no program ran"],
)
def test_damaged_tables_are_refused(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv.gz").write_bytes(content)
    with pytest.raises(BadInput, match=why):
        read_spaces(tmp_path)
    assert main(["--spaces", str(tmp_path)]) == 2
    assert main(["--spaces", str(tmp_path / "nowhere")]) == 2


def test_random_search_does_what_is_expected_of_it(space: MeasuredSpace) -> None:
    """The closed form against 4,000 searches: within four standard errors, at every trial that counts."""
    baseline, stream = expected_random(space), np.random.default_rng(3)
    times = np.array([space.ran[-1] if t is None else t for t in space.times.values()])
    drawn = np.array([np.minimum.accumulate(stream.permutation(times)[: len(baseline)]) for _ in range(4000)])
    doubt = drawn.std(0) / math.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - baseline) <= 4 * doubt + 1e-9).all()
    assert np.median(space.ran) - baseline[-1] >= 0.95 * (np.median(space.ran) - space.best)
    assert abs(score(space, drawn.tolist(), baseline)) < 0.05
    assert score(space, [[space.best] * len(baseline)], baseline) == 1.0


def test_the_genetic_algorithm_proposes_each_program_once(space: MeasuredSpace) -> None:
    genetic, seen = Genetic(space, random.Random(3)), set()
    for _ in range(200):
        (program,) = genetic.propose(1)
        assert program not in seen
        seen.add(program)
        genetic.learn([(program, space.times[program])])


def test_the_error_of_a_mean_is_that_of_its_searches(space: MeasuredSpace) -> None:
    assert standard_error([1.0, 2.0, 3.0, 6.0]) == pytest.approx(math.sqrt(14 / 3 / 4)) and standard_error([2.0]) == 0.0
    several = race(space, "random", 12)
    assert 0 < several.error_of_50 < 0.2 and race(space, "random", 1).error_of_50 == 0.0


@pytest.mark.slow(sentinel=True)
def test_the_default_strategy_learns_without_a_model(space: MeasuredSpace, tmp_path: Path) -> None:
    learned, by_chance = race(space, "learned", 1), race(space, "random", 1)
    assert learned.best_of_50 > 0.95 and learned.score > 0.5 > by_chance.score
    assert main(["--spaces", str(tmp_path), "--seeds", "1", "--json", str(tmp_path / "out.json")]) == 0
    summary = json.loads((tmp_path / "out.json").read_text())["summary"]
    assert summary["spaces"]["bowl"].keys() >= {
        "best_of_10", "best_of_50", "best_of_200", "score", "random", "genetic", "milliseconds_a_proposal",
        "error_of_50",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not SPACES.is_dir(), reason=f"{SPACES} is not here")
def test_a_measured_product_is_searched_better_than_by_chance_and_by_evolution() -> None:
    """On a GPU that no constant was chosen with; two searches of each."""
    (space,) = [space for space in read_spaces(SPACES) if space.name == "gemm_RTX_3090"]
    learned, by_chance, genetic = (race(space, name, 2) for name in ("learned", "random", "genetic"))
    assert learned.best_of_50 > max(by_chance.best_of_50, genetic.best_of_50) and learned.best_of_200 > 0.99
    assert learned.score > 0.9 > genetic.score > 0.5 > by_chance.score
