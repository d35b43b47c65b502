"""Limits on sizes in a file.  Larger values are mistakes or attacks and are refused before memory is allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import onnx
from onnx import defs

from engine.support.budgets import MAX_ELEMENTS, MAX_NAME, MAX_RANK
from engine.support.errors import BadInput

STANDARD = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""


def checked_shape(subject: str, shape: Sequence[int], least: int = 1) -> tuple[int, ...]:
    """The shape as a tuple; BadInput for a rank, a dimension or an element count that no kernel could have.

    least: the smallest size of an axis; tensors between operators may be empty.
    """
    if len(shape) > MAX_RANK:
        raise BadInput("graph", subject, f"has {len(shape)} axes", f"at most {MAX_RANK} are supported")
    elements = 1
    for axis, size in enumerate(shape):
        if size < least:
            raise BadInput("graph", subject, f"axis {axis} has size {size}", "every axis needs at least one element")
        elements *= size
    if elements > MAX_ELEMENTS:
        text = " x ".join(map(str, shape))
        raise BadInput("graph", subject, f"{text} are {elements} elements", "at most 2^36 in one tensor")
    return tuple(shape)


def ask_for_sizes(inputs: Iterable[onnx.ValueInfoProto], sized: Collection[str]) -> str:
    """What gives every open dimension of some inputs a size, those that are `sized` left out."""
    dims = ((f"{v.name}.{n}", dim) for v in inputs for n, dim in enumerate(v.type.tensor_type.shape.dim))
    names = dict.fromkeys(dim.dim_param or place for place, dim in dims if not dim.HasField("dim_value"))
    wanted = [f"--dim {name}=8" for name in names if name not in sized]
    return f"give {'it one' if len(wanted) == 1 else 'all of them one'}: {' '.join(wanted)}"


def checked_name(subject: str, name: str | bytes) -> str:
    """The name; BadInput when it is absurdly long or no text (protocol buffers hand out damaged UTF-8 as bytes)."""
    if isinstance(name, bytes):
        raise BadInput("graph", subject, f"the name {name[:40]!r} is no UTF-8 text", "the file may be damaged")
    if len(name) > MAX_NAME:
        raise BadInput("graph", subject, f"the name {name[:40]!r}... has {len(name)} characters", f"at most {MAX_NAME}")
    return name


def checked_opsets(subject: str, model: onnx.ModelProto) -> dict[str, int]:
    """The version of each operator set that a model uses, ONNX's own under ""; BadInput for one that is not known."""
    opsets = {"" if o.domain in STANDARD else o.domain: o.version for o in model.opset_import}
    for domain, version in opsets.items():
        # The library holds the version of other sets in 32 bits.
        known = range(2**31) if domain else range(1, defs.onnx_opset_version() + 1)
        if version not in known:
            written = f"is written for operator set {version}{domain and f' of {domain}'}"
            reason = f"{written}; this version knows {known[0]} to {known[-1]}"
            raise BadInput("graph", subject, reason, "export it for an older operator set")
    return opsets
