"""Every operator against ONNX Runtime on seeded random operands: its statements, and its NumPy meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from engine.tensor.operators import RULES
from tests.tensor.single import by_meaning, by_runtime, by_statements, write_model

RANDOM = np.random.RandomState(7)


def real(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.5, 3, shape).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float16)


def whole(*shape: int, low: int = -9, high: int = 9) -> np.ndarray:
    return RANDOM.randint(low, high, shape).astype(np.int64)


def nonzero(*shape: int) -> np.ndarray:
    return whole(*shape, low=1) * RANDOM.choice([-1, 1], shape)


def truth(*shape: int) -> np.ndarray:
    return RANDOM.randint(0, 2, shape).astype(bool)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass
class Case:
    """One operator with operands; `constants` are the operands that stand in the file."""

    kind: str
    operands: list[np.ndarray | None]
    attributes: dict[str, object] = field(default_factory=dict)
    constants: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 18

    def __str__(self) -> str:
        shapes = "_".join("x".join(map(str, o.shape)) if o is not None else "none" for o in self.operands)
        return f"{self.kind}-{shapes}-{self.opset}"


def unary() -> list[Case]:
    plain = (
        "Abs Neg Exp Tanh Erf Sigmoid Floor Ceil Round Sign Sin Cos Tan Sinh Cosh Asinh Relu LeakyRelu Elu Celu Selu "
        "ThresholdedRelu HardSigmoid HardSwish Softplus Softsign Mish Shrink Identity IsNaN IsInf"
    )
    cases = [Case(kind, [real(3, 5, 17)]) for kind in plain.split()]
    cases += [Case(kind, [positive(2, 31)]) for kind in ("Log", "Sqrt", "Reciprocal")]
    cases += [Case(kind, [half(4, 33)]) for kind in ("Tanh", "Erf", "Sigmoid", "Relu", "Elu", "Softplus", "Abs")]
    cases += [Case("Acosh", [positive(9) + 1]), Case("Atanh", [positive(9) / 4]), Case("Not", [truth(5, 7)])]
    cases += [Case(kind, [np.tanh(real(4, 9))]) for kind in ("Asin", "Acos", "Atan")]
    cases += [Case("Gelu", [real(4, 9)], {"approximate": how}, opset=20) for how in ("none", "tanh")]
    cases += [Case("Elu", [real(9)], {"alpha": 0.3}), Case("LeakyRelu", [real(9)], {"alpha": 0.3})]
    cases += [Case("Shrink", [real(20)], {"lambd": 0.4, "bias": 0.1}), Case("Celu", [real(20)], {"alpha": 2.0})]
    strange = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    cases += [Case("IsInf", [strange]), Case("IsNaN", [strange]), Case("IsInf", [strange], {"detect_negative": 0})]
    return cases


def binary() -> list[Case]:
    cases = [Case(kind, [real(3, 1, 7), real(5, 1)]) for kind in ("Add", "Sub", "Mul", "PRelu")]
    cases[-1] = Case("PRelu", [real(3, 5, 7), real(5, 1)])
    cases += [Case("Div", [real(4, 6), positive(6)]), Case("Div", [whole(4, 6), nonzero(6)])]
    cases += [
        Case("Pow", [positive(4, 6), real(6)]),
        Case("Pow", [real(4, 6), np.array(2.0, np.float32)], constants=(1,)),
    ]
    cases += [Case("Mod", [whole(4, 6), nonzero(6)]), Case("Mod", [real(4, 6), positive(6)], {"fmod": 1})]
    cases += [Case("Mod", [whole(4, 6), nonzero(6)], {"fmod": 1})]
    cases += [Case(kind, [truth(3, 1), truth(1, 9)]) for kind in ("And", "Or", "Xor")]
    compare = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    cases += [Case(kind, [whole(4, 6), whole(6)]) for kind in compare]
    cases += [Case(kind, [real(4, 6), real(6)]) for kind in compare]
    cases += [Case(kind, [real(4, 6), real(6), real(4, 1)]) for kind in ("Max", "Min", "Sum", "Mean")]
    cases += [Case(kind, [half(4, 6), half(6)]) for kind in ("Add", "Mul", "Max")]
    cases += [Case("Where", [truth(4, 1), real(6), np.array(-1.5, np.float32)], constants=(2,))]
    low, high = np.array(-0.5, np.float32), np.array(0.7, np.float32)
    cases += [Case("Clip", [real(4, 6), low, high], constants=(1, 2)), Case("Clip", [real(4, 6), None, high])]
    cases += [Case("Clip", [real(4, 6)], {"min": -0.2, "max": 0.2}, opset=6)]
    cases += [Case("Cast", [value], {"to": to}) for to in (1, 6, 7, 9, 10) for value in (real(4, 5) * 4, whole(4, 5))]
    cases += [Case("Cast", [truth(4, 5)], {"to": 10}), Case("CastLike", [real(4, 5), half(1)])]
    cases += [Case("Dropout", [real(4, 5)], outputs=2)]
    return cases


def layout() -> list[Case]:
    x = real(2, 3, 4, 5)
    cases = [Case("Reshape", [x, ints(*shape)], constants=(1,)) for shape in ((6, 20), (0, -1), (2, 12, 5, 1), (120,))]
    cases += [Case("Transpose", [x], {"perm": perm}) for perm in ((0, 2, 1, 3), (3, 0, 1, 2), (0, 1, 3, 2))]
    cases += [Case("Transpose", [x]), Case("Flatten", [x], {"axis": 2}), Case("Flatten", [x], {"axis": 0})]
    cases += [Case("Squeeze", [real(3, 1, 4, 1), ints(1)], constants=(1,)), Case("Squeeze", [real(1, 3, 1)])]
    cases += [Case("Squeeze", [real(3, 1, 4)], {"axes": [1]}, opset=11)]
    cases += [Case("Unsqueeze", [x, ints(0, -1)], constants=(1,)), Case("Unsqueeze", [x], {"axes": [1]}, opset=11)]
    cases += [Case("Expand", [real(3, 1), ints(2, 1, 6)], constants=(1,))]
    cases += [Case("Slice", [x, ints(1, -1), ints(9, -9), ints(1, 3), ints(1, -2)], constants=(1, 2, 3, 4))]
    cases += [Case("Slice", [x], {"starts": [0, 1], "ends": [2, -1], "axes": [0, 2]}, opset=9)]
    cases += [Case("Split", [real(7, 4), ints(2, 4, 1)], {"axis": 0}, (1,), outputs=3)]
    cases += [Case("Split", [real(4, 7)], {"axis": -1, "num_outputs": 3}, outputs=3)]
    cases += [Case("Split", [real(4, 6)], {"axis": 1}, outputs=2, opset=13)]
    cases += [Case("Concat", [real(2, 3), real(2, 1), real(2, 4)], {"axis": 1})]
    cases += [Case("Concat", [real(2, 3), real(5, 3)], {"axis": -2})]
    cases += [Case("Tile", [real(2, 3), ints(2, 3)], constants=(1,))]
    cases += [Case("DepthToSpace", [real(2, 12, 3, 5)], {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")]
    cases += [Case("SpaceToDepth", [real(2, 3, 4, 6)], {"blocksize": 2})]
    value = np.array(1.5, np.float32)
    cases += [Case("Pad", [real(3, 4), ints(1, 0, 2, 3), value], constants=(1, 2))]
    cases += [Case("Pad", [real(3, 4), ints(-1, 1, 0, -2)], constants=(1,))]
    cases += [Case("Pad", [real(3, 4)], {"pads": [1, 0, 2, 3], "value": 2.0}, opset=10)]
    return cases


def gathers() -> list[Case]:
    data = real(6, 5, 4)
    cases = [Case("Gather", [data, whole(2, 3, low=-4, high=4)], {"axis": axis}) for axis in (0, 1, -1)]
    cases += [Case("Gather", [data, np.array(2)], {"axis": 1}, (1,)), Case("Gather", [data, ints(1, 2, 3)], {}, (1,))]
    cases += [Case("Gather", [data, ints(3, 0, 4)], {"axis": 0}, (1,)), Case("Gather", [data, ints(-1, -3)], {}, (1,))]
    cases += [Case("Gather", [data, ints(-1, 2, -3)], {"axis": 1}, (1,))]
    cases += [
        Case("GatherND", [data, whole(3, 2, low=-5, high=5)]),
        Case("GatherND", [data, whole(7, 1, low=0, high=6)]),
    ]
    cases += [Case("GatherND", [data, whole(6, 2, 1, low=-5, high=5)], {"batch_dims": 1})]
    columns = np.stack([np.zeros(5, np.int64), np.arange(5)], -1)
    cases += [Case("GatherND", [data, columns], {}, (1,)), Case("GatherND", [data, columns[::-1].copy()], {}, (1,))]
    cases += [Case("GatherElements", [data, whole(6, 2, 4, low=-5, high=5)], {"axis": 1})]
    cases += [Case("OneHot", [whole(3, 4, low=-5, high=9), ints(6), real(2)], {"axis": axis}, (1,)) for axis in (-1, 1)]
    return cases


def reductions() -> list[Case]:
    kinds = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp"
    cases = []
    for kind in [*kinds.split(), "ReduceLogSum"]:
        x = positive(3, 5, 7)
        cases += [Case(kind, [x, ints(axis)], {"keepdims": keep}, (1,)) for axis, keep in ((1, 1), (-1, 0))]
        cases += [Case(kind, [x, ints(0, 2)], {}, (1,)), Case(kind, [x]), Case(kind, [x], {"keepdims": 0})]
        cases += [Case(kind, [x], {"axes": [0, 1]}, opset=11)]
    cases += [Case("ReduceSum", [real(4, 6)], {"noop_with_empty_axes": 1}), Case("ReduceSum", [whole(4, 6)])]
    cases += [
        Case("ReduceMax", [half(4, 1000), ints(1)], {}, (1,)),
        Case("ReduceMean", [half(4, 999), ints(1)], {}, (1,)),
    ]
    tied = whole(5, 40, low=0, high=4).astype(np.float32)
    for kind in ("ArgMax", "ArgMin"):
        cases += [Case(kind, [tied], {"axis": axis, "keepdims": axis}) for axis in (0, 1)]
        cases += [Case(kind, [tied], {"axis": -1, "select_last_index": 1})]
    cases += [Case("GlobalAveragePool", [real(2, 3, 5, 7)]), Case("GlobalMaxPool", [real(2, 3, 5, 7)])]
    return cases


def rows() -> list[Case]:
    cases = [Case(kind, [real(3, 4, 33) * 5], {"axis": axis}) for kind in ("Softmax", "LogSoftmax") for axis in (-1, 1)]
    cases += [Case("Softmax", [real(3, 4, 5)], {"axis": 1}, opset=11), Case("Softmax", [half(3, 128)])]
    cases += [Case("Softmax", [np.full((2, 40), 1e4, np.float32)])]
    for axis, shape in ((-1, (33,)), (1, (4, 33))):
        operands = [real(3, 4, 33) + 2, real(*shape), real(*shape)]
        cases += [Case("LayerNormalization", operands, {"axis": axis, "epsilon": 1e-6}, outputs=3)]
    cases += [Case("LayerNormalization", [real(5, 17), real(17)]), Case("LayerNormalization", [half(5, 64), half(64)])]
    cases += [Case("RMSNormalization", [real(5, 17), real(17)], opset=23)]
    statistics = [real(4), real(4), real(4), positive(4)]
    cases += [Case("BatchNormalization", [real(2, 4, 3, 5), *statistics])]
    cases += [Case("InstanceNormalization", [real(2, 4, 3, 5), real(4), real(4)])]
    return cases


def products() -> list[Case]:
    shapes = [((7, 5), (5, 3)), ((2, 3, 7, 5), (5, 4)), ((2, 1, 7, 5), (3, 5, 4)), ((5,), (5, 3)), ((2, 7, 5), (5,))]
    cases = [Case("MatMul", [real(*a), real(*b)]) for a, b in [*shapes, ((9,), (9,)), ((1, 5), (5, 1))]]
    cases += [Case("MatMul", [half(17, 65), half(65, 9)])]
    cases += [Case("Gemm", [real(7, 5), real(5, 3)]), Case("Gemm", [real(7, 5), real(5, 3), real(3)])]
    cases += [Case("Gemm", [real(5, 7), real(3, 5), real(7, 1)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0})]
    return cases


def sums_of_products() -> list[Case]:
    shapes = {
        "ij,jk->ik": [(5, 7), (7, 3)], "bij,bjk->bik": [(2, 5, 7), (2, 7, 3)], "ii->i": [(6, 6)], "ij->ji": [(4, 5)],
        "i,j->ij": [(4,), (6,)], "ij->": [(4, 5)], "...ij,...jk->...ik": [(2, 3, 4, 5), (2, 3, 5, 6)],
        "ij,ij": [(4, 5), (4, 5)],
        "bhqd,bhkd->bhqk": [(2, 3, 4, 8), (2, 3, 5, 8)], "ab,bc,cd->ad": [(3, 4), (4, 5), (5, 6)],
    }  # fmt: skip
    return [Case("Einsum", [real(*s) for s in of], {"equation": equation}) for equation, of in shapes.items()]


def sliding() -> list[Case]:
    """Windows with padding on some sides, strides, dilations and groups."""
    image = real(2, 4, 9, 11)
    same = {"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    cases = [Case("Conv", [image, real(6, 4, 3, 2)]), Case("Conv", [image, real(6, 4, 3, 2), real(6)], same)]
    cases += [Case("Conv", [image, real(6, 2, 3, 3)], {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]})]
    cases += [Case("Conv", [image, real(4, 1, 3, 3), real(4)], {"group": 4, "pads": [2, 2, 2, 2], "dilations": [2, 2]})]
    cases += [Case("Conv", [real(2, 4, 30), real(3, 4, 5)], {"auto_pad": "SAME_LOWER", "strides": [3]})]
    cases += [Case("Conv", [half(1, 3, 8, 8), half(5, 3, 3, 3)], {"pads": [1, 1, 1, 1]})]
    pool = {"kernel_shape": [3, 2], "strides": [2, 2]}
    for kind in ("MaxPool", "AveragePool"):
        cases += [Case(kind, [image], pool), Case(kind, [image], {**pool, "pads": [1, 0, 1, 1]})]
        cases += [Case(kind, [image], {**pool, "ceil_mode": 1}), Case(kind, [image], {**pool, **same})]
    cases += [Case("MaxPool", [image], {"kernel_shape": [3, 3], "dilations": [2, 2]})]
    cases += [Case("AveragePool", [image], {**pool, "pads": [1, 1, 1, 1], "count_include_pad": 1})]
    return cases


def bits() -> list[Case]:
    cases = [Case(f"Bitwise{name}", [whole(7, 5), whole(5)]) for name in ("And", "Or", "Xor")]
    return [*cases, Case("BitwiseNot", [whole(7, 5)])]


def along_an_axis() -> list[Case]:
    x = real(3, 6, 5)
    cases = [Case("CumSum", [x, np.array(1)], {"reverse": r, "exclusive": e}, (1,)) for r in (0, 1) for e in (0, 1)]
    cases += [Case("TopK", [x, ints(4)], {"axis": 1, "largest": n}, (1,), outputs=2) for n in (0, 1)]
    cases += [Case("TopK", [whole(4, 9, low=0, high=3), ints(3)], {}, (1,), outputs=2)]
    cases += [Case("Hardmax", [x], {"axis": 1}), Case("Hardmax", [whole(4, 6, low=0, high=3).astype(np.float32)])]
    cases += [Case("Trilu", [x, np.array(k, np.int64)], {"upper": u}, (1,)) for u in (0, 1) for k in (-2, 0, 3)]
    cases += [Case("EyeLike", [real(4, 7)], {"k": 2, "dtype": 1})]
    cases += [Case("Det", [real(5, 3, 3)]), Case("Det", [real(4, 4)])]
    cases += [Case("ReverseSequence", [x, ints(3, 1, 3, 0, 2, 3)], {"time_axis": 0, "batch_axis": 1})]
    return [*cases, Case("LRN", [real(2, 7, 3, 4)], {"size": 3, "alpha": 0.01, "bias": 2.0})]


def scatters() -> list[Case]:
    cases = []
    for how in ("none", "add", "mul", "max", "min"):
        # Without `reduction` no element is hit twice: the standard leaves open who wins.
        places = np.argsort(real(3, 6), 0)[:2, :4] if how == "none" else whole(2, 4, low=-3, high=3)
        cases += [Case("ScatterElements", [real(3, 6), places, real(2, 4)], {"axis": 0, "reduction": how})]
        table = ints(2, 0, -4, 1).reshape(2, 2) if how == "none" else whole(5, 2, low=-3, high=3)
        cases += [Case("ScatterND", [real(4, 3, 5), table, real(len(table), 5)], {"reduction": how})]
    cases += [Case("Scatter", [real(3, 6), ints(1, 0, 2).reshape(1, 3), real(1, 3)], {"axis": 0}, opset=10)]
    return cases


def resized() -> list[Case]:
    x = real(2, 3, 5, 7)
    cases = []
    for mode in ("nearest", "linear", "cubic"):
        for how in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            attributes = {"mode": mode, "coordinate_transformation_mode": how}
            cases += [Case("Resize", [x, None, None, ints(2, 3, 10, 9)], attributes, (3,))]
            cases += [Case("Resize", [x, None, None, ints(2, 3, 3, 4)], attributes, (3,))]
    factors = np.array([1, 1, 2, 3], np.float32)
    cases += [Case("Resize", [x, factors], {"mode": "nearest"}, (1,), opset=10)]
    cases += [Case("Upsample", [x, factors], {"mode": mode}, (1,), opset=9) for mode in ("nearest", "linear")]
    return cases


def sampled() -> list[Case]:
    image, grid = real(2, 3, 5, 6), RANDOM.uniform(-1.3, 1.3, (2, 4, 3, 2)).astype(np.float32)
    cases = []
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                cases += [Case("GridSample", [image, grid], attributes)]
    regions = np.array([[0.5, 1, 4, 3], [2, 0, 5.5, 4.5], [-1, -1, 7, 6]], np.float32)
    for mode in ("avg", "max"):
        attributes = {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": 2}
        cases += [Case("RoiAlign", [image, regions, ints(0, 1, 1)], attributes)]
    cases += [
        Case("AffineGrid", [real(2, 2, 3), ints(2, 3, 4, 5)], {"align_corners": c}, (1,), opset=20) for c in (0, 1)
    ]
    moves, mask = real(2, 2 * 2 * 4, 4, 5) * 0.7, positive(2, 2 * 4, 4, 5)
    operands = [real(2, 4, 5, 6), real(6, 2, 2, 2), moves, real(6), mask]
    return [*cases, Case("DeformConv", operands, {"group": 2, "offset_group": 2}, opset=19)]


def transposed() -> list[Case]:
    image = real(2, 4, 5, 6)
    cases = [Case("ConvTranspose", [image, real(4, 3, 3, 2)])]
    attributes = {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 0], "dilations": [1, 2], "group": 2}
    cases += [Case("ConvTranspose", [image, real(4, 3, 3, 2), real(6)], attributes)]
    cases += [Case("ConvTranspose", [image, real(4, 3, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_LOWER"})]
    cases += [
        Case("Col2Im", [real(2, 12, 12), ints(5, 5), ints(2, 2)], {"pads": [0, 1, 0, 1], "strides": [1, 2]}, (1, 2))
    ]
    pool = {"kernel_shape": [3, 2], "strides": [2, 2]}
    cases += [
        Case("MaxPool", [image], {**pool, "pads": [1, 0, 1, 1]}, outputs=2),
        Case("LpPool", [image], {**pool, "p": 3}),
    ]
    cases += [Case("GlobalLpPool", [image], {"p": 2}), Case("LpNormalization", [image], {"axis": 1, "p": 1})]
    cases += [
        Case("AveragePool", [image], {**pool, "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1}, opset=19)
    ]
    places = ints(0, 3, 8, 11).reshape(1, 1, 2, 2)
    return [*cases, Case("MaxUnpool", [real(1, 1, 2, 2), places], {"kernel_shape": [2, 2], "strides": [2, 2]})]


def recurrent() -> list[Case]:
    steps, batch, inner, hidden = 4, 3, 5, 6
    cases = []
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            width = gates * hidden
            operands = [real(steps, batch, inner), real(count, width, inner), real(count, width, hidden)]
            operands += [real(count, 2 * width), None, real(count, batch, hidden)]
            operands += [real(count, batch, hidden), real(count, 3 * hidden)] if kind == "LSTM" else []
            attributes = {"hidden_size": hidden, "direction": direction}
            outputs = 3 if kind == "LSTM" else 2
            cases += [Case(kind, operands, attributes, outputs=outputs)]
            if kind == "GRU":
                cases += [Case(kind, operands, {**attributes, "linear_before_reset": 1}, outputs=2)]
            if direction == "forward":
                lengths = np.array([4, 1, 3], np.int32)
                cases += [Case(kind, [*operands[:4], lengths, *operands[5:]], attributes, outputs=outputs)]
                cases += [Case(kind, operands, {**attributes, "clip": 0.4}, outputs=outputs)]
    return cases


def codes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.randint(limits.min, limits.max + 1, shape).astype(dtype)


def number(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


def quantised() -> list[Case]:
    """Codes of 8 and 16 bits, products of codes; scales at which no result lies halfway between two codes."""
    scales, zeros = positive(5) / 60, codes(5)
    one = (number(0.0213), number(117, "uint8"))
    cases = [
        Case("QuantizeLinear", [real(4, 5) * 3, *one]),
        Case("QuantizeLinear", [real(4, 5, 6), scales, zeros], {"axis": 1}),
        Case("QuantizeLinear", [real(4, 5), scales, codes(5, dtype="int8")], {"axis": -1}, (1, 2)),
        Case("QuantizeLinear", [real(4, 6), positive(2, 6) / 60, codes(2, 6)], {"axis": 0, "block_size": 2}, opset=21),
        Case("QuantizeLinear", [real(9) * 400, number(0.0117), number(-3, "int16")], opset=21),
        Case("DequantizeLinear", [codes(4, 5), *one]),
        Case("DequantizeLinear", [codes(4, 5, 6, dtype="int8"), scales, codes(5, dtype="int8")], {"axis": 1}),
        Case("DequantizeLinear", [codes(4, 6), positive(2, 6), codes(2, 6)], {"axis": 0, "block_size": 2}, opset=21),
        Case("DequantizeLinear", [whole(7).astype(np.int32), number(0.3)]),
        Case("DynamicQuantizeLinear", [real(3, 11) * 2], outputs=3),
        Case("DynamicQuantizeLinear", [positive(3, 11)], outputs=3),
        Case("MatMulInteger", [codes(3, 6, 7), codes(7, 9, dtype="int8")]),
        Case("MatMulInteger", [codes(6, 7), codes(7, 9), number(113, "uint8"), number(4, "uint8")]),
        Case("MatMulInteger", [codes(6, 7), codes(7, 9, dtype="int8"), number(113, "uint8"), codes(9, dtype="int8")],
             constants=(1, 2)),
        Case("ConvInteger", [codes(2, 3, 6, 5), codes(4, 3, 3, 2)], {"strides": [2, 1]}),
        Case("ConvInteger", [codes(2, 3, 6, 5), codes(4, 3, 3, 2), number(113, "uint8"), number(4, "uint8")],
             {"pads": [1, 0, 1, 1]}),
        Case("ConvInteger", [codes(2, 3, 6, 5), codes(4, 3, 3, 2), number(113, "uint8"), number(4, "uint8")],
             {"pads": [1, 0, 1, 1]}, (1, 2, 3)),
        Case("ConvInteger", [codes(2, 4, 6, 5), codes(6, 2, 3, 3), number(113, "uint8"), number(4, "uint8")],
             {"group": 2, "pads": [1, 1, 1, 1]}, (2, 3)),
        Case("QLinearMatMul", [codes(6, 7), *one, codes(7, 9), number(0.0171), number(9, "uint8"), number(0.31),
                               number(100, "uint8")]),
        Case("QLinearMatMul", [codes(6, 7), *one, codes(7, 9, dtype="int8"), positive(9) / 50, np.zeros(9, np.int8),
                               number(0.31), number(100, "uint8")], constants=(1, 2, 3, 4, 5, 6, 7)),
    ]  # fmt: skip
    image, weight = [codes(2, 3, 6, 5), *one], [codes(4, 3, 3, 3, dtype="int8"), positive(4) / 50, np.zeros(4, np.int8)]
    result = [number(0.53), number(120, "uint8")]
    cases += [
        Case("QLinearConv", [*image, *weight, *result], {"pads": [1, 1, 1, 1]}, (1, 2, 3, 4, 5, 6, 7)),
        Case("QLinearConv", [*image, *weight, *result, whole(4).astype(np.int32) * 300], {"strides": [2, 2]},
             (1, 2, 3, 4, 5, 6, 7, 8)),
    ]  # fmt: skip
    return cases


FAMILIES = (
    unary, binary, layout, gathers, reductions, rows, products, sliding, bits, along_an_axis, scatters, resized,
    sampled, transposed, recurrent, sums_of_products, quantised,
)  # fmt: skip
CASES = [case for family in FAMILIES for case in family()]

MEANT_ELSEWHERE = frozenset(
    "Identity LSTM GRU RNN RoiAlign DeformConv GridSample Resize Upsample Scatter LpPool MaxUnpool GlobalLpPool "
    "ConvTranspose".split()
)
"""Operators whose meaning is the ONNX project's own implementation, which lacks forms that the runtime has."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_statements_and_meaning_agree_with_onnx_runtime(case: Case, tmp_path: Path) -> None:
    """Tolerance: float32 sums of up to a few hundred terms; half precision to two units in the last place."""
    path = tmp_path / "model.onnx"
    feeds = write_model(path, case.kind, case.operands, case.constants, case.outputs, case.opset, **case.attributes)
    expected = by_runtime(path, feeds)
    got, meant = by_statements(path, feeds), {}
    if case.kind not in MEANT_ELSEWHERE:
        meant = by_meaning(path, feeds)
    for name, want in expected.items():
        relative, absolute = (2e-3, 2e-3) if want.dtype == np.float16 else (2e-5, 2e-6)
        assert got[name].dtype == want.dtype
        np.testing.assert_allclose(got[name], want, relative, absolute)
        if meant:
            np.testing.assert_allclose(np.asarray(meant[name], np.float64), want, relative, absolute)


