"""Broken files of every kind: refused by name, whatever is wrong with them, or compiled; never anything else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import onnx
import pytest

import engine
from engine.support.budgets import MAX_TEXT_BYTES
from engine.support.errors import BadInput, EngineError
from tests.everything.files import COMPLEX
from tests.graph.models import model, node, save
from tests.graph.mutations import Outcome, prepare, run, use, written
from tests.graph.seeds import Seed, seeds
from tests.support.commands import ROOT, heed_interrupts

NORMAL, WHOLE = 300, 10_000
REFUSED = (COMPLEX, "Fused_Transpose_split_18185609042134105765", "1545859458890067484")
"""Parts of the names of real files that are refused as they are: complex numbers, advice that contradicts itself."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mutations")
    prepare(made)
    return made


def findings(count: int, folder: Path) -> tuple[list[Outcome], Counter[str]]:
    outcomes = list(run(0, count, 0, folder))
    printed = [outcome.detail for outcome in outcomes if outcome.detail.startswith("printed ")]
    assert not printed, printed
    assert [outcome.case for outcome in outcomes] == list(range(count))
    return [o for o in outcomes if o.result == "FINDING"], Counter(o.result for o in outcomes)


@pytest.mark.slow(sentinel=True)
def test_every_file_that_is_broken_was_sound(folder: Path) -> None:
    for seed in seeds(folder):
        try:
            use(seed, written(folder, seed, seed.data))
        except EngineError as error:
            assert any(name in str(error) + seed.name for name in REFUSED), f"{seed.name}: {error}"


def test_every_mutator_breaks_files_of_its_own_kind(folder: Path) -> None:
    """A mutator that changed nothing, or failed, would test nothing."""
    for seed in seeds(folder):
        for mutator in dict.fromkeys(seed.mutators):
            broken = [mutator(seed.data, Random(f"{mutator.__name__}{k}")) for k in range(8)]
            assert any(data != seed.data for data in broken), f"{mutator.__name__} of {seed.name}"
            assert broken[0] == mutator(seed.data, Random(f"{mutator.__name__}0")), "seeded"


@pytest.mark.slow(sentinel=True)
def test_broken_files_are_refused_or_compiled(tmp_path: Path) -> None:
    found, counts = findings(NORMAL, tmp_path)
    assert not found, found
    assert counts["BadInput"] > NORMAL // 4 and counts["compiled"] > NORMAL // 20, counts


@pytest.mark.slow
def test_ten_thousand_broken_files_are_refused_or_compiled(tmp_path: Path) -> None:
    found, _ = findings(WHOLE, tmp_path)
    assert not found, found


@pytest.mark.parametrize(("loader", "suffix"), [("recipe", ".json"), ("advice", ".txt"), ("graph", ".json")])
def test_texts_past_their_size_and_pipes_are_not_read(loader: str, suffix: str, folder: Path, tmp_path: Path) -> None:
    seed = Seed("large", loader, b"", (), suffix)
    large = tmp_path / f"large{suffix}"
    with large.open("wb") as file:
        file.write(b"{")
        file.truncate(MAX_TEXT_BYTES + 1)
    with pytest.raises(BadInput, match="more than"):
        use(seed, large)
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="is not a file"):
        use(seed, pipe)


def calling(count: int, last: str) -> onnx.ModelProto:
    """Functions each of which calls the next one twice."""
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)]
    proto = model([node("F0", "x", "y", domain="own")], {"x": [4]}, ["y"])
    proto.opset_import.append(opsets[1])
    for number in range(count):
        following = (f"F{number + 1}", "own") if number + 1 < count else (last, "own" if last == "F0" else "")
        pairs = (("a", "m"), ("m", "b"))
        calls = [onnx.helper.make_node(following[0], [i], [o], domain=following[1]) for i, o in pairs]
        proto.functions.append(onnx.helper.make_function("own", f"F{number}", ["a"], ["b"], calls, opsets))
    return proto


@pytest.mark.parametrize(
    ("count", "last", "words"),
    [(40, "Relu", "1099511627776 nodes"), (3, "F0", "in a circle: F"), (1, "F0", "F0 -> F0")],
)
def test_functions_that_never_end_are_refused_before_they_are_written_out(
    count: int, last: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=words):
        engine.load(save(tmp_path / "calls.onnx", calling(count, last)))


def test_functions_that_end_are_written_out(tmp_path: Path) -> None:
    assert len(engine.load(save(tmp_path / "calls.onnx", calling(4, "Relu"))).operators) == 16


def test_loading_stops_when_asked_to(tmp_path: Path) -> None:
    """A chain of 60,000 operators takes seconds to load; an interrupt half a second in ends it at once."""
    names = ["x", *(f"t{k}" for k in range(60_000))]
    chain = [node("Relu", a, b) for a, b in pairwise(names)]
    path = save(tmp_path / "chain.onnx", model(chain, {"x": [4]}, [names[-1]]))
    program = "import sys, engine; print(flush=True); engine.load(sys.argv[1])"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        time.sleep(0.5)
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert time.perf_counter() - start < 1.5
