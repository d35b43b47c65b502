"""What kind of task each kind of group has."""

from __future__ import annotations

from engine.compilation import Kernel
from engine.fusion.attention import ATTENTION
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import KIND as PACKED
from engine.fusion.stitched import KIND as STITCHED
from engine.tuning.attentions import attention_tasks
from engine.tuning.elementwise import element_tasks
from engine.tuning.mapping_tasks import product_tasks, refused_mappings
from engine.tuning.nodes import Refused, Task
from engine.tuning.packed import packed_tasks
from engine.tuning.rows import row_tasks
from engine.tuning.stitched import stitched_tasks


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
