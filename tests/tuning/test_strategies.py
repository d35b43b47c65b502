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
from engine.tuning.candidate_pool import Candidates
from engine.tuning.evolution import fit_linear
from engine.tuning.learned import LEAST_TRIALS, NEAR_PARENTS, PATIENCE
from engine.tuning.statistics import rank_correlation
from engine.tuning.strategies import STRATEGIES, make_strategy
from engine.tuning.strategy import Strategy
from engine.tuning.surrogate import Correction, Covariance, fit

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

    def time_of_unseen(self, program: Program) -> float | None:
        """All are known."""
        return None

    def accesses(self, program: Program) -> tuple[int, int]:
        return 0, 0

    def truth(self, program: Program) -> float:
        known, hidden = self._parts(program)
        return 10 * math.exp(self.known * 2 * known + (1 - self.known) * 2 * hidden)


SMALL = {"rows": (16, 32, 64), "stages": (1, 2, 3)}


@dataclass(frozen=True)
class Sampled(Synthetic):
    """The same, of which one program in twenty was looked at, and none that has four stages may be proposed."""

    @property
    def programs(self) -> Sequence[Program]:
        return tuple(p for p in super().programs[::20] if p["stages"] != 4)

    def time_of_unseen(self, program: Program) -> float | None:
        return None if program["stages"] == 4 else self.rank(program)


def strategy(name: str, space: Synthetic, seed: int = 1) -> Strategy:
    return make_strategy(name, space, random.Random(seed))


@pytest.mark.parametrize("name", ["learned", "evolution"])
def test_neighbours_of_fast_programs_are_proposed_though_they_were_not_looked_at(name: str) -> None:
    """So a sample of a space is enough: what is found is nearly its best, and better than anything in the sample."""
    shares = []
    for seed in range(4):
        space = Sampled(seed, known=0.3)
        one, found = strategy(name, space, seed), dict[Program, float]()
        for _ in range(12):
            results = {program: space.truth(program) for program in one.propose(8)}
            assert not set(results) & set(found)
            found |= results
            one.learn(list(results.items()))
        assert all(program["stages"] != 4 for program in found)
        assert set(found) - set(space.programs)
        every = [Program("m", tuple(zip(CHOICES, at, strict=True))) for at in itertools.product(*CHOICES.values())]
        best = min(space.truth(program) for program in every if program["stages"] != 4)
        assert min(found.values()) <= min(map(space.truth, space.programs))
        shares.append(best / min(found.values()))
    assert np.mean(shares) > 0.95


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


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("name", ["learned", "evolution"])
def test_learning_beats_chance_and_a_model_that_knows_half(name: str) -> None:
    spaces = [Synthetic(seed) for seed in range(4)]
    mean = {one: np.mean([best_after(one, space, 40) for space in spaces]) for one in (name, "random", "model")}
    assert mean[name] > 0.93, "a sixtieth of the space was tried"
    assert mean[name] > max(mean["random"], mean["model"])


@pytest.mark.slow(sentinel=True)
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


def shape(features: int, weight: float = 1.0, length: float = 1.0, noise: float = 1e-6) -> Covariance:
    return Covariance(np.full(features, weight), np.full(features, length), noise)


def test_a_correction_gives_back_what_it_saw_and_doubts_the_rest() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    values = np.array([0.1, 0.5, -0.2])
    seen = Correction.of(rows, values, shape(2, weight=1e3), least=0.9)
    mean, doubt = seen.at(np.vstack([rows, [[9.0, 9.0, 0.0]], [[9.0, 9.0, 2.0]]]))
    assert mean[:3] == pytest.approx(values, abs=1e-3)
    assert (doubt[:3] < 0.01).all() and doubt[3] == pytest.approx(0.9, rel=0.01)
    assert mean[3] == pytest.approx(seen.mean, abs=1e-3), "far from everything only what all share is expected"
    assert doubt[4] == pytest.approx(0.9 * math.sqrt(5), rel=0.01), "an unusual promise is doubted more"


def test_what_a_feature_does_is_expected_where_another_differs() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    ask = np.array([[1.0, 9.0, 0.0]])
    (sum_of_both,), _ = Correction.of(rows, np.array([0.0, 1.0, 1.0]), shape(2, weight=0.3)).at(ask)
    (only_near,), _ = Correction.of(rows, np.array([0.0, 1.0, 1.0]), shape(2, weight=1e3)).at(ask)
    assert sum_of_both > 1.3 > only_near


