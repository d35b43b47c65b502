"""The HTML report: one whole file; its figures are those of `predict --json`, whatever names a model has."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import engine
from app.session.history import History
from app.session.loom_file import LoomFile, read_loom, reference_to, write_loom
from engine import read_recipe, write_recipe
from engine.documents.model import GroupDoc, ModelDoc, NodeDoc, Time, with_times
from engine.documents.report import GroupReport, ReportDoc
from engine.recipe import entry
from engine.scheduling.text import to_text
from tests.support.commands import MODELS, SOFTMAX, document, loomscope
from views.format import duration
from views.report.markup import VOID, printable, tag
from views.report.page import report_page
from views.report.style import report_style
from views.roofline.nodes import Roofline

HOSTILE = "</style><script>alert(1)</script>\"'&\u202e<img src=x onerror=alert(1)>"
EMPTY = frozenset({*VOID, "link", "img"})
NO_ROOFS = Roofline(4.8e12, (("CUDA cores", 6e13),), "", 0.1, ())


class Page(HTMLParser):
    """Elements with their attributes, in order; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[str]]] = {}
        self._section = ""
        self._cells: list[str] | None = None
        self.feed(text)
        self.close()
        assert not self.open, f"{self.open} is not closed"

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name == "section":
            self._section = dict(attributes)["id"] or ""
        if name == "tr":
            self._cells = []
        if name in ("td", "th") and self._cells is not None:
            self._cells.append("")
        if name not in EMPTY:
            self.open.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name
        if name == "tr" and self._cells is not None:
            self.rows.setdefault(self._section, []).append(self._cells)
            self._cells = None

    def handle_data(self, text: str) -> None:
        if self._cells:
            self._cells[-1] += text

    def ids(self) -> list[str]:
        return [each["id"] or "" for _, each in self.elements if each.get("id")]


