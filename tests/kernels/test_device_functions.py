"""The device functions: they cost nothing on the GPU, and they compute what NumPy computes."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest

from engine.execution.emulate.emulate import emulate
from engine.execution.nvrtc import compile_cuda, compile_ptx
from engine.tile.source import CudaSource, Parameter
from tests.support.needs import needs_compiler, needs_nvrtc

HEAD = '#include "loom.cuh"\nextern "C" __global__ void __launch_bounds__(128)\n'

# The same kernel twice: with accessors, and with raw pointers and inline instructions.
PAIRS = {
    "element": (
        """k(const float* __restrict__ x_, float* __restrict__ y_) {
             const Global<const float> x(x_, 4096); const Global<float> y(y_, 4096);
             const int i = int(blockIdx.x) * 128 + int(threadIdx.x);
             y.store(i, x.load(i) * 2.0f); }""",
        """k(const float* __restrict__ x, float* __restrict__ y) {
             const int i = int(blockIdx.x) * 128 + int(threadIdx.x);
             y[i] = x[i] * 2.0f; }""",
    ),
    "vector": (
        """k(const float* __restrict__ x_, float* __restrict__ y_) {
             const Global<const float> x(x_, 4096); const Global<float> y(y_, 4096);
             const int i = (int(blockIdx.x) * 128 + int(threadIdx.x)) * 4;
             Pack<float, 4> p = x.load<4>(i);
             for (int v = 0; v < 4; ++v) p[v] *= 2.0f;
             y.store<4>(i, p); }""",
        """k(const float* __restrict__ x, float* __restrict__ y) {
             const int i = (int(blockIdx.x) * 128 + int(threadIdx.x)) * 4;
             float4 p = *reinterpret_cast<const float4*>(x + i);
             p.x *= 2.0f; p.y *= 2.0f; p.z *= 2.0f; p.w *= 2.0f;
             *reinterpret_cast<float4*>(y + i) = p; }""",
    ),
    "halves": (
        """k(const f16* __restrict__ x_, f16* __restrict__ y_) {
             const Global<const f16> x(x_, 8192); const Global<f16> y(y_, 8192);
             const int i = (int(blockIdx.x) * 128 + int(threadIdx.x)) * 2;
             Pack<f16, 2> p = x.load<2>(i);
             for (int v = 0; v < 2; ++v) p[v] = to_f16(to_float(p[v]) * 2.0f);
             y.store<2>(i, p); }""",
        """k(const unsigned* __restrict__ x, unsigned* __restrict__ y) {
             const int i = int(blockIdx.x) * 128 + int(threadIdx.x);
             const unsigned p = x[i];
             unsigned short low = p & 0xffffu, high = p >> 16; float a, b;
             asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(low)); asm("cvt.f32.f16 %0, %1;" : "=f"(b) : "h"(high));
             a *= 2.0f; b *= 2.0f;
             asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(a)); asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(b));
             y[i] = low | unsigned(high) << 16; }""",
    ),
    "shared": (
        """k(const float* __restrict__ x_, float* __restrict__ y_) {
             const Global<const float> x(x_, 4096); const Global<float> y(y_, 4096);
             LOOM_SHARED(2048);
             const Shared<float> s(shared_memory, 512);
             const int i = int(threadIdx.x);
             s.store<4>(i * 4, x.load<4>((int(blockIdx.x) * 128 + i) * 4));
             barrier();
             float sum = 0;
             for (int v = 0; v < 4; ++v) sum += s.load(v * 128 + i);
             y.store(int(blockIdx.x) * 128 + i, warp_reduce<Sum>(sum)); }""",
        """k(const float* __restrict__ x, float* __restrict__ y) {
             extern __shared__ __align__(16) unsigned char memory[];
             float* s = reinterpret_cast<float*>(memory);
             const int i = int(threadIdx.x);
             *reinterpret_cast<float4*>(s + i * 4) =
                 *reinterpret_cast<const float4*>(x + (int(blockIdx.x) * 128 + i) * 4);
             __syncthreads();
             float sum = 0;
             for (int v = 0; v < 4; ++v) sum += s[v * 128 + i];
             for (int m = 16; m > 0; m /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);
             y[int(blockIdx.x) * 128 + i] = sum; }""",
    ),
    "asynchronous copy": (
        """k(const float* __restrict__ x_, float* __restrict__ y_) {
             const Global<const float> x(x_, 4096); const Global<float> y(y_, 4096);
             LOOM_SHARED(2048);
             const Shared<float> s(shared_memory, 512);
             const int i = int(threadIdx.x);
             async_copy<16>(s, i * 4, x, (int(blockIdx.x) * 128 + i) * 4, 4);
             async_commit(); async_wait<0>(); barrier();
             y.store(int(blockIdx.x) * 128 + i, s.load(511 - i)); }""",
        """k(const float* __restrict__ x, float* __restrict__ y) {
             extern __shared__ __align__(16) unsigned char memory[];
             float* s = reinterpret_cast<float*>(memory);
             const int i = int(threadIdx.x);
             asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 16;" ::
                 "r"((unsigned)__cvta_generic_to_shared(s + i * 4)), "l"(x + (int(blockIdx.x) * 128 + i) * 4)
                 : "memory");
             asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
             __syncthreads();
             y[int(blockIdx.x) * 128 + i] = s[511 - i]; }""",
    ),
}


def memory_instructions(text: str, architecture: str) -> Counter[str]:
    """How often each kind of load, store, copy and shuffle occurs; the bits of vectors and elements are multiplied."""
    ptx = compile_ptx(text, architecture)
    found: Counter[str] = Counter()
    for name, vector, bits in re.findall(r"\b((?:ld|st)\.(?:global|shared)(?:\.nc)?)(?:\.v(\d))?\.[bfsu](\d+)", ptx):
        found[f"{name}.{int(vector or 1) * int(bits)}"] += 1
    return found + Counter(re.findall(r"cp\.async\.c[ag]|shfl\.sync\.\w+", ptx))


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", PAIRS)
def test_accessors_cost_nothing(name: str, architecture: str) -> None:
    wrapped, raw = (HEAD + body for body in PAIRS[name])
    instructions = memory_instructions(wrapped, architecture)
    assert instructions == memory_instructions(raw, architecture)
    assert sum(instructions.values()) >= 2
    assert compile_cuda(wrapped, architecture).registers <= compile_cuda(raw, architecture).registers


@needs_nvrtc
def test_read_only_parameters_are_loaded_without_coherence() -> None:
    instructions = memory_instructions(HEAD + PAIRS["vector"][0], "sm_80")
    assert instructions == {"ld.global.nc.128": 1, "st.global.128": 1}


@needs_nvrtc
@pytest.mark.parametrize(("element", "count"), [("f16", 4), ("f16", 8), ("float", 2), ("float", 4)])
@pytest.mark.parametrize("memory", ["global", "shared"])
def test_vectors_that_others_wrote_are_loaded_in_one_instruction(memory: str, element: str, count: int) -> None:
    """As split-K reads its partial sums: such memory has no ld.global.nc, and by bytes it is 16 times as many."""
    in_shared = "LOOM_SHARED(9999); const Shared<E> s(shared_memory, 9999);"
    place = "const Global<E> s(y_, 9999);" if memory == "global" else in_shared
    body = f"""k({element}* y_) {{
        using E = {element}; {place} const Global<E> y(y_, 9999);
        const int i = int(threadIdx.x);
        s.store<{count}>(i * {count}, y.load<{count}>((i + 999) * {count}));
        __threadfence(); barrier();
        y.store<{count}>(i * {count}, s.load<{count}>((127 - i) * {count})); }}"""
    bits = count * {"f16": 16, "float": 32}[element]
    loads = {name: n for name, n in memory_instructions(HEAD + body, "sm_80").items() if name.startswith("ld.")}
    assert loads == Counter([f"ld.global.{bits}", f"ld.{memory}.{bits}"])


@needs_nvrtc
@pytest.mark.parametrize(("width", "form"), [(4, "cp.async.ca"), (8, "cp.async.ca"), (16, "cp.async.cg")])
def test_copies_take_the_form_of_their_width(width: int, form: str) -> None:
    body = PAIRS["asynchronous copy"][0].replace("async_copy<16>", f"async_copy<{width}>")
    assert memory_instructions(HEAD + body, "sm_80")[form] == 1


def run_elementwise(expression: str, result: str, **inputs: np.ndarray) -> np.ndarray:
    """The emulated value of a C expression over elements named as the inputs."""
    names = {"float32": "float", "float16": "f16", "int32": "int", "int64": "i64", "bool": "bool8", "uint16": "f16"}
    count = next(iter(inputs.values())).size
    parameters = [f"const {names[str(v.dtype)]}* __restrict__ {n}_" for n, v in inputs.items()]
    loads = [
        f"const auto {n} = Global<const {names[str(v.dtype)]}>({n}_, {count}).load(at);" for n, v in inputs.items()
    ]
    text = f"""{HEAD}elementwise({", ".join(parameters)}, {names[result]}* __restrict__ result_) {{
      const int at = int(blockIdx.x) * 128 + int(threadIdx.x);
      if (at >= {count}) return;
      {" ".join(loads)}
      Global<{names[result]}>(result_, {count}).store(at, {expression}); }}
    """
    buffers = [Parameter(f"{n}_", n, str(v.dtype), count, True, False) for n, v in inputs.items()]
    buffers.append(Parameter("result_", "result", result, count, False, True))
    source = CudaSource(text, "elementwise", ((count + 127) // 128, 1, 1), (128, 1, 1), 0, tuple(buffers), ())
    emulation, outputs, _ = emulate(source, inputs)
    assert emulation.findings == ()
    return outputs["result"]


SPECIAL = np.array([0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 65519, 65520], "f")


def floats(seed: int, count: int = 4000, scale: float = 4) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(count).astype(np.float32) * np.float32(scale)
    return np.concatenate([SPECIAL, values])


@needs_compiler
def test_all_halves_become_their_floats() -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    got = run_elementwise("to_float(x)", "float32", x=halves)
    expected = halves.astype(np.float32)
    numbers = ~np.isnan(expected)
    assert (np.isnan(got) == ~numbers).all()
    assert (got.view(np.uint32) == expected.view(np.uint32))[numbers].all()


@needs_compiler
def test_floats_round_to_the_nearest_half() -> None:
    """Every half, the midpoints between neighbours and their float neighbours, and random floats of all sizes."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    bits = np.random.default_rng(6).integers(0, 2**32, 50000, dtype=np.uint32).view(np.float32)
    near = [np.nextafter(middles, np.float32(edge)) for edge in (-np.inf, np.inf)]
    positive = np.concatenate([halves, middles, *near, [np.float32(65519.996), np.float32(65520), np.float32(np.inf)]])
    values = np.concatenate([positive, -positive, bits]).astype(np.float32)
    got = run_elementwise("to_f16(x)", "float16", x=values)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    numbers = ~np.isnan(expected)
    assert (np.isnan(got) == ~numbers).all()
    assert (got.view(np.uint16) == expected.view(np.uint16))[numbers].all()


