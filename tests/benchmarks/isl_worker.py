"""isl's own path over one program at a time: data flow, scheduler, loop nest.  A process of its own, for it may hang.

Reads a request (`isl.request`) as one JSON line.  Answers `{}` once the texts are parsed, so that the reader can start
its clock, then the processor time of each stage, the statements joined by data flow and the loops around each.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator, Mapping
from time import process_time
from typing import Any

import islpy

Levels = list[tuple[bool, list[int]] | None]
"""As in `parallel`, which this process does without: it imports isl and nothing of ours."""

_ENDS = (islpy.dim_type.in_, islpy.dim_type.out)


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        for answer in answers(json.loads(line)):
            print(json.dumps(answer), flush=True)


def answers(request: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The two answers to a request."""
    context = islpy.Set(request["context"])
    domain = islpy.UnionSet(request["domain"]).intersect_params(context)
    order = islpy.Schedule(request["order"])
    reads, writes, rewrites = (
        islpy.UnionMap(request[key]).intersect_domain(domain) for key in ("reads", "writes", "rewrites")
    )
    yield {}
    gc.collect()
    gc.disable()
    begin = process_time()
    flow, false = _dependences(order, reads, writes, rewrites)
    analysed = process_time()
    schedule = _schedule(domain, context, flow, false)
    scheduled = process_time()
    islpy.AstBuild.from_context(context).node_from_schedule(schedule)
    end = process_time()
    gc.enable()
    stages = {"dependences": analysed - begin, "schedule": scheduled - analysed, "loops": end - scheduled}
    yield {
        "milliseconds": {stage: seconds * 1e3 for stage, seconds in stages.items()},
        "flow": _pairs(flow),
        "levels": _levels(schedule.get_root(), {name: [] for name in _names(domain)}),
    }


def _dependences(order: Any, reads: Any, writes: Any, rewrites: Any) -> tuple[Any, Any]:
    """Flow by value, and the anti and output dependences of arrays written more than once (None without such)."""
    info = islpy.UnionAccessInfo.from_sink(reads).set_must_source(writes).set_schedule(order)
    flow = info.compute_flow().get_may_dependence()
    if rewrites.is_empty():
        return flow, None
    earlier = rewrites.union(reads.intersect_range(rewrites.range()))
    info = islpy.UnionAccessInfo.from_sink(rewrites).set_may_source(earlier).set_schedule(order)
    return flow, info.compute_flow().get_may_dependence()


def _schedule(domain: Any, context: Any, flow: Any, false: Any) -> Any:
    """isl's schedule under its default options."""
    constraints = islpy.ScheduleConstraints.on_domain(domain).set_context(context)
    every = flow if false is None else flow.union(false)
    return constraints.set_validity(every).set_coincidence(every).set_proximity(flow).compute_schedule()


def _pairs(relation: Any) -> list[tuple[str, str]]:
    """(source statement, sink statement) of each part of a relation."""
    parts: list[Any] = []
    relation.foreach_map(parts.append)
    return sorted({tuple(part.get_tuple_name(side) for side in _ENDS) for part in parts})


def _levels(node: Any, above: Mapping[str, Levels]) -> dict[str, Levels]:
    """Statement -> the loops and sequences around it, those of `above` first."""
    kinds = islpy.schedule_node_type
    match node.get_type():
        case kinds.leaf:
            return dict(above)
        case kinds.filter:
            within = _names(node.filter_get_filter())
            return _levels(node.get_child(0), {name: levels for name, levels in above.items() if name in within})
        case kinds.band:
            return _levels(node.get_child(0), _inside(node, above))
        case kinds.sequence | kinds.set:
            apart: Mapping[str, Levels] = {name: [*levels, None] for name, levels in above.items()}
            children = [_levels(node.get_child(k), apart) for k in range(node.n_children())]
            return {name: levels for child in children for name, levels in child.items()}
        case _:
            return _levels(node.get_child(0), above)


def _inside(band: Any, above: Mapping[str, Levels]) -> Mapping[str, Levels]:
    """The levels inside a band: one loop more for each member."""
    found = {name: list(levels) for name, levels in above.items()}
    rows = band.band_get_partial_schedule()
    for number in range(rows.dim(islpy.dim_type.out)):
        parallel = bool(band.band_member_get_coincident(number))
        pieces: list[Any] = []
        rows.get_at(number).foreach_pw_aff(pieces.append)
        for piece in pieces:
            name = piece.get_domain_space().get_tuple_name(islpy.dim_type.set)
            if name in found:
                found[name].append((parallel, _coefficients(piece)))
    return found


def _coefficients(piece: Any) -> list[int]:
    """The factor of each iterator in a row of the schedule; in its first piece, should it have several."""
    width = piece.dim(islpy.dim_type.in_)
    (_, affine), *_ = piece.get_pieces()
    return [affine.get_coefficient_val(islpy.dim_type.in_, k).to_python() for k in range(width)]


def _names(domain: Any) -> set[str]:
    """The statements of a union of sets."""
    boxes: list[Any] = []
    domain.foreach_set(boxes.append)
    return {box.get_tuple_name() for box in boxes}


if __name__ == "__main__":
    main()
