"""Edits that break an ONNX model where its structure says that it can be broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.fuzz.onnx_growth import grow
from tests.fuzz.onnx_parts import NAMES, REALS, graph_of, messages_of, nodes_of, number_of, of_kind, tensor_names

KINDS = "NoSuchOp Loop If Scan Constant ConstantOfShape SequenceEmpty QuantizeLinear NonZero MatMul Concat LSTM DFT"

# -- fields, whatever they mean


def edit_field(model: onnx.ModelProto, random: Random) -> None:
    """Another value for a scalar field, set or unset so far."""
    holder = random.choice(list(messages_of(model)))
    fields = [f for f in holder.DESCRIPTOR.fields if f.type != FieldDescriptor.TYPE_MESSAGE]
    if not fields:
        return
    field = random.choice(fields)
    value = _scalar(model, field, random)
    if not field.is_repeated:
        setattr(holder, field.name, value)
        return
    values = getattr(holder, field.name)
    if values and random.random() < 0.7:
        values[random.randrange(len(values))] = value
    else:
        values.extend([value] * random.choice((1, 2, 70)))


def _scalar(model: onnx.ModelProto, field: FieldDescriptor, random: Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_INT64:
            return number_of(random)
        case FieldDescriptor.CPPTYPE_INT32:
            return max(-(2**31), min(2**31 - 1, number_of(random)))
        case FieldDescriptor.CPPTYPE_UINT64:
            return abs(number_of(random))
        case FieldDescriptor.CPPTYPE_ENUM:
            return random.choice(field.enum_type.values).number
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return random.choice((b"", b"\xff\xfe", b"abcd" * 3, random.choice(NAMES).encode()))
        case FieldDescriptor.CPPTYPE_STRING:
            return random.choice((random.choice(NAMES), random.choice(tensor_names(model))))
        case _:
            return random.choice(REALS)


def edit_messages(model: onnx.ModelProto, random: Random) -> None:
    """Clear, repeat, exchange or multiply what a repeated field of messages holds."""
    places = [(holder, field) for holder in messages_of(model) for field, _ in holder.ListFields()
              if field.type == FieldDescriptor.TYPE_MESSAGE]  # fmt: skip
    if not places:
        return
    holder, field = random.choice(places)
    if not field.is_repeated:
        if random.random() < 0.5:
            holder.ClearField(field.name)
        else:
            getattr(holder, field.name).Clear()
        return
    values = getattr(holder, field.name)
    at, other = random.randrange(len(values)), random.randrange(len(values))
    match random.randrange(4):
        case 0:
            del values[at]
        case 1:
            values.add().CopyFrom(values[at])
        case 2:
            kept = type(values[at]).FromString(values[at].SerializeToString())
            values[at].CopyFrom(values[other])
            values[other].CopyFrom(kept)
        case _:
            for _ in range(random.choice((3, 40))):
                values.add().CopyFrom(values[at])


def exchange(model: onnx.ModelProto, random: Random) -> None:
    """One message in the place of another of its kind."""
    kind = random.choice(("TensorProto", "AttributeProto", "ValueInfoProto", "TypeProto", "GraphProto", "NodeProto"))
    found = of_kind(model, kind)
    if len(found) > 1:
        source, target = random.sample(found, 2)
        target.ParseFromString(source.SerializeToString())


# -- attributes


def edit_attribute(model: onnx.ModelProto, random: Random) -> None:
    """Another value, length or type of an attribute, or one that the operator's definition knows and the node lacks."""
    node = random.choice(nodes_of(model) or [onnx.NodeProto()])
    if not node.attribute or random.random() < 0.4:
        _add_attribute(node, random)
        return
    attribute = random.choice(node.attribute)
    match random.randrange(6):
        case 0:
            attribute.type = random.choice(AttributeProto.AttributeType.values())
        case 1:
            attribute.name = random.choice((*NAMES, "axis", "axes", "perm", "body", "to", "value"))
        case 2 if attribute.ints:
            del attribute.ints[random.randrange(len(attribute.ints)) :]
        case 3:
            attribute.ints.extend(number_of(random) for _ in range(random.choice((1, 2, 40))))
        case 4 if attribute.s:
            attribute.s = random.choice((b"", b"\xff", b"NOTSET", b"(((", b"a,b->", b"ab,bc->ac", attribute.s * 200))
        case _:
            attribute.i = number_of(random)
            attribute.f = random.choice(REALS)
            attribute.ints[:] = [number_of(random) for _ in attribute.ints]
            attribute.floats[:] = [random.choice(REALS) for _ in attribute.floats]


