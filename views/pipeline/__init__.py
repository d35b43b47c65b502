"""A kernel's pipeline: its chart over time, its shared memory, and what other knobs would give."""
