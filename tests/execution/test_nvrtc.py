"""NVRTC without a GPU: what compiles, what the account says, how refusals are told, and the cache."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from engine.execution import nvrtc
from engine.execution.nvrtc import CompileError, compile_cuda, compile_ptx, nvrtc_version
from engine.support.errors import BadInput
from tests.execution.written_kernels import ALL, vector_add

pytestmark = pytest.mark.skipif(nvrtc_version() is None, reason="NVRTC cannot be loaded")

SPILLING = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(1024) spilling(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 131072);
  const Global<float> y(y_, 131072);
  float kept[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) kept[i] = x.load(i * 1024 + int(threadIdx.x));
  barrier();
#pragma unroll
  for (int i = 0; i < 128; ++i) y.store(i * 1024 + int(threadIdx.x), fn_exp(kept[127 - i]) * kept[i]);
}
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ALL)
def test_written_kernels_compile_without_spills(name: str, architecture: str) -> None:
    compiled = compile_cuda(ALL[name]().source.text, architecture)
    assert compiled.architecture == architecture
    assert 0 < compiled.registers <= 255
    assert compiled.spill_bytes == 0
    assert compiled.static_shared_bytes == 0  # all of it is dynamic
    assert compiled.cubin.startswith(b"\x7fELF")


def test_spills_are_accounted_and_warned_of() -> None:
    compiled = compile_cuda(SPILLING, "sm_80")
    assert compiled.registers == 64  # 65536 registers of a multiprocessor for 1024 threads
    assert compiled.spill_bytes > 0
    assert "warning" in compiled.log.lower()


def test_refusal_names_the_line_of_the_text() -> None:
    kernel = vector_add().with_text("sum[v] = a[v] + b[v];", "sum[v] = a[v] + nothing[v];")
    with pytest.raises(CompileError) as error:
        compile_cuda(kernel.source.text, "sm_80")
    assert error.value.line == kernel.line_of("nothing[v]")
    assert "nothing" in error.value.reason
    assert error.value.exit_code == 1


def test_refusal_inside_an_include_is_blamed_on_the_text() -> None:
    kernel = vector_add().with_text("const Pack<float, 4> a = x.load<4>(first);", "const auto a = x.load<3>(first);")
    with pytest.raises(CompileError) as error:
        compile_cuda(kernel.source.text, "sm_80")
    assert error.value.line == kernel.line_of("x.load<3>")


def test_unknown_architecture_is_refused() -> None:
    with pytest.raises(BadInput, match="architecture sm_7: "):
        compile_cuda(vector_add().source.text, "sm_7")


def test_ptx_is_readable_text() -> None:
    ptx = compile_ptx(vector_add().source.text, "sm_80")
    assert ".target sm_80" in ptx
    assert ".entry vector_add(" in ptx
    assert "\0" not in ptx


def test_equal_requests_are_answered_from_disk(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = vector_add().source.text
    first = compile_cuda(text, "sm_80")
    assert len(list((empty_cache / "cubin").iterdir())) == 1
    monkeypatch.setattr(nvrtc, "_compile", lambda *_: pytest.fail("compiled again"))
    assert compile_cuda(text, "sm_80") == first


def test_every_ingredient_counts(empty_cache: Path) -> None:
    text = vector_add().source.text
    compile_cuda(text, "sm_80")
    compile_cuda(text, "sm_90a")
    compile_cuda(text, "sm_80", ["--maxrregcount=32"])
    compile_cuda(text + "\n", "sm_80")
    assert len(list((empty_cache / "cubin").iterdir())) == 4


def _cubin(text: str) -> bytes:
    return compile_cuda(text, "sm_80").cubin


def test_processes_may_compile_the_same_text_at_once(empty_cache: Path) -> None:
    text = vector_add().source.text
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        cubins = pool.map(_cubin, [text] * 4)
    assert len(set(cubins)) == 1
    assert [path.name.startswith(".new") for path in (empty_cache / "cubin").iterdir()] == [False]
