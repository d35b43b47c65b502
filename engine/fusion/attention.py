"""Attention in a tensor program: a product of scores, a softmax of them, and the product with what it weighs.

    s[q,k] = sum(r) Q[q,r] * K[k,r];  x = mask(scale(s));  p[q,k] = softmax(k) x[q,k];  o[q,d] = sum(k) p[q,k] * V[k,d]

Only what statements read and write decides; no operator's name does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from engine.fusion.group_signature import likeness
from engine.fusion.shape import own_iterators, summed_factors
from engine.support.errors import Unsupported
from engine.tensor.nodes import Access, Apply, Iterator, Scalar, Statement, TensorProgram, accesses, without_casts
from engine.tensor.rewrite import plain_iterator
from engine.tensor.softmax import relative_term

STEPS_BACK = 5
"""Statements from the second product back to the scores: quotient, sum, exponentials, maximum, masked scores."""


@dataclass(frozen=True, slots=True)
class ProductPair:
    """Two products, the second of which weighs with what is made of the results of the first, and the loops of it."""

    scores: Statement
    """The first product."""
    values: Statement
    """The second product."""
    weights: str
    """The array that it weighs with."""
    batch: tuple[Iterator, ...]
    """Iterators of the first product that both its factors move with, as those of batches and heads."""
    queries: tuple[Iterator, ...]
    """Those of its rows; none where there is a single query."""
    key: Iterator

    @property
    def heads(self) -> tuple[Iterator, ...]:
        """Iterators of the second product that only its values move with."""
        weighing = {n for a in self.values.reads() if a.array == self.weights for i in a.indices for n in i.iterators()}
        return tuple(i for i in self.values.parallel if i.name not in weighing)


@dataclass(frozen=True, slots=True)
class Attention(ProductPair):
    """The statements of one attention by what they do: the weights are those of a softmax."""

    chain: tuple[Statement, ...]
    """What is done to each score, in order: scaled, masked."""
    softmax: tuple[Statement, ...]
    """Maximum, exponentials, sum, quotients."""

    @property
    def members(self) -> tuple[Statement, ...]:
        """All of them, in an order that is legal to run."""
        return (self.scores, *self.chain, *self.softmax, self.values)


def attention_of(program: TensorProgram) -> Attention:
    """The attention that a group's program computes.  Unsupported where it computes none."""
    finder = Finder(program)
    for statement in program.statements:
        if found := finder.find(statement):
            return found
    raise Unsupported("fuse", program.name, "no product weighs with the result of a softmax")


