"""The ONNX project's operator tests through the whole path: expressions, fusion, schedule, CUDA text, emulation.

    python -m tests.semantics.node_tests [--json FILE] [--only PART] [--quick] [--write]

Prints how many tests pass, and the rest by reason.  The tests are made in the process by the onnx package.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import engine
from engine.graph.nodes import BFLOAT16, COMPILED_DTYPES, FLOAT8, NARROW_INTEGERS, UNSIGNED, OperatorGraph
from engine.support.cache import digest, read_entry, write_entry
from engine.support.errors import EngineError
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower
from engine.verify.levels import find_run
from engine.verify.model_run import ModelRun, run_launch

OPEN = Path(__file__).parent / "node_tests_open.json"
"""Test -> why it does not pass."""

RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Tolerance: the project's own relative error; its absolute 1e-7 is below what sums of float32 can give."""
RELATIVE_BFLOAT16 = 2.0**-7
"""One unit in the last place of bfloat16: nearer than that only equal values are."""

PARAMETERS: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 2, 3), "Squeeze": (1,),
    "Unsqueeze": (1,), "Split": (1,), "OneHot": (1,), "Dropout": (1, 2), "Resize": (1, 2, 3), "Upsample": (1,),
    "TopK": (1,), "CumSum": (1,), "CumProd": (1,), "Range": (0, 1, 2), "ConstantOfShape": (0,), "Trilu": (1,),
    "CenterCropPad": (1,), "Col2Im": (1, 2), "AffineGrid": (1,), "DFT": (1, 2), "STFT": (1, 3), "HannWindow": (0,),
    "HammingWindow": (0,), "BlackmanWindow": (0,), "MelWeightMatrix": (0, 1, 2, 3, 4), "MaxUnpool": (2,),
}  # fmt: skip
"""Operands that a compiler of static shapes has to know: they stand in the file here."""

OUT_OF_SCOPE = (
    "Adagrad", "Adam", "Momentum", "FlexAttention", "NonMaxSuppression", "OptionalHasElement", "OptionalGetElement",
    "TfIdfVectorizer",
)  # fmt: skip
"""Operators of the wheel's tests that are no tensor algebra: optimizers, optionals, text."""


@dataclass(frozen=True)
class Case:
    """One test: the model with its static parameters as initializers, what it is fed, what must come out."""

    name: str
    kind: str
    """The operator, or the one that was expanded."""
    model: onnx.ModelProto
    feeds: Mapping[str, np.ndarray]
    results: Mapping[str, np.ndarray]
    expanded: bool
    usable: bool
    """Compiled types only, static shapes, no empty tensor and no subgraph."""

    @property
    def is_counted(self) -> bool:
        """Whether the list of usable tests counts it.

        That has no bfloat16, no floats of 8 bits, no integers of 8 and 16 bits and none of 32 and 64 without a sign.
        """
        kinds = {value.dtype.name for value in (*self.feeds.values(), *self.results.values())}
        return kinds.isdisjoint(("bfloat16", *UNSIGNED, *NARROW_INTEGERS, *FLOAT8))


@dataclass(frozen=True)
class Outcome:
    """What became of a test.  stage: where it ended: "load", "lower", "compile", "emulate", "compare", or "pass",
    "time" where it was stopped, "crash" where something else than an EngineError ended it."""

    name: str
    expanded: bool
    stage: str
    reason: str


def cases() -> dict[str, Case]:
    """The usable tests, by name."""
    return {name: case for name, case in every_case().items() if case.usable}


@cache
def every_case() -> dict[str, Case]:
    """All node tests of the installed onnx package, by name.

    Kept on disk: the package computes all of its tests anew in every process, which takes five seconds.
    """
    name = digest(onnx.__version__, np.__version__, Path(__file__).read_bytes())
    kept = read_entry("node-tests", name)
    if kept is None:
        kept = pickle.dumps(_find_cases())
        write_entry("node-tests", name, kept)
    found: dict[str, Case] = pickle.loads(kept)
    return found


