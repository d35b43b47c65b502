"""Evolutionary search with a learned ranking: populations bred on what a model expects, few of them run.

Ansor's search in GTA's figures: part of each population descends from the best that was tried, children change one
dimension or mix two parents, a few proposals are drawn by chance.  LightGBM ranks by the figures of programs; until it
has seen enough, the modelled times do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from engine.kernels.space import Program
from engine.tuning.candidate_pool import Candidates
from engine.tuning.strategy import ProgramSpace, Result, Strategy

POPULATION, GENERATIONS = 512, 6
MUTATION = 0.85
"""Part of the children that change one dimension of a parent; the others mix two."""
SURVIVORS = 0.2
"""Part of a population that descends from the best programs tried."""
CHANCE = 0.05
"""Part of the proposals that are drawn by chance."""
BATCH = 8
"""Proposals of one population, and results after which another one is bred."""
ENOUGH = 10
"""Results from which a ranking is learned."""
MOST = 2000
"""The last results that are learned from."""
LEVELS = 31
"""Grades of relevance, the fastest has the highest."""


Judge = Callable[[np.ndarray], np.ndarray]
"""Rows of figures -> how good each is expected to be."""


class Ranking:
    """LightGBM's lambdarank over the figures of programs; the same results in the same order give the same ranking."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(self, features: np.ndarray, times: np.ndarray) -> Judge:
        """What says how good programs, a row of figures each, are expected to be: higher is faster.

        features, times: a row of figures and the logarithm of the time of each program that was tried.
        """
        import lightgbm  # takes a second to import, and most runs never learn

        order = np.argsort(np.argsort(times, kind="stable"), kind="stable")
        grades = LEVELS - (order * LEVELS) // max(len(times) - 1, 1)
        data = lightgbm.Dataset(features, grades, group=[len(times)], params={"verbosity": -1, "min_data_in_bin": 1})
        parameters = {
            "objective": "lambdarank", "label_gain": list(range(LEVELS + 1)), "learning_rate": 0.1, "num_leaves": 15,
            "min_data_in_leaf": max(2, len(times) // 25), "lambdarank_truncation_level": max(10, len(times) // 4),
            "seed": self._seed, "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1,
        }  # fmt: skip
        model = lightgbm.train(parameters, data, num_boost_round=60)
        return lambda ask: np.asarray(model.predict(ask, num_threads=1))


class Evolution:
    """Proposals of the last population, until enough was learned for the next."""

    def __init__(self, space: ProgramSpace, rng: random.Random) -> None:
        self._candidates, self._rng = Candidates(space), rng
        self._ranking = Ranking(rng.randrange(1 << 30))
        self._queue: list[int] = []
        """Best last."""
        self._news = 0
        """Results since the population was bred."""

    def propose(self, count: int) -> list[Program]:
        """The best of the population, and a few by chance."""
        found: list[Program] = []
        candidates = self._candidates
        while len(found) < count and candidates.is_open.any():
            if not self._queue or self._news >= BATCH:
                self._queue, self._news = self._breed(max(BATCH, count)), 0
            number = self._queue.pop()
            if self._rng.random() < CHANCE:
                number = int(self._rng.choice(np.flatnonzero(candidates.is_open)))
            if candidates.is_open[number]:
                found.append(candidates.take(number))
        return found

    def learn(self, results: Sequence[Result]) -> None:
        """Take results in; the next population profits."""
        self._news += self._candidates.learn(results)

    def _breed(self, count: int) -> list[int]:
        """The best open programs of the last generation and those before it, best last."""
        candidates, fitness = self._candidates, self._fitness()
        seen = np.flatnonzero(candidates.is_open)
        if len(candidates.programs) > POPULATION * GENERATIONS:  # else breeding would only miss some of them
            population = self._first()
            bred = [population]
            for _ in range(GENERATIONS):
                population = self._children(population, fitness(population))
                bred.append(population)
            numbers = np.unique(np.concatenate(bred))
            numbers = numbers[candidates.is_open[numbers]]
            seen = numbers if numbers.size else seen
        order = np.argsort(fitness(seen), kind="stable")
        return [int(number) for number in seen[order][-count:]]

    def _first(self) -> np.ndarray:
        """Descendants of the best that were tried, some that the model promises most, and others by chance."""
        candidates = self._candidates
        numbers, times = candidates.observations()
        survivors = numbers[np.argsort(times, kind="stable")][: int(SURVIVORS * POPULATION)]
        promising = np.argsort(candidates.promised, kind="stable")[: int(SURVIVORS * POPULATION)]
        left = POPULATION - survivors.size - promising.size
        others = self._rng.sample(range(len(candidates.programs)), left)
        return np.concatenate([survivors, promising, others]).astype(int)

    def _fitness(self) -> Judge:
        """Numbers of programs -> how good each is: as the model promises, and as was learned once there is enough."""
        candidates = self._candidates
        tried, times = candidates.observations()
        if tried.size < ENOUGH:
            return lambda numbers: -candidates.promised[numbers]
        judge = self._ranking.fit(candidates.features(tried[-MOST:]), times[-MOST:])
        return lambda numbers: judge(candidates.features(numbers))

    def _children(self, population: np.ndarray, fitness: np.ndarray) -> np.ndarray:
        """As many again, of parents drawn by their place in the ranking."""
        order = np.argsort(fitness, kind="stable")
        weights = np.empty(len(population))
        weights[order] = np.arange(1, len(population) + 1)
        parents = self._rng.choices([int(one) for one in population], [float(w) for w in weights], k=2 * POPULATION)
        return np.array([self._child(*pair) for pair in zip(parents[::2], parents[1::2], strict=True)])

    def _child(self, one: int, other: int) -> int:
        """A neighbour of the first parent or a mix of both; the first itself where pruning took the child away."""
        candidates = self._candidates
        values = dict(candidates.programs[one].values)
        if self._rng.random() < MUTATION:
            open_dimensions = [name for name, choices in candidates.space.dimensions.items() if len(choices) > 1]
            name = self._rng.choice(open_dimensions)
            values[name] = self._rng.choice([v for v in candidates.space.dimensions[name] if v != values[name]])
        else:
            for name, value in candidates.programs[other].values:
                values[name] = value if self._rng.random() < 0.5 else values[name]
        child = Program(candidates.programs[one].mapping, tuple(values.items()))
        return candidates.numbers.get(child, one)


def evolutionary(space: ProgramSpace, rng: random.Random) -> Strategy:
    """Populations bred on a ranking that is learned."""
    return Evolution(space, rng)
