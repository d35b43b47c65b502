"""PyTorch's tensors as NumPy arrays and back, bfloat16 (which NumPy knows through ml_dtypes) included."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from engine.graph.nodes import BFLOAT16


def to_array(tensor: Any) -> np.ndarray:
    """The value of a tensor, on the CPU and without gaps; memory is shared where it can be."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy()).view(BFLOAT16)
    return np.asarray(plain.numpy())


def to_tensor(array: np.ndarray) -> Any:
    """A tensor on the CPU."""
    plain = np.asarray(array, order="C")  # ascontiguousarray would give a scalar an axis
    plain = plain if plain.flags.writeable else plain.copy()
    if plain.dtype == BFLOAT16:
        return torch.from_numpy(plain.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(plain)