def _find_cases() -> dict[str, Case]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the package divides by 0 and casts past the largest number on purpose
        tests = load_model_tests(kind="node")
    single = {test.name: test.model.graph.node[0] for test in tests if len(test.model.graph.node) == 1}
    kinds = {name: node.op_type for name, node in single.items()}
    parameters = {name: _parameters(node.op_type, list(node.input)) for name, node in single.items()}
    found = {}
    for test in tests:
        base = test.name.partition("_expanded")[0]
        given, wanted = test.data_sets[0]
        feeds = _arrays_by_name(test.model.graph.input, given)
        results = _arrays_by_name(test.model.graph.output, wanted)
        values = [*feeds.values(), *results.values()]
        fixed = [name for name in parameters.get(base, ()) if name in feeds]
        found[test.name] = Case(
            name=test.name,
            kind=kinds.get(base, ""),
            model=_with_initializers(test.model, {name: feeds.pop(name) for name in fixed}),
            feeds=feeds,
            results=results,
            expanded="_expanded" in test.name,
            usable=_is_plain(test.model) and kinds.get(test.name) not in OUT_OF_SCOPE
            and all(v.dtype.name in COMPILED_DTYPES and v.size for v in values),
        )  # fmt: skip
    return found


def left_open() -> dict[str, str]:
    """The tests that are known not to pass, with the reason."""
    reasons: dict[str, str] = json.loads(OPEN.read_text())
    return reasons


def _arrays_by_name(declared: Sequence[onnx.ValueInfoProto], values: Sequence[object]) -> dict[str, np.ndarray]:
    """The values that are arrays: lists of tensors and what is absent are left out."""
    named = {info.name: value for info, value in zip(declared, values, strict=False)}
    arrays = {n: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for n, v in named.items()}
    return {name: np.asarray(v) for name, v in arrays.items() if isinstance(v, np.ndarray | np.generic | int | float)}


def _is_plain(model: onnx.ModelProto) -> bool:
    """Standard operators over tensors of known shape, without subgraphs."""
    values = (*model.graph.input, *model.graph.output)
    shapes = [value.type.tensor_type.shape for value in values if value.type.tensor_type.HasField("shape")]
    return (
        len(shapes) == len(values)
        and all(dim.HasField("dim_value") for shape in shapes for dim in shape.dim)
        and not any(node.domain.startswith("ai.onnx.") for node in model.graph.node)
        and not any(a.HasField("g") or a.graphs for node in model.graph.node for a in node.attribute)
    )


def _parameters(kind: str, inputs: list[str]) -> list[str]:
    places = PARAMETERS.get(kind, (1,) if kind.startswith("Reduce") else ())
    return [name for at in places if at < len(inputs) and (name := inputs[at])]