def _add_attribute(node: onnx.NodeProto, random: Random) -> None:
    if not onnx.defs.has(node.op_type):
        return
    known = list(onnx.defs.get_schema(node.op_type).attributes.values())
    if not known:
        return
    definition = random.choice(known)
    kept = [a for a in node.attribute if a.name != definition.name]
    made = AttributeProto(name=definition.name, type=int(definition.type))
    count = random.choice((0, 1, 2, 4))
    made.i, made.f, made.s = number_of(random), random.choice(REALS), random.choice(NAMES).encode()
    made.ints.extend(number_of(random) for _ in range(count))
    made.floats.extend(random.choice(REALS) for _ in range(count))
    made.strings.extend(random.choice((b"Tanh", b"", b"Elu", b"\xff")) for _ in range(count))
    del node.attribute[:]
    node.attribute.extend([*kept, made])


# -- values, shapes and types


def edit_shape(model: onnx.ModelProto, random: Random) -> None:
    """A dimension of an input or of a declared value: another size, a name, none, or one more."""
    values = [v for v in of_kind(model, "ValueInfoProto") if v.type.HasField("tensor_type")]
    if not values:
        return
    dims = random.choice(values).type.tensor_type.shape.dim
    if not dims or random.random() < 0.15:
        dims.add().dim_value = number_of(random)
        return
    dim = random.choice(dims)
    match random.randrange(4):
        case 0:
            dim.dim_param = random.choice(("n", "batch", "", "n + 1", random.choice(NAMES)))
        case 1:
            dims.remove(dim)
        case _:
            dim.dim_value = random.choice((number_of(random), 1, 33, 1025, 65536))


def edit_type(model: onnx.ModelProto, random: Random) -> None:
    """Another element type, or none that is one; or no tensor at all."""
    value = random.choice(of_kind(model, "ValueInfoProto") or [onnx.ValueInfoProto()])
    element = random.choice((*range(25), 99, -1))
    match random.randrange(5):
        case 0:
            value.type.sequence_type.elem_type.tensor_type.elem_type = element
        case 1:
            value.type.optional_type.elem_type.tensor_type.elem_type = element
        case _:
            value.type.tensor_type.elem_type = element


def edit_constant(model: onnx.ModelProto, random: Random) -> None:
    """Other values, another shape, type or place of the data of a stored tensor."""
    tensors = [each for each in of_kind(model, "TensorProto") if each.data_location != TensorProto.EXTERNAL]
    if not tensors:
        return
    tensor = random.choice(tensors)
    match random.randrange(5):
        case 0:
            tensor.data_type = random.choice((*TensorProto.DataType.values(), 99))
        case 1:
            tensor.dims[:] = [number_of(random) for _ in range(random.choice((0, 1, len(tensor.dims), 9)))]
        case 2:
            tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)]
        case _ if tensor.data_type == TensorProto.INT64:
            try:
                old = numpy_helper.to_array(tensor).reshape(-1)
            except (ValueError, TypeError):
                return
            count = random.choice((len(old), len(old), 0, 1, 5, 9))
            new = [
                number_of(random) if at >= len(old) or random.random() < 0.5 else int(old[at]) for at in range(count)
            ]
            dims = [count] if tensor.dims else []
            name = tensor.name
            if dims or count == 1:
                tensor.CopyFrom(numpy_helper.from_array(np.array(new, np.int64).reshape(dims), name))
        case _:
            tensor.double_data.append(random.choice(REALS))


LOCATIONS = ("weights", "weights", "weights", "loop", "", ".", "..", "/etc/passwd", "../weights", "away", "fifo", "dir",
             "missing", "a/" * 300, "b" * 300, "\x00", "*", "weights/", "./weights")  # fmt: skip


def put_outside(model: onnx.ModelProto, random: Random) -> None:
    """The data of a tensor in a file beside the model, as it should be or in one of the ways it should not."""
    tensors = of_kind(model, "TensorProto")
    if not tensors:
        return
    tensor = random.choice(tensors)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=random.choice(LOCATIONS))
    for key in ("offset", "length"):
        if random.random() < 0.5:
            numbers = map(str, (0, 4, 64, 4095, 4096, 2**63, -1, 10**30, 1))
            tensor.external_data.add(key=key, value=random.choice((*numbers, "", "1e3", "٣", "0x10", " 4 ", "4_0")))


def prepare_outside(folder: Path) -> None:
    """What `put_outside` refers to."""
    import os

    (folder / "weights").write_bytes(bytes(range(256)) * 16)
    (folder / "dir").mkdir(exist_ok=True)
    for link, target in (("loop", "loop"), ("away", "/etc/hostname")):
        (folder / link).symlink_to(target)
    os.mkfifo(folder / "fifo")


# -- wires


