"""Distribute trials: rounds go to subgraphs by expected gain, a round's trials to mappings by sampling.

Ansor's gradients and GTA's sampling of mappings, as published; every decision carries the figures it is based on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

ALPHA = 0.2
"""Weight of the past improvement of a subgraph against the expected one."""
BETA = 2.0
"""Factor by which a subgraph may become faster than the fastest similar one, and by which it may stay slower."""
WINDOW = 3
"""Rounds over which the past improvement is averaged."""
PATIENCE = 5
"""Rounds more than all similar ones after which a slow subgraph counts as similar to none."""
EXPLORE = 0.2
"""Probability that a mapping's share is raised, and the total of the raises (0.1 for single operators)."""
KEEP = 0.2
"""Part of the mappings that the next round tries."""
NAMED = 8
"""Mappings left out of a round that its reason names."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """State of one subgraph; equal subgraphs of a model are one."""

    name: str
    best: tuple[float, ...]
    """Best time after each round, in microseconds; infinite while nothing ran."""
    flops: float
    """Floating-point operations of one instance."""
    weight: float = 1.0
    """Instances in the model: what a microsecond of one is worth (1 in the published code)."""
    similar: str = ""
    """Subgraphs with the same word are similar; "" for none."""
    is_exhausted: bool = False
    """Whether its space holds nothing that was not tried."""
    stagnant: int = 0
    """Rounds since its time last became better."""
    hope: float = 0.0
    """Microseconds that the most promising program that was not tried may take; 0 where nothing is promised."""

    @property
    def time(self) -> float:
        """The best so far."""
        return self.best[-1] if self.best else math.inf

    @property
    def most_saved(self) -> float:
        """Microseconds of the model that further rounds may save at most; infinite while nothing ran."""
        return self.weight * max(self.time - self.hope, 0.0)

    @property
    def speed(self) -> float:
        """Operations in a microsecond."""
        return self.flops / self.time


@dataclass(frozen=True, slots=True)
class Prospect:
    """Expected effect of one more round of a subgraph."""

    subgraph: str
    backward: float
    """Microseconds that a round changed lately; negative where it became faster."""
    forward: float
    """Microseconds that the next round may change."""
    gradient: float
    """Of the whole model's time: the most negative one gets the round."""


@dataclass(frozen=True, slots=True)
class RoundChoice:
    """The subgraph that gets the next round, and why."""

    subgraph: str
    because: str
    prospects: tuple[Prospect, ...]
    done: Mapping[str, float] = field(default_factory=dict)
    """Subgraphs that get no more rounds for what they may still save: name -> microseconds of the model."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Which mappings of a subgraph the next round tries."""

    shares: Mapping[str, float]
    """By speed, raised by chance: larger is tried first."""
    raised: tuple[str, ...]
    kept: tuple[str, ...]
    """Largest share first."""
    because: str


def backward(best: Sequence[float]) -> float:
    """(g(t) - g(t - WINDOW)) / WINDOW, from the best time after each round; 0 before there are as many."""
    if len(best) <= WINDOW or math.isinf(best[-1 - WINDOW]):
        return 0.0
    return (best[-1] - best[-1 - WINDOW]) / WINDOW


def forward(one: Subgraph, similar: Sequence[Subgraph]) -> float:
    """min(g - g / t, BETA * C / max(C_k / g_k)) - g: what the next round may change.

    similar: subgraphs with the same tag, itself among them or not.
    """
    by_rounds = one.time - one.time / len(one.best)
    fastest = max((other.speed for other in (one, *similar)), default=0.0)
    by_others = BETA * one.flops / fastest if fastest else math.inf
    return min(by_rounds, by_others) - one.time


def prospect(one: Subgraph, among: Sequence[Subgraph]) -> Prospect:
    """weight * (ALPHA * backward + (1 - ALPHA) * forward): the gradient of the sum of all weighted times."""
    similar = [other for other in among if other.similar and other.similar == one.similar]
    past, hope = backward(one.best), forward(one, similar)
    return Prospect(one.name, past, hope, one.weight * (ALPHA * past + (1 - ALPHA) * hope))


