"""The way of an attention's gradient to its queries, as training graphs have it, with what it is in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

import engine
from engine.fusion.group_times import Saving
from tests.semantics.single import Node, write_model

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class QueryGradient:
    """Sizes of one: from that of the results (do), values, weights (p) and keys to that of the queries (dq)."""

    queries: int = 40
    keys: int = 40
    head: int = 32
    batch: int = 2
    heads: int = 2
    dtype: str = "float32"
    is_given: bool = False
    """Whether the sums of rows are an input, as where they are made of results and their gradient."""
    is_flat: bool = False
    """Whether batches and heads are one axis of the products and two of what lies between, as `bmm` and views are."""
    outputs: tuple[str, ...] = ("dq", "ds")

    @property
    def factor(self) -> float:
        """That scores were scaled by."""
        return 0.125

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the inputs."""
        both = (self.batch * self.heads,) if self.is_flat else (self.batch, self.heads)
        wide = (self.batch, self.heads, self.queries)
        found = {name: (*both, size, self.head) for name, size in
                 (("do", self.queries), ("v", self.keys), ("k", self.keys))}  # fmt: skip
        return found | {"p": (*wide, self.keys)} | ({"delta": (*wide, 1)} if self.is_given else {})

    def model(self, folder: Path, *more: Node, outputs: tuple[str, ...] = ()) -> Path:
        """The operators as a file; `more` may read "dp", "ds" and "dq"."""
        last = len(self.shapes["v"]) - 1
        swapped = [*range(last - 1), last, last - 1]
        constants = {"axes": np.array([-1]), "factor": np.array(self.factor, self.dtype)}
        nodes: list[Node] = [("Transpose", ["v"], ["vt"], {"perm": swapped}), ("MatMul", ["do", "vt"], ["dp"], {})]
        scores, weights = "dp", "ds"
        if self.is_flat:
            constants |= {
                "apart": np.array([self.batch, self.heads, self.queries, self.keys]),
                "together": np.array([self.batch * self.heads, self.queries, self.keys]),
            }
            nodes.append(("Reshape", ["dp", "apart"], ["dp4"], {}))
            scores, weights = "dp4", "ds3"
        if self.is_given:
            nodes += [("Sub", [scores, "delta"], ["c"], {}), ("Mul", ["c", "p"], ["u"], {})]
        else:
            nodes += [
                ("Mul", [scores, "p"], ["t"], {}), ("ReduceSum", ["t", "axes"], ["delta"], {"keepdims": 1}),
                ("Mul", ["p", "delta"], ["pd"], {}), ("Sub", ["t", "pd"], ["u"], {}),
            ]  # fmt: skip
        nodes.append(("Mul", ["u", "factor"], ["ds"], {}))
        if self.is_flat:
            nodes.append(("Reshape", ["ds", "together"], ["ds3"], {}))
        nodes.append(("MatMul", [weights, "k"], ["dq"], {}))
        inputs = {name: (self.dtype, shape) for name, shape in self.shapes.items()}
        return write_model(folder / "gradient.onnx", [*nodes, *more], inputs, outputs or self.outputs, constants)

    def values(self, seed: int) -> Arrays:
        """Random inputs; rows of weights add up to 1."""
        draw = np.random.default_rng(seed)
        found = {name: draw.standard_normal(shape) for name, shape in self.shapes.items()}
        weights = np.exp(found["p"])
        found["p"] = weights / weights.sum(-1, keepdims=True)
        return {name: np.ascontiguousarray(array.astype(self.dtype)) for name, array in found.items()}

    def result(self, given: Mapping[str, np.ndarray]) -> Arrays:
        """All results in float64."""
        wide = (self.batch, self.heads, -1, self.head)
        do, v, k = (given[n].astype(np.float64).reshape(wide) for n in ("do", "v", "k"))
        p = given["p"].astype(np.float64)
        dp = np.einsum("bhqd,bhkd->bhqk", do, v)
        delta = given["delta"].astype(np.float64) if self.is_given else (dp * p).sum(-1, keepdims=True)
        ds = p * (dp - delta) * self.factor
        return {"dp": dp, "ds": ds, "dq": np.einsum("bhqk,bhkd->bhqd", ds, k)}

    def group(self, folder: Path, *more: Node, outputs: tuple[str, ...] = ()) -> engine.FusionGroup:
        """The group of both products, also where two kernels are predicted to be faster."""
        with patch.object(Saving, "pays", True):
            plan = engine.fuse(engine.load(self.model(folder, *more, outputs=outputs)))
        (group,) = [g for g in plan.groups if g.kind == "chained products"]
        return group
