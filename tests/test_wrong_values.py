"""What a script asks of the library's verbs and cannot be meant: refused by its own name, beside what is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import nvrtc_version
from tests.graph.models import model, node, save
from tests.support.needs import needs_compiler

MODELS = Path(__file__).parents[1] / "resources/models"


@pytest.fixture(scope="module")
def graph() -> engine.OperatorGraph:
    return engine.load(MODELS / "bert_tiny.onnx")


@pytest.fixture(scope="module")
def plan(graph: engine.OperatorGraph) -> engine.FusionPlan:
    return engine.fuse(graph)


@pytest.fixture(scope="module")
def cpu_plan(graph: engine.OperatorGraph) -> engine.FusionPlan:
    return engine.fuse(graph, target="cpu")


def kernel_of(plan: engine.FusionPlan) -> Any:
    return engine.compile(plan.group("matmul_0"))


def test_a_group_that_a_plan_does_not_have_is_told_with_those_like_it(plan: engine.FusionPlan) -> None:
    with pytest.raises(engine.BadInput) as caught:
        plan.group("matmul0")
    assert str(caught.value).startswith("group matmul0: the plan has no such group (bert_tiny has matmul_0, ")
    assert plan.group("matmul_0").name == "matmul_0"


@pytest.mark.parametrize("name", ["n" * 5000, "nowhere/" + "n" * 300])
def test_a_name_that_no_file_can_have_is_refused_wherever_one_is_named(name: str, plan: engine.FusionPlan) -> None:
    recipe = engine.default_recipe(plan)
    uses = (
        lambda: engine.load(name), lambda: engine.read_recipe(name), lambda: engine.write_recipe(recipe, name),
        lambda: engine.tune(plan, trials=1, records=name), lambda: engine.calibrate([name]),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(engine.BadInput, match="nnnn"):
            use()


def test_a_path_with_a_zero_byte_is_refused(plan: engine.FusionPlan) -> None:
    for use in (lambda: engine.load("a\0"), lambda: engine.tune(plan, records="a\0")):
        with pytest.raises(engine.BadInput, match="holds a zero byte"):
            use()


@needs_compiler
def test_a_plan_runs_where_its_recipe_says(plan: engine.FusionPlan, cpu_plan: engine.FusionPlan) -> None:
    """Not where the plan was made for: kernels of a CPU were handed to the emulator of CUDA text."""
    arrays = engine.inputs(plan)
    here = engine.run(plan, arrays, engine.default_recipe(plan, "cpu"), device="cpu")
    there = engine.run(cpu_plan, arrays, engine.default_recipe(cpu_plan, "h100"), device="cpu")
    assert here.origin != "emulated" and there.origin == "emulated"
    for name, value in here.items():
        np.testing.assert_allclose(value, there[name], rtol=1e-3, atol=1e-4)


@needs_compiler
def test_a_check_takes_seconds_and_ptx_at_its_level(plan: engine.FusionPlan) -> None:
    kernel = kernel_of(plan)
    for timeout in (0.0, -5.0, float("nan")):
        with pytest.raises(engine.BadInput, match="timeout"):
            engine.check(kernel, timeout=timeout)
    with pytest.raises(engine.BadInput, match="level='ptx'"):
        engine.check(kernel, ptx="a text that nobody looked at")
    assert engine.check(kernel, timeout=60).status == "pass"


def test_registers_of_a_thread_are_at_least_one(plan: engine.FusionPlan) -> None:
    kernel = kernel_of(plan)
    for registers in (0, -4):
        with pytest.raises(engine.BadInput, match=f"{registers} registers"):
            engine.predict(kernel, registers)
    assert engine.predict(kernel, 32).microseconds > 0


@pytest.mark.skipif(nvrtc_version() is None, reason="NVRTC is not installed")
def test_an_architecture_that_nvrtc_does_not_know_is_named(plan: engine.FusionPlan) -> None:
    kernel = kernel_of(plan)
    with pytest.raises(engine.BadInput, match=r"architecture sm_98: is none that NVRTC compiles for .*sm_90a"):
        engine.nvrtc(kernel, "sm_98")
    assert engine.nvrtc(kernel, "sm_86").architecture == "sm_86"


def test_no_files_are_no_files_of_several_devices() -> None:
    with pytest.raises(engine.BadInput, match="files: none are named"):
        engine.calibrate([])


def test_what_is_transferred_goes_to_a_gpu(plan: engine.FusionPlan, cpu_plan: engine.FusionPlan) -> None:
    known = engine.default_recipe(plan)
    with pytest.raises(engine.Unsupported, match="cpu is a CPU"):
        engine.transfer(known, cpu_plan)
    assert "nothing is known" in str(engine.transfer(known, plan))


FIXED: list[tuple[dict[str, Any], str]] = [
    ({"groups": (("node_add", "nothing"),)}, "node_add + nothing: nothing names no operator"),
    ({"apart": (("nothing", "node_add"),)}, "nothing names no operator"),
    ({"apart": (("node_add", "node_add"),)}, "takes tuples of two operators, not ('node_add', 'node_add')"),
    ({"apart": (("node_add",),)}, "takes tuples of two operators"),
    ({"groups": ("node_add",)}, "fixed groups: takes tuples of operators, not 'node_add'"),
    ({"groups": ((),)}, "fixed groups: takes tuples of operators, not ()"),
    (
        {"groups": (("node_add", "node_add_1"),), "apart": (("node_add", "node_add_1"),)},
        "node_add + node_add_1: is to be one kernel, and you keep node_add and node_add_1 apart",
    ),
]


@pytest.mark.parametrize(("fixed", "said"), FIXED, ids=[said for _, said in FIXED])
def test_what_is_fixed_has_to_be_possible(fixed: dict[str, Any], said: str, graph: Any, plan: Any) -> None:
    with pytest.raises(engine.BadInput) as caught:
        engine.fuse(graph, fixed=engine.Fixed(**fixed))
    assert said in str(caught.value)
    told = engine.regroup(plan, engine.Fixed(**fixed))
    assert not told.legal and said in told.because


def test_what_can_be_fixed_is(graph: engine.OperatorGraph) -> None:
    fixed = engine.Fixed(groups=(("node_add", "node_add_1"),), apart=(("node_embedding", "node_add"),))
    plan = engine.fuse(graph, fixed=fixed)
    assert any(one.instances[0].operators == ("node_add", "node_add_1") for one in plan.groups)


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_what_another_grouping_brings_is_what_the_kernels_are_predicted_to_take(
    target: str, graph: engine.OperatorGraph
) -> None:
    """It was a sum by another model, 459 µs of BERT-base where its kernels are predicted to take 1,190."""
    fixed = engine.Fixed(apart=(("node_embedding", "node_add"),))
    plans = [engine.fuse(graph, target), engine.fuse(graph, target, fixed=fixed)]
    before, after = (
        sum(engine.predict(engine.compile(group)).microseconds * len(group.instances) for group in plan.groups)
        for plan in plans
    )
    time = engine.regroup(plans[0], fixed).terms[2]
    assert time.value == pytest.approx(after - before)
    assert time.because == f"{before:,.2f} become {after:,.2f}, predicted"


def test_one_launch_is_not_apart_from_itself(plan: engine.FusionPlan) -> None:
    with pytest.raises(engine.BadInput, match="launch matmul_0#0: is one kernel"):
        engine.why_apart(plan, "matmul_0#0", "matmul_0#0")
    pair = "layernorm_0#0", "matmul_0#0"
    assert engine.why_apart(plan, *pair).because == engine.why_apart(plan, *pair[::-1]).because != ""


def test_numbers_of_numpy_are_numbers_of_an_entry() -> None:
    made = [engine.entry("S0", mark=("stages", np.int64(2)), at="k"), engine.entry("S0", split=np.int32(4), at="k")]
    assert [str(one) for one in made] == ["S0 @ k: mark stages 2", "S0 @ k: split 4"]
    assert all(engine.Recipe("h200").advise("user", one, group="g").dumps() for one in made)
    with pytest.raises(engine.BadInput, match=r"not 2\.0"):
        engine.entry("S0", mark=("stages", np.float64(2)), at="k")


def test_only_entries_are_advised(plan: engine.FusionPlan) -> None:
    recipe, one = engine.default_recipe(plan.group("matmul_0")), engine.entry("S0", mark=("stages", 2), at="k")
    for wrong in (None, [one], "S0 @ k: mark stages 2"):
        with pytest.raises(engine.BadInput, match=r"is no entry .*engine\.entry"):
            recipe.advise("user", wrong)  # type: ignore[arg-type]
    assert recipe.advise("user", one) != recipe


def open_model(path: Path) -> Path:
    return save(path / "open.onnx", model([node("Relu", "x", "y")], {"x": ["batch", 256]}, ["y"]))


def test_sizes_of_dimensions_are_whole_numbers(tmp_path: Path) -> None:
    path = open_model(tmp_path)
    for size in ("8", 8.5, 8.0, True, None, [8]):
        with pytest.raises(engine.BadInput, match=r"dimension batch: is .*, which is no whole number"):
            engine.load(path, {"batch": size})  # type: ignore[dict-item]
    assert engine.load(path, {"batch": np.int64(8)}).tensors["y"].shape == (8, 256)


def test_kernels_for_a_range_serve_the_sizes_that_it_names(tmp_path: Path) -> None:
    plan = engine.fuse(engine.load(open_model(tmp_path), {"batch": 64}))
    with pytest.raises(engine.BadInput, match="ends at 32, and the plan is made for 64"):
        engine.for_sizes(plan, "batch", 1, 32)
    ranged, kernel = engine.for_sizes(plan, "batch", 2, 64), engine.compile(plan.groups[0])
    assert isinstance(kernel, engine.Kernel)
    for size in (1, 65):
        with pytest.raises(engine.BadInput, match=f"dimension batch: is {size}"):
            ranged.blocks(kernel, size)
        with pytest.raises(engine.BadInput, match=f"dimension batch: is {size}"):
            engine.size_loss(ranged, size)
    assert ranged.blocks(kernel, 2) <= ranged.blocks(kernel, 64)
    assert engine.write_sizes(ranged, [kernel], tmp_path / "new" / "folder")["to"] == 64


def test_numerics_and_sizes_of_a_recipe_are_such_as_something_follows(plan: Any, tmp_path: Path) -> None:
    group = plan.group("matmul_0")
    with pytest.raises(engine.BadInput, match="asks for tensor_cores tf33, which nothing here follows"):
        engine.compile(group, engine.Recipe("h200", numerics={"tensor_cores": "tf33"}))
    with pytest.raises(engine.BadInput, match="nothing here follows"):
        engine.default_recipe(group, numerics={"tensor_cores": "tf33"})
    assert engine.default_recipe(group, numerics={"tensor_cores": "tf32"}).numerics["tensor_cores"] == "tf32"
    for size, said in ((-3, "must be a size from 1, not -3"), (8, "")):
        engine.write_recipe(engine.Recipe("h200", dimensions={"batch": size}), tmp_path / "r.json")
        if said:
            with pytest.raises(engine.BadInput, match=rf"r\.json, dimensions\.batch: {said}"):
                engine.read_recipe(tmp_path / "r.json")
    assert engine.read_recipe(tmp_path / "r.json").dimensions == {"batch": 8}


def test_a_search_starts_from_a_whole_recipe_of_its_own_plan(plan: engine.FusionPlan) -> None:
    """Groups that the recipe did not speak of were compared with kernels that nobody advised."""
    part = engine.default_recipe(plan.group("matmul_0"))
    whole = engine.default_recipe(plan)
    assert engine.tune(plan, part, trials=1, strategy="model").best_so_far == whole
    other = plan.group("attention_0")
    begun = engine.tune(other, part, trials=1, strategy="model").best_so_far
    assert begun.groups["attention_0"] == whole.groups["attention_0"]
    softmax = engine.fuse(engine.load(MODELS / "softmax_96x512.onnx"))
    with pytest.raises(engine.BadInput, match="group matmul_0: the plan has no such group"):
        engine.tune(softmax, part, trials=1)
