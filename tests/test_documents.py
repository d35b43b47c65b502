"""README and the pages of resources/docs: short, linked to what exists, and what they show is what happens."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import engine
from engine.recipe import ENTRY_FIELDS, MARKS, REWRITES
from tests.support.commands import loomscope
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.test_packaging import packages

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "resources/docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
MOST_WORDS = 1300
"""Of README."""


def text(page: Path | str) -> str:
    path = page if isinstance(page, Path) else DOCS / f"{page}.md"
    return path.read_text(encoding="utf-8")


def blocks(page: Path | str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text(page), re.DOTALL)


def test_the_readme_is_short() -> None:
    assert len(text(ROOT / "README.md").split()) <= MOST_WORDS


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
def test_what_the_readme_shows_of_commands_is_what_they_say() -> None:
    """Its lines in order, whose "..." stands for others; errors are rounded otherwise from machine to machine."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text(ROOT / "README.md"), re.DOTALL | re.MULTILINE)
    (shown,) = [block for language, block in fences if not language and block.startswith("$ ")]
    for session in re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]:
        command, *wanted = filter(None, session.splitlines())
        said = iter(loomscope(*shlex.split(command.partition("|")[0])[1:]).stdout.splitlines())
        for line in wanted:
            assert line == "..." or any(_words(line) == _words(other) for other in said), line


def _words(line: str) -> list[str]:
    return [word for word in line.split() if not re.fullmatch(r"\d(\.\d)?e-\d\d", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#:]+)\)", text(page))
    assert [target for target in targets if not (page.parent / target).is_file()] == []
    if page.stem == "README":
        linked = {(page.parent / target).resolve() for target in targets}
        assert {one for one in DOCS.glob("*.md") if one not in linked} == set(), "every page is linked"


def test_every_verb_is_listed() -> None:
    from app.cli.main import app

    table = text("command_line").partition("| verb | does |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)", table, re.MULTILINE)
    assert sorted(listed) == sorted(command.name or command.callback.__name__ for command in app.registered_commands)


def test_what_every_package_of_the_engine_is_for_is_told() -> None:
    table = text("architecture").partition("| `engine/` | |")[2].partition("\n\n")[0]
    first = (row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    told = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    names = (name.split(".") for name in packages() if name.startswith("engine."))
    assert told == {parts[1] for parts in names if len(parts) == 2}


def test_every_field_and_mark_of_an_entry_is_told() -> None:
    table = text("file_formats").partition("| field | says | example |")[2].partition("\n\n")[0]
    rows = {row.split("|")[1].strip().strip("`"): row for row in table.splitlines() if row.startswith("| `")}
    assert set(rows) == set(ENTRY_FIELDS)
    assert all(re.search(rf"\b{mark}\b", rows["mark"]) for mark in MARKS)
    assert all(rewrite in rows["rewrite"] for rewrite in REWRITES)
    for row in rows.values():
        example = re.split(r"(?<!\\)\|", row)[3].strip().strip("`").replace("\\", "")
        if example:
            statements = "" if example.startswith("rewrite") else "all @ i: "
            form = f"advice user\n  {statements}{example}\n"
            assert engine_reads(form), form


def engine_reads(form: str) -> bool:
    from engine.scheduling.text import from_text

    return bool(from_text(form, "the page"))


def test_the_text_form_of_the_page_is_read_back() -> None:
    from engine.scheduling.text import from_text, to_text

    (form,) = blocks("file_formats", "text")
    advice = from_text(form, "the page")
    assert from_text(to_text(advice), "again") == advice


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_the_library_guide_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(ROOT / "resources/models/bert_tiny.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    known: dict[str, object] = {}
    for block in blocks("library", "python"):
        exec(compile(block, "library.md", "exec"), known)
    assert (tmp_path / "best.json").is_file() and isinstance(known["plan"], engine.FusionPlan)


def test_every_error_of_the_library_is_in_its_table() -> None:
    table = text("library").partition("| error | means |")[2].partition("\n\n")[0]
    for name in re.findall(r"`(\w+)`", table):
        assert issubclass(getattr(engine, name), engine.EngineError)


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(ROOT / "resources/models/bert_tiny.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("command_line", "sh") for line in block.splitlines()]
    ran = [line for line in lines if line.startswith("loomscope ")]
    assert len(ran) >= 6
    for line in ran:
        done = loomscope(*shlex.split(line, comments=True)[1:])
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "kernels/manifest.json").is_file()
