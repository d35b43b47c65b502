"""Budgets for what a file asks for: each is checked before the work grows, and what passes it is told by name.

Limits of the hardware are in `engine.target`, those of time and memory of a process where it is started.  The table of
`resources/docs/checks_and_limits.md` lists these numbers; a test compares both.
"""

from __future__ import annotations

# Files.
MAX_FILE_BYTES = 2 * 2**30
"""Bytes of a model, a manifest or a file of times: protocol buffers cannot hold more in one message."""
MAX_TEXT_BYTES = 32 * 2**20
"""Bytes of any other JSON or advice file.  The largest real one has 40 kB; parsed, a text takes up to twenty times its
size."""
MAX_WORKSPACE_BYTES = 2**26
"""Bytes of a workspace, once unfolded; ten thousand steps of a long recipe take a third."""
MAX_JSON_DEPTH = 100
"""Levels of nesting in a JSON file of ours."""

# Graphs.
MAX_OPERATORS = 200_000
"""Operators of a graph, with those that its functions expand to."""
MAX_RANK = 8
"""Axes of a tensor."""
MAX_ELEMENTS = 2**36
"""Elements of one tensor."""
MAX_NAME = 4096
"""Characters of a tensor's or an operator's name."""
MAX_SCAN_NODES = 10_000
"""Nodes that all unrolled scans of a file may add."""
MAX_RECURRENT_STEPS = 750
"""Unrolled steps of a graph's recurrent layers: each adds statements.  At 14 ms a step, measured on two cores of
a build machine, 750 take half of the 20 seconds within which a file is refused."""
MAX_READ = 4096
"""Elements of a constant that shape arithmetic reads; larger ones are data."""
MAX_WEIGHT = 1 << 26
"""Elements of a weight that is quantised while a file is read."""
MAX_COMPUTED = 1 << 20
"""Elements of a value that is computed while a file is read."""
MAX_PRODUCTS = 1 << 24
"""Multiplications for one such value."""

# Advice.
MAX_ENTRIES = 100_000
"""Entries of a group in a recipe."""
MAX_RULES = 1_000
"""Different entries that one search for a schedule obeys."""
MAX_ADVICE_LINES = 10_000
"""Lines of an advice text."""
MAX_ADVICE_DEPTH = 32
"""Levels of nested alternatives."""
MAX_BRACKET_DEPTH = 16
"""Levels of brackets in one line."""
MAX_DIGITS = 400
"""Characters of one number: more than any float has before its point."""

# Advice in AKG's published JSON format.
MAX_PUBLISHED_CHARACTERS = 4_000_000
"""Characters of an advice file in AKG's format."""
MAX_PUBLISHED_NAME = 200
"""Characters of the name in such a file."""
MAX_PUBLISHED_STATEMENTS = 1_000
"""Statements with constraints in one."""
MAX_PUBLISHED_ROWS = 32
"""Schedule dimensions of one statement."""
MAX_PUBLISHED_NUMBER = 2**31 - 1
"""Any number in one."""
MAX_PATTERN_CHARACTERS = 100_000
"""Characters of its pattern, its domain or its tree."""
MAX_PATTERN_DEPTH = 64
"""Levels of nesting in these."""
MAX_PATTERN_EXTENT = 2**31
"""Values of one of its iterators."""
MAX_ROW_CHARACTERS = 1_000
"""Characters of one row of its schedule."""

# Values.
MAX_REFERENCE_BYTES = 5 * 2**30
"""Bytes of values that the reference computes at once."""
MAX_COUNTED_BYTES = 2**31
"""Bytes of a launch's buffers that `baseline` emulates and counts."""
