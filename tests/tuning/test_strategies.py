"""What strategies propose: everything once, nothing that was tried, and better programs sooner than chance."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.kernels.space import Program, Value
from engine.tuning.evolution import fit_linear
from engine.tuning.learned import NEAR_PARENTS, PATIENCE, Correction
from engine.tuning.statistics import rank_correlation
from engine.tuning.strategies import STRATEGIES, make_strategy
from engine.tuning.strategy import Strategy

CHOICES: Mapping[str, tuple[Value, ...]] = {
    "rows": (16, 32, 64, 128), "columns": (16, 32, 64, 128), "depth": (16, 32, 64), "stages": (1, 2, 3, 4, 5),
    "sets": (1, 2, 4), "order": ("rows", "columns"),
}  # fmt: skip


@dataclass(frozen=True)
class Synthetic:
    """A space with a smooth truth that the modelled times know in part."""

    seed: int
    dimensions: Mapping[str, tuple[Value, ...]] = field(default_factory=lambda: CHOICES)
    known: float = 0.5
    """Part of the truth that the model tells."""

    @property
    def programs(self) -> Sequence[Program]:
        """All but a seventh, as if it had been pruned."""
        points = itertools.product(*self.dimensions.values())
        made = (Program("m", tuple(zip(self.dimensions, point, strict=True))) for point in points)
        return tuple(program for number, program in enumerate(made) if number % 7)

    def features(self, program: Program) -> tuple[float, ...]:
        return tuple(math.log2(v) if isinstance(v, int) else float(v == "rows") for _, v in program.values)

    def _parts(self, program: Program) -> tuple[float, float]:
        rng = np.random.default_rng(self.seed)
        figures = np.array(self.features(program))
        known, hidden = (rng.normal(size=(len(figures), 6)) / 4 for _ in range(2))
        weights = rng.normal(size=(2, 6)) / 3
        return float(np.tanh(figures @ known) @ weights[0]), float(np.tanh(figures @ hidden) @ weights[1])

    def rank(self, program: Program) -> float:
        return 10 * math.exp(self._parts(program)[0])

    def accesses(self, program: Program) -> tuple[int, int]:
        return 0, 0

    def truth(self, program: Program) -> float:
        known, hidden = self._parts(program)
        return 10 * math.exp(self.known * 2 * known + (1 - self.known) * 2 * hidden)


SMALL = {"rows": (16, 32, 64), "stages": (1, 2, 3)}


def strategy(name: str, space: Synthetic, seed: int = 1) -> Strategy:
    return make_strategy(name, space, random.Random(seed))


@pytest.mark.parametrize("name", STRATEGIES)
def test_everything_is_proposed_once(name: str) -> None:
    space = Synthetic(1, SMALL)
    one, found = strategy(name, space), list[Program]()
    while batch := one.propose(3):
        found += batch
        one.learn([(program, space.truth(program)) for program in batch])
    assert len(found) == len(space.programs) and set(found) == set(space.programs)
    assert one.propose(1) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_an_earlier_run_tried_is_not_proposed(name: str) -> None:
    space = Synthetic(1, SMALL)
    tried, one = space.programs[:4], strategy(name, space)
    one.learn([*((program, space.truth(program)) for program in tried), (Program("gone", ()), 1.0)])
    assert set(one.propose(100)) == set(space.programs[4:])


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_and_results_give_the_same_proposals(name: str) -> None:
    def proposed(seed: int) -> list[Program]:
        space, found = Synthetic(2), list[Program]()
        one = strategy(name, space, seed)
        for _ in range(24):
            (program,) = one.propose(1)
            one.learn([(program, space.truth(program))])
            found.append(program)
        return found

    assert proposed(1) == proposed(1)
    if name in ("random", "evolution"):
        assert proposed(1) != proposed(2)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_batch_holds_no_program_twice_and_failures_are_survived(name: str) -> None:
    space = Synthetic(3)
    one, found = strategy(name, space), list[Program]()
    for size in (1, 16, 16, 16):
        batch = one.propose(size)
        assert len(batch) == size
        one.learn([(program, None if n % 3 else space.truth(program)) for n, program in enumerate(batch)])
        found += batch
    assert len(set(found)) == len(found) == 49


def test_the_model_orders_and_results_change_nothing() -> None:
    space = Synthetic(4)
    found = strategy("model", space).propose(20)
    ranks = [space.rank(program) for program in found]
    assert ranks == sorted(ranks) and ranks[0] == min(map(space.rank, space.programs))


def best_after(name: str, space: Synthetic, trials: int) -> float:
    """Speed of the best program found, in parts of the fastest there is."""
    truth = {program: space.truth(program) for program in space.programs}
    one, found = strategy(name, space), []
    for _ in range(trials):
        (program,) = one.propose(1)
        one.learn([(program, truth[program])])
        found.append(truth[program])
    return min(truth.values()) / min(found)


@pytest.mark.parametrize("name", ["learned", "evolution"])
def test_learning_beats_chance_and_a_model_that_knows_half(name: str) -> None:
    spaces = [Synthetic(seed) for seed in range(4)]
    mean = {one: np.mean([best_after(one, space, 40) for space in spaces]) for one in (name, "random", "model")}
    assert mean[name] > 0.93, "a sixtieth of the space was tried"
    assert mean[name] > max(mean["random"], mean["model"])


def test_evolution_learns_without_lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    spaces = [Synthetic(seed) for seed in range(4)]
    mean = {one: np.mean([best_after(one, space, 40) for space in spaces]) for one in ("evolution", "random", "model")}
    assert mean["evolution"] > max(mean["random"], mean["model"])


def test_a_linear_ranking_follows_what_is_linear_and_not_its_reverse() -> None:
    rng = np.random.default_rng(3)
    rows, asked, weights = rng.normal(size=(60, 5)) * 7 + 2, rng.normal(size=(40, 5)), np.array([1, -2, 0.5, 0, 3])
    quality = fit_linear(rows, rows @ weights + rng.normal(size=60) * 0.1)(asked)
    assert rank_correlation(quality, -(asked @ weights)) > 0.95


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_space_without_programs_has_nothing_to_propose(name: str) -> None:
    empty = Synthetic(0, {"rows": ()})
    assert not empty.programs and strategy(name, empty).propose(3) == []


def test_a_right_model_needs_no_learning() -> None:
    for name in ("learned", "evolution", "model"):
        assert best_after(name, Synthetic(5, known=1.0), 10) > 0.999, name


@pytest.mark.parametrize(("idle", "looks_beside"), [(PATIENCE, True), (PATIENCE - 1, False)])
def test_a_search_that_finds_nothing_better_looks_beside_the_best(
    idle: int, looks_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first program stays the best for so many trials; with the chance at 1 every proposal is then a neighbour."""
    monkeypatch.setattr("engine.tuning.learned.NEAR_CHANCE", 1.0)
    space = Synthetic(3)
    strategy = make_strategy("learned", space, random.Random(0))
    tried = random.Random(1).sample(space.programs, idle + 1)
    strategy.learn([(program, 10.0 + n) for n, program in enumerate(tried)])
    best = tried[:NEAR_PARENTS]

    def is_near(program: Program) -> bool:
        return any(sum(a != b for a, b in zip(program.values, one.values, strict=True)) == 1 for one in best)

    assert all(map(is_near, strategy.propose(6))) == looks_beside


