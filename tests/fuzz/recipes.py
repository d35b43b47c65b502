"""Broken recipes and advice: `python -m tests.fuzz.recipes --seed N --count 10000 [--jobs 2]`.

A recipe of a small model, or an advice file in AKG's published format, is edited as JSON.  Then it is read, completed
for its model and compiled.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import engine
from engine.fusion.stitching.nodes import POLICIES
from engine.recipe.entries import ENTRY_FIELDS, MARKS, REWRITES
from engine.support.errors import Illegal, Unsupported
from tests.fuzz import processes
from tests.fuzz.json_edits import broken
from tests.fuzz.processes import Case, command
from tests.scheduling.published_files import adding, file_for
from tests.support.commands import MODELS

SMALL = ("softmax_96x512", "column_sum_1000x384", "add_relu_odd_3x5x127", "transpose_2x12x64x64",
         "matmul_bias_gelu_128x256x512")  # fmt: skip
MOST_EDITS = 3
GROUPS = 4
"""Kernels compiled of one recipe."""
REFUSALS = (*processes.REFUSALS, Illegal)
"""A recipe may ask for a schedule that breaks a dependence, and require it."""

PLACES = ("outermost", "innermost", "depth 0", "depth 1", "depth 9999", "after i", "i", "j", "k", "S0", "S1", "S2")
ENTRIES: tuple[dict[str, Any], ...] = tuple(
    {"statements": statements, "dimension": dimension, "field": field, "value": value, "required": required}
    for required in (False, True)
    for statements in ([], ["S0"], ["S1", "S0"])
    for dimension, field, value in (
        ("innermost", "pin", ["j"]), ("outermost", "parallel", True), ("i", "split", 4), ("", "rewrite", ["online"]),
        ("", "cut", [["S0"], ["S1"]]), ("outermost", "mark", ["block", 64]), ("innermost", "mark", ["vector", 8]),
        ("i", "mark", ["tile", 7]), ("", "mark", ["stages", 4]), ("i", "equal", ["S1"]),
        ("", "terms", [["i", 1], ["j", 2]]), ("", "objective", [[1, "i"], [2, "j"]]), ("i", "mark", ["unroll", 10**6]),
        ("j", "split", 2**31),
    )
)  # fmt: skip
WORDS = (*ENTRIES, *ENTRIES, *PLACES, *ENTRY_FIELDS, *MARKS, *REWRITES, *POLICIES, "policy", "groups", "apart", "user",
         "tune", "a100", "h100", '[["a", "b"]]')  # fmt: skip
DOMAIN = "{ S_0[a0, a1] : 0 <= a0 <= 47 and 0 <= a1 <= 15 }"
ADVICE_WORDS = ("coefficients", "meta", "statement", "gpu", "blocks", "threads", "swizzle", "S_0", "S_0[a0]", DOMAIN,
                "[1, 0]", "[0, 1, ?1]", "[1, 1, 0]", "[0, 1, 0] (%4)", "[0, 1, 0] (/999999999)", "[?, ?, ?]",
                "{ S_0[a0, a1] : 0 <= a0 <= 2147483647 and 0 <= a1 <= 15 }", [0, 1, 2], [0, 0])  # fmt: skip
ROWS = ["[0, 1, ?1] (/4)", "[1, 0, ?]", "[0, 1, ?1] (%4)"]
SHAPE = (48, 16)
PUBLISHED: dict[str, Any] = {
    "pattern": f'{{ domain: "{DOMAIN}", child: {{ schedule: "[{{ S_0[a0, a1] -> [(a0)] }}]", '
    'child: { schedule: "[{ S_0[a0, a1] -> [(a1)] }]" } } }',
    **file_for(SHAPE, ROWS, blocks=[0], threads=[1], swizzle=[2]),
    "disable": ["TileOuterBand"],
}


@lru_cache(maxsize=1)
def _advised() -> engine.FusionGroup:
    """The operator that the published advice is for."""
    return adding(Path(mkdtemp(prefix="fuzz-")), SHAPE)


@lru_cache(maxsize=32)
def _plan(model: str) -> engine.FusionPlan:
    return engine.fuse(engine.load(MODELS / f"{model}.onnx"))


@lru_cache(maxsize=32)
def _recipe(model: str) -> Any:
    return engine.default_recipe(_plan(model)).to_json()


def mutant(seed: int, number: int) -> tuple[str, bytes]:
    """Name and content of file `number` of a seed: a name begins with that of its model."""
    random = Random(f"recipe {seed} {number}")
    model = random.choice(SMALL)
    if random.random() < 0.25:
        return "add.advice.json", broken(PUBLISHED, ADVICE_WORDS, random, MOST_EDITS)
    recipe = json.loads(json.dumps(_recipe(model)))
    for advice in recipe["groups"].values():
        entries = random.sample(ENTRIES, random.choice((0, 1, 3)))
        advice.append({"author": "user", "scenario": {"entries": entries, "alternatives": [], "label": ""}})
    return f"{model}.recipe.json", broken(recipe, WORDS, random, MOST_EDITS)


def cases(seed: int) -> Case:
    """The cases of a seed."""

    def case(number: int, folder: Path) -> None:
        name, data = mutant(seed, number)
        (folder / name).write_bytes(data)
        use(folder / name)

    return case


def use(path: Path) -> None:
    """Read a recipe or an advice file for the model in its name, and compile."""
    model, kind, _ = path.name.split(".")
    if kind == "advice":
        advice = engine.published_advice(path, _advised())
        engine.compile(_advised(), engine.default_recipe(_advised()).with_group(_advised().name, advice))
        return
    given = engine.read_recipe(path)
    policy, fixed = engine.fusion_choices(given, path.name)
    graph = engine.load(MODELS / f"{model}.onnx", given.dimensions)
    plan = engine.fuse(graph, given.target, policy, fixed)
    recipe = engine.complete_recipe(given, plan, path.name)
    assert engine.Recipe.loads(recipe.dumps()) == recipe, "what is read is written and read again"
    for group in plan.groups[:GROUPS]:
        try:
            engine.compile(group, recipe)
        except (Unsupported, Illegal):
            continue


def warm_up() -> None:
    """Read and compile everything once, before cases are forked."""
    for model in SMALL:
        _recipe(model)
        engine.compile(_plan(model).groups[0])


def main() -> int:
    warm_up()
    return command("tests.fuzz.recipes", (__doc__ or "").splitlines()[0], cases, use, REFUSALS)


if __name__ == "__main__":
    raise SystemExit(main())
