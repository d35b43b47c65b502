"""Models of a few operators each, which between them use every part of the ONNX importer."""

from __future__ import annotations

import json

import numpy as np
import onnx

from tests.graph.models import FLOAT, model, node


def networks() -> dict[str, onnx.ModelProto]:
    """Every model, by what it is about."""
    return {
        "scan": _scan(),
        "convolution": _convolution(),
        "shapes": _shapes(),
        "recurrent": _recurrent(),
        "attention": _attention(),
        "light": _light(),
        "outside": _outside(),
        "choice": _choice(),
    }


def _weight(random: np.random.RandomState, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def _convolution() -> onnx.ModelProto:
    """Windows, frames and sizes."""
    random = np.random.RandomState(0)
    return model(
        [
            node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
            node("BatchNormalization", "c one zero zero one", "n"),
            node("MaxPool", "n", "p", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
            node("Resize", "p - scales", "r", mode="nearest"),
            node("Pad", "r pads", "y", mode="reflect"),
        ],
        {"x": [1, 3, 12, 12]},
        ["y"],
        {
            "w": _weight(random, 4, 3, 3, 3),
            "b": _weight(random, 4),
            "one": np.ones(4, np.float32),
            "zero": np.zeros(4, np.float32),
            "scales": np.array([1, 1, 2, 2], np.float32),
            "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        },
    )


def _shapes() -> onnx.ModelProto:
    """Shapes that are computed, an axis that is named, indices."""
    return model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s at", "rows"),
            node("Unsqueeze", "rows zeros", "r"),
            node("Concat", "r rest", "to", axis=0),
            node("Reshape", "x to", "a"),
            node("Slice", "a from_ until", "b"),
            node("Expand", "b wide", "c"),
            node("Transpose", "c", "d", perm=[1, 0, 2]),
            node("Split", "d", "e f", axis=2, num_outputs=2),
            node("Where", "mask e f", "g"),
            node("TopK", "g k", "values indices"),
            node("Cast", "indices", "y", to=FLOAT),
        ],
        {"x": ["batch", 24]},
        ["y", "values"],
        {
            "at": np.array(0),
            "zeros": np.array([0]),
            "rest": np.array([4, 6]),
            "from_": np.array([0, 1]),
            "until": np.array([2, 4]),
            "wide": np.array([2, 3, 6]),
            "mask": np.array([True, False, True]),
            "k": np.array([2]),
        },
    )


def _recurrent() -> onnx.ModelProto:
    """A recurrent layer."""
    random = np.random.RandomState(0)
    return model(
        [node("LSTM", "x w r b", "y h c", hidden_size=4, direction="forward"), node("Squeeze", "y", "z")],
        {"x": [3, 2, 5]},
        ["z", "h"],
        {"w": _weight(random, 1, 16, 5), "r": _weight(random, 1, 16, 4), "b": _weight(random, 1, 32)},
    )


def _attention() -> onnx.ModelProto:
    """Products, an equation, norms, places of extremes."""
    random = np.random.RandomState(0)
    return model(
        [
            node("MatMul", "x w", "q"),
            node("Einsum", "q x", "s", equation="bij,bkj->bik"),
            node("Softmax", "s", "p"),
            node("MatMul", "p x", "o"),
            node("LayerNormalization", "o one zero", "n", axis=-1),
            node("ReduceMean", "n axes", "m", keepdims=0),
            node("Gemm", "m w", "y", transB=1),
            node("ArgMax", "y", "z", axis=1),
        ],
        {"x": [2, 6, 8]},
        ["z"],
        {
            "w": _weight(random, 8, 8),
            "one": np.ones(8, np.float32),
            "zero": np.zeros(8, np.float32),
            "axes": np.array([1]),
        },
    )


def _light() -> onnx.ModelProto:
    """Weights by their distribution."""
    light = model(
        [node("ConstantOfShape", "s", "w"), node("MatMul", "x w", "y")], {"x": [4, 8]}, ["y"], {"s": np.array([8, 8])}
    )
    notes = {"light.weights": json.dumps({"w": ["normal", 0.0, 0.1]}), "light.inputs": json.dumps({"x": [-1.0, 1.0]})}
    onnx.helper.set_model_props(light, notes)
    return light


def _outside() -> onnx.ModelProto:
    """Weights in a file that is not there."""
    outside = model([node("Add", "x w", "y")], {"x": [4]}, ["y"])
    stored = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="weights")
    outside.graph.initializer.append(stored)
    return outside


def _choice() -> onnx.ModelProto:
    """A branch that is taken."""
    branch = onnx.helper.make_graph([node("Relu", "x", "inner")], "branch", [], [onnx.ValueInfoProto(name="inner")])
    return model(
        [node("If", "c", "y", then_branch=branch, else_branch=branch), node("Neg", "y", "z")],
        {"x": [4]},
        ["z"],
        {"c": np.array(True)},
    )


def _scan() -> onnx.ModelProto:
    """A body for every step."""
    step = onnx.helper.make_graph(
        [node("Add", "h e", "h2"), node("Tanh", "h2", "out")],
        "step",
        [onnx.ValueInfoProto(name="h"), onnx.ValueInfoProto(name="e")],
        [onnx.ValueInfoProto(name="h2"), onnx.ValueInfoProto(name="out")],
    )
    return model(
        [node("Scan", "start x", "last y", body=step, num_scan_inputs=1)],
        {"x": [4, 6]},
        ["last", "y"],
        {"start": np.zeros(6, np.float32)},
    )
