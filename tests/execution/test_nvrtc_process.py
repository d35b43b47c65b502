"""NVRTC in a process of its own: what it does not come back from costs one kernel, and nothing is left running."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.execution import nvrtc, nvrtc_process
from engine.execution.nvrtc import CompilerEnded, compile_cuda
from engine.execution.nvrtc_process import NvrtcAnswer, NvrtcEnded, NvrtcLimits, ask
from engine.support.errors import MissingCapability
from engine.tuning.compiler_pruning import REFUSED, compiled_limits
from tests.execution.written_kernels import vector_add
from tests.support.commands import ROOT, SOFTMAX, loomscope
from tests.support.needs import needs_nvrtc

OPTIONS = ("--gpu-architecture=sm_80",)
SMALL = 'extern "C" __global__ void small(float* y) { y[threadIdx.x] = 1.0f; }\n'
BUSY = """extern "C" __global__ void __launch_bounds__(64) busy(float* y)
{
  float kept[512];
#pragma unroll
  for (int i = 0; i < 512; ++i) kept[i] = y[i * 7];
#pragma unroll
  for (int k = 0; k < 512; ++k)
#pragma unroll
    for (int i = 0; i < 512; ++i) kept[i] = kept[(i * 5 + k) % 512] * kept[i] + 1.0f;
#pragma unroll
  for (int i = 0; i < 512; ++i) y[i] = kept[i];
}
"""
"""Keeps NVRTC busy for minutes."""
SHORT = NvrtcLimits(seconds=0.3)
TO_SLEEP, TO_DIE, TO_TALK, TO_ALLOCATE = (
    "import time; time.sleep(60)",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "print('not a reply')",
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28,) * 2); bytes(1 << 30)",
)


@pytest.fixture(autouse=True)
def none_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(tmp_path / "cache"))
    nvrtc_process.close()
    yield
    nvrtc_process.close()


def idle() -> list[int]:
    return [process.child.pid for process in nvrtc_process._idle]


def limited(monkeypatch: pytest.MonkeyPatch, limits: NvrtcLimits) -> None:
    monkeypatch.setattr(nvrtc, "ask", lambda text, options, wants: ask(text, options, wants, limits))


def gone(pid: int, within: float = 5.0) -> bool:
    """Whether a process is not there any more, or soon is not."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


@needs_nvrtc
def test_one_process_serves_kernel_after_kernel() -> None:
    answers = [ask(SMALL, OPTIONS, wants) for wants in ("cubin", "ptx", "cubin")]
    assert [answer.status for answer in answers] == ["NVRTC_SUCCESS"] * 3
    assert answers[0].code.startswith(b"\x7fELF") and b".entry small" in answers[1].code
    assert len(idle()) == 1


@needs_nvrtc
def test_a_kernel_that_takes_too_long_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, SHORT)
    with pytest.raises(CompilerEnded, match=r"kernel busy: NVRTC takes more than 0\.3 s of processor time.*smaller"):
        compile_cuda(BUSY, "sm_80")
    assert len(idle()) == 1, "the process that showed that NVRTC works, not the busy one"
    limited(monkeypatch, NvrtcLimits())
    assert compile_cuda(SMALL, "sm_80").cubin.startswith(b"\x7fELF")


def test_a_process_that_answers_nobody_is_a_fault_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system kills it for lack of memory, or where the binding cannot be imported."""
    nvrtc_process.close()
    monkeypatch.setattr(nvrtc_process, "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(MissingCapability, match=r"does not compile an empty kernel: it ended with exit code 1"):
        ask(SMALL, OPTIONS, "ptx")


@needs_nvrtc
def test_a_kernel_that_takes_too_much_memory_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit below what NVRTC needs to begin with stands for a kernel that needs more than the limit."""
    limited(monkeypatch, NvrtcLimits(memory=100 << 20))
    with pytest.raises(CompilerEnded, match=r"memory|ended with"):
        compile_cuda(SMALL, "sm_80")
    limited(monkeypatch, NvrtcLimits())
    assert compile_cuda(SMALL, "sm_80").cubin.startswith(b"\x7fELF")
    (child,) = idle()
    assert resource.prlimit(child, resource.RLIMIT_AS)[0] == nvrtc_process.MEMORY


@needs_nvrtc
@pytest.mark.parametrize(
    ("does", "told"),
    [
        (TO_SLEEP, "no answer in 0.7 s"),
        (TO_DIE, "SIGSEGV"),
        (TO_TALK, "exit code 0|killed"),
        (TO_ALLOCATE, "exit code 1"),
        ("raise SystemExit(7)", "exit code 7"),
    ],
)
def test_a_process_that_gives_no_answer(does: str, told: str) -> None:
    seconds = 0.7 if does == TO_SLEEP else 60
    with pytest.raises(NvrtcEnded, match=told):
        ask(SMALL, OPTIONS, "cubin", NvrtcLimits(wall=seconds), (sys.executable, "-P", "-c", does))
    assert len(idle()) == 1, "the process that showed that NVRTC works"


