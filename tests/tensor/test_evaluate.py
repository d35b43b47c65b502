"""Whole graphs: statements run with NumPy against reference values from implementations that are not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.execution.reference import input_values, reference_values
from engine.graph.load import load
from engine.support.errors import BadInput
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower, unsupported_operators

EXAMPLES = Path(__file__).parents[2] / "resources" / "models"
AKG = Path(__file__).parents[2] / ".." / "shared" / "akg"

FILES = {
    "stitch/layernorm": {8192: 40},
    "stitch/dropoutgrad_reducesum": {64: 2},
    "advice/operators/Fused_GkDropout_2353362030752466006": {32: 2},
    "advice/operators/Fused_Cast_BiasAdd_Gelu_fusion_7971173442909348882": {640: 32},
    "advice/operators/Fused_Cast_RealDiv_Reshape_FusedAdamWeightDecay_fusion_1545859458890067484": {768: 96},
    "advice/operators/Fused_Cast_ReduceSum_Cast_RealDiv_split_16855420756764862693": {32: 2},
    "advice/operators/Fused_Cast_Reshape_BiasAdd_GkDropout_tuple_getitem_TensorAdd_fusion_3191929972328038399": {},
    "advice/operators/Fused_AddN_fusion_9584919353229493170": {4096: 50},
    "advice/operators/Fused_Sub_Mul_Mul_split_9258187064108063363": {32: 2},
    "advice/operators/Fused_Transpose_split_18185609042134105765": {32: 2},
    "passthrough__concat": {},
    "stitch_adapt__Fused_Reshape_BiasAddGrad_Square_ReduceSum_Great": {},
    "alexnet__Fused_PadAkg_split_17554275807833971070": {},
    "bert_ner__Fused_Mul_Maximum_Select_Mul_Select_Assign_fusio_603707": {},
    "retinaface_resnet50__Fused_Sub_Exp_ReduceSum_Log_split_Cast_fusion_Re_781699": {233008: 1000},
    "ocean_model__Fused_Mul_Add_Mul_Sub_Mul_Add_Mul_Add_Mul_Sub_Mu_515126": {},
}
"""Published operators, with sizes that are made smaller to be quick."""


def smaller(path: Path, sizes: dict[int, int], to: Path) -> Path:
    """A copy of an AKG file with some sizes replaced wherever a shape has them."""

    def shrink(part: Any, is_shape: bool = False) -> Any:
        if isinstance(part, dict):
            named = part.get("name") == "shape"
            return {key: shrink(value, key == "shape" or (key == "value" and named)) for key, value in part.items()}
        if isinstance(part, list):
            return [shrink(p, is_shape) for p in part]
        return sizes.get(part, part) if is_shape else part

    to.write_text(json.dumps(shrink(json.loads(path.read_text()))))
    return to


def compare(path: Path) -> None:
    """Tolerance: float32 to 1e-5 of the largest value plus 1e-4 relative, half precision to 2e-3 of each."""
    graph = load(path)
    assert unsupported_operators(graph) == {}
    program = lower(graph)
    assert check_program(program) == ()
    expected = reference_values(graph)
    got = evaluate(program, input_values(graph))
    compared = 0
    for name, want in expected.items():
        if name not in got:
            continue
        wide = want.astype(np.float64)
        scale = np.abs(wide).max(initial=1e-3)
        relative, absolute = (2e-3, 2e-3 * scale) if want.dtype == np.float16 else (1e-4, 1e-5 * scale)
        np.testing.assert_allclose(got[name].astype(np.float64), wide, relative, absolute, err_msg=name)
        compared += 1
    assert compared >= len(graph.outputs) + len(graph.updates)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.onnx")), ids=lambda p: p.stem)
def test_examples_agree_with_onnx_runtime(path: Path) -> None:
    compare(path)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FILES)
def test_akg_files_agree_with_their_meanings(name: str, tmp_path: Path) -> None:
    path = AKG / f"{name}.json"
    if not path.is_file():
        pytest.skip("the shared AKG files are not beside this checkout")
    compare(smaller(path, FILES[name], tmp_path / path.name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert_base_b1_s128", "llama_2l_b1_s64_op23", "din_b64_s50", "deepfm_b256_ts17"])
def test_real_models_agree_with_onnx_runtime(name: str) -> None:
    path = AKG.parent / "models" / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the shared models are not beside this checkout")
    compare(path)


def test_exact_evaluation_does_not_round() -> None:
    """In float64 the layer norm's rows have mean 0 and deviation 1 to twelve digits; in float32 they do not."""
    graph = load(EXAMPLES / "layernorm_64x768.onnx")
    program, inputs = lower(graph), input_values(graph)
    inputs.update({"scale": np.ones(768, np.float32), "shift": np.zeros(768, np.float32)})
    inputs["x"] = inputs["x"] + np.float32(100)
    for exact, limit in ((True, 1e-12), (False, 1e-4)):
        y = evaluate(program, inputs, exact)["y"].astype(np.float64)
        assert np.abs(y.mean(axis=1)).max() < limit
        assert (y.dtype == np.float64) and (np.abs(y.mean(axis=1)).max() > 1e-12) == (not exact)


def test_large_boxes_are_cut_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load(EXAMPLES / "softmax_96x512.onnx")
    program, inputs = lower(graph), input_values(graph)
    whole = evaluate(program, inputs)
    monkeypatch.setattr("engine.tensor.evaluate.CHUNK", 5000)
    cut = evaluate(program, inputs)
    for name, want in whole.items():
        np.testing.assert_array_equal(cut[name], want)


def test_inputs_must_be_there_and_fit() -> None:
    graph = load(EXAMPLES / "softmax_96x512.onnx")
    with pytest.raises(BadInput, match="input x: has no value"):
        evaluate(lower(graph), {})
    with pytest.raises(BadInput, match="input x: has shape"):
        evaluate(lower(graph), {"x": np.zeros((96, 511), np.float32)})
