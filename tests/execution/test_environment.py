"""A machine that is broken is told as that, never as a wrong kernel; a damaged or open cache is never used."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.execution import nvrtc_process
from engine.execution.emulate import build
from engine.execution.emulate.emulate import emulate
from engine.execution.machine import machine
from engine.execution.nvrtc import CompileError, compile_cuda, compile_ptx
from engine.support import cache
from engine.support.errors import MissingCapability
from tests.execution.written_kernels import vector_add
from tests.support.commands import SOFTMAX, loomscope
from tests.support.needs import needs_compiler, needs_nvrtc


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(folder))
    return folder


@pytest.fixture
def filled(kept: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with an emulator, its machine, a cubin and PTX of one kernel; the first of a run is copied."""
    first = tmp_path_factory.getbasetemp() / "filled"
    if not first.is_dir():
        monkeypatch.setenv("LOOMSCOPE_CACHE", str(first))
        fill()
        monkeypatch.setenv("LOOMSCOPE_CACHE", str(kept))
    shutil.copytree(first, kept)
    return kept


def fill() -> None:
    kernel = vector_add()
    assert np.array_equal(emulate(kernel.source, kernel.inputs)[1][kernel.output], kernel.expected)
    assert compile_cuda(kernel.source.text, "sm_80").cubin.startswith(b"\x7fELF")
    assert ".entry vector_add" in compile_ptx(kernel.source.text, "sm_80")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def planted(path: Path) -> None:
    """What shows that it was run: a file beside the cache."""
    path.write_text(f"#!/bin/sh\ntouch {path.parents[2] / 'ran'} {path.parents[3] / 'ran'}\n")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: tuple[Callable[[Path], None], ...] = (emptied, planted, cut, flipped, Path.unlink)
damages = pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)


@damages
@pytest.mark.parametrize("file", ["program", cache.SUMS])
def test_a_damaged_folder_is_not_used_and_replaced(damage: Callable[[Path], None], file: str, kept: Path) -> None:
    def keep() -> Path:
        with cache.workplace("emulator") as made:
            (made / "program").write_bytes(b"x" * 99)
            return cache.keep_folder("emulator", "name", made)

    assert cache.read_folder("emulator", "name") is None
    assert keep() == cache.read_folder("emulator", "name")
    damage(kept / "emulator" / "name" / file)
    assert cache.read_folder("emulator", "name") is None
    assert (keep() / "program").read_bytes() == b"x" * 99 and cache.read_folder("emulator", "name")
    assert [path.name for path in (kept / "emulator").iterdir()] == ["name"]


@pytest.mark.parametrize("junk", [b"", b"#!/bin/sh"])
def test_a_file_in_the_place_of_a_folder_is_replaced(junk: bytes, kept: Path) -> None:
    """As an older version left them."""
    (kept / "emulator").mkdir(parents=True)
    (kept / "emulator" / "name").write_bytes(junk)
    assert cache.read_folder("emulator", "name") is None
    with cache.workplace("emulator") as made:
        (made / "program").write_bytes(b"x")
        assert (cache.keep_folder("emulator", "name", made) / "program").read_bytes() == b"x"


@pytest.mark.few(6)
@needs_compiler
@needs_nvrtc
@damages
@pytest.mark.parametrize("part", ["emulator/*/emulator", "cubin/*", "ptx/*"])
def test_a_damaged_entry_is_made_again(part: str, damage: Callable[[Path], None], filled: Path) -> None:
    (entry,) = filled.glob(part)
    damage(entry)
    fill()
    assert list(filled.glob(part)) == [entry] and entry.stat().st_size > 1000
    assert not list(filled.glob("new/*")) and not (filled.parent / "ran").exists()


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
def test_a_missing_object_of_the_machine_is_made_again(filled: Path) -> None:
    shutil.rmtree(filled / "emulator")
    next(filled.glob("machine/*/counts.o")).unlink()
    fill()
    assert len(list(filled.glob("machine/*/counts.o"))) == 1


