"""The script for a GPU machine that is there for minutes, without one: what it would run, keep and go on with."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu import measure_all, prepare

SCRIPT = Path(measure_all.__file__)


def test_a_dry_run_by_the_script_alone_names_every_step(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", SCRIPT, "run", "--out", tmp_path / "out", "--site", tmp_path / "s", "--dry-run",
         "--suite", "memory", "--minutes", "9", "--systems", "loomscope,torch"],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^(\S.*):$", done.stdout, re.MULTILINE)
    assert names[-4:] == ["tests", "rows", "calibration", "table"] and "PyCUDA" in names
    (rows,) = re.findall(r"^.*tests\.benchmarks\.gpu --suite.*$", done.stdout, re.MULTILINE)
    assert "--suite memory --systems loomscope,torch" in rows and "--kernels" in rows
    minutes = float(re.search(r"--minutes (\S+)", rows)[1])  # type: ignore[index]
    assert 8 < minutes < 9, "time is left for the table"
    assert not (tmp_path / "out").exists() and not (tmp_path / "s").exists()


def test_a_machine_that_cannot_be_prepared_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = measure_all.Call(tmp_path / "out", tmp_path, tmp_path, tmp_path / "s", ("memory",), "torch", 1.0)
    monkeypatch.setattr(prepare, "TOOLKITS", ())
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    assert measure_all.run(call) == 3
    assert "holds no wheels" in capsys.readouterr().out


def test_a_step_that_fails_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine is taken for prepared; without a GPU no row is measured, and there is no table."""
    earlier = archive(tmp_path / "earlier.tar.gz")
    call = measure_all.Call(
        tmp_path / "out", tmp_path, tmp_path, tmp_path / "s", ("memory",), "torch", 1.0, resume=earlier
    )
    monkeypatch.setattr(prepare, "lacking", lambda wheels: [])
    monkeypatch.setattr(prepare, "run", lambda steps, dry: 0)
    ran: list[str] = []

    def done(step: prepare.Step, seconds: float) -> int:
        ran.append(step.name)
        return 7 if step.name == "rows" else 0

    monkeypatch.setattr(measure_all, "_done", done)
    assert measure_all.run(call) == 1
    assert ran == ["tests", "rows", "calibration", "table"]
    with tarfile.open(tmp_path / "out" / "results.tar.gz") as made:
        assert {"gpu-memory.json", "table.md"} <= set(made.getnames()), "what an earlier call measured is kept"
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8") == "a table"


def test_a_table_is_shown_and_kept_and_a_step_past_its_time_is_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"LOOMSCOPE_DATA": str(tmp_path / "data")}
    step = prepare.Step("table", (sys.executable, "-c", "print('| row |')"), data)
    assert measure_all._done(step, 30.0) == 0
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == "| row |\n" and "| row |" in capsys.readouterr().out
    slow = prepare.Step("rows", (sys.executable, "-c", "import time; time.sleep(60)"), data)
    assert measure_all._done(slow, 0.5) == 124
    assert "rows: ended" in capsys.readouterr().out


def archive(path: Path) -> Path:
    """What a call leaves: one suite, the table, the calibration."""
    files = {
        "gpu-memory.json": json.dumps({"environment": {"date": "2026-11-30T10:00:00+00:00"}, "rows": []}),
        "table.md": "a table",
        "data/calibration/h200.json": "{}",
    }
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_results_are_kept_by_date(tmp_path: Path) -> None:
    kept = measure_all.keep(archive(tmp_path / "r.tar.gz"), tmp_path / "measurements")
    assert sorted(path.name for path in kept) == [
        "2026-11-30-h200.json", "2026-11-30-memory.json", "2026-11-30-table.md",
    ]  # fmt: skip
    assert (tmp_path / "measurements" / "2026-11-30-table.md").read_text(encoding="utf-8") == "a table"


@pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: b"no archive", None])
def test_a_file_that_is_no_archive_of_results_ends_with_2(
    spoil: Callable[[bytes], bytes] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive(tmp_path / "r.tar.gz")
    if spoil is None:
        path.unlink()
    else:
        path.write_bytes(spoil(path.read_bytes()))
    folder, out = tmp_path / "measurements", tmp_path / "out"
    assert measure_all.main(["keep", str(path), "--folder", str(folder)]) == 2
    assert measure_all.main(["run", "--out", str(out), "--resume", str(path)]) == 2
    assert capsys.readouterr().err.count("r.tar.gz: is no results.tar.gz") == 2
    assert not folder.exists() and not out.exists(), "nothing was begun"
