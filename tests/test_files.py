"""Files of the user: whole or not at all on the way out, bounded and named on the way in."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from engine.support.errors import BadInput, MissingCapability
from engine.support.files import check_place, read_bytes, read_json, replace_whole, write_whole


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    place = tmp_path / "a.json"
    for value in ({"name": "é"}, [1, 2.5, None]):
        write_whole(place, json.dumps(value), "test")
        assert read_json(place, "test") == value
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_write_that_fails_or_is_interrupted_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a.txt"
    write_whole(place, "first", "test")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    def refused(descriptor: int) -> None:
        raise PermissionError(13, "Permission denied")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    for fails, error in ((full, MissingCapability), (refused, BadInput), (interrupted, KeyboardInterrupt)):
        monkeypatch.setattr("engine.support.files.os.fsync", fails)
        with pytest.raises(error):
            write_whole(place, "second", "test")
        assert (place.read_text(), os.listdir(tmp_path)) == ("first", ["a.txt"])


def test_a_link_and_the_rights_of_a_file_stay(tmp_path: Path) -> None:
    place, link = tmp_path / "a.txt", tmp_path / "link.txt"
    place.write_text("first")
    place.chmod(0o640)
    link.symlink_to(place)
    replace_whole(link, b"second")
    assert link.is_symlink() and place.read_text() == "second"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640


def test_a_device_is_written_as_it_comes() -> None:
    write_whole("/dev/null", "text", "test")
    assert Path("/dev/null").is_char_device()


def test_places_that_cannot_be_written_are_told_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    places = {tmp_path: "a folder", tmp_path / "none" / "a": "no folder", tmp_path / "file" / "a": "no folder"}
    for place, why in places.items():
        with pytest.raises(BadInput, match=why) as caught:
            check_place(place, "test")
        assert caught.value.subject == str(place) and caught.value.hint
    check_place(tmp_path / "new", "test")
    check_place(tmp_path / "file", "test")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/stdin"])
def test_what_never_ends_is_not_read(device: str) -> None:
    with pytest.raises(BadInput, match=f"{device}: is not a file"):
        read_bytes(device, "test")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b'{"a": [1, 2', "is cut short"),
        (b"\n\nhello", "is no JSON: Expecting value in line 3"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "no text in UTF-8"),
        (b"9" * 5000, "thousands of digits"),
        (b'["\\ud800"]', "half of a Unicode pair"),
        (b'{"\\uDE00 \\ud83d": 1}', "half of a Unicode pair"),
    ],
)
def test_what_is_no_json_is_told_by_its_fault(tmp_path: Path, content: bytes, says: str) -> None:
    place = tmp_path / "a.json"
    place.write_bytes(content)
    with pytest.raises(BadInput, match=says) as caught:
        read_json(place, "test", "write another one")
    assert caught.value.subject == str(place) and caught.value.hint == "write another one"


def test_a_whole_unicode_pair_is_read_and_so_is_text_that_only_looks_like_half(tmp_path: Path) -> None:
    place = tmp_path / "a.json"
    place.write_text(r'["\ud83d\ude00", "C:\\ud800"]')
    assert read_json(place, "test") == ["\N{GRINNING FACE}", r"C:\ud800"]
