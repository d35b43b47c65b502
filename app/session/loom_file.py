"""Workspace files (`.loom`): which model, for which machine, the history of every group, what was in sight.

JSON with a version; as a zip archive of that JSON where it is large.  Files are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from app.session.fusion_constraints import FREE, FUSION, DormantHistory, fixed_of
from app.session.history import History, HistoryRecord
from app.session.named_models import is_name, path_of
from engine.recipe import Recipe
from engine.scheduling.text import from_text
from engine.support.budgets import MAX_WORKSPACE_BYTES
from engine.support.errors import BadInput
from engine.support.files import parse_json, replace_whole
from engine.support.serialization import fields_to_json, from_json

SUFFIX = ".loom"
FORMAT = "loomscope-workspace"
VERSION = 1
STAGE = "workspace"
LARGE = 1 << 20
"""Bytes of JSON from which on it is stored compressed."""
MEMBER = "workspace.json"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelReference:
    """The model of a workspace."""

    path: str
    """Relative to the workspace file where the model lies beside or below it, else absolute; or what stands for a
    model without being a path: "example", "suite:NAME/ROW"."""
    sha256: str = ""
    """Of the model file; "" where it was never computed."""


@dataclass(frozen=True, slots=True)
class LoomFile:
    """Everything that a workspace file holds."""

    model: ModelReference
    target: str
    dimensions: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, HistoryRecord] = field(default_factory=dict)
    """The history of each group, and that of what is fixed about groups."""
    selection: str = ""
    statements: tuple[str, ...] = ()
    view: Mapping[str, str] = field(default_factory=dict)
    """What was in sight: "perspective", "colour"."""
    asleep: tuple[DormantHistory, ...] = ()
    """Histories of groups that other plans of the model had."""
    numerics: Mapping[str, str] = field(default_factory=dict)
    """How kernels round; a file that says nothing is of a time when they did as the graph says."""


def write_loom(content: LoomFile, path: Path) -> None:
    """Writes a workspace file, whole or not at all.  BadInput where it cannot be written."""
    text = json.dumps(as_plain(content), ensure_ascii=False, indent=1).encode()
    try:
        replace_whole(path, text if len(text) < LARGE else _compress(text))
    except OSError as error:
        raise BadInput(STAGE, path.name, f"cannot be written: {error.strerror}", f"looked at {path.parent}") from error


def read_loom(path: Path) -> LoomFile:
    """Reads a workspace file.  BadInput that says what is wrong with it where it is none."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise BadInput(STAGE, path.name, "is no file")  # reading a pipe would wait for ever
        if path.stat().st_size > MAX_WORKSPACE_BYTES:
            raise BadInput(STAGE, path.name, f"has more than {MAX_WORKSPACE_BYTES >> 20} MB")
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(STAGE, path.name, f"cannot be read: {error.strerror}", f"looked for {path}") from error
    return from_plain(_parse(_decompress(data, path.name), path.name), path.name)


def as_plain(content: LoomFile) -> dict[str, object]:
    """A workspace as plain data with its format and version."""
    return {"format": FORMAT, "version": VERSION, **fields_to_json(content)}


