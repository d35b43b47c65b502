"""The kernels of this folder as PyTorch operators: `torch.ops.loomscope.NAME`, one for each kernel of `manifest.json`.

    import torch_module
    torch_module.register()
    y = torch.ops.loomscope.softmax_0(x)

An operator takes what its kernel reads, in the manifest's order, and gives what it writes.  It runs on the current
stream of its tensors' device and launches through the NVIDIA driver's own library; nothing but PyTorch is needed.
Workspaces are PyTorch's memory, made for each call, so that calls on several streams may overlap.  A tensor whose
memory does not begin where the kernel needs it (a view such as `x[1:]`) is refused: pass `x[1:].clone()`.
`python torch_module.py` compares every operator with the values in `check/`, which come from another implementation.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
NAMESPACE = "loomscope"
DEVICE = "cuda"
"""PyTorch's type of the device that tensors lie on."""
TOLERANCE = "tolerance of this kernel"
"""Beside the values in `check/`: the largest error of a right result; no array of a kernel has blanks in its name."""
_DYNAMIC_SHARED_BYTES = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

_registered: list[Any] = []
"""PyTorch forgets operators whose library is collected."""


class TorchOperator:
    """One kernel, as a function of tensors."""

    def __init__(self, kernel: dict[str, Any], folder: Path = FOLDER) -> None:
        self.kernel, self.folder = kernel, folder
        self.name: str = kernel["group"]
        self.reads = [p for p in kernel["parameters"] if p["read"]]
        self.writes = [p for p in kernel["parameters"] if p["written"]]
        both = [p["name"] for p in self.reads if p["written"]]
        if both:
            raise ValueError(f"{self.name} updates {both[0]} in place, which no operator here does")
        self._functions: dict[int, list[ctypes.c_void_p]] = {}

    @property
    def schema(self) -> str:
        """The operator's signature in PyTorch's words."""
        results = ["Tensor"] * len(self.writes)
        returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
        operands = ", ".join("Tensor " + p["parameter"] for p in self.reads)
        return f"{self.name}({operands}) -> {returned}"

    def __call__(self, *tensors: Any) -> Any:
        """Launch on the current stream.  TypeError for tensors that the kernel was not generated for."""
        import torch

        for given, parameter in zip(tensors, self.reads, strict=True):
            self._check(given, parameter)
        device = tensors[0].device
        made = self.empty(device)
        given, results = iter(tensors), iter(made)
        memory = [next(given if p["read"] else results) for p in self.kernel["parameters"]]
        with torch.cuda.device(device):
            memory += self._workspaces(device)
            for one, needs in zip(memory, [*self.kernel["parameters"], *self.kernel["workspaces"]], strict=True):
                self._check_address(one, needs)
            self._launch([one.data_ptr() for one in memory], torch.cuda.current_stream().cuda_stream)
        return made[0] if len(made) == 1 else tuple(made)

    def empty(self, device: Any) -> list[Any]:
        """Tensors for the results, not filled."""
        import torch

        return [torch.empty(p["shape"], dtype=getattr(torch, p["dtype"]), device=device) for p in self.writes]

    def abstract(self, *tensors: Any) -> Any:
        """Shapes alone, for `torch.compile`."""
        made = self.empty("meta")
        return made[0] if len(made) == 1 else tuple(made)

    def _workspaces(self, device: Any) -> list[Any]:
        """Memory of one launch.  PyTorch gives it to later work of the same stream only."""
        import torch

        made = []
        for workspace in self.kernel["workspaces"]:
            make = torch.zeros if workspace["zeroed"] else torch.empty
            made.append(make(workspace["elements"], dtype=getattr(torch, workspace["dtype"]), device=device))
        return made

    def _check_address(self, tensor: Any, needs: dict[str, Any]) -> None:
        if tensor.data_ptr() % needs["alignment"]:
            needed = f"must begin at a multiple of {needs['alignment']} bytes, which the kernel moves at once"
            raise TypeError(f"{self.name}: {needs['name']} {needed}; of a view that does not, pass .clone()")

    def _check(self, tensor: Any, parameter: dict[str, Any]) -> None:
        kind = str(tensor.dtype).removeprefix("torch.")
        if kind != parameter["dtype"] or tensor.numel() != parameter["elements"]:
            wanted = f"{parameter['dtype']}{parameter['shape']}"
            raise TypeError(f"{self.name}: {parameter['name']} must be {wanted}, not {kind}{list(tensor.shape)}")
        if tensor.device.type != DEVICE or not tensor.is_contiguous():
            raise TypeError(f"{self.name}: {parameter['name']} must be contiguous and on the GPU")

    def _launch(self, pointers: list[int], stream: int) -> None:
        values = [ctypes.c_void_p(pointer) for pointer in pointers]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        for function, launch in zip(self._load(), self.kernel["launches"], strict=True):
            shape = [ctypes.c_uint(size) for size in (*launch["grid"], *launch["block"], launch["shared_bytes"])]
            where = ctypes.c_void_p(stream)
            if launch["least_sms"] > 1:  # blocks that wait for each other: the driver refuses what does not run at once
                _call("cuLaunchCooperativeKernel", function, *shape, where, arguments)
            else:
                _call("cuLaunchKernel", function, *shape, where, arguments, None)

    def _load(self) -> list[ctypes.c_void_p]:
        """The kernel's launches on the current device, loaded when first used there."""
        import torch

        device = torch.cuda.current_device()
        if device not in self._functions:
            capability = "{}.{}".format(*torch.cuda.get_device_capability(device))
            compiled = self.kernel["compiled"].items()
            architecture = next((name for name, made in compiled if capability in made["runs_on"]), None)
            if architecture is None:
                raise RuntimeError(f"{self.name}: there is no machine code for compute capability {capability}")
            code = (self.folder / f"{self.name}.{architecture}.cubin").read_bytes()
            module = ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(module), code)
            self._functions[device] = [self._function(module, launch) for launch in self.kernel["launches"]]
        return self._functions[device]

    def _function(self, module: ctypes.c_void_p, launch: dict[str, Any]) -> ctypes.c_void_p:
        function, shared_bytes = ctypes.c_void_p(), launch["shared_bytes"]
        _call("cuModuleGetFunction", ctypes.byref(function), module, launch["entry"].encode())
        try:
            _call("cuFuncSetAttribute", function, _DYNAMIC_SHARED_BYTES, shared_bytes)
        except RuntimeError as error:  # the kernel was made for a GPU whose blocks may have more
            needs = f"{self.name} needs {shared_bytes:,} bytes of shared memory a block"
            raise RuntimeError(f"{needs}, this GPU refuses them: {error}") from error
        return function


