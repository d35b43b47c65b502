"""What kind of task each kind of group has."""

from __future__ import annotations

from engine.compile import Kernel
from engine.fuse.attention import ATTENTION
from engine.fuse.nodes import FusionGroup
from engine.fuse.packed import KIND as PACKED
from engine.fuse.stitched import KIND as STITCHED
from engine.tune.attentions import attention_tasks
from engine.tune.elements import element_tasks
from engine.tune.mapping_tasks import product_tasks, refused_mappings
from engine.tune.nodes import Refused, Task
from engine.tune.packed import packed_tasks
from engine.tune.rows import row_tasks
from engine.tune.stitched import stitched_tasks


def tasks(group: FusionGroup, kernel: Kernel) -> tuple[list[Task], list[Refused]]:
    """The tasks of a group, that of `kernel` (its own under its recipe) first, and the mappings that have none."""
    refused = refused_mappings(group, kernel.recipe)
    found: list[Task] = []
    if group.kind == "contraction":
        found, more = product_tasks(group, kernel)
        refused += more
    elif group.kind in ("row reduction", "column reduction"):
        found = row_tasks(group, kernel)
    elif group.kind in ("element-wise", "layout"):
        found = element_tasks(group, kernel)
    elif group.kind == STITCHED:
        found = stitched_tasks(group, kernel)
    elif group.kind == PACKED:
        found = packed_tasks(group, kernel)
    elif group.kind == ATTENTION:
        found, more = attention_tasks(group, kernel)
        refused = more
    return found, refused
