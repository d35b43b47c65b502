"""`python -m tests.xcb [PYTEST OPTION...]`: the desktop tests on a display of their own, then at scale 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.xcb.display import display, lacking

ROOT = Path(__file__).parents[2]
LAPTOP = (1280, 800)
"""A small screen, which the window has to fit at its first start."""
DESKTOP = (
    "tests/xcb", "tests/app/test_walk.py", "tests/app/test_keyboard_walk.py", "tests/app/test_drops.py",
    "--ignore=tests/xcb/test_scale.py",
)  # fmt: skip
SCALED = ("tests/xcb/test_scale.py",)
STRICT = ("-p", "no:cacheprovider", "-o", "qt_log_level_fail=WARNING")
"""A warning of Qt fails the test in which it comes, as a traceback does."""


NOTHING_CHOSEN = 5
"""How pytest ends where its options choose no test of a part."""


def main(arguments: Sequence[str]) -> int:
    """The exit code of pytest; 3 where the machine lacks what is needed."""
    if lacking():
        print(f"This machine cannot show a window: `{lacking()}`", file=sys.stderr)
        return 3
    codes = []
    for scale, tests in ((1, DESKTOP), (2, SCALED)):
        with display(LAPTOP[0] * scale, LAPTOP[1] * scale) as environment:
            command = [sys.executable, "-m", "pytest", *tests, *STRICT, *arguments]
            environment = {**environment, "QT_SCALE_FACTOR": str(scale)}
            codes.append(subprocess.run(command, cwd=ROOT, env=environment).returncode)
    # A crash ends with the negative number of its signal.
    return next((code for code in codes if code not in (0, NOTHING_CHOSEN)), min(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
