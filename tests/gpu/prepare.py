"""Makes a bare GPU machine ready to measure: Python 3.12 and a CUDA toolkit, no network, wheels carried along.

    python3 tests/gpu/prepare.py carry            # where there is a package index: fill the folder `wheels`
    python3.12 tests/gpu/prepare.py build         # where there are CUDA's headers: PyCUDA as a wheel, beside the others
    python3 tests/gpu/prepare.py install          # on the GPU machine: install from it, build PyCUDA if need be, look
    python3 tests/gpu/prepare.py install --dry-run

The standard library alone is used.  What is installed goes into one folder (`--site`, by default among the machine's
temporary files) for PYTHONPATH; nothing else on the machine changes.  A machine with PyTorch has most packages: only
what is rare is carried, all of it with `--all`.  PyCUDA is published as source: a wheel that was built elsewhere saves
a minute or two, and where it is missing or does not import, PyCUDA is built against the machine's own CUDA headers.
Installing has three minutes: a step that would run past them is ended and named.
Exit codes: 0 ready, 1 a step failed, 2 something was not carried, 3 the machine lacks something.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(tempfile.gettempdir()) / "loomscope-site"
SECONDS = 180.0
LONG = 1800.0
"""Seconds for what is done ahead."""
PYTHON = "3.12"
PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", *(f"manylinux_2_{n}_x86_64" for n in (5, 17, 24, 27, 28)))
RARE = ("islpy", "highspy", "lightgbm", "pytools", "siphash24", "platformdirs", "mako")
"""Wheels that no machine has by itself: for the engine, and for building and importing PyCUDA."""
USUAL = {
    "numpy": "numpy", "networkx": "networkx", "onnx": "onnx", "onnxruntime": "onnxruntime", "typer": "typer",
    "rich": "rich", "Pygments": "pygments", "markupsafe": "markupsafe", "setuptools": "setuptools", "wheel": "wheel",
    "ml_dtypes": "ml_dtypes", "scipy": "scipy",
    "cuda-bindings>=13.0,<14": "cuda.bindings", "nvidia-cuda-nvrtc>=13.0,<13.1": "nvidia", "pytest": "pytest",
    "pytest-timeout": "pytest_timeout",
}  # fmt: skip
"""Package -> module, of what machines with PyTorch have; carried with everything that these need in turn."""
TOOLS = ("setuptools", "wheel", "numpy")
SOURCE = "pycuda"
"""Carried as its source archive."""
TOOLKITS = ("/usr/local/cuda", "/usr/local/cuda-13.0", "/usr/local/cuda-13", "/usr/lib/cuda")

Runner = Callable[[Sequence[str], Mapping[str, str], float], int]
"""Runs a command with additions to the environment and a limit in seconds; gives its status, 124 past the limit."""


@dataclass(frozen=True)
class Step:
    """One command of the preparation."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    unless: tuple[str, ...] = ()
    """A command that ends with 0 where there is nothing to do."""

    def __str__(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        alone = f"{shlex.join(self.unless)} || " if self.unless else ""
        return " ".join([*settings, alone + shlex.join(self.command)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("carry", "build", "install"))
    parser.add_argument("--wheels", type=Path, default=ROOT / "wheels", help="the folder that is carried")
    parser.add_argument("--site", type=Path, default=SITE, help="where to install")
    parser.add_argument("--all", action="store_true", help="carry what machines with PyTorch have, too")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    options = parser.parse_args(arguments)
    if options.what == "carry":
        return run(carry(options.wheels, options.all), options.dry_run, seconds=LONG)
    if options.what == "build":
        return run(build(options.wheels), options.dry_run, seconds=LONG)
    lacks = lacking(options.wheels)
    print("".join(f"{what}\n" for _, what in lacks), end="", file=sys.stderr)
    if lacks and not options.dry_run:
        return max(code for code, _ in lacks)
    status = run(install(options.wheels, options.site), options.dry_run)
    if status == 0 and not options.dry_run:
        settings = (f"{name}={shlex.quote(value)}" for name, value in environment(options.site).items())
        print(f"ready: export {' '.join(settings)}")
    return status


def carry(wheels: Path, everything: bool = False) -> tuple[Step, ...]:
    """Fill the folder from a package index, for the GPU machine's Python whatever runs here."""
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    target = ("--python-version", PYTHON, "--implementation", "cp", *platforms)
    pip = (sys.executable, "-m", "pip", "download", "-q", "-d", str(wheels))
    wanted = (*RARE, *USUAL) if everything else ("--no-deps", *RARE)
    tools = tools_folder(wheels)
    return (
        Step("wheels", (*pip, "--only-binary=:all:", *target, *wanted)),
        _tools(tools),
        Step(
            "PyCUDA's source", (*pip, "--no-deps", f"--no-binary={SOURCE}", "--no-build-isolation", SOURCE),
            {"PYTHONPATH": str(tools)},
        ),
    )  # fmt: skip


def tools_folder(wheels: Path) -> Path:
    """Where what builds PyCUDA lies: beside the wheels, since it is not carried."""
    return wheels.resolve().parent / "build" / "pycuda"


def _tools(folder: Path) -> Step:
    """What PyCUDA's source asks for before it tells its own name."""
    command = (sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", str(folder), *TOOLS)
    return Step("what builds PyCUDA", command)


def build(wheels: Path) -> tuple[Step, ...]:
    """PyCUDA as a wheel for this Python, against CUDA's headers alone: an empty library stands for the driver's."""
    tools = tools_folder(wheels)
    stub = ("g++", "-shared", "-x", "c++", "/dev/null", "-Wl,-soname,libcuda.so.1", "-o", str(tools / "libcuda.so"))
    source = next(iter(sorted(wheels.glob("pycuda-*.tar.gz"))), wheels / "pycuda-VERSION.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation")
    return (
        _tools(tools),
        Step("a stand-in for libcuda.so", stub),
        _settings(tools),
        Step("PyCUDA", (*pip, "-w", str(wheels), str(source)), {**_cuda(tools), "PYTHONPATH": str(tools)}),
    )


SETTINGS = """\
CUDA_ENABLE_CURAND = False
CUDART_LIBNAME = []
CUDADRV_LIB_DIR = {places!r}
CXXFLAGS = ["-O1", "-g0"]
"""
"""Of PyCUDA's build: the driver's library and no other."""


def _settings(folder: Path) -> Step:
    """The settings as PyCUDA's build looks for them, in a home folder."""
    program = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    toolkit = cuda_toolkit() or Path(TOOLKITS[0])
    text = SETTINGS.format(places=[str(folder), str(toolkit / "lib64" / "stubs"), "/usr/lib/x86_64-linux-gnu"])
    return Step("PyCUDA's settings", (sys.executable, "-c", program, str(folder / ".aksetup-defaults.py"), text))


def _cuda(home: Path) -> dict[str, str]:
    """Where PyCUDA's build finds CUDA and its settings."""
    toolkit = cuda_toolkit() or Path(TOOLKITS[0])
    path = os.pathsep.join([str(toolkit / "bin"), os.environ.get("PATH", "")])
    return {
        "CUDA_ROOT": str(toolkit), "CUDA_INC_DIR": str(toolkit / "include"), "PATH": path, "HOME": str(home),
        # The driver's library is asked for when PyCUDA loads, though a stand-in resolved no symbol before.
        "LDFLAGS": "-Wl,--no-as-needed",
    }  # fmt: skip


def install(wheels: Path, site: Path) -> tuple[Step, ...]:
    """Install what was carried, PyCUDA from its wheel or its source, and look at the result."""
    quiet = ("-q", "--no-index", "--no-deps", "--no-compile")
    pip = (sys.executable, "-m", "pip", "install", *quiet, "--target", str(site))
    found = environment(site)
    source = next(iter(sorted(wheels.glob("pycuda-*.tar.gz"))), wheels / "pycuda-VERSION.tar.gz")
    binary = [str(path) for path in sorted(wheels.glob("*.whl"))] or [str(wheels / "*.whl")]
    imports = (sys.executable, "-c", "import pycuda.driver")
    return (
        Step("wheels", (*pip, "--upgrade", *binary)),
        _settings(site),
        Step(
            "PyCUDA", (*pip, "--upgrade", "--no-build-isolation", str(source)),
            {**_cuda(site), "PYTHONPATH": str(site)}, unless=imports,
        ),
        Step("the GPU answers", (sys.executable, "-c", LOOK), found),
        Step("loomscope", (sys.executable, "-m", "app", "doctor"), found),
    )  # fmt: skip


def environment(site: Path) -> dict[str, str]:
    """What a command needs to find what was installed; libraries are not sought in PYTHONPATH."""
    libraries = [str(site / "nvidia" / "cu13" / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
    }


LOOK = "import pycuda.driver as d; d.init(); x = d.Device(0); print(x.name(), x.compute_capability())"


def lacking(wheels: Path) -> list[tuple[int, str]]:
    """What stands in the way of `install`: the exit code and the words for each thing."""
    found: list[tuple[int, str]] = []
    if not any(wheels.glob("*.whl")):
        found.append((2, f"{wheels}: holds no wheels; run `prepare.py carry` where there is a package index"))
    if not any(wheels.glob("pycuda-*")):
        found.append((2, f"{wheels}: PyCUDA's source archive is missing; run `prepare.py carry`"))
    for package, module in USUAL.items():
        name = package.partition(">")[0]
        if not importable(module) and not any(wheels.glob(f"{name.replace('-', '_').lower()}-*.whl")):
            found.append((2, f"{name}: neither installed nor carried; run `prepare.py carry --all`"))
    if "{}.{}".format(*sys.version_info) != PYTHON:
        found.append((3, f"this is Python {sys.version_info[0]}.{sys.version_info[1]}; the wheels are for {PYTHON}"))
    built = any(wheels.glob("pycuda-*.whl"))
    if cuda_toolkit() is None and not built:
        found.append((3, f"no CUDA headers: cuda.h was looked for in include/ of {', '.join(TOOLKITS)} and CUDA_ROOT"))
    if shutil.which("g++") is None and not built:
        found.append((3, "no C++ compiler: PyCUDA is built from source; apt-get install g++"))
    return found


def importable(module: str) -> bool:
    """Whether this Python finds a module; its parents are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def cuda_toolkit() -> Path | None:
    """The folder with include/cuda.h, None without one."""
    places = [os.environ.get("CUDA_ROOT", ""), *TOOLKITS]
    return next((Path(place) for place in places if place and (Path(place) / "include" / "cuda.h").is_file()), None)


def run(steps: Sequence[Step], dry: bool, *, seconds: float = SECONDS, runner: Runner | None = None) -> int:
    """Run the steps one after another within `seconds`; 0, or 1 with the step that failed named."""
    if dry:
        for step in steps:
            print(f"{step.name}:\n  {step}")
        return 0
    started = time.monotonic()
    for step in steps:
        before = time.monotonic()
        left = seconds - (before - started)
        if step.unless and (runner or _run)(step.unless, step.environment, left) == 0:
            print(f"{step.name}: there already", flush=True)
            continue
        status = (runner or _run)(step.command, step.environment, seconds - (time.monotonic() - started))
        took = f"{step.name}: {time.monotonic() - before:.0f} s"
        if status != 0:
            why = f"ended, {seconds:g} s are over" if status == 124 else f"failed with status {status}"
            print(f"{took}, {why}\n  {step}", file=sys.stderr)
            return 1
        print(took, flush=True)
    return 0


def _run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> int:
    try:
        return subprocess.run(
            command, env={**os.environ, **environment}, timeout=max(seconds, 1.0), check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return 124


if __name__ == "__main__":
    sys.exit(main())