def _with_initializers(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    kept = [value for value in result.graph.input if value.name not in values]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    return result


def run(case: Case, quick: bool = False) -> Outcome:
    """Take one test through every stage.  quick: the statements are evaluated with NumPy instead of emulated."""
    stage = "load"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{case.name}.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            graph = engine.load(path)
            if sizes := _decided(case, graph):
                graph = engine.load(path, sizes)
            stage = "lower"
            plan = engine.fuse(graph)
            if plan.unsupported:
                return Outcome(case.name, case.expanded, stage, "; ".join(sorted(set(plan.unsupported.values()))))
            given = {**_constants(graph), **{n: case.feeds[n].reshape(graph.tensors[n].shape) for n in graph.inputs}}
            if quick:
                values = launched(plan, {}, given) if graph.host else evaluate(lower(graph), given)
            else:
                stage = "compile"
                kernels = {group.name: engine.compile(group) for group in plan.groups}
                stage = "emulate"
                values = launched(plan, kernels, given)
        except EngineError as error:
            return Outcome(case.name, case.expanded, stage, f"{error.reason} ({error.subject})")
    # Nothing is launched for a tensor without elements: its shape and type are all that there is.
    empty = {name: np.empty(t.shape, t.dtype) for name, t in graph.tensors.items() if 0 in t.shape}
    wrong = _difference(case, {**empty, **given, **values})
    return Outcome(case.name, case.expanded, "compare" if wrong else "pass", wrong)


def _decided(case: Case, graph: OperatorGraph) -> dict[str, int]:
    """The sizes that the data of a test decide, from its results."""
    told = [one for step in graph.host.values() for one in step.decisions if one.tensor in case.results]
    return {one.name: case.results[one.tensor].shape[one.axis] for one in told if one.axis is not None}


def _constants(graph: OperatorGraph) -> dict[str, np.ndarray]:
    return {name: np.asarray(c.value) for name, c in graph.constants.items() if c.value is not None}


def launched(
    plan: engine.FusionPlan, kernels: Mapping[str, engine.Kernel], given: Mapping[str, np.ndarray],
    level: str = "source",
) -> dict[str, np.ndarray]:
    """The values of all tensors after every launch, in order; what the emulator finds is a Fault."""
    if plan.source is not None and plan.source.host:
        recipe = engine.default_recipe(plan)
        whole = ModelRun(plan, recipe, dict(given), lambda kernel: find_run(level, kernel), timeout=120)
        for number in range(len(plan.launches)):
            whole.launch(number)
        return {name: whole.value(name) for name in plan.source.outputs}
    values = dict(given)
    for launch in plan.launches:
        kernel = kernels[launch.group]
        values.update(run_launch(kernel, launch.instance, values, find_run(level, kernel)))
    return values


def _difference(case: Case, values: Mapping[str, np.ndarray]) -> str:
    """How the outputs differ from the published ones, or ""."""
    for name, want in case.results.items():
        if name not in values:
            return f"output {name} has no value"
        got = values[name]
        if got.dtype != want.dtype:
            return f"output {name} is {got.dtype}, not {want.dtype}"
        if got.size != want.size:
            return f"output {name} has {got.size} elements, not {want.size}"
        relative = RELATIVE_BFLOAT16 if want.dtype == BFLOAT16 else RELATIVE
        close = np.isclose(
            got.reshape(want.shape).astype(np.float64), want.astype(np.float64), relative, ABSOLUTE, equal_nan=True
        )
        if not close.all():
            return f"{np.count_nonzero(~close)} of {want.size} elements of output {name} differ{_why(case)}"
    return ""


def _why(case: Case) -> str:
    """What is known of a difference."""
    if case.kind in ("DFT", "STFT"):
        return ": waves of size 100 cancel to 0 but for roundings of float32, as in ONNX Runtime"
    if any(value.dtype == np.float16 for value in case.results.values()):
        return ": float16 results two units in the last place away, rounded at other steps"
    if any(value.dtype == BFLOAT16 for value in case.results.values()):
        return ": bfloat16 results two units in the last place away, rounded at other steps"
    return ""


def run_all(names: Iterable[str], quick: bool = False, workers: int = 2) -> Iterator[Outcome]:
    """The outcomes of many tests, as they come."""
    chosen = [cases()[name] for name in names]
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run, chosen, [quick] * len(chosen), chunksize=4)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    parser.add_argument("--only", default="", help="tests with this in their name")
    parser.add_argument("--quick", action="store_true", help="evaluate with NumPy instead of emulating")
    parser.add_argument("--write", action="store_true", help=f"write what does not pass to {OPEN.name}")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.perf_counter()
    outcomes = list(run_all([name for name in cases() if options.only in name], options.quick))
    for expanded, title in ((False, "single operators"), (True, "expansions")):
        part = [o for o in outcomes if o.expanded == expanded]
        print(f"{title}: {sum(o.stage == 'pass' for o in part)} of {len(part)} pass")
    failures = [o for o in outcomes if o.stage != "pass"]
    for (stage, reason), count in Counter((o.stage, o.reason) for o in failures).most_common():
        example = next(o.name for o in failures if (o.stage, o.reason) == (stage, reason))
        print(f"{count:5}  {stage:8} {reason}   [{example}]")
    print(f"{time.perf_counter() - start:.0f} s")
    if options.json:
        options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    if options.write:
        OPEN.write_text(json.dumps({o.name: f"{o.stage}: {o.reason}" for o in failures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