def not_worth_it(subgraphs: Sequence[Subgraph], least: float) -> dict[str, float]:
    """Subgraphs whose further rounds would all together save less than that part of the model's time, and how much each
    may save at most."""
    left = least * sum(one.weight * one.time for one in subgraphs if math.isfinite(one.time))
    done: dict[str, float] = {}
    for one in sorted((one for one in subgraphs if one.best), key=lambda one: one.most_saved):
        left -= one.most_saved
        if left <= 0:
            break
        done[one.name] = one.most_saved
    return done


def next_round(
    subgraphs: Sequence[Subgraph], rng: random.Random, limit: float = math.inf, least: float = 0.0
) -> RoundChoice | None:
    """The subgraph of the next round: each once, then the most negative gradient; None where all are dead.

    limit: rounds without gain after which a subgraph is dead, as it is where its space is exhausted.  least: part of
    the model's time, less than which the dead may save at most by further rounds.
    """
    done = not_worth_it(subgraphs, least)
    alive = [one for one in subgraphs if not one.is_exhausted and one.stagnant <= limit and one.name not in done]
    for one in alive:
        if not one.best:
            return RoundChoice(one.name, "the first round of each", ())
    for one in alive:
        if math.isinf(one.time):
            return RoundChoice(one.name, "nothing of it ran yet", ())
    if not alive:
        return None
    prospects = tuple(prospect(one, subgraphs) for one in alive)
    if len({p.gradient for p in prospects}) == 1 < len(prospects):
        name = rng.choice(prospects).subgraph
        return RoundChoice(name, "all gain as much: by chance", prospects, done)
    best = min(prospects, key=lambda p: p.gradient)
    because = f"{-best.gradient:.3g} µs of the model expected, more than of any other"
    return RoundChoice(best.subgraph, because, prospects, done)


def without_outsiders(subgraphs: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs, without a similarity tag for one that stays slow though it had the most rounds.

    That is: its speed is below the best of them / BETA, after more than PATIENCE rounds above every other.
    """

    def is_outsider(one: Subgraph) -> bool:
        others = [o for o in subgraphs if o.similar and o.similar == one.similar and o is not one]
        if not others:
            return False
        fastest = max(other.speed for other in (one, *others))
        return one.speed < fastest / BETA and len(one.best) > PATIENCE + max(len(other.best) for other in others)

    return [replace(one, similar="") if is_outsider(one) else one for one in subgraphs]


def sample(times: Mapping[str, float], rng: random.Random, explore: float = EXPLORE, keep: float = KEEP) -> Sample:
    """The mappings that the next round tries.

    times: best time of each mapping, infinite where it has none.  A share is the part of the sum of all speeds; with
    probability `explore` each is raised by explore / mappings; floor(keep * mappings) with the largest shares stay,
    all of them where that is 0.  Pruned mappings may come back, as their shares may be raised.
    """
    speeds = {name: 0.0 if math.isinf(time) else 1 / time for name, time in times.items()}
    total = sum(speeds.values())
    shares = {name: speed / total if total else 1 / len(times) for name, speed in speeds.items()}
    raised = tuple(name for name in times if rng.random() < explore)
    shares |= {name: shares[name] + explore / len(times) for name in raised}
    count = math.floor(keep * len(times) + 1e-9)
    ranked = sorted(times, key=lambda name: -shares[name])
    kept = tuple(ranked[:count] if count else ranked)
    because = f"{len(kept)} of {len(times)} by speed, {len(raised)} raised by chance"
    left_out = [f"{name} at {times[name]:.3g} µs" for name in ranked[count:][:NAMED]]
    more = len(times) - count - len(left_out)
    because += f"; left out: {', '.join(left_out)}{f' and {more} more' if more else ''}"
    return Sample(shares, raised, kept, because if count else f"{len(times)} are too few to leave any out")