def test_every_onnx_rule_has_a_case() -> None:
    here = {case.kind for case in CASES}
    # Newer than this ONNX Runtime, or without a kernel there: in the backend tests.
    elsewhere = {"Swish", "BitCast", "BitShift", "CumProd", "TensorScatter", "DFT", "STFT", "Compress"}
    elsewhere.add("com.microsoft::MatMulNBits")
    assert {name.removeprefix("onnx.") for name in RULES if name.startswith("onnx.")} - here == elsewhere


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_a_place_of_nan_is_a_place_of_the_row(kind: str, last: int, dtype: type, tmp_path: Path) -> None:
    """As NumPy has it: NaN is the extreme of a row.  ONNX Runtime answers by the order of its own comparisons."""
    rows = np.random.RandomState(3).standard_normal((9, 7)).astype(dtype)
    rows[0, 2], rows[1, [0, 6]], rows[2], rows[3, [3, 4]] = np.nan, np.nan, np.nan, (np.inf, np.nan)
    feeds = write_model(tmp_path / "m.onnx", kind, [rows], axis=1, keepdims=0, select_last_index=last)
    find = np.argmax if kind == "ArgMax" else np.argmin
    expected = rows.shape[1] - 1 - find(rows[:, ::-1], axis=1) if last else find(rows, axis=1)
    assert np.array_equal(by_statements(tmp_path / "m.onnx", feeds)["y0"], expected)