FLOAT_FUNCTIONS = {
    "fn_exp(x)": np.exp, "fn_log(x)": np.log, "fn_sqrt(x)": np.sqrt, "fn_rsqrt(x)": lambda x: 1 / np.sqrt(x),
    "fn_reciprocal(x)": lambda x: 1 / x, "fn_tanh(x)": np.tanh, "fn_erf(x)": np.vectorize(math.erf),
    "fn_sigmoid(x)": lambda x: 1 / (1 + np.exp(-x)), "fn_abs(x)": np.abs, "fn_neg(x)": np.negative,
    "fn_floor(x)": np.floor, "fn_ceil(x)": np.ceil, "fn_round(x)": np.round, "fn_sign(x)": np.sign,
    "fn_sin(x)": np.sin, "fn_cos(x)": np.cos,
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("expression", FLOAT_FUNCTIONS)
def test_float_functions_agree_with_numpy(expression: str) -> None:
    """Within 4 units in the last place of the float64 result (subnormal results: 4 smallest steps)."""
    x = floats(7)
    with np.errstate(all="ignore"):
        expected = FLOAT_FUNCTIONS[expression](x.astype(np.float64)).astype(np.float32)
    got = run_elementwise(expression, "float32", x=x)
    assert (np.isnan(got) == np.isnan(expected)).all()
    infinite = np.isinf(expected)
    assert (got[infinite] == expected[infinite]).all()
    finite = np.isfinite(expected)
    assert (np.abs(got[finite] - expected[finite]) <= 4 * np.spacing(np.abs(expected[finite]))).all()


BINARY_FUNCTIONS = {
    "fn_max(x, y)": np.maximum, "fn_min(x, y)": np.minimum, "fn_mod(x, y)": np.mod, "fn_div(x, y)": np.divide,
    "fn_pow(x, y)": np.power,
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("expression", BINARY_FUNCTIONS)
def test_binary_float_functions_agree_with_numpy(expression: str) -> None:
    """Within 4 units in the last place; NaN in either operand of max and min gives NaN."""
    x, y = floats(8), np.roll(floats(9), 7)
    with np.errstate(all="ignore"):
        expected = BINARY_FUNCTIONS[expression](x, y)
    got = run_elementwise(expression, "float32", x=x, y=y)
    assert (np.isnan(got) == np.isnan(expected)).all()
    numbers = np.isfinite(expected)
    assert (np.abs(got[numbers] - expected[numbers]) <= 4 * np.spacing(np.abs(expected[numbers]))).all()


@needs_compiler
@pytest.mark.parametrize("origin", [0.0, 3.7, -41.3, 999.9])
def test_weights_in_base_2_are_off_by_what_they_share(origin: float) -> None:
    """By |origin| u all alike, so that a weighted mean does not see it, and by as little as any exponential beside."""
    u, largest = 2.0**-24, np.float32(origin)
    distance = np.random.default_rng(12).uniform(-20, 0, 4096)
    x = np.append((largest + distance).astype(np.float32), largest)
    got = run_elementwise("fn_exp_shifted_approx(x, y)", "float32", x=x, y=np.full_like(x, largest)).astype(np.float64)
    ratio = got / np.exp(x.astype(np.float64) - float(largest)) - 1
    own = 8 + 2 * np.abs(x - largest)
    assert (np.abs(ratio) < (own + 2 * abs(origin)) * u).all() and (np.abs(ratio - ratio[-1]) < own * u).all()
    nothing = np.full(1, -np.inf, np.float32)
    assert run_elementwise("fn_exp_shifted_approx(x, y)", "float32", x=nothing, y=x[-1:])[0] == 0


INTEGER_FUNCTIONS = {
    "fn_max(x, y)": np.maximum, "fn_min(x, y)": np.minimum, "fn_mod(x, y)": np.mod,
    "fn_div(x, y)": lambda x, y: np.trunc(x / y).astype(x.dtype), "fn_pow(x, fn_abs(y))": lambda x, y: x ** np.abs(y),
    "fn_sign(x)": lambda x, y: np.sign(x), "fn_neg(fn_abs(x))": lambda x, y: -np.abs(x),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("expression", INTEGER_FUNCTIONS)
def test_integer_functions_agree_with_numpy(expression: str, dtype: type) -> None:
    random = np.random.default_rng(10)
    x = random.integers(-1000, 1000, 500).astype(dtype)
    y = random.integers(1, 12, 500).astype(dtype) * random.choice([-1, 1], 500).astype(dtype)
    with np.errstate(over="ignore"):
        expected = INTEGER_FUNCTIONS[expression](x, y)
    assert (run_elementwise(expression, np.dtype(dtype).name, x=x, y=y) == expected).all()


@needs_compiler
def test_classification_and_constants() -> None:
    x = floats(11, 100)
    assert (run_elementwise("fn_isnan(x)", "bool", x=x) == np.isnan(x)).all()
    assert (run_elementwise("fn_isinf(x)", "bool", x=x) == np.isinf(x)).all()
    assert (run_elementwise("x == x ? INF : NEG_INF", "float32", x=x) == np.where(np.isnan(x), -np.inf, np.inf)).all()
    assert np.isnan(run_elementwise("NAN_F", "float32", x=x)).all()


REDUCTIONS = {
    ("Sum", "int32"): np.sum, ("Max", "float32"): np.max, ("Min", "int64"): np.min, ("Prod", "float32"): np.prod,
    ("Any", "bool"): np.any, ("All", "bool"): np.all,
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("width", [32, 8, 1])
@pytest.mark.parametrize(("operation", "dtype"), REDUCTIONS)
def test_warp_reductions_join_their_lanes(operation: str, dtype: str, width: int) -> None:
    x = np.random.default_rng(12).integers(-3, 4, 128).astype(dtype)
    reduce = REDUCTIONS[operation, dtype]
    expected = np.repeat(reduce(x.reshape(-1, width), axis=1), width)
    got = run_elementwise(f"(warp_reduce<{operation}, {width}>(x))", dtype, x=x)
    assert (got == expected).all()


@needs_compiler
@pytest.mark.parametrize("operation", ["Sum", "Max", "Min", "Prod"])
def test_identities_change_nothing(operation: str) -> None:
    x = floats(13, 100)
    got = run_elementwise(f"{operation}<float>::apply({operation}<float>::identity(), x)", "float32", x=x)
    assert np.array_equal(got, x, equal_nan=True)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float16"])
def test_shuffles_fetch_from_the_named_lane(dtype: str) -> None:
    x = np.arange(64).astype(dtype)
    warps = x.reshape(2, 32)
    assert (run_elementwise("shuffle_xor(x, 5)", dtype, x=x) == warps[:, np.arange(32) ^ 5].ravel()).all()
    assert (run_elementwise("shuffle_at(x, 7)", dtype, x=x) == np.repeat(warps[:, 7], 32)).all()
    down = warps[:, [*range(3, 32), 29, 30, 31]]
    assert (run_elementwise("shuffle_down(x, 3)", dtype, x=x) == down.ravel()).all()
