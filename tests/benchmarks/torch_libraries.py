"""cuBLASLt and cuDNN through the calls of PyTorch that lead to one library function, for the rows that have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from engine.support.errors import Unsupported
from tests.benchmarks.peers import Arrays, Case, System, over_copies, torch_graph

PRODUCTS: Mapping[str, tuple[str, Callable[[Arrays], list[Any]]]] = {
    "matmul": ("cublasLtMatmul by torch.mm", lambda given: [torch.mm(given["a"], given["b"])]),
    "batched-matmul": (
        "cublasLtMatmul, strided batch, by torch.bmm",
        lambda given: [torch.bmm(given["a"], given["b"])],
    ),
    "matmul-bias": (
        "cublasLtMatmul with the bias in its epilogue by torch.addmm",
        lambda given: [torch.addmm(given["bias"], given["a"], given["b"])],
    ),
    "matmul-bias-gelu": (
        "cublasLtMatmul with bias and GELU by tanh in its epilogue by torch._addmm_activation",
        lambda given: [torch._addmm_activation(given["bias"], given["a"], given["b"], use_gelu=True)],
    ),
}
"""Row's operator -> what runs, in words and as a function."""


def cublaslt(case: Case, copies: Sequence[Arrays]) -> System:
    """One call of cuBLASLt: products, alone or with what its epilogues hold."""
    if case.row.operator not in PRODUCTS:
        raise Unsupported("benchmark", case.row.operator, "no epilogue of cuBLASLt is one")
    ran, run = PRODUCTS[case.row.operator]
    plain = over_copies(run, copies, ran)
    if case.device != "cuda":
        return plain  # there is no choice of libraries elsewhere

    def step(copy: int) -> list[Any]:
        # The choice holds for the whole process: eager PyTorch keeps its own.
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library("cublaslt")
        try:
            return plain.step(copy)
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    return System(step, plain.ran)


def cudnn(case: Case, copies: Sequence[Arrays]) -> System:
    """Convolutions of channels-last copies, the layout of cuDNN's tensor-core kernels, made ahead of all timing."""
    if case.row.operator not in ("conv", "transposed-conv"):
        raise Unsupported("benchmark", case.row.operator, "cuDNN is asked for convolutions only")
    forms = {4: torch.channels_last, 5: torch.channels_last_3d}

    def channels_last(value: Any) -> Any:
        form = forms.get(value.dim())
        return value if form is None else value.contiguous(memory_format=form)

    turned = [{name: channels_last(value) for name, value in copy.items()} for copy in copies]
    return over_copies(torch_graph(case), turned, "cuDNN by torch, channels last, its algorithms tried beforehand")

