"""How the program ends: its exit codes beside those that the engine's errors carry, and with whom."""

CHECK_FAILED = 1
"""What was checked is wrong or too slow, or a group has no kernel."""
INTERRUPTED = 130
"""A person ended the run: 128 and the number of SIGINT.  SIGTERM and SIGHUP end it in the same way."""
PIPE_CLOSED = 141
"""Whoever read the output went away: 128 and the number of SIGPIPE."""

ENDS_WITH_PARENT = "LOOMSCOPE_ENDS_WITH_PARENT"
"""Environment variable: set for a process of the command line that ends with the one that started it."""
TELLS_PROGRESS = "LOOMSCOPE_TELLS_PROGRESS"
"""Environment variable: set for a process of the command line whose progress is read by the one that started it."""
STEP = "loomscope-step "
"""What a line of standard error begins with that tells progress, as JSON: [text, done, total]."""
