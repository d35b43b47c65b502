"""Damaged, hostile and absurd files through the command line: exit code 2 and one message that names what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.graph.models import model, node, save
from tests.support.commands import MODELS, SOFTMAX, document, loomscope, refused

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
VERBS = ("inspect", "fuse", "schedule", "predict", "verify")


def relu(shape: list[int | str]) -> onnx.ModelProto:
    return model([node("Relu", "x", "y")], {"x": shape}, ["y"])


def external(location: str) -> onnx.ModelProto:
    """x + w with w in a file beside the model."""
    proto = model([node("Add", "x w", "y")], {"x": [4]}, ["y"])
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    proto.graph.initializer.append(weight)
    return proto


def noted(key: str, value: object, element: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """y = x + x with a note in the model's metadata."""
    proto = model([node("Add", "x x", "y")], {"x": [4]}, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = element
    proto.graph.output[0].type.tensor_type.elem_type = element
    onnx.helper.set_model_props(proto, {key: json.dumps(value)})
    return proto


def truncated(path: Path) -> Path:
    path.write_bytes((MODELS / "bert_tiny.onnx").read_bytes()[:5000])
    return path


def linked(path: Path) -> Path:
    """The weights file is a link to one outside the folder."""
    folder = path.parent / "model"
    folder.mkdir()
    (path.parent / "secret").write_bytes(bytes(16))
    (folder / "weights").symlink_to(path.parent / "secret")
    return save(folder / path.name, external("weights"))


def written(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return write


def saved(proto: onnx.ModelProto) -> Callable[[Path], Path]:
    return lambda path: save(path, proto)


CYCLE = model([node("Add", "x b", "a"), node("Relu", "a", "b")], {"x": [4]}, ["b"])
DANGLING = model([node("Add", "x nowhere", "y")], {"x": [4]}, ["y"])

ONNX: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda path: path, "no such file"),
    "empty": (written(b""), "empty"),
    "directory": (lambda path: path.parent, "is not a file"),
    "png": (written(PNG), "no ONNX model"),
    "text": (written(b"hello\n"), "no ONNX model"),
    "truncated": (truncated, "damaged"),
    "cycle": (saved(CYCLE), "cycle"),
    "dangling input": (saved(DANGLING), "nowhere"),
    "absurd dimension": (saved(relu([2**40])), "1099511627776"),
    "product of dimensions": (saved(relu([2**20, 2**20])), "elements"),
    "dimension 0": (saved(relu([0, 4])), "size 0"),
    "negative dimension": (saved(relu([-3, 4])), "-3"),
    "open dimension": (saved(relu(["batch", 4])), "batch"),
    "missing weights": (saved(external("weights.bin")), "weights.bin is missing"),
    "weights above": (saved(external("../weights.bin")), "outside the model's folder"),
    "weights anywhere": (saved(external("/etc/passwd")), "outside the model's folder"),
    "weights by link": (linked, "outside the model's folder"),
    "weights under no name": (saved(external("weights\0")), "is no file name"),
    "weights under a long name": (saved(external("w" * 5000)), "is no file name"),
    "weights spread without bound": (saved(noted("light.weights", {"w": ["normal", 0, 10**400]})), "light.weights, w"),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", ONNX)
def test_an_unusable_model_is_refused_by_name(name: str, tmp_path: Path) -> None:
    make, words = ONNX[name]
    message = refused("inspect", str(make(tmp_path / "model.onnx")))
    assert words in message, message


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_alike(verb: str, tmp_path: Path) -> None:
    assert "damaged" in refused(verb, str(truncated(tmp_path / "cut.onnx")))


def test_a_dimension_that_is_bound_lets_the_same_file_open(tmp_path: Path) -> None:
    path = str(save(tmp_path / "open.onnx", relu(["batch", 4])))
    assert {tuple(t["shape"]) for t in document("inspect", path, "--dim", "batch=8")["tensors"]} == {(8, 4)}
    assert "1099511627776" in refused("inspect", path, "--dim", "batch=1099511627776")
    assert "heads" in refused("inspect", path, "--dim", "batch=8", "--dim", "heads=2")


@pytest.mark.parametrize("element", [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64])
@pytest.mark.parametrize("span", [[0, 10**400], [0, float("inf")], [-1e308, 1e308], [1, 0], [0, "1"]])
def test_a_range_of_inputs_that_no_tensor_can_hold_is_refused(span: list[Any], element: int, tmp_path: Path) -> None:
    path = str(save(tmp_path / "noted.onnx", noted("light.inputs", {"x": span}, element)))
    (row,) = json.loads(loomscope("verify", path, "--json").stdout)["groups"]
    assert row["status"] == "fail" and "light.inputs, x" in row["message"]
    path = str(save(tmp_path / "noted.onnx", noted("light.inputs", {"x": [0, 10]}, element)))
    assert document("verify", path)["summary"]["pass"] == 1


ENDLESS = pytest.param("batch=" + "9" * 5000, id="endless")


@pytest.mark.parametrize(
    "binding", ["batch", "batch=", "batch=x", "batch=0", "batch=-1", "=8", "batch=1.5", "b=8", ENDLESS]
)
def test_a_malformed_dimension_is_refused(binding: str, tmp_path: Path) -> None:
    path = str(save(tmp_path / "open.onnx", relu(["batch", 4])))
    assert binding.partition("=")[0] in refused("inspect", path, "--dim", binding)


def akg() -> dict[str, Any]:
    """y = tanh(x)."""
    x, y = ({"tensor_name": name, "shape": [4, 6], "data_type": "float32", "format": "DefaultFormat"} for name in "xy")
    operator = {"name": "Tanh", "attr": None, "input_desc": [[x]], "output_desc": [y]}
    return {"op": "Fused", "op_desc": [operator], "input_desc": [[x]], "output_desc": [y], "process": "cuda"}


def changed(*path: str | int, value: object = None, drop: bool = False) -> bytes:
    """The description with one place changed or left out."""
    document: Any = json.loads(json.dumps(akg()))
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    if drop:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return json.dumps(document).encode()


AKG: dict[str, tuple[bytes, str]] = {
    "truncated": (json.dumps(akg()).encode()[:-40], "cut short"),
    "list": (b"[1, 2]", "op_desc"),
    "no operators": (changed("op_desc", drop=True), "op_desc"),
    "operators of a wrong type": (changed("op_desc", value="Tanh"), "no operators"),
    "operator of a wrong type": (changed("op_desc", 0, value=7), "op_desc[0]"),
    "no operator name": (changed("op_desc", 0, "name", drop=True), "op_desc[0]"),
    "no outputs": (changed("op_desc", 0, "output_desc", drop=True), "no output"),
    "shape of text": (changed("input_desc", 0, 0, "shape", value="4x6"), "shape"),
    "shape of fractions": (changed("input_desc", 0, 0, "shape", value=[4, 6.5]), "shape"),
    "absurd shape": (changed("op_desc", 0, "output_desc", 0, "shape", value=[2**40]), "1099511627776"),
    "dimension 0": (changed("input_desc", 0, 0, "shape", value=[0, 6]), "size 0"),
    "unknown type": (changed("input_desc", 0, 0, "data_type", value="float31"), "float31"),
    "no tensor name": (changed("input_desc", 0, 0, "tensor_name", drop=True), "tensor_name"),
    "two shapes of one tensor": (changed("input_desc", 0, 0, "shape", value=[4, 7]), "elsewhere"),
    "nested lists": (b"[" * 10_000 + b"]" * 10_000, "JSON"),
    "nested objects": (b'{"op_desc":' * 10_000 + b"1" + b"}" * 10_000, "JSON"),
    "nested attribute": (
        changed("op_desc", 0, "attr", value=[{"name": "axis", "value": "@"}]).replace(
            b'"@"', b"[" * 500 + b"]" * 500
        ),
        "axis",
    ),
}


@pytest.mark.parametrize("name", AKG)
def test_a_malformed_description_is_refused_by_its_place(name: str, tmp_path: Path) -> None:
    content, words = AKG[name]
    path = tmp_path / "fused.json"
    path.write_bytes(content)
    message = refused("inspect", str(path))
    assert words in message and "fused.json" in message, message


def test_the_same_description_unchanged_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fused.json"
    path.write_text(json.dumps(akg()))
    assert document("verify", str(path))["summary"] == {"pass": 1, "fail": 0, "unsupported": 0}


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", SOFTMAX, "--target", "h300"),
        ("fuse", SOFTMAX, "--target", "h300"),
        ("verify", SOFTMAX, "--group", "softmax_9"),
        ("verify", SOFTMAX, "--whole", "--group", "softmax_0"),
        ("generate", SOFTMAX, "-o", "/proc/nowhere"),
        ("recipe", SOFTMAX, "-o", "/proc/nowhere/recipe.json"),
        ("verify", SOFTMAX, "--recipe", str(MODELS)),
        ("schedule", SOFTMAX, "--tree", str(MODELS)),
        ("schedule", SOFTMAX, "--tree", SOFTMAX),
        ("schedule", SOFTMAX, "--recipe", SOFTMAX),
    ],
)
def test_an_option_that_cannot_be_used_is_named(arguments: tuple[str, ...]) -> None:
    assert arguments[-1].rpartition("/")[2] in refused(*arguments)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "@"),
        ("schedule", SOFTMAX, "--recipe", "@"),
        ("schedule", SOFTMAX, "--tree", "@"),
        ("check", SOFTMAX, "@"),
        ("compare", "@", "@"),
        ("calibrate", "@"),
        ("render", SOFTMAX, "-o", "/dev/null", "--advice", "@"),
    ],
)
def test_what_never_ends_is_refused_wherever_a_file_is_asked_for(arguments: tuple[str, ...], device: str) -> None:
    message = refused(*(device if each == "@" else each for each in arguments))
    assert device in message and "is not a file" in message


