"""The window on a real display: an X server in memory with a window manager.  `python -m tests.xcb` runs these tests.

The platform that a process paints on is fixed when Qt starts, and all other tests paint in memory; so these run in a
process of their own, which `tests/test_xcb.py` starts where the machine has what they need.
"""
