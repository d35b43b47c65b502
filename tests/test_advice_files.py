"""Recipes and advice trees as files: what they replace, and how the ones that do not fit are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine
from tests.support.commands import MODELS, SOFTMAX, document, loomscope, refused

GROUP = "softmax_0"


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], str]:
    """Writes advice text and gives its path."""

    def write(text: str) -> str:
        path = tmp_path / "tree.advice"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., str]:
    """Writes the default recipe with some keys replaced and gives its path."""

    def write(**keys: Any) -> str:
        path = tmp_path / "recipe.json"
        assert loomscope("recipe", SOFTMAX, "-o", str(path)).returncode == 0
        path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
        return str(path)

    return write


def advice(statement: str, field: str = "parallel", value: object = True) -> list[dict[str, Any]]:
    entry = {"statements": [statement], "dimension": "outermost", "field": field, "value": value}
    return [{"author": "user", "scenario": {"entries": [entry]}}]


def verdicts(*arguments: str) -> dict[str, str]:
    (group,) = document("schedule", SOFTMAX, *arguments)["groups"]
    return {row["entry"]: row["verdict"] for row in group["verdicts"]}


def test_a_tree_stands_beside_the_advisers_and_replaces_its_own_authors(tree: Callable[[str], str]) -> None:
    advisers = verdicts()
    path = tree("advice user\n  all @ i: mark block 4  # tried\nadvice map\n  S0, S2 @ innermost: mark lane 16\n")
    found = verdicts("--tree", path, "--group", GROUP)
    assert found.pop("all @ i: mark block 4") == "honoured"
    assert found.pop("S0, S2 @ innermost: mark lane 16") == "honoured"
    assert found.keys() == {entry for entry in advisers if "mark vector" in entry}


def test_a_tree_rewrites_the_program_before_it_is_scheduled(tree: Callable[[str], str], tmp_path: Path) -> None:
    line = "rewrite recompute S1 in S3"
    path, made = tree(f"advice user\n  {line}  # because exp is cheap\n"), tmp_path / "made.json"
    assert verdicts("--tree", path)[line] == "honoured"
    assert "exp(" in loomscope("schedule", SOFTMAX, "--tree", path).stdout.split("S3", 2)[2]
    assert loomscope("recipe", SOFTMAX, "--tree", path, "-o", str(made)).returncode == 0
    assert verdicts("--recipe", str(made)) == verdicts("--tree", path)
    told = loomscope("explain", SOFTMAX, "--group", GROUP, "--recipe", str(made)).stdout
    assert f"user: {line} (because exp is cheap): honoured: S1 stays" in told
    checked = document("verify", SOFTMAX, "--recipe", str(made))
    assert checked["summary"] == {"pass": 1, "fail": 0, "unsupported": 0}


def test_a_tree_replaces_the_users_part_of_a_recipe(tree: Callable[[str], str], recipe: Callable[..., str]) -> None:
    made = recipe(groups={GROUP: advice("S0")})
    assert verdicts("--recipe", made) == {"S0 @ outermost: parallel true": "honoured"}
    path = tree("advice user\n  S1 @ outermost: parallel true\n")
    assert verdicts("--recipe", made, "--tree", path) == {"S1 @ outermost: parallel true": "honoured"}


def test_a_required_entry_that_cannot_hold_shows_its_witness(tree: Callable[[str], str]) -> None:
    path = tree("advice user\n  required S1 @ outermost: cut S3 | S0 S1 S2\n")
    done = loomscope("schedule", SOFTMAX, "--tree", path, "--json")
    assert done.returncode == 1
    assert "S1[i=0, j=0] writes y_exp[0, 0], S3[i=0, j=0] reads it first" in done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    assert group["legal"] is False
    assert "infeasible" in {row["verdict"] for row in group["verdicts"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("advice user\n  all @ i\n", ("tree.advice, line 2",)),
        ("advice wizard\n", ("tree.advice, line 1", "wizard")),
        ("advice user\n  rewrite recompute S1 in S9\n", ("tree.advice", "S9", "S0, S1, S2, S3")),
        ("advice user\n  rewrite fast S1\n", ("tree.advice, line 2", "no rewrite is called 'fast'", "associative")),
        ("advice user\n  S9 @ i: split 4\n", ("tree.advice", "S9", "S0, S1, S2, S3")),
        ('{"pattern": []}', ("tree.advice", "pattern is a list, not text")),
    ],
)
def test_a_tree_that_cannot_be_read_is_refused_by_its_place(
    tree: Callable[[str], str], text: str, words: tuple[str, ...]
) -> None:
    message = refused("schedule", SOFTMAX, "--tree", tree(text))
    assert all(word in message for word in words), message


def test_a_tree_for_one_of_many_groups_must_say_which(tree: Callable[[str], str]) -> None:
    assert "--group" in refused("schedule", "example", "--tree", tree("advice user\n"))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"version": 3}, ("recipe.json", "version", "3 is newer")),
        ({"target": "h300"}, ("h300", "h200")),
        ({"colour": "red"}, ("recipe.json", "colour")),
        ({"groups": {"softmax_7": []}}, ("recipe.json", "softmax_7", GROUP)),
        ({"groups": {GROUP: advice("S9")}}, ("recipe.json", GROUP, "S9", "S0, S1, S2, S3")),
        ({"groups": {GROUP: advice("S0", "glow", 1)}}, ("recipe.json", GROUP, "glow")),
        ({"dimensions": {"batch": 4}}, ("batch",)),
    ],
)
def test_a_recipe_that_does_not_fit_is_refused_in_words(
    recipe: Callable[..., str], keys: dict[str, Any], words: tuple[str, ...]
) -> None:
    message = refused("predict", SOFTMAX, "--recipe", recipe(**keys))
    assert all(word in message for word in words), message


def test_every_verb_that_compiles_takes_a_recipe(recipe: Callable[..., str], tmp_path: Path) -> None:
    made = recipe(groups={GROUP: advice("S0", "mark", ["block", 2])}, target="a100")
    option = ("--recipe", made)
    (group,) = document("schedule", SOFTMAX, *option)["groups"]
    assert [row["verdict"] for row in group["verdicts"]] == ["honoured"]
    (kernel,) = document("generate", SOFTMAX, "-o", str(tmp_path / "out"), *option)["kernels"]
    assert kernel["grid"] == [48, 1, 1]
    (check,) = document("verify", SOFTMAX, *option)["groups"]
    assert (check["status"], check["blocks_total"]) == ("pass", 48)
    with_recipe, default = (document("predict", SOFTMAX, *more)["microseconds"] for more in (option, ()))
    assert with_recipe != default
    explained = loomscope("explain", SOFTMAX, "--group", GROUP, *option)
    assert "mark block 2" in explained.stdout


def test_the_target_of_the_command_line_wins_over_the_recipes(recipe: Callable[..., str]) -> None:
    option = ("--recipe", recipe(target="a100"))
    slow, fast = (document("predict", SOFTMAX, *option, *more)["microseconds"] for more in ((), ("--target", "h200")))
    assert fast < slow


@pytest.mark.parametrize("verb", ["predict", "measure", "generate"])
def test_a_required_entry_that_cannot_hold_ends_the_verb(recipe: Callable[..., str], verb: str, tmp_path: Path) -> None:
    (user,) = advice("S1", "cut", [["S3"], ["S0", "S1", "S2"]])
    user["scenario"]["entries"][0]["required"] = True
    more = ("-o", str(tmp_path / "out")) if verb == "generate" else ()
    assert "reads it first" in refused(verb, SOFTMAX, "--recipe", recipe(groups={GROUP: [user]}), *more, code=1)


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("numerics", {"accumulate": "float64"}),
        ("numerics", {"tensor_cores": "int4"}),
        ("fusion", {"pack": "everything"}),
    ],
)
def test_choices_of_a_recipe_that_nothing_follows_are_refused(
    recipe: Callable[..., str], field: str, asked: dict[str, str]
) -> None:
    told = refused("schedule", SOFTMAX, "--recipe", recipe(**{field: asked}))
    assert "which nothing here follows" in told and ".json" in told
    assert loomscope("schedule", SOFTMAX, "--recipe", recipe(**{field: {}})).returncode == 0


def test_numerics_of_a_recipe_file_reach_the_kernels(tmp_path: Path) -> None:
    """float32 products run on tensor cores only where the file says that they may be rounded to tf32."""
    model = str(MODELS / "matmul_bias_gelu_128x256x512.onnx")
    for numerics, used in (({"tensor_cores": "tf32"}, True), ({}, False)):
        path = tmp_path / "r.json"
        engine.write_recipe(engine.Recipe("h200", numerics=numerics), path)
        out = tmp_path / f"kernels-{used}"
        assert loomscope("generate", model, "--recipe", str(path), "-o", str(out)).returncode == 0
        (kernel,) = json.loads((out / "manifest.json").read_text())["kernels"]
        assert kernel["tensor_cores"] is used