@needs_nvrtc
def test_an_entry_that_others_can_write_is_made_again(filled: Path) -> None:
    (entry,) = filled.glob("ptx/*")
    text = b"planted"
    entry.write_bytes(cache._sum(text) + b"\n" + text)
    assert compile_ptx(vector_add().source.text, "sm_80") == "planted", "an entry of the user's own is believed"
    entry.chmod(0o666)
    assert ".entry vector_add" in compile_ptx(vector_add().source.text, "sm_80")


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
@pytest.mark.parametrize("inside", ["", "cubin"])
def test_a_folder_that_others_can_write_is_refused(
    mode: int, inside: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_is_private", lambda group: False)
    (kept / inside).mkdir(parents=True)
    kept.chmod(0o755)
    (kept / inside).chmod(mode)
    with pytest.raises(MissingCapability, match=r"others can write there.*chmod -R go-w"):
        cache.read_entry("cubin", "0" * 40)
    if not inside and mode & 0o002:
        assert loomscope("verify", SOFTMAX).returncode == 3
    (kept / inside).chmod(0o755)
    assert cache.read_entry("cubin", "0" * 40) is None


def test_a_group_of_the_user_alone_may_write(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where accounts have a group of their own and the umask is 002."""
    kept.mkdir()
    kept.chmod(0o775)
    monkeypatch.setattr(cache, "_is_private", lambda group: group == kept.stat().st_gid)
    assert cache.cache_folder() == kept
    assert not cache._is_private(2**31 - 2)


@needs_nvrtc
def test_a_folder_in_the_place_of_an_entry_is_replaced(filled: Path) -> None:
    (entry,) = filled.glob("ptx/*")
    entry.unlink()
    (entry / "junk").mkdir(parents=True)
    assert ".entry vector_add" in compile_ptx(vector_add().source.text, "sm_80")
    assert entry.is_file()


@needs_compiler
def test_doctor_asks_the_compiler_for_a_program(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    assert machine().compiler
    monkeypatch.setenv("CXX", shutil.which("false") or "")
    assert machine().compiler == ""


def test_a_folder_of_somebody_else_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: kept.stat().st_uid + 1)
    with pytest.raises(MissingCapability, match=r"belongs to another user.*LOOMSCOPE_CACHE"):
        cache.cache_folder()


def test_a_new_folder_is_the_users_alone(kept: Path) -> None:
    before = os.umask(0)
    try:
        cache.write_entry("cubin", "a", b"data")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o077 for path in (kept, kept / "cubin", kept / "cubin" / "a")] == [0, 0, 0]
    assert cache.read_entry("cubin", "a") == b"data"


def test_a_cache_that_cannot_be_made_is_told(kept: Path) -> None:
    kept.write_text("a file")
    with pytest.raises(MissingCapability, match=r"is a file.*LOOMSCOPE_CACHE"):
        cache.cache_folder()


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow past 4 kB, as on a full disk: writing more fails, in this process and in compilers."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


@needs_compiler
def test_a_full_disk_is_no_fault_of_the_kernel(kept: Path, small_disk: None) -> None:
    kernel = vector_add()
    with pytest.raises(MissingCapability, match=r"LOOMSCOPE_CACHE|CXX") as told:
        emulate(kernel.source, kernel.inputs)
    assert told.value.exit_code == 3
    assert not list(kept.glob("new/*")), "nothing is left on a full disk"


@needs_nvrtc
def test_a_cubin_that_cannot_be_kept_is_no_fault_of_the_kernel(kept: Path, small_disk: None) -> None:
    with pytest.raises(MissingCapability, match=r"cannot be written.*LOOMSCOPE_CACHE"):
        compile_cuda(vector_add().source.text, "sm_80")
    assert not list(kept.glob("new/*"))


@needs_compiler
def test_a_message_of_a_full_disk_is_understood(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = f"cc1plus: error writing to /tmp/c.s: {os.strerror(errno.ENOSPC)}"
    compiler = script(tmp_path / "full", f"#!/bin/sh\ntest $1 = --version || {{ echo '{message}' >&2; exit 1; }}\n")
    monkeypatch.setenv("CXX", compiler)
    done = loomscope("verify", SOFTMAX)
    assert done.returncode == 3 and "No space left on device" in done.stderr and "LOOMSCOPE_CACHE" in done.stderr


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@needs_compiler
@pytest.mark.parametrize(
    "broken",
    ["/bin/false", "/bin/true", "#!/bin/sh\necho no cc1plus >&2\nexit 1\n", "#!/no/such/shell\n", "\x7fELF junk"],
)
def test_a_compiler_that_does_not_work_is_told(
    broken: str, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = broken if broken.startswith("/") else script(tmp_path / "cxx", broken)
    monkeypatch.setenv("CXX", compiler)
    done = loomscope("verify", SOFTMAX, "--json")
    assert done.returncode == 3 and done.stdout == ""
    assert compiler in done.stderr and "CXX" in done.stderr and "fail" not in done.stderr
    assert loomscope("doctor").returncode == 0


@needs_compiler
def test_a_compiler_that_works_and_refuses_a_text_is_no_fault_of_the_machine(filled: Path) -> None:
    kernel = vector_add().with_text("sum[v] = a[v] + b[v];", "sum[v] = a[v] + nothing[v]; // No space left on device")
    with pytest.raises(CompileError, match=r"nothing"):
        emulate(kernel.source, kernel.inputs)


@pytest.mark.parametrize("place", ["/proc/loomscope", "/sys/loomscope", "/dev/null/loomscope"])
def test_a_place_where_nobody_can_write_is_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even root, unlike in a folder of mode 500."""
    monkeypatch.setenv("LOOMSCOPE_CACHE", place)
    for verb in (("verify", SOFTMAX), ("doctor", "--clear-cache")):
        done = loomscope(*verb)
        assert done.returncode == 3 and place in done.stderr and "LOOMSCOPE_CACHE" in done.stderr, done.stderr


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k,mode=700", "tmpfs", str(place)], check=False)
    if made.returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow(sentinel=True)
@needs_compiler
@pytest.mark.parametrize("variable", ["LOOMSCOPE_CACHE", "TMPDIR"])
def test_a_disk_of_forty_kilobytes(variable: str, kept: Path, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, str(tiny_disk))
    monkeypatch.setattr("tempfile.tempdir", None)  # read from TMPDIR again
    done = loomscope("verify", SOFTMAX, "--level", "source")
    assert done.returncode == 3 and "fail" not in done.stdout, done.stdout + done.stderr
    assert "No space left on device" in done.stderr and "LOOMSCOPE_CACHE" in done.stderr
    assert not list(tiny_disk.glob("**/loomscope-*"))


def test_no_nvrtc_is_told(kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("engine.execution.nvrtc.nvrtc_version", lambda: None)
    done = loomscope("generate", SOFTMAX, "-o", str(tmp_path / "out"))
    assert done.returncode == 3 and "pip install" in done.stderr, done.stderr


@needs_nvrtc
def test_an_nvrtc_that_dies_at_once_is_told(kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvrtc_process.close()
    monkeypatch.setattr(nvrtc_process, "COMMAND", (shutil.which("false") or "",))
    done = loomscope("generate", SOFTMAX, "-o", str(tmp_path / "out"))
    assert done.returncode == 3 and "does not compile an empty kernel" in done.stderr, done.stderr


def test_no_compiler_is_told(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "host_compiler", lambda: None)
    done = loomscope("verify", SOFTMAX)
    assert done.returncode == 3 and "apt install g++" in done.stderr


@needs_compiler
def test_no_room_for_the_arrays_is_told(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = vector_add()
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    monkeypatch.setattr("engine.execution.emulate.emulate._roomy_folder", lambda source: Path("/no/such/folder"))
    with pytest.raises(MissingCapability, match=r"TMPDIR"):
        emulate(kernel.source, kernel.inputs)
