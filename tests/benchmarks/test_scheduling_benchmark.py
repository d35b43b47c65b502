"""The benchmark's own parts: it runs, isl sees the program that we schedule, and both are counted alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.poly.dependences import dependences
from tests.benchmarks import scheduling
from tests.benchmarks.isl import Sizes, request
from tests.benchmarks.isl_process import IslProcess
from tests.benchmarks.measuring import FIXED, SYMBOLIC, compare
from tests.benchmarks.parallel import outer_loops, outermost_band
from tests.benchmarks.programs import cases, convolution, layernorm_gradients
from tests.support import irregular_programs, programs


def test_the_quick_run_writes_its_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scheduling.json"
    scheduling.main(["--quick", "--json", str(file)])
    document = json.loads(file.read_text())
    assert [row["program"] for row in document["rows"]] == ["softmax", "chain30"]
    assert set(document["summary"]) >= {
        "isl_over_ours_30", "isl_over_ours_100", "isl_over_ours_300", "fewer_parallel_loops",
    }  # fmt: skip
    assert document["summary"]["isl_over_ours_30"] > 1 and document["summary"]["isl_over_ours_300"] is None
    assert document["environment"]["versions"]["islpy"]
    printed = capsys.readouterr().out
    assert "chain30" in printed and "isl_over_ours_30" in printed


def test_programs_have_the_length_they_are_asked_for() -> None:
    assert len(layernorm_gradients(30).statements) == 30
    chain = layernorm_gradients(47)
    assert len(chain.statements) == 47 and "t29" in {a.array for a in chain.statements[30].reads()}
    assert len({p.name for p in cases()}) == 8


def test_isl_finds_the_flow_that_we_find() -> None:
    with IslProcess(30) as isl:
        for program in cases():
            ours = {(d.source, d.sink) for d in dependences(program) if d.kind == "flow"}
            ours |= {(s.name, s.name) for s in program.statements if s.reduction}
            for symbolic in (False, True):
                answer = isl.run(request(program, symbolic))
                assert answer is not None and answer.flow == ours, program.name


def test_loops_of_a_product_are_counted_alike() -> None:
    with IslProcess(30) as isl:
        found = compare(programs.matmul_bias_relu(), "case", isl, 1)
    for levels in (found.levels["ours"], found.levels[FIXED], found.levels[SYMBOLIC]):
        assert [outer_loops(levels[name]) for name in ("S0", "S1", "S2")] == [2, 2, 2]
        product = [level[0] for level in levels["S0"] if level is not None]
        assert product == [True, True, False], "the loop over the terms is not parallel"
    assert found.fewer(outer_loops) == {}
    assert found.ratio == min(found.isl_time(FIXED), found.isl_time(SYMBOLIC)) / found.our_time


def test_a_statement_that_isl_leaves_more_loops_is_named() -> None:
    shared = (True, [1, 0]), None, (True, [0, 1])
    carried = (True, [1, 0]), None, (False, [0, 1])
    both = (True, [1, 0]), (True, [0, 1])
    with IslProcess(30) as isl:
        found = compare(programs.transpose_add(), "case", isl, 1)
    found = replace(found, levels={"ours": {"S0": shared, "S1": carried}, FIXED: {"S0": both, "S1": both}})
    assert found.fewer(outer_loops) == {"S1": (1, 2)}
    assert found.fewer(outermost_band) == {"S0": (1, 2), "S1": (1, 2)}
    assert found.loops("ours", outer_loops) == 3 and found.loops(SYMBOLIC, outer_loops) is None


@pytest.mark.parametrize("length", [30, 100])
def test_chains_keep_every_parallel_loop_that_isl_keeps(length: int) -> None:
    with IslProcess(60) as isl:
        assert compare(layernorm_gradients(length), "chain", isl, 1).fewer(outer_loops) == {}


def test_rows_that_repeat_or_stand_still_count_once() -> None:
    assert outer_loops([(True, [1, 0]), (True, [1, 0]), (True, [0, 0]), None, (True, [0, 1]), (False, [1, 1])]) == 2
    assert outermost_band([None, (True, [1, 0]), None, (True, [0, 1])]) == 1
    assert outer_loops([(False, [1, 0]), (True, [0, 1])]) == 0
    assert outer_loops([]) == 0


def test_isl_is_killed_at_the_limit_and_the_next_program_gets_another() -> None:
    with IslProcess(0.0) as isl:
        assert isl.run(request(layernorm_gradients(30), symbolic=False)) is None
        isl.seconds = 30
        assert isl.run(request(programs.softmax(), symbolic=False)) is not None


def test_isl_reads_guards_divisions_and_indirect_indices() -> None:
    with IslProcess(30) as isl:
        for program in (irregular_programs.padded(), irregular_programs.reshape(), irregular_programs.gather()):
            answer = isl.run(request(program, symbolic=True))
            assert answer is not None and len(answer.levels) == len(program.statements)


def test_isl_keeps_the_order_of_an_update_in_place() -> None:
    with IslProcess(30) as isl:
        answer = isl.run(request(irregular_programs.shift_in_place(), symbolic=False))
    assert answer is not None and outer_loops(answer.levels["S0"]) == 0


def test_a_padded_size_is_a_size_and_a_constant() -> None:
    sizes = Sizes.of(convolution(size=56), symbolic=True)
    assert sizes.text(58) == "N56 + 2" and sizes.text(56) == "N56 + 0"
    assert sizes.text(3) == "0 + 3", "small sizes are numbers"
    assert not Sizes.of(irregular_programs.reshape(), symbolic=True).names, "divisors must be numbers"


def test_requests_are_equal_but_for_names_and_arithmetic() -> None:
    assert request(programs.softmax(), False) == request(programs.softmax(), False)
    assert request(programs.softmax(), False) != request(programs.softmax(columns=64), False)