@needs_nvrtc
def test_a_process_that_was_killed_while_it_waited_is_replaced() -> None:
    ask(SMALL, OPTIONS, "ptx")
    (first,) = idle()
    os.kill(first, signal.SIGKILL)
    assert gone(first)
    assert ask(SMALL, OPTIONS, "ptx").status == "NVRTC_SUCCESS"
    assert idle() != [first]


@needs_nvrtc
def test_threads_do_not_wait_for_each_other_or_mix_answers() -> None:
    texts = [SMALL.replace("small", f"small_{n}") for n in range(6)]
    with ThreadPoolExecutor(3) as threads:
        codes = list(threads.map(lambda text: ask(text, OPTIONS, "ptx").code, texts))
    assert all(f".entry small_{n}(".encode() in code for n, code in enumerate(codes))
    assert 1 <= len(idle()) <= 3


def _forked(answers: multiprocessing.Queue[tuple[str, list[int]]]) -> None:
    answers.put((ask(SMALL, OPTIONS, "ptx").status, idle()))


@needs_nvrtc
def test_a_forked_process_has_its_own() -> None:
    ask(SMALL, OPTIONS, "ptx")
    before = idle()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_forked, args=(answers,))
    child.start()
    status, theirs = answers.get(timeout=30)
    child.join()
    assert status == "NVRTC_SUCCESS" and set(theirs).isdisjoint(before)
    assert all(gone(pid) for pid in theirs)
    assert ask(SMALL, OPTIONS, "ptx").status == "NVRTC_SUCCESS" and idle() == before


PARENT = """import os, sys, threading, time
from engine.execution import nvrtc_process
text, at_work = sys.argv[1], sys.argv[2] == "busy"
nvrtc_process.ask(sys.argv[3], ("--gpu-architecture=sm_80",), "ptx")
print(nvrtc_process._idle[0].child.pid, flush=True)
if at_work:
    threading.Thread(target=nvrtc_process.ask, args=(text, ("--gpu-architecture=sm_80",), "cubin"), daemon=True).start()
time.sleep(60)
"""


@needs_nvrtc
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_process_ends_with_its_parent(state: str) -> None:
    command = [sys.executable, "-c", PARENT, BUSY, state, SMALL]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)
        assert not gone(child, 0.1)
        parent.send_signal(signal.SIGKILL)
    assert gone(child)


@needs_nvrtc
def test_the_users_folder_is_not_imported_from(tmp_path: Path) -> None:
    for name in ("engine", "json", "cuda", "nvrtc_child", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    code = (
        f"import sys; sys.path[0] = {str(ROOT)!r}; from engine.execution import nvrtc_process as p;"
        f"print(p.ask({SMALL!r}, {OPTIONS!r}, 'ptx').status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "NVRTC_SUCCESS\n", done.stderr


@needs_nvrtc
def test_a_trial_whose_kernel_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = engine.compile(engine.fuse(engine.load(SOFTMAX)).groups[0])
    assert compiled_limits(kernel) == ""
    slow = replace(kernel, source=replace(kernel.source, text=BUSY))
    limited(monkeypatch, SHORT)
    assert compiled_limits(slow) == f"{REFUSED}: NVRTC takes more than 0.3 s of processor time"


@needs_nvrtc
def test_generate_names_the_kernel_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, NvrtcLimits(seconds=0.001))
    done = loomscope("generate", SOFTMAX, "-o", str(tmp_path / "out"), "--json")
    assert done.returncode == 1
    assert "softmax_0: there is no kernel: kernel softmax_0: NVRTC takes more than 0.001 s" in done.stderr
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["kernels"] == []
    limited(monkeypatch, NvrtcLimits())
    assert loomscope("generate", SOFTMAX, "-o", str(tmp_path / "out")).returncode == 0


@needs_nvrtc
def test_an_nvrtc_without_its_files_is_no_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    log = "nvrtc: error: failed to open libnvrtc-builtins.so.13.0."
    monkeypatch.setattr(nvrtc, "ask", lambda *_: NvrtcAnswer("NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", log, b""))
    with pytest.raises(MissingCapability, match=r"libnvrtc-builtins.*pip install"):
        compile_cuda(SMALL, "sm_80")


def test_the_text_names_the_kernel() -> None:
    assert CompilerEnded(vector_add().source.text, "is slow").subject == "kernel vector_add"
    assert CompilerEnded("nothing", "is slow").subject == "the CUDA text"