def from_plain(data: object, name: str) -> LoomFile:
    """The workspace that plain data stands for; BadInput names `name` and the place of what is wrong."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise BadInput(STAGE, name, "is no Loomscope workspace", "open a .loom file, or a model")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadInput(STAGE, name, "has no version that is a whole number", f"this program writes {VERSION}")
    if version > VERSION:
        reason = f"is of version {version}; this program reads up to {VERSION}"
        raise BadInput(STAGE, name, reason, "open it with a newer Loomscope; the file is left as it is")
    try:
        content = from_json(LoomFile, {key: value for key, value in data.items() if key not in ("format", "version")})
    except BadInput as error:
        raise BadInput(STAGE, name, f"{error.subject} {error.reason}", error.hint) from None
    sleeping = ((each.operators[0] if each.operators else "a group", each.trail) for each in content.asleep)
    for group, trail in (*content.groups.items(), *sleeping):
        try:
            History.of(trail)
        except ValueError as error:
            raise BadInput(STAGE, name, f"the history of {group} contradicts itself: {error}") from None
    if FUSION in content.groups:
        _check_fixed(content.groups[FUSION], name)
    return content


def _check_fixed(trail: HistoryRecord, name: str) -> None:
    """BadInput where a step of what is fixed about groups cannot be read."""
    for number, step in enumerate(trail.steps):
        try:
            fixed_of(step.text)
        except (BadInput, ValueError) as error:
            raise BadInput(STAGE, name, f"step {number} of the groups is no choice of groups: {error}") from None


def reference_to(model: str, folder: Path) -> ModelReference:
    """How a workspace file in `folder` names a model, with its SHA-256."""
    file = path_of(model)
    if is_name(model):
        return ModelReference(model, digest(file))
    near = file.is_relative_to(folder)
    return ModelReference((file.relative_to(folder) if near else file).as_posix(), digest(file))


def present_recipe(content: LoomFile) -> Recipe:
    """What a workspace says where its histories stand: fixed groups, and advice of the groups that were looked at.

    BadInput for advice that cannot be read.
    """
    now = {name: trail.text for name, trail in content.groups.items()}
    fixed = json.loads(now.pop(FUSION, FREE))
    advice = {name: from_text(text, f"advice of {name}") for name, text in now.items()}
    return Recipe(content.target, dict(content.dimensions), dict(content.numerics), fixed, advice)


def find_model(reference: ModelReference, folder: Path) -> str:
    """The model that a workspace file in `folder` names; BadInput that says where it was looked for."""
    if is_name(reference.path):
        return reference.path
    places = dict.fromkeys((folder / reference.path, folder / Path(reference.path).name))
    for place in places:
        if place.is_file():
            return str(place)
    looked = " and ".join(str(place) for place in places)
    raise BadInput(STAGE, Path(reference.path).name, f"the model is not there; looked for {looked}", "show where it is")


def digest(file: Path) -> str:
    """SHA-256 of a file in hexadecimal; "" where it cannot be read."""
    try:
        state = file.stat()
        return _digest(file, state.st_size, state.st_mtime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=16)
def _digest(file: Path, size: int, changed: int) -> str:
    """The digest; `size` and the time of the last change make another file of a file that was written again."""
    found = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _compress(text: bytes) -> bytes:
    """The JSON as an archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        archive.writestr(MEMBER, text)
    return packed.getvalue()


def _decompress(data: bytes, name: str) -> bytes:
    """The JSON of a file, compressed or not."""
    if not data.startswith(b"PK"):
        return data
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            member = archive.getinfo(MEMBER)
            if member.file_size > MAX_WORKSPACE_BYTES:
                raise BadInput(STAGE, name, f"unfolds to more than {MAX_WORKSPACE_BYTES >> 20} MB")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
                raise BadInput(STAGE, name, "is an archive of another kind", "take it from a backup")
            return archive.read(member)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, ValueError) as error:
        raise BadInput(STAGE, name, f"is damaged or cut short: {error}", "take it from a backup") from error


def _parse(content: bytes, name: str) -> object:
    try:
        return parse_json(content.decode())
    except UnicodeDecodeError:
        raise BadInput(STAGE, name, "is neither text nor an archive", "is it another kind of file?") from None
    except json.JSONDecodeError as error:
        if not content.strip():
            raise BadInput(STAGE, name, "is empty", "take it from a backup") from None
        # Text that begins as a workspace and ends before its structure does is a file that was not copied whole.
        text = error.doc.strip()
        ended = error.pos >= len(error.doc.rstrip()) or not text.endswith("}")
        reason = "is cut short" if ended and text.startswith("{") else f"is not JSON: {error.msg}"
        raise BadInput(STAGE, name, f"{reason}, line {error.lineno}", "take it from a backup") from None
    except ValueError as error:
        raise BadInput(STAGE, name, f"cannot be read: it {error}") from None
