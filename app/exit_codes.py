"""Exit codes of the program beside those that the engine's errors carry."""

CHECK_FAILED = 1
"""What was checked is wrong or too slow, or a group has no kernel."""
INTERRUPTED = 130
"""A person ended the run: 128 and the number of SIGINT."""
PIPE_CLOSED = 141
"""Whoever read the output went away: 128 and the number of SIGPIPE."""
