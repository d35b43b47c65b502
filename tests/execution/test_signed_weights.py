"""Integer products in ONNX Runtime are exact on every CPU once signed weights are held without a sign."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.execution.runtime_session import run_session
from engine.execution.signed_weights import has_signed_weights, without_signed_weights

KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def product(kind: str, left: str, right: str, **operands: np.ndarray) -> onnx.ModelProto:
    """A model of one product, its zero points among the operands."""
    types = {"a": left, "b": right, "a_zero": left, "b_zero": right}
    inputs = [helper.make_tensor_value_info(n, KINDS[types[n]], v.shape) for n, v in operands.items()]
    names = [name if name in operands else "" for name in types]
    graph = helper.make_graph([helper.make_node(kind, names, ["y"])], kind, inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize(("left", "right"), [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_products_of_the_largest_codes_are_exact(left: str, right: str, with_zeros: bool) -> None:
    """Pairs of 255 * 127 leave 16 bits."""
    stream = np.random.default_rng(5)
    a = stream.integers(np.iinfo(left).max - 5, np.iinfo(left).max, (9, 70), left, endpoint=True)
    b = stream.integers(np.iinfo(right).max - 5, np.iinfo(right).max, (70, 13), right, endpoint=True)
    zeros = {"a_zero": np.array(3, left), "b_zero": np.array(-7 if right == "int8" else 7, right)} if with_zeros else {}
    given = {"a": a, "b": b, **zeros}
    (found,) = run_session(product("MatMulInteger", left, right, **given), "y", given, ["y"]).values()
    wide = {name: value.astype(np.int64) for name, value in given.items()}
    expected = (wide["a"] - wide.get("a_zero", 0)) @ (wide["b"] - wide.get("b_zero", 0))
    assert np.array_equal(found, expected)


def test_convolutions_keep_their_padding() -> None:
    """What a frame holds is the left factor's zero point, whatever the right one's is."""
    stream = np.random.default_rng(6)
    given = {
        "a": stream.integers(240, 255, (1, 3, 5, 5), np.uint8, endpoint=True),
        "b": stream.integers(110, 127, (4, 3, 3, 3), np.int8, endpoint=True), "a_zero": np.array(250, np.uint8),
    }  # fmt: skip
    model = product("ConvInteger", "uint8", "int8", **given)
    model.graph.node[0].attribute.append(helper.make_attribute("pads", [1, 1, 1, 1]))
    (found,) = run_session(model, "y", given, ["y"]).values()
    framed = np.full((3, 7, 7), 0, np.int64)
    framed[:, 1:6, 1:6] = given["a"][0].astype(np.int64) - 250
    windows = np.lib.stride_tricks.sliding_window_view(framed, (3, 3), (1, 2))
    assert np.array_equal(found[0], np.einsum("cyxhw,fchw->fyx", windows, given["b"].astype(np.int64)))


def test_other_products_stay_as_they_are() -> None:
    given = {"a": np.ones((2, 3), np.uint8), "b": np.ones((3, 2), np.uint8)}
    model = product("MatMulInteger", "uint8", "uint8", **given)
    assert has_signed_weights(model) and len(without_signed_weights(model).graph.node) == 1
    assert len(without_signed_weights(product("MatMulInteger", "uint8", "int8", **given)).graph.node) > 1