def rewire(model: onnx.ModelProto, random: Random) -> None:
    """Inputs and outputs of nodes and graphs: absent, doubled, of another tensor, in a circle, one too many."""
    node, names = random.choice(nodes_of(model) or [onnx.NodeProto()]), tensor_names(model)
    match random.randrange(7):
        case 0 if node.input:
            node.input[random.randrange(len(node.input))] = random.choice((*names, "", "nowhere"))
        case 1 if node.output:
            node.output[random.randrange(len(node.output))] = random.choice((*names, "", "new"))
        case 2:
            node.input.extend([random.choice((*names, ""))] * random.choice((1, 3)))
        case 3:
            node.output.append(random.choice((*names, "", "more")))
        case 4:
            model.graph.output.add(name=random.choice((*names, "nowhere")))
        case 5:
            nodes = list(model.graph.node)
            random.shuffle(nodes)
            copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
            del model.graph.node[:]
            model.graph.node.extend(copies)
        case _:
            del node.input[random.randrange(len(node.input) + 1) :]


def edit_kind(model: onnx.ModelProto, random: Random) -> None:
    """Another operator, operator set or domain."""
    node = random.choice(nodes_of(model) or [onnx.NodeProto()])
    match random.randrange(4):
        case 0:
            node.domain = random.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "own", *NAMES))
        case 1:
            for opset in model.opset_import:
                opset.version = random.choice((*range(1, 30), number_of(random)))
        case 2:
            node.op_type = random.choice(KINDS.split())
        case _:
            # Any operator of ONNX with the operands of another.
            node.op_type = random.choice(sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain}))


# -- subgraphs and functions


def put_inside(model: onnx.ModelProto, random: Random) -> None:
    """A node into the branch of an If or the body of a Loop or Scan, or into many of them inside each other."""
    nodes = list(model.graph.node)
    if not nodes:
        return
    inner = onnx.NodeProto.FromString(random.choice(nodes).SerializeToString())
    outputs = [name for name in inner.output if name] or ["y"]
    condition = onnx.TensorProto(name="fuzz_true", data_type=TensorProto.BOOL, dims=[], raw_data=b"\1")
    model.graph.initializer.append(condition)
    for _ in range(random.choice((1, 1, 2, 40, 90))):
        kind = random.choice(("If", "If", "Loop", "Scan"))
        given = [helper.make_tensor_value_info(name, element, []) for name, element in
                 (("i", TensorProto.INT64), ("go", TensorProto.BOOL))]  # fmt: skip
        if kind == "If":
            graph = graph_of([inner], [], outputs)
            inner = helper.make_node("If", ["fuzz_true"], outputs, then_branch=graph, else_branch=graph)
        elif kind == "Loop":
            graph = graph_of([inner], given, ["go", *outputs])
            inner = helper.make_node("Loop", ["", "fuzz_true"], outputs, body=graph)
        else:
            scanned = random.choice(tensor_names(model))
            graph = graph_of([inner], [onnx.ValueInfoProto(name="row")], outputs)
            scans = random.choice((1, 1, 0, 3))
            inner = helper.make_node("Scan", [scanned], outputs, body=graph, num_scan_inputs=scans)
        if inner.ByteSize() > 300_000:
            break
    for node in model.graph.node:
        if list(node.output)[:1] == outputs[:1]:
            node.CopyFrom(inner)


def put_into_function(model: onnx.ModelProto, random: Random) -> None:
    """A node as a function of the model: sound, called with too few operands, or calling itself."""
    if not model.graph.node:
        return
    node = random.choice(model.graph.node)
    body = [onnx.NodeProto.FromString(node.SerializeToString())]
    if random.random() < 0.2:
        body.append(helper.make_node("F", list(node.input), ["again"], domain="fuzz"))
    opsets = [*model.opset_import, helper.make_opsetid("fuzz", random.choice((1, 1, 2)))]
    inputs = list(dict.fromkeys(filter(None, node.input)))
    outputs = list(filter(None, node.output))
    model.functions.append(helper.make_function("fuzz", "F", inputs, outputs, body, opsets))
    model.opset_import.append(helper.make_opsetid("fuzz", 1))
    del node.attribute[random.choice((0, len(node.attribute))) :]
    node.op_type, node.domain = "F", random.choice(("fuzz", "fuzz", "", "other"))
    node.input[:] = inputs[: random.choice((len(inputs), len(inputs), 1))]
    node.output[:] = outputs


EDITS: tuple[Callable[[onnx.ModelProto, Random], None], ...] = (
    edit_field, edit_field, edit_messages, exchange, edit_attribute, edit_attribute, edit_attribute, edit_shape,
    edit_shape, edit_type, edit_constant, edit_constant, put_outside, rewire, rewire, edit_kind, edit_kind, put_inside,
    put_into_function, grow, grow,
)  # fmt: skip
