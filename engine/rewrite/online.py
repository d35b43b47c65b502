"""A softmax in one pass over its row: exponentials relative to the largest exponent met so far (tensor/shifted.py).

    S0: m[i]   = max(j) x[i,j]                          online S2:
    S1: e[i,j] = exp(x[i,j] - m[i])                     S0, S1 as they were, for whoever reads them
    S2: l[i]   = sum(j) e[i,j]                      ->  S2: l[i]   = shifted_sum(j) exp(x[i,j])
    S3: p[i,j] = e[i,j] / l[i]                          online S4, alone or after it:
    S4: o[i,d] = sum(j) p[i,j] * v[j,d]             ->  S4: o[i,d] = shifted_mean(j) exp(x[i,j]) * v[j,d]

S2 no longer waits for S0, and S4 for none of S0 to S3: the loop that makes x can be the loop that uses it.  The results
are the same numbers; in floating point they are rounded elsewhere, because a weight is divided after the sum and not
before it.  Where p has a narrow element type, weights are rounded to it all the same.
"""

from __future__ import annotations

from dataclasses import replace

from engine.rewrite.statements import statement_of, with_statement, without_unread
from engine.support.errors import BadInput
from engine.tensor.nodes import TensorProgram
from engine.tensor.softmax import relative_term


def online(program: TensorProgram, statement: str) -> TensorProgram:
    """The program in which one sum finds the largest exponent of its row by itself.

    The sum adds up either the exponentials of a softmax, or its quotients times other factors.  Statements that nobody
    reads any more are left out.  BadInput for a statement that sums nothing; Unsupported where the pattern (a maximum,
    exponentials relative to it, their sum, along the same one axis) is not there, saying what differs.
    """
    one = statement_of(program, statement)
    subject = f"online {statement}"
    if one.reduction is None or one.reduction.operation != "sum":
        summing = ", ".join(s.name for s in program.statements if s.reduction and s.reduction.operation == "sum")
        raise BadInput("rewrite", subject, f"{statement} sums nothing", f"those do: {summing or 'none'}")
    term, operation = relative_term(program, one, subject)
    reduction = replace(one.reduction, operation=operation, associative=True)
    changed = replace(one, expression=term.expression(one.reduction.accumulate), reduction=reduction)
    names = [s.name for s in program.statements]
    shorter = without_unread(with_statement(program, changed), names[: names.index(statement)])
    return _early(shorter, statement)


def _early(program: TensorProgram, name: str) -> TensorProgram:
    """The program with a statement moved directly behind the last one it reads, next to the loops it can join."""
    moved = program.statement(name)
    read = {access.array for access in moved.reads()}
    others = [s for s in program.statements if s is not moved]
    behind = max((n + 1 for n, s in enumerate(others) if s.write.array in read), default=0)
    return replace(program, statements=(*others[:behind], moved, *others[behind:]))
