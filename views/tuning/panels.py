"""The panels of a tuning run together."""

from __future__ import annotations

from dataclasses import dataclass

from views.tuning.run import RunView
from views.tuning.search import SearchView
from views.tuning.trial import TrialView
from views.tuning.trial_table import TrialsView
from views.tuning.view import TuningView


@dataclass(frozen=True)
class TuningPanels:
    """What the Tune perspective shows."""

    tuning: TuningView
    trials: TrialsView
    search: SearchView
    trial: TrialView
    run: RunView