def nowhere(*arguments: str) -> tuple[str, ...]:
    return (*arguments, "/no folder of that name/file.json")


@pytest.mark.parametrize(
    "arguments",
    [
        nowhere("recipe", SOFTMAX, "-o"),
        nowhere("baseline", SOFTMAX, "-o"),
        nowhere("tune", SOFTMAX, "-o"),
        nowhere("tune", SOFTMAX, "--export"),
        nowhere("render", SOFTMAX, "-o"),
    ],
)
def test_a_place_for_the_result_is_looked_at_before_the_work(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments[0] != "recipe":  # its work is a fraction of a second

        def load(*_: object, **__: object) -> None:
            raise AssertionError("the model was opened first")

        monkeypatch.setattr("engine.load", load)
    message = refused(*arguments)
    assert "there is no folder /no folder of that name" in message and "Errno" not in message
    assert not list(tmp_path.iterdir()), "a search that cannot end well keeps no records"


def test_an_empty_file_is_no_file_of_records_and_stays_empty(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.touch()
    assert f"{place}: is empty" in refused("trials", str(place))
    assert place.stat().st_size == 0 and list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--records", "/dev/null"), "is not a file"),
        (("--records", "/dev"), "is not a file"),
        (("--export", "trials.txt"), ".csv or .json"),
        (("--cluster", "nowhere"), "tcp://host:8786"),
        (("--cluster", ":8786"), "tcp://host:8786"),
    ],
)
def test_a_search_is_not_begun_with_options_that_cannot_be_meant(
    options: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused("tune", SOFTMAX, *options)
    assert options[1] in message and says in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["stages", "stages=0", "stages=-1", "=2"])
