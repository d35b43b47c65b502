"""The errors that a user can meet, in the user's words.

An error names the object first (`subject`), then what is wrong (`reason`), then what to do (`hint`).
The command line prints it and exits with `exit_code`; the window shows it as a row in Problems.
"""

from __future__ import annotations

MESSAGE_LENGTH = 2000
"""Longest part of a message, in characters: a damaged file may hold names of any length."""


class EngineError(Exception):
    """Base of all errors the engine raises on purpose.

    stage: where it happened ("graph", "fuse", "schedule", ...).  subject: the object in the user's words
    (a file, an operator, an entry).  reason: what is wrong with it.  hint: what to do about it; may be empty.
    """

    exit_code = 2

    def __init__(self, stage: str, subject: str, reason: str, hint: str = "") -> None:
        subject, reason, hint = map(_shorten, (subject, reason, hint))
        super().__init__(f"{subject}: {reason}" + (f" ({hint})" if hint else ""))
        self.stage = stage
        self.subject = subject
        self.reason = reason
        self.hint = hint


class BadInput(EngineError):
    """What the user gave cannot be used: a broken file, a wrong name, a recipe of another version."""


class Unsupported(EngineError):
    """Valid input that this version does not compile; `hint` names the nearest supported form."""


class Illegal(EngineError):
    """A schedule that breaks a dependence, or required entries that cannot hold; `reason` holds the witness."""

    exit_code = 1


class OverBudget(EngineError):
    """What was asked for is more than a limit of time, size or memory allows."""


class MissingCapability(EngineError):
    """This machine lacks what was asked for (a GPU, a C++ compiler); `hint` says what to install."""

    exit_code = 3


class Fault(EngineError):
    """An internal error: never the user's fault, worth a report."""

    exit_code = 70


def _shorten(text: str) -> str:
    """The text; its two ends if it is longer than `MESSAGE_LENGTH`."""
    half = MESSAGE_LENGTH // 2
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:half]}...{text[-half:]}"
