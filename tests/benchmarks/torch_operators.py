"""What ONNX's operators are in PyTorch, for the rows of the suites.  Imported only where PyTorch is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onnx import helper
from torch.nn import functional as F


def constants_on(device: str) -> Callable[[np.ndarray], Any]:
    """Scalars as numbers of their own type on a device, lists of axes and sizes as lists."""

    def constant(value: np.ndarray) -> Any:
        return value.tolist() if value.ndim else torch.tensor(value.item(), dtype=_dtype(value.dtype), device=device)

    return constant


def _dtype(dtype: Any) -> torch.dtype:
    return torch.from_numpy(np.zeros(1, dtype)).dtype


def _pairs(pads: list[int]) -> list[int]:
    """ONNX's begins and ends, which the suites' rows have equal, as one number an axis."""
    half = len(pads) // 2
    assert pads[:half] == pads[half:]
    return pads[:half]


def _conv(x: Any, w: Any, *, strides: Any, pads: Any, dilations: Any, kernel_shape: Any) -> Any:
    form = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    return form(x, w, None, strides, _pairs(list(pads)), dilations)


def _transposed(x: Any, w: Any, *, strides: Any, pads: Any, kernel_shape: Any) -> Any:
    form = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x.dim() - 3]
    return form(x, w, None, strides, _pairs(list(pads)))


def _sum(x: Any, axes: Any = None, *, keepdims: int = 1) -> Any:
    return x.sum() if axes is None else x.sum(dim=axes, keepdim=bool(keepdims))


TABLE = {
    "MatMul": torch.matmul,
    "Conv": _conv,
    "ConvTranspose": _transposed,
    "Trilu": lambda x, upper=1: torch.triu(x) if upper else torch.tril(x),
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div,
    "Neg": torch.neg, "Sqrt": torch.sqrt, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Relu": torch.relu,
    "Softmax": lambda x, axis=-1: torch.softmax(x, dim=axis),
    "LayerNormalization": lambda x, gain, shift, axis, epsilon: F.layer_norm(x, gain.shape, gain, shift, epsilon),
    "BatchNormalization": lambda x, gain, shift, mean, variance: F.batch_norm(x, mean, variance, gain, shift),
    "ReduceMean": lambda x, axes, keepdims=1: x.mean(dim=axes, keepdim=bool(keepdims)),
    "ReduceSum": _sum,
    "ReduceLogSumExp": lambda x, axes, keepdims=1: torch.logsumexp(x, dim=axes, keepdim=bool(keepdims)),
    "GatherElements": lambda x, index, axis=0: torch.gather(x, axis, index),
    "Cast": lambda x, to: x.to(_dtype(helper.tensor_dtype_to_np_dtype(to))),
    "Split": lambda x, axis=0, num_outputs=2: tuple(torch.chunk(x, num_outputs, dim=axis)),
    "Concat": lambda *x, axis: torch.cat(x, dim=axis),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Transpose": lambda x, perm: x.permute(perm),
}  # fmt: skip