def test_a_model_that_is_wrong_as_a_whole_is_turned_round() -> None:
    promised = np.linspace(-1, 1, 8)
    rows = np.column_stack([np.zeros(8), promised])
    seen = Correction.of(rows, -1.5 * promised, shape(1, noise=0.02))
    mean, _ = seen.at(np.array([[0.0, -2.0], [0.0, 2.0]]))
    assert mean == pytest.approx([3.0, -3.0], rel=0.1), "what is promised most is slowest"


def test_a_correction_solves_the_published_equations() -> None:
    rng = np.random.default_rng(7)
    rows, values, ask = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=(3, 3))
    weights, lengths, noise = np.array([0.4, 1.7]), np.array([1.3, 0.6]), 0.2

    def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        r = math.sqrt(3) * np.abs(one[:, None, :2] - other[None, :, :2]) / lengths
        return ((1 + weights * (1 + r) * np.exp(-r)) / (1 + weights)).prod(axis=2) + np.outer(one[:, 2], other[:, 2])

    found = Correction.of(rows, values, Covariance(weights, lengths, noise))
    inverse = np.linalg.inv(covariance(rows, rows) + (noise + 1e-8) * np.eye(6))
    across = covariance(ask, rows)
    mean, doubt = found.at(ask)
    left = values - found.mean
    assert found.scale == pytest.approx(left @ inverse @ left / 6)
    assert found.mean == pytest.approx(inverse.sum(axis=0) @ values / (1 / 100 + inverse.sum()))
    assert mean == pytest.approx(found.mean + across @ inverse @ left)
    assert doubt**2 == pytest.approx(found.scale * np.diag(covariance(ask, ask) - across @ inverse @ across.T))


def test_a_fit_sees_which_feature_matters_and_predicts_better() -> None:
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.integers(0, 5, (60, 3)) - 2.0, np.zeros(60)])
    values = np.sin(1.5 * rows[:, 0])
    before = after = Covariance.usual(3)
    for _ in range(4):
        after = fit(rows[:40], values[:40], after)
    assert after.weights[0] > 3 * max(after.weights[1:])
    errors = [np.abs(Correction.of(rows[:40], values[:40], one).at(rows[40:])[0] - values[40:]).mean()
              for one in (before, after)]  # fmt: skip
    assert errors[1] < 0.7 * errors[0]


@dataclass(frozen=True)
class Unknown(Synthetic):
    """The same for a search that no model tells anything."""

    def rank(self, program: Program) -> float:
        return 1.0


def test_without_a_model_the_first_trials_spread() -> None:
    """The least distance between them, against that of as many programs at random, over ten searches."""
    space = Unknown(3)
    figures = np.array([space.features(program) for program in space.programs])
    figures = dict(zip(space.programs, (figures - figures.mean(0)) / figures.std(0), strict=True))

    def least(programs: Sequence[Program]) -> float:
        return min(float(np.abs(figures[a] - figures[b]).sum()) for a, b in itertools.combinations(programs, 2))

    found, by_chance = [], []
    for seed in range(10):
        one = make_strategy("learned", space, random.Random(seed))
        found.append(least([one.propose(1)[0] for _ in range(LEAST_TRIALS)]))
        by_chance.append(least(random.Random(seed).sample(space.programs, LEAST_TRIALS)))
    assert min(found) > np.median(by_chance) and np.mean(found) > 1.5 * np.mean(by_chance)


def test_powers_of_two_that_divide_a_count_are_a_figure() -> None:
    """Times that depend on nothing else: a search without a model finds the multiples of 64."""
    dimensions = {"x": tuple(range(16, 257, 16)), "y": tuple(range(1, 25)), "z": (1, 2, 4)}

    @dataclass(frozen=True)
    class Aligned(Unknown):
        def truth(self, program: Program) -> float:
            x, y = program.number("x"), program.number("y")
            return 10.0 / (x & -x) / (y & -y)

    pool = Candidates(Aligned(1, dimensions))
    program = next(p for p in pool.programs if (p["x"], p["y"]) == (48, 12))
    assert tuple(pool.features([pool.numbers[program]])[0][-2:]) == (4.0, 2.0), "z is its own power of two"
    assert best_after("learned", Aligned(1, dimensions), 40) == 1.0