def check_whole(text: str) -> Page:
    """Nothing runs, nothing is fetched, every link leads to one place of the page."""
    page = Page(text)
    names = {name for name, _ in page.elements}
    assert names.isdisjoint({"script", "img", "link", "iframe", "object", "base", "form"})
    for name, attributes in page.elements:
        assert not any(key.startswith("on") or key in ("src", "style") for key in attributes), (name, attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").removeprefix("#") in page.ids(), attributes["href"]
    assert len(page.ids()) == len(set(page.ids()))
    assert "url(" not in text and "@import" not in text
    assert "@media print" in text and "prefers-color-scheme: dark" in text
    return page


def test_figures_are_those_of_predict(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert loomscope("report", "example", "-o", str(out), "--no-check").returncode == 0
    page = check_whole(out.read_text(encoding="utf-8"))
    told = {row[0]: row for row in page.rows["kernels"][1:]}
    times = document("predict", "example")
    assert {row["group"] for row in times["kernels"]} == told.keys()
    for row in times["kernels"]:
        assert told[row["group"]][4] == duration(row["microseconds"])
        assert told[row["group"]][5] == duration(row["microseconds"] * row["instances"])
    assert duration(times["microseconds"]) in out.read_text(encoding="utf-8")
    assert "edits" not in page.ids() and "checks" not in page.ids(), "what is not there leaves no empty part"


def test_a_workspace_tells_its_edits_with_authors_reasons_and_gains(tmp_path: Path) -> None:
    loom = edited_softmax(tmp_path)
    out = tmp_path / "report.html"
    assert loomscope("report", str(loom), "-o", str(out)).returncode == 0
    page = check_whole(out.read_text(encoding="utf-8"))
    first, second = page.rows["edits"][1:]
    times = [document("predict", file)["microseconds"] for file in (str(loom), SOFTMAX)]
    assert [row[2] for row in (second, first)] == [duration(time) for time in times]
    assert f"{100 * abs(1 - times[0] / times[1]):.1f} %" in second[3]
    assert "user: " in second[1] and "because wider rows" in second[1]
    ((_, status, *_, blocks, compared, orders, _),) = page.rows["checks"][1:]
    check = document("verify", str(loom))["groups"][0]
    assert status == check["status"] == "pass"
    assert blocks == f"{check['blocks_run']:,} of {check['blocks_total']:,}"
    assert compared == f"{check['elements_compared']:,}" and orders == ", ".join(check["orders"])


def test_all_kernels_of_a_recipe_are_told_whatever_group_is_told_in_full(tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.json", tmp_path / "report.html"
    known = engine.default_recipe(engine.fuse(engine.load(MODELS / "bert_tiny.onnx")))
    asked = entry("S0", mark=("split_k", 1), at="k")
    write_recipe(known.advise("user", asked, group="matmul_3"), recipe)
    arguments = (str(MODELS / "bert_tiny.onnx"), "--recipe", str(recipe))
    assert loomscope("report", *arguments, "-o", str(out), "--no-check", "--group", "matmul_0").returncode == 0
    told = {row[0]: row for row in check_whole(out.read_text(encoding="utf-8")).rows["kernels"][1:]}
    for row in document("predict", *arguments)["kernels"]:
        assert told[row["group"]][4] == duration(row["microseconds"])


def edited_softmax(folder: Path) -> Path:
    """A workspace of the softmax with one step after its baseline."""
    recipe = folder / "recipe.json"
    assert loomscope("recipe", SOFTMAX, "-o", str(recipe)).returncode == 0
    known = read_recipe(recipe)
    ((name, advice),) = known.groups.items()
    history = History.start(to_text(advice), "Baseline")
    asked = entry("S0", "S2", mark=("lane", 64), at="innermost", because="wider rows")
    history.add(to_text(known.advise("user", asked).groups[name]), HOSTILE)
    content = LoomFile(reference_to(SOFTMAX, folder), "h200", groups={name: history.trail()})
    write_loom(content, folder / "softmax.loom")
    assert read_loom(folder / "softmax.loom").groups[name].steps[1].title == HOSTILE
    return folder / "softmax.loom"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    source = tmp_path / "<script>alert(1)<img src=x onerror=alert(1)>\"'&.onnx"
    out = tmp_path / "report.html"
    sized = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", HOSTILE)}
    half = numpy_helper.from_array(np.ones(8, np.float32), "half")
    node = helper.make_node("Add", ["x", "half"], [HOSTILE], name=HOSTILE)
    graph = helper.make_graph([node], HOSTILE, [sized["x"]], [sized[HOSTILE]], [half])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    assert loomscope("report", str(source), "-o", str(out), "--no-check").returncode == 0
    text = out.read_text(encoding="utf-8")
    page = check_whole(text)
    assert "&lt;script&gt;alert(1)" in text, "the name is told"
    assert [name for name, _ in page.elements].count("style") == 1


@pytest.mark.slow(sentinel=True)
def test_a_thousand_groups_fit_and_fold() -> None:
    groups = tuple(
        GroupDoc(f"matmul_{n}", HOSTILE, "contraction", "8×8", "float32", 1, (), "", (), 1000 + n, 10, "memory", 0.1)
        for n in range(1000)
    )
    nodes = tuple(NodeDoc(f"{g.name}#0", g.name, 0, g.title, g.shape, (f"op_{n}",), "") for n, g in enumerate(groups))
    model = ModelDoc("m", "m.onnx", "h200", (), nodes, (), groups, (("op", HOSTILE),), None, ())
    model = with_times(model, {g.name: Time(1.0 + n, "predicted") for n, g in enumerate(groups)})
    details = tuple(GroupReport(group, None, HOSTILE) for group in model.groups[:3])
    report = ReportDoc("m", "2026-11-23T00:00:00+00:00", "", (), model, None, details, (), (), ())
    text = report_page(report, NO_ROOFS)
    assert len(text) < 1_500_000
    page = check_whole(text)
    assert len(page.rows["kernels"]) == 1000 + 2 + 2, "every group, and the heads of both parts and of what is left out"
    assert page.rows["kernels"][1][0] == "matmul_999", "the dearest first"
    assert "details" in {name for name, _ in page.elements}


def test_every_colour_that_the_style_uses_is_a_colour_of_both_themes() -> None:
    style = report_style()
    used = set(re.findall(r"var\((--[\w-]+)\)", style))
    for theme in re.findall(r":root \{([^}]*)\}", style):
        given = dict(re.findall(r"(--[\w-]+): ([^;]*);", theme))
        assert used <= given.keys()
        assert {name for name in used if not re.fullmatch(r"#[0-9A-Fa-f]{6,8}|rgba?\(.*\)", given[name])} == set()


def test_markup_escapes_and_drops_what_no_markup_may_hold() -> None:
    assert tag("b", "a<b&\0", title='"\n') == '<b title="&quot;\n">a&lt;b&amp;\N{REPLACEMENT CHARACTER}</b>'
    assert tag("b", tag("i", "x"), ["y", None]) == "<b><i>x</i>y</b>"
    assert printable("µ 日本 \U0001f600") == "µ 日本 \U0001f600"
    assert printable("\ud800\x9f") == "\N{REPLACEMENT CHARACTER}" * 2


def test_records_are_drawn_and_bad_places_are_refused(tmp_path: Path) -> None:
    records, out, known = tmp_path / "run.db", tmp_path / "report.html", str(tmp_path / "known.json")
    assert loomscope("recipe", SOFTMAX, "-o", known).returncode == 0
    assert loomscope("tune", SOFTMAX, "--trials", "6", "--records", str(records), "--from", known).returncode == 0
    assert loomscope("report", SOFTMAX, "-o", str(out), "--no-check", "--records", str(records)).returncode == 0
    text = out.read_text(encoding="utf-8")
    check_whole(text)
    (count,) = re.findall(r"Search of softmax_0, predicted: (\d+) trials?", text)
    assert int(count) == sum(one["attempts"] for one in document("trials", str(records))["mappings"])
    assert 'class="best"' in text and "run 1 by learned from known.json, finished" in text
    for arguments, word in (
        (("-o", str(tmp_path / "no" / "r.html")), "no folder"),
        (("-o", str(out), "--records", str(tmp_path / "absent.db")), "absent.db"),
        (("-o", str(out), "--group", "none_0"), "none_0"),
    ):
        done = loomscope("report", SOFTMAX, "--no-check", *arguments)
        assert done.returncode == 2 and word in done.stderr, done.stderr
    assert out.read_text(encoding="utf-8") == text, "what could not be written left the old file whole"
