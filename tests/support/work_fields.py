"""Which fields of `Work` are known before a kernel is compiled."""

from __future__ import annotations

AFTERWARDS = frozenset(("registers", "global_requests", "global_sectors", "shared_requests", "bank_conflicts"))
"""Fields that a search estimates or leaves out: registers are the compiler's choice, and requests follow from
addresses, of which a search knows those of some warps."""