class Finder:
    """Attentions of one program."""

    def __init__(self, program: TensorProgram) -> None:
        self.program = program
        self._maker = {s.write.array: s for s in program.statements if s.covers and not s.guards}
        self._ratios = {array: ratio for array, made in self._maker.items() if (ratio := _ratio(made)) is not None}
        """What is divided by what, of arrays whose elements are quotients."""
        self._place = {s.name: n for n, s in enumerate(program.statements)}
        self._softmaxes: set[Hashable] = set()
        """Likenesses of the statements before a product that were found to be a softmax."""

    def find(self, values: Statement) -> Attention | None:
        """The attention that ends with a product; None for what weighs nothing.  Raises as `attention` does."""
        quotient = self.quotient(values)
        return self.attention(values, quotient) if quotient is not None else None

    def quotient(self, values: Statement) -> Statement | None:
        """The statement that makes a factor of a product by dividing by a sum; None where no such product is given."""
        if values.reduction is None or self._ratios.keys().isdisjoint(values.sources):
            return None
        for factor in _factors(values) or ():
            made = self._maker_of(factor)
            ratio = self._ratios.get(made.write.array) if made else None
            if ratio:
                total = self._maker_of(ratio.operands[1])
                if total and total.reduction and total.reduction.operation == "sum":
                    return made
        return None

    def attention(self, values: Statement, quotient: Statement) -> Attention:
        """The attention around a product with the results of `quotient`; Unsupported, saying why there is none."""
        behind = self._behind(values)
        # The proof below is symbolic and slow, and a model has the same attention in every layer.
        alike = likeness(behind, ())
        if alike not in self._softmaxes:
            relative_term(replace(self.program, statements=behind), values, values.operator)
            self._softmaxes.add(alike)
        weight, total = (self._maker_of(operand) for operand in self._ratios[quotient.write.array].operands)
        shifted = _operand(weight, 0)
        masked, largest = (self._maker_of(o) for o in shifted.operands) if shifted else (None, None)
        if weight is None or total is None or masked is None or largest is None:
            raise refusal(values, "scores, maximum and exponentials are not arrays of their own")
        chain = self._chain(masked, len(masked.iterators))
        if not chain:
            raise refusal(values, f"no product makes the scores that {largest.operator} is about")
        scores = chain[0]
        key = self._key(largest, tuple(chain))
        factors = _factors(scores)
        assert factors is not None
        rows, columns = own_iterators(scores, factors)
        if key in [i.name for i in rows]:
            rows, columns = columns, rows
        batch = tuple(i for i in scores.parallel if i not in (*rows, *columns))
        if [i.name for i in columns] != [key]:
            raise refusal(values, f"the keys are {len(columns)} loops of {scores.operator}, one is walked")
        return Attention(
            scores=scores, values=values, weights=quotient.write.array, batch=batch, queries=rows, key=columns[0],
            chain=tuple(chain[1:]), softmax=(largest, weight, total, quotient),
        )  # fmt: skip

    def _behind(self, values: Statement) -> tuple[Statement, ...]:
        """The last statements before a product, in program order: what a softmax is looked for in."""
        found = {values.name: values}
        pending = [(values, STEPS_BACK)]
        for statement, steps in pending:
            for access in statement.reads() if steps else ():
                made = self._maker.get(access.array)
                if made is not None and made.name not in found:
                    found[made.name] = made
                    pending.append((made, steps - 1))
        return tuple(sorted(found.values(), key=lambda s: self._place[s.name]))

    def _chain(self, masked: Statement, loops: int) -> list[Statement]:
        """The product that makes the scores and the element-wise statements after it; [] where no product does."""
        if masked.reduction is not None:
            return [masked] if _factors(masked) else []
        for access in masked.reads():
            made = self._maker.get(access.array)
            if made is not None and len(masked.iterators) == loops == len(made.parallel) == len(_plain(access)):
                behind = self._chain(made, loops)
                if behind:
                    return [*behind, masked]
        return []

    def _key(self, largest: Statement, chain: tuple[Statement, ...]) -> str:
        """The iterator of the first product that the maximum is taken over."""
        assert largest.reduction is not None
        name, reader = largest.reduction.iterators[0], largest
        for made in chain[::-1]:
            access = next(a for a in reader.reads() if a.array == made.write.array)
            axis = [plain_iterator(i) for i in access.indices].index(name)
            written = plain_iterator(made.write.indices[axis])
            if written is None:
                raise refusal(reader, f"{reader.operator} reads {access.array} in another arrangement")
            name, reader = written, made
        return name

    def _maker_of(self, value: Scalar) -> Statement | None:
        """The statement that makes what is read, where that is one element."""
        inner = without_casts(value)
        return self._maker.get(inner.array) if isinstance(inner, Access) and not inner.guards else None


def refusal(at: Statement, reason: str) -> Unsupported:
    """The error that says why statements are not one attention."""
    return Unsupported("fuse", at.operator, reason)


def _factors(statement: Statement) -> tuple[Scalar, Scalar] | None:
    """The factors of a sum of products of two arrays, also where one has no loop of its own; None for other statements.

    A single query leaves no loop over rows: then no product with tiles is left, but attention all the same.
    """
    factors = summed_factors(statement)
    return factors if factors and all(len(list(accesses(f))) == 1 for f in factors) else None


def _ratio(made: Statement) -> Apply | None:
    """The quotient that a statement gives."""
    value = without_casts(made.expression)
    return value if isinstance(value, Apply) and value.function == "div" else None


def _operand(made: Statement | None, number: int) -> Apply | None:
    """An operand of a statement's function, where that is a function too."""
    value = without_casts(made.expression) if made else None
    inner = value.operands[number] if isinstance(value, Apply) else None
    return inner if isinstance(inner, Apply) and inner.function == "sub" else None


def _plain(access: Access) -> list[str]:
    """The iterators that an access consists of, where it reads one element for each of them."""
    names = [name for i in access.indices if (name := plain_iterator(i)) is not None]
    moving = [i for i in access.indices if i.terms]
    return names if len(names) == len(moving) == len(set(names)) and not access.guards else []
