"""Attentions of many shapes and masks as ONNX files, with what they compute in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx

import engine
from engine.fusion.group_times import Saving
from tests.semantics.single import Node, write_model

MASKED = {"float32": -3.0e38, "float16": -65504.0}
"""What exporters add to a score that may not count: the lowest finite number, or close to it."""


@dataclass(frozen=True)
class Attention:
    """Sizes and the mask of one attention; several heads of queries may share one of keys and values."""

    queries: int = 40
    keys: int = 40
    depth: int = 32
    head: int = 32
    dtype: str = "float16"
    batch: int = 1
    heads: int = 2
    shared_by: int = 1
    """Heads of queries for each head of keys."""
    mask: str = ""
    """"", "add" (every score its own), "padding" (one for each key), "causal" (Where of positions), "infinite" (rows
    of -inf at the start), "lowest" (rows of the lowest number); in the file itself "triangle" (-inf behind a diagonal),
    "low triangle" (the lowest number there) and "chosen triangle" (Where of what Trilu leaves of ones)."""
    scale: str = "after"
    """Where scores are scaled: "after" the product, "before" (both factors), or "" for nowhere."""

    def model(self, folder: Path, *more: Node, outputs: tuple[str, ...] = ("y",)) -> Path:
        """The attention as a file; `more` nodes may read "p" (the softmax), "s" (the scores) and "y"."""
        kept = self.heads // self.shared_by
        inputs = {
            "q": (self.dtype, (self.batch, self.heads, self.queries, self.depth)),
            "k": (self.dtype, (self.batch, kept, self.keys, self.depth)),
            "v": (self.dtype, (self.batch, kept, self.keys, self.head)),
        }
        constants = {"factor": np.array(self.factor, self.dtype)}
        nodes: list[Node] = []
        keys, values = self._shared("k", nodes, constants), self._shared("v", nodes, constants)
        nodes.append(("Transpose", [keys], ["kt"], {"perm": [0, 1, 3, 2]}))
        left, right = "q", "kt"
        if self.scale == "before":
            nodes += [("Mul", [left, "factor"], ["qs"], {}), ("Mul", [right, "factor"], ["ks"], {})]
            left, right = "qs", "ks"
        nodes.append(("MatMul", [left, right], ["s"], {}))
        scores = "s"
        if self.scale == "after":
            nodes.append(("Mul", [scores, "factor"], ["scaled"], {}))
            scores = "scaled"
        if self.mask == "causal":
            inputs["allowed"] = ("bool", (self.queries, self.keys))
            constants["lowest"] = np.array(-np.inf, self.dtype)
            nodes.append(("Where", ["allowed", scores, "lowest"], ["masked"], {}))
            scores = "masked"
        elif self.mask == "chosen triangle":
            constants |= {
                "ones": np.ones((self.queries, self.keys), np.float32), "lowest": np.array(-np.inf, self.dtype),
                "ahead": np.array(self.keys - self.queries, np.int64),
            }  # fmt: skip
            nodes.append(("Trilu", ["ones", "ahead"], ["triangle"], {"upper": 0}))
            nodes.append(("Cast", ["triangle"], ["counts"], {"to": onnx.TensorProto.BOOL}))
            nodes.append(("Where", ["counts", scores, "lowest"], ["masked"], {}))
            scores = "masked"
        elif "triangle" in self.mask:
            constants["mask"] = self.triangle.astype(self.dtype)
            nodes.append(("Add", [scores, "mask"], ["masked"], {}))
            scores = "masked"
        elif self.mask:
            rows = 1 if self.mask == "padding" else self.queries
            inputs["mask"] = (self.dtype, (self.batch, 1, rows, self.keys))
            nodes.append(("Add", [scores, "mask"], ["masked"], {}))
            scores = "masked"
        nodes += [("Softmax", [scores], ["p"], {"axis": -1}), ("MatMul", ["p", values], ["y"], {})]
        return write_model(folder / "attention.onnx", [*nodes, *more], inputs, outputs, constants)

    @property
    def triangle(self) -> np.ndarray:
        """The mask of a file that holds one: the last query has all keys."""
        counts = np.arange(self.keys) <= np.arange(self.queries)[:, None] + self.keys - self.queries
        return np.where(counts, 0.0, MASKED[self.dtype] if self.mask == "low triangle" else -np.inf)

    def _shared(self, name: str, nodes: list[Node], constants: dict[str, np.ndarray]) -> str:
        """Keys or values for every head of queries, as exporters repeat them."""
        if self.shared_by == 1:
            return name
        size = self.depth if name == "k" else self.head
        kept = self.heads // self.shared_by
        constants |= {
            "axis": np.array([2], np.int64),
            f"{name}_wide": np.array([self.batch, kept, self.shared_by, self.keys, size], np.int64),
            f"{name}_flat": np.array([self.batch, self.heads, self.keys, size], np.int64),
        }
        nodes += [
            ("Unsqueeze", [name, "axis"], [f"{name}5"], {}),
            ("Expand", [f"{name}5", f"{name}_wide"], [f"{name}w"], {}),
            ("Reshape", [f"{name}w", f"{name}_flat"], [f"{name}f"], {}),
        ]
        return f"{name}f"

    @property
    def factor(self) -> float:
        """Of the scores, or of each factor where both are scaled."""
        return float(self.depth ** (-0.25 if self.scale == "before" else -0.5))

    def values(self, seed: int) -> dict[str, np.ndarray]:
        """Random inputs."""
        draw = np.random.default_rng(seed)
        kept = self.heads // self.shared_by
        found = {
            "q": draw.standard_normal((self.batch, self.heads, self.queries, self.depth)),
            "k": draw.standard_normal((self.batch, kept, self.keys, self.depth)),
            "v": draw.standard_normal((self.batch, kept, self.keys, self.head)),
        }
        wide = (self.batch, 1, self.queries, self.keys)
        match self.mask:
            case "add":
                found["mask"] = draw.standard_normal(wide)
            case "padding":
                found["mask"] = np.where(np.arange(self.keys) < self.keys - 5, 0.0, MASKED[self.dtype])
                found["mask"] = np.broadcast_to(found["mask"], (self.batch, 1, 1, self.keys))
            case "causal":
                allowed = np.arange(self.keys) <= np.arange(self.queries)[:, None] + self.keys - self.queries
                return {n: x.astype(self.dtype) for n, x in found.items()} | {"allowed": allowed}
            case "infinite" | "lowest":
                lowest = -np.inf if self.mask == "infinite" else MASKED[self.dtype]
                found["mask"] = np.where(draw.random(wide) < 0.5, lowest, 0.0)
                found["mask"][:, :, :, : self.keys // 2] = lowest
                found["mask"][:, :, -1] = lowest
        return {n: np.ascontiguousarray(x.astype(self.dtype)) for n, x in found.items()}

    def result(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """The attention in float64; scores too large for its element type end as that type ends them."""
        q, k, v = (given[n].astype(np.float64) for n in "qkv")
        k, v = (np.repeat(x, self.shared_by, axis=1) for x in (k, v))
        factor = {"after": self.factor, "before": self.factor**2, "": 1.0}[self.scale]
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) * factor
        with np.errstate(all="ignore"):
            if "allowed" in given:
                scores = np.where(given["allowed"], scores, -np.inf)
            elif "triangle" in self.mask:
                scores = scores + self.triangle
            elif "mask" in given:
                mask = given["mask"].astype(np.float64)
                scores = np.where(mask <= MASKED[self.dtype], np.minimum(mask, MASKED[self.dtype]), scores + mask)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            return np.asarray((weights / weights.sum(-1, keepdims=True)) @ v)

    def group(self, folder: Path) -> engine.FusionGroup:
        """The group of the whole attention, also where several kernels are predicted to be faster."""
        with patch.object(Saving, "pays", True):
            plan = engine.fuse(engine.load(self.model(folder)))
        (group,) = [g for g in plan.groups if g.kind == "attention"]
        return group


def inputs_of(kernel: engine.Kernel, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that a kernel reads, from the inputs of the file."""
    tensors = kernel.group.instances[0].arrays
    return {b.array: given[tensors[b.array]] for b in kernel.source.buffers if b.read}
