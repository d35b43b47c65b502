"""What loops do, counted from their statements: operations on vectors, and bytes at each level of the caches."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cpu.nodes import CpuWork
from engine.cpu.plan import RegionPlan
from engine.graph.nodes import DTYPES
from engine.target.cpu import CpuTarget
from engine.tensor.nodes import Apply, Scalar, Statement, TensorProgram
from engine.tensor.traffic import compulsory_bytes

COSTS = {
    "exp": 14, "sigmoid": 20, "tanh": 26, "erf": 34, "log": 60, "sin": 80, "cos": 80, "atan": 80, "pow": 120,
    "div": 8, "sqrt": 10, "rsqrt": 16, "reciprocal": 8, "mod": 30,
}  # fmt: skip
"""Instructions on vectors of a function, by the text of include/scalar.hpp; one of any other."""


def loop_work(program: TensorProgram, plans: Sequence[RegionPlan], machine: CpuTarget) -> CpuWork:
    """The work of loops as they are written."""
    moved = sum(compulsory_bytes(program))
    operations, l1, l2 = 0.0, 0, 0
    for plan in plans:
        for statement in plan.program.statements:
            width = machine.lanes if _is_vector(plan, statement) else 1
            operations += statement.points * (_cost(statement.expression) + (statement.reduction is not None)) / width
            l1 += statement.points * sum(DTYPES[program.arrays[a.array].dtype] for a in statement.reads())
            if statement.reduction is None:
                l1 += statement.points * DTYPES[program.arrays[statement.write.array].dtype]
        passes = sum(
            statement.points * DTYPES[program.arrays[name].dtype]
            for statement in plan.program.statements for name in statement.sources
            if plan.locals.get(name) is None or plan.locals[name].bytes > machine.l1_bytes.value
        )  # fmt: skip
        l2 += passes
    tasks = min(plan.tasks for plan in plans)
    return CpuWork(
        regions=len(plans), tasks=tasks, flops=0, vector_ops=int(operations), bytes_compulsory=moved,
        bytes_l1=l1, bytes_l2=max(l2, moved), bytes_l3=moved,
    )  # fmt: skip


def vector_operations(statement: Statement, machine: CpuTarget) -> float:
    """Instructions on whole vectors of a statement whose loops lanes walk."""
    return statement.points * (_cost(statement.expression) + 1) / machine.lanes


def _is_vector(plan: RegionPlan, statement: Statement) -> bool:
    """Whether lanes walk a statement's innermost loop, as far as its accesses tell."""
    return not any(index.is_indirect for access in statement.reads() for index in access.indices)


def _cost(value: Scalar) -> int:
    if not isinstance(value, Apply):
        return 1
    return COSTS.get(value.function, 1) + sum(map(_cost, value.operands))
