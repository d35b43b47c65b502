"""Which fields of `Work` are known before a kernel is compiled."""

from __future__ import annotations

AFTERWARDS = frozenset((
    "registers", "global_requests", "global_sectors", "shared_requests", "bank_conflicts", "again_bytes", "again_set",
))  # fmt: skip
"""Fields that a search estimates or leaves out: registers are the compiler's choice, requests follow from addresses, of
which a search knows those of some warps, and what is read again is counted of the kernel that stands."""
