"""Runs the kernels of this folder in order with PyCUDA, and times each.

    python harness.py [--inputs X.npz] [-o Y.npz] [--samples N] [--size N]

Needs NumPy, PyCUDA and a GPU; nothing of Loomscope.  Tensors are named as in `manifest.json`; the model's weights are
in `constants.npz`, what the host runs between kernels is in `host_operators.py`, and what `--inputs` does not give is
seeded random numbers (whole numbers are 0 or 1).  Times are between two events round one kernel, caches warm: for a
first look, not for a comparison.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, 2 for inputs that are not there, 3 where there is no GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=Path, help="values of tensors, by name")
    parser.add_argument("-o", "--outputs", type=Path, help="where to write the graph's outputs")
    parser.add_argument("--size", type=int, help="of the dimension whose sizes are in sizes.json; else the largest")
    parser.add_argument("--samples", type=int, default=20, help="timed launches of each kernel")
    options = parser.parse_args(arguments)
    if options.inputs is not None and not options.inputs.is_file():
        parser.error(f"{options.inputs} is no file")
    try:
        import pycuda.driver as driver
    except ImportError as error:
        print(f"PyCUDA cannot be imported: {error}", file=sys.stderr)
        return 3
    try:
        driver.init()
        context = driver.Device(0).retain_primary_context()
    except driver.Error as error:
        print(f"CUDA does not start: {error}", file=sys.stderr)
        return 3
    context.push()
    try:
        files = [path for path in (FOLDER / "constants.npz", options.inputs) if path is not None and path.is_file()]
        given = {name: value for path in files for name, value in np.load(path).items()}
        outputs = FolderRun(driver, FOLDER, given, options.size).all(options.samples)
    finally:
        context.pop()
    if options.outputs:
        save(options.outputs, outputs)
    return 0


class FolderRun:
    """The folder's launches over one set of buffers."""

    def __init__(
        self, driver: Any, folder: Path, given: Mapping[str, np.ndarray], size: int | None = None
    ) -> None:
        """size: of the dimension that the kernels are for several sizes of; arrays are those of the largest."""
        self.driver, self.folder, self.size = driver, folder, size
        self.sizes: dict[str, Any] = {}
        if size is not None:
            self.sizes = json.loads((folder / "sizes.json").read_text(encoding="utf-8"))
            if not self.sizes["from"] <= size <= self.sizes["to"]:
                raise SystemExit(f"{self.sizes['dimension']} is {self.sizes['from']} to {self.sizes['to']}, not {size}")
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.kernels = {kernel["group"]: kernel for kernel in self.manifest["kernels"]}
        self.buffers = {buffer["name"]: buffer for buffer in self.manifest["buffers"]}
        self.memory: dict[str, Any] = {}
        for name, (dtype, elements) in sizes(self.manifest).items():
            value = (
                np.ascontiguousarray(given[name], dtype).reshape(-1)
                if name in given
                else made_up(name, dtype, elements)
            )
            if size is not None and name in self.sizes["rows"]:  # integers beyond may be places: zeros are
                value = np.concatenate((value, np.zeros(elements - value.size, value.dtype)))
            if value.size != elements:
                raise SystemExit(f"{name}: {elements} elements are wanted, {value.size} given")
            self.memory[name] = driver.mem_alloc(max(value.nbytes, 1))
            self._write(name, value)
        self.functions = {name: self._load(kernel) for name, kernel in self.kernels.items()}
        # One of each serves all launches: they are on one stream, and leave zeroed ones as zeros.
        self.workspaces = {name: self._workspaces(kernel) for name, kernel in self.kernels.items()}

    def all(self, samples: int) -> dict[str, np.ndarray]:
        """Every launch once, for the outputs; then each kernel `samples` times, for its time."""
        launches, host = self.manifest["launches"], list(self.manifest["host"])
        for number, launch in enumerate([*launches, None]):
            while host and host[0]["after"] == number:
                self._run_on_host(host.pop(0))
            if launch and all(bool(self._read(one["tensor"])) == one["holds"] for one in launch["when"]):
                self.launch(launch)
        self.driver.Context.synchronize()
        outputs = {b["name"]: self._result(b["name"]) for b in self.manifest["buffers"] if b["role"] == "output"}
        for name in self.kernels:
            launch = next(launch for launch in self.manifest["launches"] if launch["group"] == name)
            times = sorted(self.time_launch(launch) for _ in range(samples))
            print(f"{name}: {statistics.median(times):.2f} µs, {times[0]:.2f} to {times[-1]:.2f}")
        return outputs

    def launch(self, launch: Mapping[str, Any]) -> None:
        """Run a kernel on its tensors: pointers for its parameters and then its workspaces, in the manifest's order."""
        kernel = self.kernels[launch["group"]]
        pointers = [
            int(self.memory[launch["arrays"][p["name"]]])
            + launch["first"].get(p["name"], 0) * np.dtype(p["dtype"]).itemsize
            for p in kernel["parameters"]
        ]
        pointers += map(int, self.workspaces[launch["group"]])
        for pointer, needs in zip(pointers, [*kernel["parameters"], *kernel["workspaces"]], strict=True):
            if pointer % needs["alignment"]:
                place = f"{launch['group']}: {needs['name']} lies at {pointer:#x}"
                raise SystemExit(f"{place}, its kernel needs a multiple of {needs['alignment']}")
        for function, one in zip(self.functions[launch["group"]], kernel["launches"], strict=True):
            grid, block = tuple(one["grid"]), tuple(one["block"])
            if self.size is not None and len(kernel["launches"]) == 1:
                blocks = self.sizes["blocks"][launch["group"]]
                grid = (next(blocks for largest, blocks in blocks if self.size <= largest), 1, 1)
            function.prepared_async_call(grid, block, None, *pointers, shared_size=one["shared_bytes"])

    @cached_property
    def _operators(self) -> dict[str, Any]:
        """What the file beside this one defines; only models whose host runs more than choices have need of it."""
        return runpy.run_path(str(self.folder / "host_operators.py"))

    def _run_on_host(self, step: Mapping[str, Any]) -> None:
        """An operator that looks at data.  SystemExit where they ask for other sizes than the kernels are for."""
        if step["type"] == "If":
            holds, sources = bool(self._read(step["inputs"][0])), step["attributes"]
            if holds and sources["then_branch"] == sources["else_branch"]:  # a loop that should have ended
                (steps,) = (of["made_for"] for of in step["sizes"].values())
                raise SystemExit(f"{step['operator']}: data ask for more steps, the kernels are for {steps}")
            results = [self._read(name) for name in sources["then_branch" if holds else "else_branch"]]
        else:
            operands = [self._read(name) if name else np.empty(0) for name in step["inputs"]]
            results = list(self._operators["run"](step["type"], operands, step["attributes"]))
        for name, value in zip(step["outputs"], results, strict=False):
            if name and value.shape != tuple(self.buffers[name]["shape"]):
                sizes = ", ".join(f"{size} = {of['made_for']}" for size, of in step["sizes"].items())
                raise SystemExit(f"{step['operator']} gives {list(value.shape)}; the kernels are for {sizes}")
            if name:
                self._write(name, np.ascontiguousarray(value, self.buffers[name]["dtype"]))

    def _read(self, name: str) -> np.ndarray:
        """A tensor, once all launches so far are done."""
        value = np.empty(self.buffers[name]["shape"], self.buffers[name]["dtype"])
        if value.size:
            self.driver.memcpy_dtoh(value, self.memory[name])
        return value

    def _result(self, name: str) -> np.ndarray:
        """A tensor's rows of the size that was asked for."""
        value, rows = self._read(name), self.sizes.get("rows", {}).get(name)
        return value if rows is None or self.size is None else value[: rows * self.size]

    def _write(self, name: str, value: np.ndarray) -> None:
        if value.size:
            self.driver.memcpy_htod(self.memory[name], value)

    def time_launch(self, launch: Mapping[str, Any]) -> float:
        """Microseconds of one launch."""
        start, stop = self.driver.Event(), self.driver.Event()
        start.record()
        self.launch(launch)
        stop.record()
        stop.synchronize()
        return float(stop.time_since(start)) * 1e3

    def _load(self, kernel: Mapping[str, Any]) -> list[Any]:
        """A function for each launch of a kernel."""
        device = self.driver.Context.get_device()
        sms = device.get_attribute(self.driver.device_attribute.MULTIPROCESSOR_COUNT)
        capability = "{}.{}".format(*device.compute_capability())
        architecture = next((name for name, made in kernel["compiled"].items() if capability in made["runs_on"]), None)
        if architecture is None:
            raise SystemExit(f"there is no machine code for compute capability {capability}")
        code = (self.folder / f"{kernel['group']}.{architecture}.cubin").read_bytes()
        module = self.driver.module_from_buffer(code)
        attribute = self.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        functions = []
        for launch in kernel["launches"]:
            if launch["least_sms"] > sms:  # it would never end
                needs = f"{kernel['group']} has blocks that wait for each other, on {launch['least_sms']} SMs"
                raise SystemExit(f"{needs}; this GPU has {sms}")
            function = module.get_function(launch["entry"])
            try:
                function.set_attribute(attribute, launch["shared_bytes"])
            except self.driver.Error as error:  # the kernel was made for a GPU whose blocks may have more
                needs = f"{kernel['group']} needs {launch['shared_bytes']:,} bytes of shared memory a block"
                raise SystemExit(f"{needs}, this GPU refuses them: {error}") from error
            function.prepare("P" * len([*kernel["parameters"], *kernel["workspaces"]]))
            functions.append(function)
        return functions

    def _workspaces(self, kernel: Mapping[str, Any]) -> list[Any]:
        """Memory that a launch needs besides its tensors; zeros where the kernel wants them."""
        found = []
        for workspace in kernel["workspaces"]:
            found.append(self.driver.mem_alloc(workspace["bytes"]))
            if workspace["zeroed"]:
                self.driver.memcpy_htod(found[-1], np.zeros(workspace["bytes"], np.uint8))
        return found


def sizes(manifest: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Tensor -> (element type, elements that some launch or the host reaches)."""
    on_host = {name for step in manifest["host"] for name in (*step["inputs"], *step["outputs"]) if name}
    found = {b["name"]: (b["dtype"], int(np.prod(b["shape"]))) for b in manifest["buffers"] if b["name"] in on_host}
    parameters = {kernel["group"]: kernel["parameters"] for kernel in manifest["kernels"]}
    for launch in manifest["launches"]:
        for p in parameters[launch["group"]]:
            name, end = launch["arrays"][p["name"]], launch["first"].get(p["name"], 0) + p["elements"]
            found[name] = p["dtype"], max(end, found.get(name, ("", 0))[1])
    return found


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz file whose arrays may have any name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(value), allow_pickle=False)


def made_up(name: str, dtype: str, elements: int) -> np.ndarray:
    """Seeded values: normal, or 0 and 1."""
    stream = np.random.default_rng(zlib.crc32(name.encode()))
    if np.dtype(dtype).kind in "iub":
        return stream.integers(0, 2, elements).astype(dtype)
    return stream.standard_normal(elements, np.float32).astype(dtype)


if __name__ == "__main__":
    sys.exit(main())
