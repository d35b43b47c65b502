"""A window that makes edits and then waits for its end: `python crashing.py JOURNALS MODEL EDITS`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"
sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from app.shell.main import application, make_window  # noqa: E402
from app.shell.render import wait  # noqa: E402
from tests.app.driving import COMMAND  # noqa: E402

GROUP = "softmax_0"


def main() -> None:
    """Says "ready" when the last edit is a step, and then never ends by itself."""
    program = application()
    window = make_window(command=COMMAND, journals=Path(sys.argv[1]))
    window.show()
    window.open_file(sys.argv[2])

    def idle() -> bool:
        return window.workspace.client.is_idle and window.document.is_idle

    wait(idle)
    window.workspace.bus.select_group(GROUP)
    wait(idle)
    for number in range(int(sys.argv[3])):
        text = window.workspace.recipe(GROUP)
        assert text is not None
        window.workspace.edit(GROUP, text.replace(f"block {8 + number}", f"block {9 + number}"))
        wait(idle)
    print("ready", flush=True)
    program.exec()


if __name__ == "__main__":
    main()
