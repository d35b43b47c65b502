"""The adapters of peers on the CPU, at tiny sizes: right against ONNX Runtime, and honest about what they lack.

Needs PyTorch; JAX and Triton where they are asked for.  Triton's kernels run in its interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from engine.suite import SuiteRow
from engine.suite.operators import OPERATORS, model_of
from engine.support.errors import Unsupported
from tests.benchmarks.peers import PEERS, Case
from tests.suite.test_operators import ROWS

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its adapters are not tested here")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.torch
COPIES = 2
TRITON = ("matmul", "batched-matmul", "matmul-bias", "matmul-bias-gelu", "softmax", "layernorm", "add", "copy",
          "bias-gelu", "swiglu")  # fmt: skip


def inputs(row: SuiteRow, seed: int) -> dict[str, np.ndarray]:
    model, stream = model_of(row), np.random.default_rng(seed)
    ranges = {p.key: json.loads(p.value) for p in model.metadata_props}.get("light.inputs", {})
    made = {}
    for one in model.graph.input:
        kind = one.type.tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        if kind.elem_type == 7:  # int64: labels
            made[one.name] = stream.integers(0, 24, shape)
        elif one.name in ranges:
            made[one.name] = stream.uniform(*ranges[one.name], shape).astype(row.dtype)
        else:
            made[one.name] = stream.normal(size=shape).astype(row.dtype)
    return made


def off(name: str, row: SuiteRow) -> float:
    """Largest error of a peer's results on its second copy, in norms of ONNX Runtime's."""
    model = model_of(row)
    values = [inputs(row, seed) for seed in range(COPIES)]
    copies = [{key: torch.from_numpy(value) for key, value in one.items()} for one in values]
    system = PEERS[name].make(Case(row, model, "cpu"), copies)
    system.step(0)
    found = system.step(1)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    worst = 0.0
    for ours, theirs in zip(found, session.run(None, values[1]), strict=True):
        assert tuple(ours.shape) == theirs.shape and str(ours.dtype) == f"torch.{theirs.dtype}"
        difference = ours.float().numpy().astype(np.float64) - theirs
        worst = max(worst, float(np.linalg.norm(difference) / np.linalg.norm(theirs.astype(np.float64))))
    assert system.ran()
    return worst


def full(name: str) -> SuiteRow:
    return replace(ROWS[name], dtype="float32")


@pytest.mark.parametrize("operator", OPERATORS)
def test_eager_is_right_on_every_operator(operator: str) -> None:
    assert off("torch", full(operator)) < 1e-5


@pytest.mark.parametrize("operator", OPERATORS)
def test_xla_is_right_on_every_operator(operator: str) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    assert off("xla", full(operator)) < 1e-5


@pytest.mark.parametrize(
    ("operator", "tolerance"),
    [("matmul", 1e-5), ("batched-matmul", 1e-5), ("matmul-bias", 1e-5), ("matmul-bias-gelu", 1e-4)],
)
def test_products_of_cublaslt(operator: str, tolerance: float) -> None:
    # On the CPU another library runs what is asked for, with GELU in its exact form, 1e-4 from that by tanh.
    assert off("cublaslt", full(operator)) < tolerance


@pytest.mark.parametrize("operator", ["conv", "transposed-conv"])
def test_convolutions_with_channels_last(operator: str) -> None:
    assert off("cudnn", full(operator)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["softmax", "bias-gelu", "matmul-bias"])
def test_the_compiled_graph(operator: str) -> None:
    assert off("torch.compile", full(operator)) < 1e-5


def test_kernels_in_triton() -> None:
    """In a process of its own: Triton's interpreter is chosen when it is imported."""
    pytest.importorskip("triton", reason="Triton is not installed")
    program = (
        "import json\n"
        "from tests.benchmarks import test_peers as tests\n"
        "from tests.benchmarks import triton_kernels as kernels\n"
        "for kernel in vars(kernels).values():\n"
        "    if hasattr(kernel, 'configs'):\n"
        "        del kernel.configs[:-1]\n"  # nothing is timed on the CPU, so there is no choice
        "print(json.dumps({name: tests.off('triton', tests.full(name)) for name in tests.TRITON}))\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    errors = json.loads(done.stdout.splitlines()[-1])
    assert errors.keys() == set(TRITON)
    assert {name: error for name, error in errors.items() if not error < 1e-5} == {}


HALF, WHOLE = "*fp16", "i32"
SIGNATURES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "product": ("a b bias out", ("M", "N", "K", "step_a", "step_b", "step_out"), {"HAS_BIAS": True, "GELU": True}),
    "softmax": ("x out", ("N",), {"ROW": 1024}),
    "layer_norm": ("x gain shift out", ("N",), {"ROW": 1024}),
    "add": ("a b out", ("COUNT",), {}),
    "negate": ("x out", ("COUNT",), {}),
    "bias_gelu": ("x bias out", ("COUNT", "N"), {}),
    "swiglu": ("a b out", ("COUNT",), {}),
}
"""Kernel -> its pointers, its whole numbers, its constants."""


@pytest.mark.parametrize("name", SIGNATURES)
def test_kernels_in_triton_compile_for_hopper(name: str) -> None:
    """Triton's own compiler needs no GPU; products must reach its tensor cores."""
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tests.benchmarks import triton_kernels

    kernel = getattr(triton_kernels, name)
    pointers, numbers, constants = SIGNATURES[name]
    config = kernel.configs[0]
    fixed = {**constants, **config.kwargs}
    types = {**dict.fromkeys(pointers.split(), HALF), **dict.fromkeys(numbers, WHOLE), "epsilon": "fp32"}
    signature = {n: "constexpr" if n in fixed else types[n] for n in kernel.fn.arg_names}
    values = {(kernel.fn.arg_names.index(n),): value for n, value in fixed.items()}
    source = ASTSource(fn=kernel.fn, signature=signature, constexprs=values)
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert made.asm["cubin"] and ("wgmma" in made.asm["ptx"]) == (name == "product")


def test_long_rows_leave_out_the_configurations_that_spill() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests.benchmarks import triton_kernels

    configs = list(triton_kernels.softmax.configs)
    warps = {row: [c.num_warps for c in triton_kernels.fitting(configs, {}, ROW=row)] for row in (1024, 16384, 65536)}
    assert warps == {1024: [4, 8, 16, 32], 16384: [8, 16, 32], 65536: [32]}


@pytest.mark.parametrize(
    ("name", "operator", "says"),
    [
        ("cublaslt", "softmax", "softmax: no epilogue of cuBLASLt is one"),
        ("cudnn", "matmul", "matmul: cuDNN is asked for convolutions only"),
        ("triton", "rope", "rope: no kernel was written in Triton for it"),
    ],
)
def test_a_row_beyond_a_peer_is_told(name: str, operator: str, says: str) -> None:
    if name == "triton":
        pytest.importorskip("triton", reason="Triton is not installed")
    copies: list[Any] = []
    with pytest.raises(Unsupported, match=says):
        PEERS[name].make(Case(full(operator), model_of(full(operator)), "cpu"), copies)