def _call(name: str, *arguments: Any) -> None:
    status = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name} answers with status {status}")


def operators(folder: Path = FOLDER) -> dict[str, TorchOperator]:
    """Every kernel of a folder by its name; those that update their inputs are left out."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    kernels = (k for k in manifest["kernels"] if not any(p["read"] and p["written"] for p in k["parameters"]))
    return {kernel["group"]: TorchOperator(kernel, folder) for kernel in kernels}


def register(folder: Path = FOLDER, namespace: str = NAMESPACE) -> dict[str, TorchOperator]:
    """Make every kernel an operator of PyTorch.  namespace: one for each model, where a process has several."""
    import torch

    found = operators(folder)
    library = torch.library.Library(namespace, "FRAGMENT")
    for operator in found.values():
        library.define(operator.schema)
        library.impl(operator.name, operator, DEVICE.upper())
        library.impl(operator.name, operator.abstract, "Meta")
    _registered.append(library)
    return found


def compare(operator: TorchOperator) -> tuple[float, float] | None:
    """(largest error, tolerance) against `check/`, both in the size of the largest expected value; None without it."""
    import numpy as np
    import torch

    path = operator.folder / "check" / f"{operator.name}.npz"
    if not path.is_file():
        return None
    with np.load(path) as values:
        given = [torch.from_numpy(values[p["name"]]).to(DEVICE) for p in operator.reads]
        made = operator(*given)
        worst = 0.0
        for result, parameter in zip(made if isinstance(made, tuple) else (made,), operator.writes, strict=True):
            want = values[parameter["name"]].astype(np.float64)
            error = np.abs(result.cpu().numpy().astype(np.float64).reshape(want.shape) - want).max()
            worst = max(worst, float(error) / max(float(np.abs(want).max()), 1e-30))
        return worst, float(values[TOLERANCE])


def missing() -> str:
    """Why the operators cannot run here; "" if they can."""
    try:
        import torch
    except ImportError as error:
        return f"PyTorch cannot be imported: {error}"
    return "PyTorch finds no GPU" if DEVICE == "cuda" and not torch.cuda.is_available() else ""


def main() -> int:
    """Compare every operator with its values; 1 where one is wrong, 3 without PyTorch or a GPU."""
    lacking = missing()
    if lacking:
        print(lacking, file=sys.stderr)
        return 3
    wrong = 0
    for operator in operators().values():
        found = compare(operator)
        if found is None:
            print(f"{operator.name}: no values to compare with")
            continue
        right = math.isfinite(found[0]) and found[0] <= found[1]
        wrong += not right
        print(f"{operator.name}: {'right' if right else 'WRONG'}, error {found[0]:.2g}, tolerance {found[1]:.2g}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
