"""The layout of machine code against its launch: what holds is accepted, and each way to fault is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import engine
from engine.execution.cubin import ParameterSlot, read_cubin
from engine.execution.nodes import Check, Compiled
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES, target
from engine.tile.source import CudaSource, KernelLaunch
from engine.verify import layout
from engine.verify.layout import layout_faults
from engine.verify.levels import PTX, SOURCE, join_levels
from tests.execution.test_nvrtc import SPILLING
from tests.execution.written_kernels import ALL, matmul, vector_add
from tests.kernels.test_workspaces import WITH_MODULE_MEMORY, on_tensor_cores, shared_keys
from tests.support.needs import needs_nvrtc

pytestmark = needs_nvrtc
H200 = target("h200")
PLACES = """extern "C" __global__ void k(char* a, short b, double c, int d)
{ __shared__ float s[100]; s[threadIdx.x] = a[d]; __syncthreads(); a[1] = s[threadIdx.x ^ 1] + b + c; }"""


def compiled(source: CudaSource) -> Compiled:
    return compile_cuda(source.text, H200.architecture)


def reasons(source: CudaSource, code: Compiled | None = None) -> list[str]:
    """What is wrong with a launch.  The constants of kernels written by hand are the module's: nothing writes them."""
    declared = " ".join(re.findall(r"constexpr int (.*);", source.text))
    constants = set(re.findall(r"(\w+) =", declared))
    found = layout_faults(source, code or compiled(source), H200)
    return [each.message for each in found if each.message.split()[0] not in constants]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_parameters_lie_where_c_puts_them(architecture: str) -> None:
    """By hand: each at the next multiple of its own size."""
    code = compile_cuda(PLACES, architecture)
    (entry,) = read_cubin(code.cubin).entries
    assert entry.parameters == tuple(map(ParameterSlot._make, ((0, 8), (8, 2), (16, 8), (24, 4))))
    assert (entry.name, entry.parameter_bytes, entry.registers) == ("k", 28, code.registers)
    assert code.static_shared_bytes == 400


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_spilled_registers_have_a_stack(architecture: str) -> None:
    (entry,) = read_cubin(compile_cuda(SPILLING, architecture).cubin).entries
    assert entry.stack_bytes >= 4 * (128 - entry.registers) and entry.most_threads == 1024


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(ValueError, match="ELF"):
        read_cubin(b"\x7fELF\x01")


@pytest.mark.parametrize("name", ALL)
def test_written_kernels_hold(name: str) -> None:
    assert reasons(ALL[name]().source) == []


def test_a_kernel_with_workspaces_holds() -> None:
    for kernel in (on_tensor_cores(), shared_keys()):
        assert kernel.source.workspaces and reasons(kernel.source) == []


MOST = H200.shared_limit
FAULTS: list[tuple[Callable[[CudaSource], CudaSource], str]] = [
    (lambda s: replace(s, buffers=s.buffers[:-1]), "takes 3 parameters, the launch packs 2"),
    (lambda s: replace(s, buffers=(*s.buffers, s.buffers[0])), "takes 3 parameters, the launch packs 4"),
    (lambda s: replace(s, entry="other"), "there is no entry other"),
    (lambda s: replace(s, block=(s.block[0] * 2, 1, 1)), "threads are launched, "),
    (lambda s: replace(s, block=(2048, 1, 1)), "2,048 threads"),
    (lambda s: replace(s, shared_bytes=MOST + 1), f"{MOST + 1:,} bytes of shared memory"),
    (lambda s: replace(s, later=(KernelLaunch("after", (1, 1, 1), (32, 1, 1), 0),)), "there is no entry after"),
]


@pytest.mark.parametrize(("change", "reason"), FAULTS, ids=[reason for _, reason in FAULTS])
def test_a_launch_that_the_driver_would_refuse_is_named(
    change: Callable[[CudaSource], CudaSource], reason: str
) -> None:
    source = matmul().source
    found = reasons(change(source), compiled(source))
    assert any(reason in each for each in found), found


def test_a_parameter_that_is_no_pointer_is_named() -> None:
    kernel = vector_add()
    smaller = kernel.source.text.replace("float* __restrict__ z_", "int before_, float* __restrict__ z_")
    assert smaller != kernel.source.text
    one_more = replace(kernel.source, text=smaller, buffers=(*kernel.source.buffers, kernel.source.buffers[-1]))
    found = reasons(one_more)
    assert any("reads 4 at 16" in each for each in found), found
    assert layout_faults(one_more, compiled(one_more), H200)[-1].line == kernel.line_of(kernel.source.entry)


def test_more_registers_than_an_sm_has_are_named() -> None:
    source = replace(matmul().source, text=SPILLING.replace("__launch_bounds__(1024)", ""), entry="spilling")
    source = replace(source, block=(1024, 1, 1), buffers=source.buffers[:2])
    code = compiled(source)
    assert code.registers > 64
    assert any("not one block fits" in each and "registers" in each for each in reasons(source, code))


def test_memory_of_the_module_is_named_and_so_is_where_it_is_misaligned() -> None:
    """The fault that the emulator could not see: a counter of 12 bytes before sums that 16 bytes are stored to."""
    source = replace(vector_add().source, text=WITH_MODULE_MEMORY, entry="k", buffers=vector_add().source.buffers[:1])
    found = layout_faults(source, compiled(source), H200)
    shared = {each.message.split()[0] for each in found if "all launches share" in each.message}
    assert shared == {"arrivals", "parts", "total"}
    (misaligned,) = [each for each in found if each.kind == "misaligned"]
    assert misaligned.message.startswith("parts begins at byte 12 ")
    assert "parts" in WITH_MODULE_MEMORY.splitlines()[misaligned.line - 1]


@pytest.mark.slow(sentinel=True)
def test_a_check_of_the_compiled_code_tells_its_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = on_tensor_cores()
    assert engine.check(kernel, level=PTX).status == "pass"
    few = replace(kernel.target, registers_per_sm=replace(kernel.target.registers_per_sm, value=1024.0))
    true_faults = layout.layout_faults
    monkeypatch.setattr(layout, "layout_faults", lambda source, code, machine: true_faults(source, code, few))
    found = engine.check(kernel, level=PTX)
    assert found.status == "fail" and found.message.startswith("layout: ") and "registers" in found.message
    assert engine.check(kernel, level=SOURCE).status == "pass"


def test_checks_of_both_levels_are_one_with_what_each_came_to() -> None:
    good, bad, other = (Check("g", status, message="why") for status in ("pass", "fail", "unsupported"))
    assert join_levels({SOURCE: good}).levels == {SOURCE: "pass", PTX: "not run"}
    assert join_levels({SOURCE: good, PTX: good}).status == "pass"
    joined = join_levels({SOURCE: good, PTX: bad})
    assert (joined.status, joined.message, joined.levels) == ("fail", "why", {SOURCE: "pass", PTX: "fail"})
    joined = join_levels({SOURCE: good, PTX: other})
    assert (joined.status, joined.levels) == ("pass", {SOURCE: "pass", PTX: "unsupported: why"})
