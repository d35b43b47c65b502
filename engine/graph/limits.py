"""What a file may ask for: sizes past these are mistakes or attacks, and are refused by name before memory is taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import BadInput

MAX_FILE_BYTES = 2 * 2**30
"""Protocol buffers cannot hold more in one message."""
MAX_TEXT_BYTES = 32 * 2**20
"""Of JSON and advice: the largest real file has 40 kB, and as values a text takes up to twenty times its size."""
MAX_ELEMENTS = 2**31
"""Elements of one tensor."""
MAX_RANK = 8
MAX_NAME = 4096
"""Characters of a tensor's or operator's name."""
MAX_OPERATORS = 200_000


def read_limited(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file; BadInput when it is missing, no file (a pipe never ends), empty or past `most` bytes."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadInput("graph", str(path), "is not a file", "give an .onnx or an AKG .json file")
        if size > most:
            hint = "keep its weights in a second file" if most == MAX_FILE_BYTES else ""
            raise BadInput("graph", str(path), f"has {size} bytes, more than {most >> 20} MiB", hint)
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInput("graph", str(path), "there is no such file") from None
    except OSError as error:
        raise BadInput("graph", str(path), f"cannot be read: {error.strerror or error}") from None
    if not data:
        raise BadInput("graph", str(path), "is empty")
    return data


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
        raise BadInput("graph", subject, f"{text} are {elements} elements", "at most 2^31 in one tensor")
    return tuple(shape)


def checked_name(subject: str, name: str | bytes) -> str:
    """The name; BadInput when it is absurdly long or no text (protocol buffers hand out damaged UTF-8 as bytes)."""
    if isinstance(name, bytes):
        raise BadInput("graph", subject, f"the name {name[:40]!r} is no UTF-8 text", "the file may be damaged")
    if len(name) > MAX_NAME:
        raise BadInput("graph", subject, f"the name {name[:40]!r}... has {len(name)} characters", f"at most {MAX_NAME}")
    return name
