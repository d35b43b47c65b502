"""The graphs of the suites' rows: one small function per operator, by the name that rows use."""

from engine.suite.operators import attention, contractions, elementwise, rows, training
from engine.suite.operators.sketch import OPERATORS, model_of

__all__ = ["OPERATORS", "attention", "contractions", "elementwise", "model_of", "rows", "training"]
