"""Draws the pictures of README and the tutorial anew: `python -m tests.support.pictures [NAME...]`.

Each is drawn by `loomscope render`, offscreen.

Models of ../shared/models are needed.  The picture of groups as hulls shows a layer norm that was split by hand, which
no option of `render` does: it is made in the window, and left alone here.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "models"
FOLDER = ROOT / "resources" / "screenshots"
BERT = str(SHARED / "bert_base_b1_s128.onnx")
SOFTMAX = "resources/models/softmax_96x512.onnx"
PRODUCT = "resources/models/matmul_bias_gelu_128x256x512.onnx"
SCHEDULE = ("--perspective", "schedule", "--theme", "light")
SPACE = (*SCHEDULE, "--tab", "iteration space", "--advice")
RECORDS, AGAINST = "night.db", "learned.db"
RUNS = {RECORDS: ("--trials", "400", "--patience", "60", "--strategy", "random"), AGAINST: ("--trials", "96")}
"""What stands for a run that is made for the picture -> the options of the search."""
TUNE = ("--perspective", "tune", "--records", RECORDS)
PICTURES = {
    "explore-dark": (BERT,),
    "explore-dark-1280": (BERT, "--size", "1280x800"),
    "explore-light-1280": (BERT, "--size", "1280x800", "--theme", "light"),
    "schedule-light": (BERT, *SCHEDULE, "--group", "matmul_2"),
    "walk-why": (SOFTMAX, *SCHEDULE, "--tab", "decisions"),
    "walk-bad": (SOFTMAX, *SPACE, "resources/advice/softmax_backwards.txt"),
    "walk-good": (SOFTMAX, *SPACE, "resources/advice/softmax_wide_rows.txt"),
    "timing-dark": ("example", "--replay", "resources/measurements/synthetic/bert_tiny.json", "--tab", "live"),
    "tuning-light": (PRODUCT, *TUNE, "--theme", "light", "--tab", "progress"),
    "two-runs-light": (
        PRODUCT, *TUNE, "--against", AGAINST, "--theme", "light", "--tab", "two runs", "--panel", "tuning",
    ),
    "tuning-dark": (PRODUCT, *TUNE, "--tab", "ablation"),
    "pipeline-dark": (
        "suite:transformer/8192x3072x768-bias-gelu", "--perspective", "pipeline", "--target", "a100", "--tile", "4",
        "--what-if", "stages=6",
    ),
}  # fmt: skip
"""File without its suffix -> the arguments of `render`."""


def run(*arguments: str) -> None:
    """One verb of the command line; an error of it ends this program."""
    subprocess.run([sys.executable, "-m", "app", *arguments], cwd=ROOT, check=True)


def main(names: Sequence[str]) -> None:
    """Draws the named pictures, or all."""
    with tempfile.TemporaryDirectory() as folder:
        records = {each: Path(folder) / each for each in RUNS}
        for name in names or PICTURES:
            arguments = PICTURES[name]
            for each, options in RUNS.items():
                if each in arguments and not records[each].is_file():
                    run("tune", PRODUCT, *options, "--records", str(records[each]))
            given = [str(records.get(each, each)) for each in arguments]
            run("render", *given, "-o", str(FOLDER / f"{name}.png"))


if __name__ == "__main__":
    main(sys.argv[1:])
