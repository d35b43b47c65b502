"""`--from`: programs that were good before are tried first, where they are programs of the space, and nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.records.nodes import Attempt
from engine.records.reader import RunReader
from engine.support.errors import BadInput
from engine.tuning.known_starts import STARTS, read_starts
from engine.tuning.problem import SearchProblem, problem
from engine.tuning.progress import program_of
from tests.support.commands import document, loomscope, refused


def model(place: Path, rows: int, columns: int, kind: int = TensorProto.FLOAT) -> Path:
    """The file of a ReLU, whose space is small."""
    ends = [helper.make_tensor_value_info(name, kind, (rows, columns)) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), place / "relu.onnx")
    return place / "relu.onnx"


@cache
def relu(rows: int, columns: int, kind: int = TensorProto.FLOAT) -> engine.FusionPlan:
    """Its plan."""
    with TemporaryDirectory() as place:
        return engine.fuse(engine.load(model(Path(place), rows, columns, kind)))


@cache
def found(rows: int, columns: int, kind: int = TensorProto.FLOAT) -> SearchProblem:
    """What can be chosen of it."""
    plan = relu(rows, columns, kind)
    made = problem(plan.groups[0], engine.default_recipe(plan))
    assert isinstance(made, SearchProblem)
    return made


def searched(plan: engine.FusionPlan, records: Path, trials: int = 8, **options: object) -> list[Attempt]:
    """What a search in random order tried."""
    with engine.tune(plan, trials=trials, strategy="random", records=records, check=False, **options) as run:  # type: ignore[arg-type]
        return list(run)


def bests(path: Path) -> list[Attempt]:
    """The best of the only run of a file, fastest first."""
    with RunReader(path) as reader:
        return list(reader.fastest(1, STARTS, 1000))


def test_the_best_of_the_nearest_sizes_come_first(tmp_path: Path) -> None:
    for name, rows in (("near", 192), ("far", 4096)):
        searched(relu(rows, 512), tmp_path / f"{name}.db")
    path = tmp_path / "near.db"
    starts = read_starts(path)(found(96, 512))
    expected = [program_of(one) for one in bests(path)]
    of_both = [program for program in expected if program in found(96, 512).programs]
    assert of_both and [one.program for one in starts] == of_both
    assert {one.source for one in starts} == {f"{bests(path)[0].group} in run 1 of near.db"}
    # A round of 16 trials gives four of them to what is known; a smaller one no more than a fourth of its own.
    attempts = searched(relu(96, 512), tmp_path / "new.db", trials=16, start=path)
    assert [program_of(one) for one in attempts[: len(of_both)]] == of_both
    assert len({program_of(one) for one in attempts}) == 16, "none is tried twice"
    few = searched(relu(96, 512), tmp_path / "few.db", trials=4, start=path, seed=7)
    assert program_of(few[0]) == of_both[0] and [program_of(one) for one in few] != of_both
    with RunReader(tmp_path / "new.db") as reader:
        reason = reader.rounds(1)[0].reason
    assert f"{len(of_both)} known to be good for {bests(path)[0].group} in run 1 of near.db" in reason


def test_of_several_runs_the_nearest_is_asked_first(tmp_path: Path) -> None:
    path = tmp_path / "all.db"
    for rows in (8192, 128, 1024):
        searched(relu(rows, 512), path)
    starts = read_starts(path)(found(96, 512))
    assert starts and starts[0].source.endswith("run 2 of all.db")
    starts = read_starts(path)(found(8192, 512))
    assert starts and starts[0].source.endswith("run 1 of all.db")


def test_other_arrays_give_nothing(tmp_path: Path) -> None:
    searched(relu(192, 512), tmp_path / "r.db")
    starts = read_starts(tmp_path / "r.db")
    assert starts(found(192, 512)) and not starts(found(192, 512, TensorProto.FLOAT16))
    plain = searched(relu(96, 512, TensorProto.FLOAT16), tmp_path / "plain.db")
    told = searched(relu(96, 512, TensorProto.FLOAT16), tmp_path / "told.db", start=tmp_path / "r.db")
    assert list(map(program_of, told)) == list(map(program_of, plain))


def test_what_is_resumed_begins_with_no_start_again(tmp_path: Path) -> None:
    searched(relu(192, 512), tmp_path / "r.db")
    first = searched(relu(96, 512), tmp_path / "new.db", trials=4, start=tmp_path / "r.db")
    more = searched(relu(96, 512), tmp_path / "new.db", trials=24, start=tmp_path / "r.db", resume=True)
    programs = [program_of(one) for one in (*first, *more)]
    assert len(set(programs)) == len(programs) == 24


def test_what_is_resumed_takes_its_own_start_again(tmp_path: Path) -> None:
    near, new = tmp_path / "near.db", tmp_path / "new.db"
    searched(relu(192, 512), near)
    expected = [one.program for one in read_starts(near)(found(96, 512))]
    first = searched(relu(96, 512), new, trials=1, start=near)
    more = searched(relu(96, 512), new, trials=16, resume=True)
    tried = [program_of(one) for one in (*first, *more)]
    assert len(expected) > 1 and tried[: len(expected)] == expected
    with RunReader(new) as reader:
        assert reader.run().request.start == str(near)
    other = tmp_path / "good.json"
    engine.write_recipe(found(96, 512).recipe_of(expected[0]), other)
    searched(relu(96, 512), new, trials=17, resume=True, start=other)
    with RunReader(new) as reader:
        assert reader.run().request.start == str(other), "what is given now holds"


def test_a_run_whose_start_is_gone_goes_on_without_and_tells_so(tmp_path: Path) -> None:
    near, file, new = tmp_path / "near.db", str(model(tmp_path, 96, 512)), str(tmp_path / "new.db")
    searched(relu(192, 512), near)
    command = "tune", file, "--no-check", "--strategy", "random", "--records", new
    document(*command, "--trials", "4", "--from", str(near))
    near.unlink()
    done = loomscope(*command, "--trials", "8", "--resume")
    assert f"{near}, which this run started from, is not there; it goes on without it" in " ".join(done.stderr.split())
    with RunReader(new) as reader:
        assert len(reader.attempts(1)) == 8 and reader.run().request.start == str(near)


def test_a_run_tells_while_it_goes_on_that_its_start_is_gone(tmp_path: Path) -> None:
    near, new, told = tmp_path / "near.db", tmp_path / "new.db", list[str]()
    searched(relu(192, 512), near)
    searched(relu(96, 512), new, trials=2, start=near)
    near.unlink()
    plan = relu(96, 512)
    with engine.tune(plan, trials=4, strategy="random", records=new, check=False, resume=True) as run:
        run.on_notice(told.append)
        next(run)
        with RunReader(new) as reader:
            assert told == [reader.run().message] and "near.db, which this run started from, is not there" in told[0]


@pytest.mark.parametrize("strategy", ["learned", "model", "evolution", "random", "exhaustive"])
def test_no_strategy_proposes_a_start_again(strategy: str, tmp_path: Path) -> None:
    searched(relu(192, 512), tmp_path / "r.db")
    plan, known = relu(96, 512), tmp_path / "r.db"
    with engine.tune(plan, trials=32, strategy=strategy, check=False, start=known) as run:
        programs = [program_of(one) for one in run]
    assert len(programs) == len(set(programs)) >= 16


def test_the_program_of_a_recipe_is_tried_first(tmp_path: Path) -> None:
    known, path = found(96, 512), tmp_path / "good.json"
    program = next(one for one in known.programs[len(known.programs) // 2 :] if one != known.advised)
    engine.write_recipe(known.recipe_of(program), path)
    (start,) = read_starts(path)(known)
    assert (start.program, start.source) == (program, "good.json")
    assert program_of(searched(relu(96, 512), tmp_path / "r.db", start=path)[0]) == program
    assert not read_starts(path)(found_of("suite:gta/gemm-256x1024x256")), "it speaks of no such group"


def found_of(name: str) -> SearchProblem:
    plan = engine.fuse(engine.load(name))
    made = problem(plan.groups[0], engine.default_recipe(plan))
    assert isinstance(made, SearchProblem)
    return made


def test_the_command_takes_both_and_refuses_other_files(tmp_path: Path) -> None:
    known, file, new = tmp_path / "near.db", str(model(tmp_path, 96, 512)), str(tmp_path / "new.db")
    searched(relu(192, 512), known)
    document("tune", file, "--trials", "4", "--records", new, "--from", str(known), "--no-check")
    kept = document("trials", new)
    assert "known to be good" in kept["rounds"][0]["reason"] and kept["runs"][0]["start"] == str(known)
    (tmp_path / "none.json").write_text("{}")
    for path, said in ((tmp_path / "none.json", "none.json"), (tmp_path / "absent.db", "is not there")):
        assert said in refused("tune", file, "--records", new, "--from", str(path))
    with pytest.raises(BadInput):
        read_starts(file)
