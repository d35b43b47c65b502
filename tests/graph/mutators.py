"""Broken files from sound ones: damaged bytes, damaged protobuf messages, damaged JSON documents, damaged text.

Every mutator takes a file's bytes and a seeded generator and gives the bytes of another file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Mutator = Callable[[bytes, Random], bytes]

NUMBERS = (0, 1, -1, 2, 7, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 10**30)
TEXTS = (
    "", " ", "\0", "\n", "x" * 5000, "x" * 200_000, "é" * 300, "../../etc/passwd", "/etc/passwd", "..", "a" * 300,
    "-1", "1e999", "NaN", "%s%s%n", "{}", "float32", "int64", "S0", "all", "any", "innermost", "\ud7ff", "\u202e",
)  # fmt: skip
_DEEP = (10, 200, 5000)


# -- bytes


def flipped(data: bytes, random: Random) -> bytes:
    """A few bits turned over."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(data: bytes, random: Random) -> bytes:
    """Only the beginning."""
    return data[: random.randrange(len(data) + 1)]


def spliced(data: bytes, random: Random) -> bytes:
    """A stretch left out, doubled, moved or filled."""
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    last = min(last, first + 4096)
    stretch, to = data[first:last], random.randrange(len(data) + 1)
    match random.randrange(4):
        case 0:
            return data[:first] + data[last:]
        case 1:
            return data[:to] + stretch + data[to:]
        case 2:
            return data[:first] + bytes([random.choice((0, 0x7F, 0x80, 0xFF))]) * len(stretch) + data[last:]
        case _:
            return data[:first] + random.randbytes(len(stretch)) + data[last:]


# -- protobuf: the message is read, changed and written; what no writer writes is done to the bytes of its fields


def refielded(data: bytes, random: Random) -> bytes:
    """A field at some depth left out, doubled, or its wire type changed, whatever it means."""
    fields = list(_fields(data))
    if not fields:
        return data
    start, end, inside = random.choice(fields)
    while inside < end and random.random() < 0.7:
        deeper = [(inside + a, inside + b, inside + c) for a, b, c in _fields(data[inside:end])]
        if not deeper:
            break
        start, end, inside = random.choice(deeper)
    match random.randrange(3):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] + data[end:]
        case _:
            return data[:start] + bytes([data[start] ^ random.randrange(1, 8)]) + data[start + 1 :]


def _fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(start, end, start of the content) of every field of a message; ends at what is none."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                end = inside = _varint(data, at)[1]
            case 1:
                end = inside = at + 8
            case 2:
                length, inside = _varint(data, at)
                end = inside + length
            case 5:
                end = inside = at + 4
            case _:
                return
        if tag >> 3 == 0 or end > len(data):
            return
        yield start, end, inside
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            break
    return value, at


