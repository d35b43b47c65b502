"""The models of the CPU's benchmark as files with their weights, for ONNX Runtime and for us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.execution.reference import constant_values
from engine.execution.runtime_session import replace_all
from engine.graph.onnx import model_of
from engine.suite.read import read_suite

SHARED = Path(__file__).parents[3] / "shared" / "models"
"""Real models, where they are."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that both run."""

    kind: str
    what: str
    write: Callable[[Path], None]
    """Writes the model's file."""


def rows(is_quick: bool) -> Iterator[Row]:
    """Products, memory-bound subgraphs, convolutions of GTA's list, attention, and two whole models."""
    products = [(128, 768, 768), (128, 3072, 768), (128, 768, 3072), (512, 512, 512), (1024, 1024, 1024)]
    products += [(256, 1024, 256)]
    for m, n, k in products[:3] if is_quick else products:
        yield Row("gemm", f"gemm-{m}x{n}x{k}", partial(_product, m, n, k))
    softmaxes, widths = [(1536, 128), (6144, 512), (1024, 4096)], [(128, 768), (4096, 768), (2048, 4096)]
    for m, n in softmaxes[:1] if is_quick else softmaxes:
        yield Row("fused", f"masked-softmax-{m}x{n}", partial(_softmax, m, n))
    for m, n in widths[:1] if is_quick else widths:
        yield Row("fused", f"add-layernorm-{m}x{n}", partial(_layernorm, m, n))
        yield Row("fused", f"bias-gelu-{m}x{n}", partial(_gelu, m, n))
        yield Row("fused", f"swiglu-{m}x{n}", partial(_swiglu, m, n))
    for row in read_suite("gta").rows:
        if row.name.startswith("conv2d-") and (row.name.endswith("-b1") or not is_quick):
            sizes = dict(row.sizes)
            yield Row("conv", row.name, partial(_convolution, sizes, False))
            yield Row("conv_int8", f"{row.name}-int8", partial(_convolution, sizes, True))
    for heads, length in [(12, 128)] if is_quick else [(12, 128), (12, 512)]:
        yield Row("attention", f"attention-{heads}x{length}x64", partial(_attention, heads, length))
    for kind, name in (("bert", "bert_base_b1_s128"), ("resnet", "resnet50_b1_ts13")):
        if (SHARED / f"{name}.onnx").is_file():
            yield Row(kind, name, partial(_shared, name))


def _save(path: Path, nodes: list[Any], inputs: dict[str, tuple[int, ...]], weights: dict[str, np.ndarray],
          kinds: dict[str, int] | None = None) -> None:  # fmt: skip
    """A model of some nodes; the last one's first result is its output."""
    given = [
        helper.make_tensor_value_info(name, (kinds or {}).get(name, TensorProto.FLOAT), shape)
        for name, shape in inputs.items()
    ]
    graph = helper.make_graph(
        nodes, path.stem, given, [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), path)


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(SEED).standard_normal(shape, "float32") / np.sqrt(max(1, shape[0]), dtype="float32")


def _product(m: int, n: int, k: int, path: Path) -> None:
    _save(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (m, k)}, {"w": _draw(k, n)})


def _softmax(m: int, n: int, path: Path) -> None:
    scale = np.array(0.125, "float32")
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]), helper.make_node("Add", ["scaled", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"], axis=-1),
    ]  # fmt: skip
    _save(path, nodes, {"x": (m, n), "mask": (1, n)}, {"scale": scale})


def _layernorm(m: int, n: int, path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["biased"]), helper.make_node("Add", ["biased", "residual"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "gamma", "beta"], ["y"], axis=-1),
    ]  # fmt: skip
    weights = {name: _draw(n) for name in ("bias", "gamma", "beta")}
    _save(path, nodes, {"x": (m, n), "residual": (m, n)}, weights)


def _gelu(m: int, n: int, path: Path) -> None:
    half, one, root = (np.array(value, "float32") for value in (0.5, 1.0, np.sqrt(2.0)))
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["b"]), helper.make_node("Div", ["b", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]), helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["b", "a"], ["m"]), helper.make_node("Mul", ["m", "half"], ["y"]),
    ]  # fmt: skip
    _save(path, nodes, {"x": (m, n)}, {"bias": _draw(n), "half": half, "one": one, "root": root})


def _swiglu(m: int, n: int, path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["gate"], ["s"]), helper.make_node("Mul", ["gate", "s"], ["silu"]),
        helper.make_node("Mul", ["silu", "up"], ["y"]),
    ]  # fmt: skip
    _save(path, nodes, {"gate": (m, n), "up": (m, n)}, {})


def _convolution(sizes: dict[str, Any], is_int8: bool, path: Path) -> None:
    batch, channels, filters = sizes["batch"], sizes["channels"], sizes["filters"]
    attributes = {"strides": sizes["stride"], "pads": [*sizes["pad"], *sizes["pad"]]}
    shape = (filters, channels, *sizes["kernel"])
    x = (batch, channels, *sizes["space"])
    if not is_int8:
        node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
        _save(path, [node], {"x": x}, {"w": _draw(*shape)})
        return
    codes = np.random.default_rng(SEED).integers(-127, 128, shape).astype(np.int8)
    weights = {
        "w": codes, "x_scale": np.array(0.02, "float32"), "x_zero": np.array(128, "uint8"),
        "w_scale": np.full(filters, 0.005, "float32"), "w_zero": np.zeros(filters, "int8"),
        "y_scale": np.array(0.1, "float32"), "y_zero": np.array(128, "uint8"),
    }  # fmt: skip
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    node = helper.make_node("QLinearConv", names, ["y"], **attributes)
    _save(path, [node], {"x": x}, weights, {"x": TensorProto.UINT8})


def _attention(heads: int, length: int, path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]), helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]  # fmt: skip
    inputs = {"q": (heads, length, 64), "k": (heads, 64, length), "v": (heads, length, 64)}
    _save(path, nodes, inputs, {"scale": np.array(0.125, "float32")})


def _shared(name: str, path: Path) -> None:
    """A shared model whose left-out weights are those of seed 0."""
    graph = engine.load(SHARED / f"{name}.onnx")
    model = model_of(graph)
    light = {name for name, constant in graph.constants.items() if constant.fill is not None}
    values = constant_values(graph, names=light)
    replace_all(model.graph.node, [n for n in model.graph.node if light.isdisjoint(n.output)])
    model.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in sorted(light))
    onnx.save(model, path)
