"""A model whose one kernel, under a recipe, is two launches: a softmax's rows, then the sums of its columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

import engine
from tests.graph.models import model, node


def columns_of_a_softmax(folder: Path) -> tuple[str, str]:
    """Paths of the model and of the recipe, written to a folder.

    The recipe asks for the general family, which runs on a grid of rows and then on one of columns.
    """
    nodes = [node("Softmax", "x", "y", axis=1), node("ReduceSum", "y axes", "c", keepdims=0)]
    made = model(nodes, {"x": (96, 128)}, ["c"], {"axes": np.array([0], np.int64)})
    onnx.save(made, folder / "columns.onnx")
    (group,) = engine.fuse(engine.load(folder / "columns.onnx")).groups
    first = group.program.statements[0]
    general = engine.entry(first.name, mark=("family", "general"), at="outermost", required=True)
    recipe = engine.default_recipe(group).advise("user", general, group=group.name)
    (folder / "recipe.json").write_text(json.dumps(recipe.to_json()), encoding="utf-8")
    return str(folder / "columns.onnx"), str(folder / "recipe.json")