def remessaged(data: bytes, random: Random) -> bytes:
    """One to three fields of the model with absurd values, left out, doubled, or put elsewhere."""
    model = onnx.load_model_from_string(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        holder, field = random.choice(list(_places(model)))
        _change(holder, field, random)
    return bytes(model.SerializeToString())


def _places(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    for field, value in message.ListFields():
        yield message, field
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from _places(inner)


def _change(holder: Message, field: FieldDescriptor, random: Random) -> None:
    if field.is_repeated:
        items = getattr(holder, field.name)
        at = random.randrange(len(items))
        match random.randrange(4):
            case 0:
                del items[at]
            case 1:
                items.append(copy.deepcopy(items[at]))
            case 2 if field.type != FieldDescriptor.TYPE_MESSAGE:
                items[at] = _absurd(field, items[at], random)
            case 2:
                items[at].CopyFrom(copy.deepcopy(random.choice(items)))
            case _:
                shuffled = [copy.deepcopy(item) for item in items]
                random.shuffle(shuffled)
                del items[:]
                items.extend(shuffled)
    elif field.type == FieldDescriptor.TYPE_MESSAGE or random.random() < 0.2:
        holder.ClearField(field.name)
    else:
        setattr(holder, field.name, _absurd(field, getattr(holder, field.name), random))


def _absurd(field: FieldDescriptor, value: Any, random: Random) -> Any:
    """A value of the field's type that no exporter writes."""
    if isinstance(value, str | bytes):
        text = random.choice((*TEXTS, "Relu", "Loop", "Resize", "Einsum", "MatMul", "Gemm", "Conv", "Reshape"))
        return text if isinstance(value, str) else text.encode()
    if isinstance(value, float):
        return random.choice((0.0, -1.0, 1e38, float("inf"), float("nan")))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return random.choice(list(field.enum_type.values_by_number))
    narrow = field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32)
    low = (
        0
        if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_UINT32)
        else -(2 ** (31 if narrow else 63))
    )
    high = 2**31 - 1 if narrow else 2**63 - 1
    near = (int(value) + 1, int(value) - 1, int(value) * 2, 1, 2, 3, int(value) * 1000)
    return random.choice([number for number in random.choice((NUMBERS, near, near)) if low <= number <= high])


def rewired(data: bytes, random: Random) -> bytes:
    """Another graph of the same nodes: cycles, inputs from nowhere, weights missing or outside, deep subgraphs."""
    model = onnx.load_model_from_string(data)
    graph = model.graph
    names = [name for node in graph.node for name in (*node.input, *node.output)] or ["x"]
    node = random.choice(graph.node) if graph.node else graph.node.add(op_type="Relu", input=["x"], output=["y"])
    match random.randrange(7):
        case 0 if node.input:
            node.input[random.randrange(len(node.input))] = random.choice((*names, "nowhere", ""))
        case 1 if node.output:
            node.output[random.randrange(len(node.output))] = random.choice((*names, ""))
        case 2 if graph.initializer:
            del graph.initializer[random.randrange(len(graph.initializer))]
        case 3 if graph.initializer:
            _put_outside(random.choice(graph.initializer), random)
        case 4:
            return bytes(model.SerializeToString()) + _nested(random.choice((3, 20, 200, 2000)))
        case 5:
            _call_functions(model, node, random)
        case _:
            node.op_type = random.choice(
                list({other.op_type for other in graph.node} | {"Loop", "If", "Scan", "Fancy"})
            )
            del node.input[random.randrange(len(node.input) + 1) :]
    return bytes(model.SerializeToString())


def _put_outside(weight: onnx.TensorProto, random: Random) -> None:
    """The weight in a file that may not be read, is too short, or is a link out of the folder (`link`)."""
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    del weight.external_data[:]
    places = (
        "../../etc/passwd",
        "/etc/passwd",
        "link",
        "weights",
        "weights/../../secret",
        ".",
        "",
        "/dev/zero",
        "fifo",
    )
    weight.external_data.add(key="location", value=random.choice(places))
    for key in random.sample(("offset", "length"), random.randrange(3)):
        weight.external_data.add(key=key, value=str(random.choice((*NUMBERS, "x", "1.5", "9" * 5000))))


def _nested(depth: int) -> bytes:
    """A node with a subgraph in a subgraph in a subgraph, as a second part of the model's graph: parts are merged."""
    node = _field(1, b"x") + _field(2, b"deep") + _field(4, b"Relu")
    for _ in range(depth):
        branch = _field(1, b"then_branch") + b"\xa0\x01\x05" + _field(6, _field(1, node))
        node = _field(1, b"condition") + _field(2, b"deep") + _field(4, b"If") + _field(5, branch)
    return _field(7, _field(1, node))


def _field(number: int, content: bytes) -> bytes:
    """A field with a length, as protocol buffers write it."""
    length, size = len(content), bytearray()
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + content