def test_a_malformed_slider_is_refused_by_the_name_of_its_option(value: str, tmp_path: Path) -> None:
    message = refused("render", SOFTMAX, "-o", str(tmp_path / "x.png"), "--what-if", value)
    assert f"--what-if {value}: " in message and "--dim" not in message


def test_a_recipe_with_an_endless_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text('{"version": ' + "9" * 5000 + "}")
    assert "recipe.json" in refused("verify", SOFTMAX, "--recipe", str(path))


def test_an_unknown_operator_is_listed_and_the_rest_is_checked(tmp_path: Path) -> None:
    weight = np.eye(8, dtype=np.float32)
    nodes = [node("Relu", "x", "a"), node("Fancy", "a", "b"), node("MatMul", "x w", "y")]
    path = str(save(tmp_path / "odd.onnx", model(nodes, {"x": [4, 8]}, ["y", "b"], {"w": weight})))
    (row,) = document("inspect", path)["unsupported"]
    assert (row["operator"], "Fancy" in row["reason"]) == ("node_b", True)
    found = document("verify", path)
    assert found["summary"] == {"pass": 2, "fail": 0, "unsupported": 1}
    (unsupported,) = (g for g in found["groups"] if g["status"] == "unsupported")
    assert unsupported["name"] == "node_b" and "Fancy" in unsupported["message"]


def test_a_whole_run_of_a_model_with_an_unknown_operator_names_it(tmp_path: Path) -> None:
    path = str(save(tmp_path / "odd.onnx", model([node("Fancy", "x", "b")], {"x": [4]}, ["b"])))
    assert "node_b" in refused("verify", path, "--whole")


def test_what_stands_behind_an_unknown_operator_is_checked_where_its_shape_is_declared(tmp_path: Path) -> None:
    proto = model([node("Fancy", "x", "b"), node("Relu", "b", "y")], {"x": [4, 8]}, ["y"])
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4, 8]))
    assert document("verify", str(save(tmp_path / "odd.onnx", proto)))["summary"]["pass"] == 1


def test_a_fault_of_ours_is_a_message_and_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from app.cli import verbs

    def broken(*_: object) -> None:
        raise KeyError("secret\npart")

    monkeypatch.setattr(verbs, "inspect", broken)
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path / "data"))
    done = loomscope("inspect", SOFTMAX)
    assert done.returncode == 70 and "Traceback" not in done.stderr
    (report,) = (tmp_path / "data" / "faults").iterdir()
    assert "a fault of loomscope" in done.stderr and str(report) in done.stderr.replace("\n", "")
    assert "Traceback" in report.read_text() and "in broken" in report.read_text()
    assert loomscope("fuse", SOFTMAX).returncode == 0


def test_a_fault_without_a_place_for_its_report_is_still_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from app.cli import verbs

    def broken(*_: object) -> None:
        raise ZeroDivisionError("x")

    (tmp_path / "file").write_text("")
    monkeypatch.setattr(verbs, "inspect", broken)
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    done = loomscope("inspect", SOFTMAX)
    assert done.returncode == 70 and "no report could be written" in done.stderr


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.cli import verbs

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "inspect", interrupted)
    done = loomscope("inspect", SOFTMAX)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_reader_that_goes_away_ends_it_quietly(option: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "app", "inspect", "example", *option], stdout=pipe, stderr=subprocess.PIPE,
            cwd=MODELS.parents[1], text=True, check=False, timeout=120,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (141, "")
