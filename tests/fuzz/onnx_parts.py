"""Strange values, and the parts of an ONNX model that edits change."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import helper

EDGES = (0, 1, -1, 2, 3, 5, 7, 16, 17, 255, 4097, 2**31 - 1, 2**31, -(2**31), 10**12, 2**62, 2**63 - 1, -(2**63))
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 8)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, float("inf"), float("-inf"), float("nan"))
NAMES = ("", " ", "x", "t0", "*/", "a\nb", "\\", "%s{}", "é", "😀", "\x00", "__class__", "S0", "int", "a" * 5000)


def number_of(random: Random) -> int:
    return random.choice((random.choice(SMALL), random.choice(SMALL), random.choice(EDGES)))


def messages_of(message: Message) -> Iterator[Message]:
    """The message and every one inside it; the bulk of large tensors is no message."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from messages_of(inner)


def of_kind(model: onnx.ModelProto, kind: str) -> list[Any]:
    return [message for message in messages_of(model) if message.DESCRIPTOR.name == kind]


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return of_kind(model, "NodeProto")


def tensor_names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    return [*(v.name for v in graph.input), *(t.name for t in graph.initializer),
            *(name for node in graph.node for name in node.output)] or [""]  # fmt: skip


def graph_of(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "inner", inputs, [onnx.ValueInfoProto(name=name) for name in outputs])