def _call_functions(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    """Functions that call each other: a chain that doubles, or a circle."""
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)]
    model.opset_import.append(opsets[1])
    count, circle = random.choice((1, 3, 20)), random.random() < 0.5
    for number in range(count):
        following = f"F{number + 1}" if number + 1 < count else ("F0" if circle else "Last")
        calls = [onnx.helper.make_node(following, ["a"], ["m"], domain="own"),
                 onnx.helper.make_node(following, ["m"], ["b"], domain="own")]  # fmt: skip
        model.functions.append(onnx.helper.make_function("own", f"F{number}", ["a"], ["b"], calls, opsets))
    last = [onnx.helper.make_node("Relu", ["a"], ["b"])]
    model.functions.append(onnx.helper.make_function("own", "Last", ["a"], ["b"], last, opsets))
    node.domain, node.op_type = "own", "F0"


# -- JSON


def rekeyed(data: bytes, random: Random) -> bytes:
    """One to three places of the document left out, doubled, put elsewhere, or with absurd values."""
    document = [json.loads(data)]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = list(_holders(document))
        holder, key = random.choice(places)
        match random.randrange(5):
            case 0 if holder is not document:
                del holder[key]
            case 1:
                other, place = random.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case 2 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 3 if isinstance(holder, dict):
                holder[random.choice(TEXTS)] = holder.pop(key)
            case _:
                holder[key] = _absurd_json(holder[key], random)
    text = json.dumps(document[0], ensure_ascii=random.random() < 0.5)
    deep = random.choice(_DEEP)
    return (
        text.replace('"@deep list"', "[" * deep + "]" * deep)
        .replace('"@deep object"', '{"a":' * deep + "1" + "}" * deep)
        .replace('"@endless"', "9" * 5000)
        .encode("utf-8", "surrogatepass")
    )


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: what holds it, and its key there."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield value, key
        yield from _holders(inner)


def _absurd_json(value: Any, random: Random) -> Any:
    numbers = (*NUMBERS, 10**400, 0.5, 1e308, -0.0, float("nan"), float("inf"))
    near = (value + 1, value - 1, value * 2, value * 1000, -value) if type(value) in (int, float) else ()
    others = (None, True, False, [], {}, [[]], {"a": 1}, "@deep list", "@deep object", "@endless", [0] * 5000)
    return random.choice(random.choice((numbers, TEXTS, others, near or numbers, near or TEXTS, near or others)))


# -- text


def reworded(data: bytes, random: Random) -> bytes:
    """Words, lines and indents of a text changed."""
    lines = data.decode().splitlines()
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines)) if lines else 0
        line = lines[at] if lines else ""
        words = line.split(" ")
        match random.randrange(6):
            case 0:
                words[random.randrange(len(words))] = str(
                    random.choice((*NUMBERS, *TEXTS, "9" * 5000, "(", ")", ":", "@"))
                )
                lines[at : at + 1] = [" ".join(words)]
            case 1:
                random.shuffle(words)
                lines[at : at + 1] = [" ".join(words)]
            case 2:
                lines[at:at] = [line] * random.choice((1, 3, 500))
            case 3:
                lines[at : at + 1] = []
            case 4:
                lines[at : at + 1] = [" " * random.randrange(9) + line.strip()]
            case _:
                deep = random.choice(_DEEP)
                nested = [f"{'  ' * (level % 200)}either" for level in range(min(deep, 400))]
                lines[at:at] = random.choice((nested, ["(" * deep], ["  all @ any: cut " + "S0 | " * deep]))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


BYTES: tuple[Mutator, ...] = (flipped, cut, spliced)
PROTOBUF: tuple[Mutator, ...] = (*BYTES, refielded, refielded, remessaged, remessaged, remessaged, rewired, rewired)
JSON: tuple[Mutator, ...] = (*BYTES, rekeyed, rekeyed, rekeyed, rekeyed)
TEXT: tuple[Mutator, ...] = (*BYTES, reworded, reworded, reworded)
