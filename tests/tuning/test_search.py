"""A whole search: what it tries, what it keeps, what it does not repeat, and what it says where nothing can be."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.execution.nodes import MEASURED, PREDICTED, SYNTHETIC, Check, Failure, Timing
from engine.kernels.gemm.mapping_tasks import MOST_MAPPINGS
from engine.kernels.gemm.space import CUDA_CORES, GemmTemplate
from engine.recipe import Recipe
from engine.records.nodes import CHECKED, FAILED, FINISHED, INTERRUPTED, NEW, REUSED, SEARCHED
from engine.records.reader import RunReader
from engine.records.store import RecordStore
from engine.support.errors import BadInput, MissingCapability, Unsupported
from engine.tuning import api as tuning
from engine.tuning.final_validation import Judge
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from engine.tuning.progress import program_of
from engine.tuning.runner import ReplayedRunner
from engine.tuning.search import LATE, SPENT
from engine.tuning.settings import LEAST_GAIN, SearchLimits, SearchSettings
from tests.support.commands import document, loomscope, refused
from tests.tuning.runs import ROW, Synthetic, begin_search, plan, recipe, run, search

PASSED = Check("matmul_0", "pass", 0.0, 1e-3, "", 1, 1, 1, ("late", "early"), ())


def test_the_next_search_repeats_no_trial_whatever_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    assert [one.state for one in run(path)[1]] == [NEW] * 6
    assert [one.state for one in run(path)[1]] == [REUSED] * 6
    assert [one.state for one in run(path, trials=9)[1]] == [REUSED] * 6 + [NEW] * 3
    with RecordStore(path) as store:
        kept = list(store.trials(PREDICTED))
        assert len(kept) == 9
    made = engine.compile(plan().groups[0], Recipe.loads(kept[0].recipe))
    known = problem(plan().groups[0], recipe())
    assert isinstance(known, SearchProblem)
    stands = [str(task.template.program_of(made)) for task in known.tasks]
    assert kept[0].because in stands


def test_a_run_tells_everything_that_it_did(tmp_path: Path) -> None:
    one, attempts = run(tmp_path / "r.db", trials=40)
    with RunReader(tmp_path / "r.db") as reader:
        kept = reader.run()
        assert list(reader.attempts(kept.number)) == attempts and len(attempts) == 40
        assert (kept.state, kept.message) == (FINISHED, SPENT)
        assert (kept.request.source, kept.request.strategy, kept.request.origin) == (ROW, "random", PREDICTED)
        assert Recipe.loads(kept.request.recipe) == recipe()
        for task, record in zip(one.progress["matmul_0"].problem.tasks, kept.tasks, strict=True):
            assert record.total == task.funnel.total == record.left + sum(s.count for s in record.sieved)
            assert dict(record.dimensions) == dict(task.dimensions)
        rounds = reader.rounds(kept.number)
        assert [one.kind for one in rounds] == [SEARCHED] * 3
        assert [one.attempts for one in rounds] == [16, 16, 8] and rounds[0].seconds <= rounds[2].seconds
        best = [min(a.microseconds or math.inf for a in attempts[:n]) for n in (16, 32, 40)]
        assert [one.best for one in rounds] == best
        for each in rounds:
            told = sum(value for name, value in each.figures.items() if name.startswith("trials of "))
            assert told == each.attempts and each.reason and each.mapping == ""
            shared = {name for name in each.figures if name.startswith("share of ")}
            assert shared == {f"share of {name}" for name in one.progress["matmul_0"].tasks}
        for attempt in attempts[::7]:
            assert attempt.trial is not None
            trial = reader.trial(attempt.trial)
            assert trial.microseconds == attempt.microseconds and trial.because == str(program_of(attempt))


@pytest.mark.slow(sentinel=True)
def test_most_rounds_of_a_convolution_leave_mappings_out_and_say_which(tmp_path: Path) -> None:
    """After one trial of each, a round's trials go to the fifth of the mappings that is fastest."""
    groups = engine.fuse(engine.load("suite:gta/conv2d-C11-b1")).groups
    group = next(one for one in groups if one.kind == "contraction")
    settings = SearchSettings("random", limits=SearchLimits(trials=24, round=6), source="conv")
    with RecordStore(tmp_path / "r.db") as store:
        list(begin_search([group], engine.default_recipe(group), store, settings).run())
    with RunReader(tmp_path / "r.db") as reader:
        rounds = reader.rounds(reader.run().number)
    assert len(rounds) == 4
    names = {name.removeprefix("share of ") for name in rounds[0].figures if name.startswith("share of ")}
    assert len(names) == MOST_MAPPINGS + 1
    for number, one in enumerate(rounds):
        tried = {name.removeprefix("trials of ") for name, n in one.figures.items() if name.startswith("trials of ")}
        assert (tried == names) == (number == 0)
        assert all(f"{name} at " in one.reason.partition("left out: ")[2] for name in names - tried)
        assert "by speed" in one.reason


