"""The compile cache keeps to its limit, forgets what was used least recently, and is shown and cleared by `doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.support import cache
from engine.support.errors import BadInput
from engine.support.leftovers import prefix, sweep, temporary_folder
from tests.support.commands import document, loomscope

MIB = 1 << 20


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of 1 MiB."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(folder))
    monkeypatch.setenv(cache.LIMIT, str(1 / 1024))
    return folder


def disk_usage(folder: Path) -> int:
    """Bytes on disk, independently of how the cache counts: `du` of the kinds."""
    done = subprocess.run(["du", "-sk", "--", str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) * 1024


@pytest.mark.slow(sentinel=True)
def test_the_limit_holds_over_a_thousand_kernels(kept: Path) -> None:
    for number in range(1000):
        cache.write_entry("cubin", f"{number:040x}", bytes(2000 + number))
        if number % 50 == 0:
            with cache.workplace("emulator") as made:
                (made / "emulator").write_bytes(bytes(30_000))
                cache.keep_folder("emulator", f"{number:040x}", made)
            assert disk_usage(kept) <= MIB + 64 * 1024, "the folders themselves take some blocks"
    assert cache.cache_state().bytes <= MIB
    assert cache.cache_state().entries > 100, "it is not emptied"
    assert cache.read_entry("cubin", f"{999:040x}") == bytes(2999)
    assert cache.read_entry("cubin", f"{0:040x}") is None


def test_what_is_used_stays(kept: Path) -> None:
    for name in ("used", "unused"):
        cache.write_entry("ptx", name, b"text")
        old = time.time() - 1000
        os.utime(kept / "ptx" / name, (old, old))
    for number in range(400):
        assert cache.read_entry("ptx", "used") == b"text"
        cache.write_entry("cubin", f"{number:040x}", bytes(4000))
        if number % 20 == 0:  # as if a while had gone by
            aged = time.time() - 500 + number
            for path in (kept / "cubin").iterdir():
                os.utime(path, (aged, aged))
    assert cache.read_entry("ptx", "used") == b"text" and cache.read_entry("ptx", "unused") is None


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "two"])
def test_a_limit_that_is_none_is_refused(text: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT, text)
    with pytest.raises(BadInput, match="is no number above 0"):
        cache.cache_limit()


def test_doctor_shows_and_clears(kept: Path) -> None:
    cache.write_entry("cubin", "a", bytes(5000))
    (kept / "notes.txt").write_text("not of the cache")
    rows = {row["name"]: row for row in document("doctor")["rows"]}
    assert rows["compile cache"]["found"] == f"{kept}: 1 entries, 0 of 1 MiB"
    done = loomscope("doctor", "--clear-cache")
    assert done.returncode == 0 and f"deleted from {kept}: 1 entries" in done.stderr
    assert cache.cache_state().entries == 0 and (kept / "notes.txt").is_file()


def test_a_cache_of_others_is_not_cleared(kept: Path) -> None:
    cache.write_entry("cubin", "a", b"data")
    kept.chmod(0o777)
    assert loomscope("doctor").returncode == 0
    assert loomscope("doctor", "--clear-cache").returncode == 3
    assert (kept / "cubin" / "a").is_file()


def ended_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_leftovers_of_ended_processes_are_swept(tmp_path: Path) -> None:
    left = tmp_path / f"loomscope-{ended_process()}-abc"
    (left / "deep").mkdir(parents=True)
    (tmp_path / f"loomscope-{ended_process()}-file").write_text("x")
    link = tmp_path / f"loomscope-{ended_process()}-link"
    link.symlink_to(tmp_path)
    others = [tmp_path / "loomscope-notes", tmp_path / f"{prefix()}mine"]
    for other in others:
        other.mkdir()
    with temporary_folder(tmp_path) as running:
        sweep(tmp_path)
        assert running.is_dir()
    assert sorted(tmp_path.iterdir()) == sorted([*others, link])


def test_a_locked_folder_is_not_swept(tmp_path: Path) -> None:
    """As one of a process in another container, where ids mean other processes."""
    with temporary_folder(tmp_path) as running:
        moved = running.rename(tmp_path / f"loomscope-{ended_process()}-abc")
        sweep(tmp_path)
        assert moved.is_dir()
    sweep(tmp_path)
    assert not moved.exists()
