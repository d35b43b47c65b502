"""Files of other tools: named, with the way to convert them, and nothing in them is run."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import engine
from engine.support.errors import BadInput
from tests.support.commands import refused


class Planted:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def archive(**files: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, content in files.items():
            made.writestr(name.replace("__", "/").replace("_DOT_", "."), content)
    return data.getvalue()


EXPORTED = "where you trust it, save it again with PyTorch 2.9 or later"
TEXT = b"""// made by jax
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
FILES = {
    "program without its graph": (archive(model__archive_format=b"pt2"), EXPORTED),
    "older program of torch.export": (archive(serialized_exported_program_DOT_json=b"{}", version=b"8.8"), EXPORTED),
    "module of PyTorch": (archive(model__data_DOT_pkl=b"\x80\x02}q\x00.", model__version=b"3"), "export the module"),
    "text of StableHLO": (TEXT, "is a module of MLIR, such as StableHLO"),
    "bytes of MLIR": (b"ML\xefR\x0dMLIR\x00", "is a module of MLIR"),
    "TensorFlow Lite": (b"\x1c\x00\x00\x00TFL3" + bytes(40), "tf2onnx.convert --tflite"),
    "Keras": (archive(config_DOT_json=b"{}", model_DOT_weights_DOT_h5=b""), "is a model of Keras"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "is a model of Keras"),
    "GGUF": (b"GGUF\x03\x00\x00\x00" + bytes(40), "holds weights and no graph"),
    "safetensors": (b"\x40" + bytes(7) + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', "safetensors"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_named_with_the_way_to_convert_it(name: str, tmp_path: Path) -> None:
    content, words = FILES[name]
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        engine.load(path)
    assert words in str(caught.value) and "is not read" in str(caught.value)


@pytest.mark.parametrize("content", [b"module, he said", b"PK\x03\x04 cut", b"ordinary text", b"\x00" * 16])
def test_what_only_looks_alike_is_no_format(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(BadInput, match="is no ONNX model"):
        engine.load(tmp_path / "model.onnx")


def test_nothing_in_a_program_is_unpickled(tmp_path: Path) -> None:
    planted = tmp_path / "ran"
    (tmp_path / "model.pt2").write_bytes(
        archive(model__archive_format=b"pt2", model__data__weights__weight_0=pickle.dumps(Planted(planted)))
    )
    message = refused("inspect", str(tmp_path / "model.pt2"))
    assert "is a program of torch.export (.pt2) as PyTorch before 2.9 wrote it" in message
    assert "PyTorch runs what is pickled in it" in message
    assert not planted.exists()
    pickle.loads(pickle.dumps(Planted(planted)))
    assert planted.exists(), "the plant does nothing"