def test_a_correction_gives_back_what_it_saw_and_doubts_the_rest() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    values = np.array([0.1, 0.5, -0.2])
    seen = Correction.of(rows, values, length=1.0, noise=1e-6, least=0.9)
    mean, doubt = seen.at(np.vstack([rows, [[9.0, 9.0, 0.0]], [[9.0, 9.0, 2.0]]]))
    assert mean[:3] == pytest.approx(values, abs=1e-3)
    assert (doubt[:3] < 0.01).all() and doubt[3] == pytest.approx(0.9, rel=0.01)
    assert mean[3] == pytest.approx(seen.mean, abs=1e-6), "far from everything only what all share is expected"
    assert doubt[4] == pytest.approx(0.9 * math.sqrt(5), rel=0.01), "an unusual promise is doubted more"


def test_a_model_that_is_wrong_as_a_whole_is_turned_round() -> None:
    promised = np.linspace(-1, 1, 8)
    rows = np.column_stack([np.zeros(8), promised])
    seen = Correction.of(rows, -1.5 * promised, length=1.0, noise=0.02)
    mean, _ = seen.at(np.array([[0.0, -2.0], [0.0, 2.0]]))
    assert mean == pytest.approx([3.0, -3.0], rel=0.1), "what is promised most is slowest"


def test_a_correction_solves_the_published_equations() -> None:
    rng = np.random.default_rng(7)
    rows, values, ask = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=(3, 3))
    length, noise = 1.3, 0.2

    def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        r = np.linalg.norm(one[:, None, :2] - other[None, :, :2], axis=2) * math.sqrt(5) / length
        return (1 + r + r**2 / 3) * np.exp(-r) + np.outer(one[:, 2], other[:, 2])

    found = Correction.of(rows, values, length, noise)
    inverse = np.linalg.inv(covariance(rows, rows) + noise * np.eye(6))
    across = covariance(ask, rows)
    mean, doubt = found.at(ask)
    left = values - found.mean
    assert found.scale == pytest.approx(left @ inverse @ left / 6)
    assert mean == pytest.approx(found.mean + across @ inverse @ left)
    assert doubt**2 == pytest.approx(found.scale * np.diag(covariance(ask, ask) - across @ inverse @ across.T))