def test_a_run_goes_on_where_it_was_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    whole = [a.values for a in run(tmp_path / "whole.db", trials=40)[1]]
    with RecordStore(path) as store:
        first = []
        going = search(store, 40).run()
        for _ in range(21):
            first.append(next(going))
        going.close()
    with RunReader(path) as reader:
        assert reader.run().state == INTERRUPTED and len(reader.attempts(1)) == 21
        assert [one.attempts for one in reader.rounds(1)] == [16, 5]
    one, second = run(path, trials=40, resume=True)
    assert [a.state for a in second] == [NEW] * 19 and second[0].number == 22
    assert second[0].seconds >= first[-1].seconds
    assert sorted(a.values for a in (*first, *second))[:1] and len({a.values for a in (*first, *second)}) == 40
    with RunReader(path) as reader:
        assert len(reader.runs()) == 1 and reader.run().state == FINISHED
    assert len(whole) == 40 and one.spent == 40
    assert run(path, trials=40, resume=True)[1] == [], "all was spent"


class _Interrupted:
    """A connection on which an interrupt comes once a statement has taken effect, as a signal during it does."""

    def __init__(self, connection: sqlite3.Connection, after: int) -> None:
        self.connection, self.left = connection, after

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)

    def execute(self, *arguments: object) -> object:
        result = self.connection.execute(*arguments)  # type: ignore[arg-type]
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("after", range(1, 13))
def test_an_interrupt_at_any_statement_leaves_a_run_that_says_so(after: int, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        one = search(store, 40)
        store.connection = _Interrupted(store.connection, after)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            list(one.run())
    with RunReader(tmp_path / "r.db") as reader:
        assert reader.run().state == INTERRUPTED
        assert len(reader.attempts(1)) == one.spent < 4


def test_a_search_that_is_asked_to_end_keeps_what_it_was_at(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        one = search(store, 40)
        going = one.run()
        next(going)
        one.interrupt()
        assert list(going) == []
    assert one.was_interrupted and one.why_ended == "" and one.spent == 1
    with RunReader(tmp_path / "r.db") as reader:
        assert reader.run().state == INTERRUPTED and len(reader.attempts(1)) == 1


def test_only_the_same_search_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store, pytest.raises(BadInput, match="holds no run"):
        search(store, resume=True)
    run(path)
    with RecordStore(path) as store, pytest.raises(BadInput, match="another runner and origin"):
        search(store, runner=Synthetic(), resume=True)
    with RunReader(path) as reader:
        assert reader.run().state == FINISHED, "who was refused changes nothing"


@pytest.mark.slow(sentinel=True)
def test_time_that_is_up_ends_a_search_and_all_is_kept(tmp_path: Path) -> None:
    one, attempts = run(tmp_path / "r.db", trials=5000, minutes=0.02)
    assert one.why_ended == LATE and 0 < len(attempts) < 5000
    with RunReader(tmp_path / "r.db") as reader:
        assert len(reader.attempts(1)) == len(attempts) and reader.run().message == LATE


def test_the_best_program_is_in_the_recipe_under_its_author(tmp_path: Path) -> None:
    one = run(tmp_path / "r.db", trials=12, strategy="model")[0].progress["matmul_0"]
    winner = one.winner
    assert winner is not None
    kernel = engine.compile(plan().groups[0], one.problem.recipe_of(program_of(winner)))
    assert why_not_followed(kernel) == ""
    assert engine.predict(kernel).microseconds == pytest.approx(winner.microseconds)
    assert one.best == sorted(one.best, reverse=True)


def test_the_recipe_changes_only_where_something_became_faster(tmp_path: Path) -> None:
    faster = run(tmp_path / "a.db", trials=30, strategy="model")[0]
    assert faster.progress["matmul_0"].gain > 0
    assert any(advice.author == "tune" for advice in faster.recipe().groups["matmul_0"])
    faster.progress["matmul_0"].before = 0.001
    assert faster.recipe() == recipe()


def test_times_of_other_origins_start_with_the_recipe_as_it_was_which_costs_no_trial(tmp_path: Path) -> None:
    one, attempts = run(tmp_path / "r.db", trials=5, runner=Synthetic())
    assert [bool(a.mapping) for a in attempts] == [False] + [True] * 5
    assert one.spent == 5 and one.progress["matmul_0"].before == attempts[0].microseconds
    with RecordStore(tmp_path / "r.db") as store:
        assert store.counts() == {SYNTHETIC: (6, {})}
    with RunReader(tmp_path / "r.db") as reader:
        assert {record.before for record in reader.run().tasks} == {attempts[0].microseconds}
    again = run(tmp_path / "r.db", trials=5, runner=Synthetic())[1]
    assert [a.state for a in again] == [REUSED] * 6
    resumed = run(tmp_path / "r.db", trials=8, runner=Synthetic(), resume=True)[1]
    assert [bool(a.mapping) for a in resumed] == [True] * 3, "what was before is known"


def test_failures_are_kept_with_their_kind_and_never_run_again(tmp_path: Path) -> None:
    one, attempts = run(tmp_path / "r.db", trials=20, runner=Synthetic("hang"))
    failed = [a for a in attempts if a.state == FAILED]
    assert 0 < len(failed) < 20 and {(a.failure, a.message) for a in failed} == {("hang", "as every third")}
    assert one.progress["matmul_0"].failures == {"hang": len(failed)}
    again = run(tmp_path / "r.db", trials=20, runner=Synthetic())[1]
    assert [a.failure for a in again] == [a.failure for a in attempts], "known failures stay what they were"


def test_recorded_trials_are_replayed_and_others_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    measured = [a for a in run(path, trials=12, runner=Synthetic())[1] if a.mapping]
    with RecordStore(path) as store:
        for kept in list(store.trials(SYNTHETIC)):
            compiler = f"NVRTC {engine.execution.nvrtc.nvrtc_version()}"
            subject = replace(kept.subject, compiler=compiler, flags=("--gpu-architecture=sm_90a",))
            subject = replace(subject, inputs=f"{subject.inputs}, seed 0")
            time = kept.microseconds
            assert time is not None
            store.add(replace(kept, subject=subject, origin=MEASURED, outcome=Timing(MEASURED, time)))
    one, attempts = run(path, trials=50, strategy="learned", runner=ReplayedRunner())
    advised = one.progress["matmul_0"].problem.advised  # its kernel is that of the old recipe
    assert {program_of(a) for a in attempts[1:]} == {advised, *map(program_of, measured)}
    assert [a.state for a in attempts] == [REUSED] * (1 + len({advised, *map(program_of, measured)}))
    times = {program_of(a): a.microseconds for a in attempts[1:]}
    assert all(times[program_of(a)] == a.microseconds for a in measured)
    dropped = one.progress["matmul_0"].problem.tasks[0].funnel.dropped[-1]
    assert dropped.rule == "recorded" and dropped.count > 0
    with RecordStore(path) as store:
        store.connection.execute("DELETE FROM trials WHERE origin = 'measured' AND because LIKE '%stages%' "
                                 "AND number % 2")  # fmt: skip
    with RecordStore(tmp_path / "empty.db") as store, pytest.raises(Unsupported, match="no measured trials"):
        search(store, runner=ReplayedRunner())


def test_a_wrong_kernel_is_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(tmp_path / "cache"))
    asked: list[engine.Kernel] = []

    def check(kernel: engine.Kernel) -> Check:
        asked.append(kernel)
        if len(asked) < 3:
            return replace(PASSED, status="fail", message=f"2 elements of the {len(asked)}th are off")
        return PASSED

    one, attempts = run(tmp_path / "r.db", trials=40, strategy="model", judge=Judge(check))
    progress = one.progress["matmul_0"]
    ranked = sorted((a for a in attempts if a.microseconds), key=lambda a: (a.microseconds, a.number))
    assert progress.winner == ranked[2] and len(asked) == 3
    assert progress.failures == {"wrong result": 2} and progress.note == "agrees with the reference"
    with RunReader(tmp_path / "r.db") as reader:
        kept = {a.number: a for a in reader.attempts(1)}
        wrong = kept[ranked[0].number]
        assert (wrong.state, wrong.failure) == (FAILED, "wrong result") and "1th are off" in wrong.message
        assert kept[ranked[2].number].state == NEW
        assert [r.kind for r in reader.rounds(1)][-3:] == [CHECKED] * 3
    asked.clear()
    run(tmp_path / "other.db", trials=40, strategy="model", judge=Judge(check))
    assert not asked, "verdicts are kept under the kernels' texts"


@pytest.mark.slow(sentinel=True)
def test_the_ten_best_are_timed_again_beside_each_other(tmp_path: Path) -> None:
    given: list[int] = []

    def together(group: engine.FusionGroup, recipes: list[Recipe]) -> list[Timing]:
        assert group.name == "matmul_0" and all(recipe.groups.keys() == {group.name} for recipe in recipes)
        given.append(len({str(recipe) for recipe in recipes}))
        return [Timing(SYNTHETIC, 50.0 - number) for number in range(len(recipes))]

    one, attempts = run(tmp_path / "r.db", trials=30, runner=Synthetic(), judge=Judge(None, together))
    ranked = sorted((a for a in attempts if a.mapping), key=lambda a: (a.microseconds, a.number))
    progress = one.progress["matmul_0"]
    assert given == [10] and progress.winner == ranked[9] and progress.time == 41.0
    with RunReader(tmp_path / "r.db") as reader:
        last = reader.rounds(1)[-1]
        assert last.kind == "again" and last.figures[f"attempt {ranked[9].number}"] == 41.0 and last.best == 41.0

    def broken(group: engine.FusionGroup, recipes: list[Recipe]) -> Failure:
        return Failure("crash", "all of them")

    other = run(tmp_path / "other.db", trials=30, runner=Synthetic(), judge=Judge(None, broken))[0]
    assert other.progress["matmul_0"].winner is not None and not other.progress["matmul_0"].again


def test_a_full_disk_ends_a_search_with_all_it_kept(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        one = search(store, 200)
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages + 8}")
        with pytest.raises(MissingCapability, match="disk is full"):
            list(one.run())
        store.connection.execute("PRAGMA max_page_count = 1000000")
        assert 0 < len(one.log.attempts()) == len(list(store.trials(PREDICTED)))
        done = len(one.log.attempts())
    assert [a.state for a in run(tmp_path / "r.db", trials=done + 3, resume=True)[1]] == [NEW] * 3


def test_what_a_person_decided_is_not_searched() -> None:
    group = plan().groups[0]
    wish = engine.entry(group.program.statements[0].name, at="i", mark=("block", 64), because="a person says so")
    fixed = recipe().advise("user", wish, group=group.name)
    found = problem(group, fixed)
    assert isinstance(found, SearchProblem)
    templates = [task.template for task in found.tasks]
    assert [template.name for template in templates] == ["mma_m16n8k16_f16", CUDA_CORES]
    for task, template in zip(found.tasks, templates, strict=True):
        assert isinstance(template, GemmTemplate)
        assert {template.config(program).block[0] for program in task.programs} == {64}
    made = found.recipe_of(found.programs[0])
    assert [a for a in made.groups[group.name] if a.author == "user"] == [
        a for a in fixed.groups[group.name] if a.author == "user"
    ]


def test_what_cannot_be_searched_says_why(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        with pytest.raises(BadInput, match="exhaustive"):
            search(store, strategy="best")
        with pytest.raises(BadInput, match="too few"):
            search(store, 0)
        wish = engine.entry(
            plan().groups[0].program.statements[0].name, at="i", mark=("block", 40), because="no kernel has it"
        )
        fixed = recipe().advise("user", wish, group="matmul_0")
        with pytest.raises(Unsupported, match=r"matmul_0: has nothing to search: no program is left of .* drops"):
            begin_search(plan().groups, fixed, store)
        assert not RunReader(store.path).runs(), "no run was begun"


def newer(path: Path) -> None:
    RecordStore(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()


def truncated(path: Path) -> None:
    with RecordStore(path) as store:
        list(search(store, 12).run())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def foreign(path: Path) -> None:
    path.write_text("night-time notes, long enough to be looked at " * 40)


def locked(path: Path) -> None:
    RecordStore(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    HELD.append(other)


HELD: list[sqlite3.Connection] = []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (newer, "is of format 99"), (truncated, "is damaged"), (foreign, "is no file of records"),
        (locked, "is locked by another program"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_hold_trials_is_told_and_left_as_it_was(
    broken: Callable[[Path], None], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.db"
    broken(path)
    before = path.read_bytes()
    monkeypatch.setattr(tuning, "RecordStore", lambda name: RecordStore(name, patience=0.05))
    told = " ".join(refused("tune", ROW, "--records", str(path), "--trials", "3").split())
    while HELD:
        HELD.pop().close()
    assert words in told and "hint:" in told
    assert path.read_bytes() == before


def test_the_command_searches_checks_resumes_and_writes(tmp_path: Path) -> None:
    records, out, table = (str(tmp_path / name) for name in ("r.db", "r.json", "t.csv"))
    options = ("tune", ROW, "--records", records, "--trials", "5")
    first = document(*options, "--no-check", "-o", out, "--export", table)
    assert (first["run"], first["trials"], first["reused"], first["failures"]) == (1, 5, 0, {})
    (best,) = first["best"].values()
    assert best["origin"] == "predicted" and best["microseconds"] > 0
    assert Path(table).read_text().count("\n") == 1 + 5
    assert Recipe.from_json(json.loads(Path(out).read_text())).target == "h200"
    second = document(*options, "--resume", "--no-check")
    assert (second["run"], second["trials"], second["ended"]) == (1, 5, SPENT)
    third = document(*options, "--no-check")
    assert (third["run"], third["trials"], third["reused"], third["repeated"]) == (2, 5, 5, 0)
    told = loomscope(*options, "--resume", "--strategy", "exhaustive", "--trials", "8")
    assert "a model's, not measured" in told.stdout
    assert "8 attempts of run 2, 5 cached, all kept in" in told.stderr


@pytest.mark.parametrize(("strategy", "is_stopped"), [("learned", True), ("model", True), ("random", False)])
def test_a_search_ends_where_nothing_better_is_promised(strategy: str, is_stopped: bool) -> None:
    """Predicted times are what was promised: after the most promising round nothing can be faster."""
    with engine.tune(plan(), recipe(), trials=80, strategy=strategy, check=False) as search:
        attempts = list(search)
        report, progress = search.report(), search.progress["matmul_0"]
    assert (len(attempts) < 80) == is_stopped
    assert ("would save less than 0.1 % of the model's time" in report.ended) == is_stopped, report.ended
    best = min(one.microseconds for one in attempts if one.microseconds is not None)
    tried = set(map(program_of, attempts))
    left = [progress.problem.rank(one) for one in progress.problem.programs if one not in tried]
    assert min(left) >= 0.999 * best or not is_stopped, "what was left out is promised no gain"


@pytest.mark.slow(sentinel=True)
def test_a_search_goes_on_where_promises_were_undercut(tmp_path: Path) -> None:
    """Synthetic times have nothing to do with what is promised, as a GPU's may."""
    limits = SearchLimits(80, least_gain=LEAST_GAIN)
    with RecordStore(tmp_path / "r.db") as store:
        settings = SearchSettings("learned", Synthetic(), limits, 0, ROW)
        one = begin_search(plan().groups, recipe(), store, settings)
        assert len([each for each in one.run() if each.mapping]) == 80 and one.why_ended == SPENT
    assert min(task.optimism for task in one.progress["matmul_0"].tasks.values()) < 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--resume",), "is not there to go on with"), (("--minutes", "-1"), "is no time"),
        (("--runner", "guessed"), "one of predicted, measured, replayed"), (("--trials", "0"), "too few"),
        (("--strategy", "best"), "one of learned, model"), (("--runner", "replayed"), "is not there to be replayed"),
        (("--jobs", "0"), "between 1 and"), (("--jobs", "2", "--cluster", "localhost:1"), "for this machine alone"),
        (("--runner", "measured", "--jobs", "2"), "one GPU"), (("--patience", "-1"), "no number of rounds"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant_are_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    told = refused("tune", ROW, "--records", str(tmp_path / "r.db"), *options)
    assert words in " ".join(told.split())
