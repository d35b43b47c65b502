"""Recognise the softmax around a sum, and rewrite its terms relative to the row maximum.

    m[i] = max(j) x[i,j];  e[i,j] = exp(x[i,j] - m[i]);  l[i] = sum(j) e[i,j]              l: exp(x[i,j])
    p[i,j] = e[i,j] / l[i];  o[i,d] = sum(j) p[i,j] * v[j,d]                               o: exp(x[i,j]) * v[j,d]

Only what is read decides, no name does.
"""

from __future__ import annotations

from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Scalar, Statement, TensorProgram, without_casts
from engine.tensor.rewrite import plain_iterator, rewrite_scalar
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, SHIFTED_SUM, Weighted, match_weighted


def relative_term(program: TensorProgram, one: Statement, subject: str) -> tuple[Weighted, str]:
    """The term of a sum relative to the largest exponent of its row, and the operation that then makes the result.

    The sum adds up either the exponentials of a softmax, or its quotients times other factors.  Unsupported, about
    `subject`, where a part is missing (a maximum, exponentials relative to it, their sum, all along one axis).
    """
    return _Match(program, one, subject).term()


class _Match:
    """Matches the softmax around one sum; raises `refusal` where a part is missing."""

    def __init__(self, program: TensorProgram, one: Statement, subject: str) -> None:
        self.program, self.one, self.subject = program, one, subject
        assert one.reduction is not None
        self.reduced = one.reduction.iterators

    def refusal(self, reason: str) -> Unsupported:
        """The error that says what is missing."""
        return Unsupported("tensor", self.subject, reason)

    def term(self) -> tuple[Weighted, str]:
        """The new term of the sum and its operation."""
        if self.one.guards:
            raise self.refusal(f"{self.one.name} sums under a condition: the largest exponent is that of the whole row")
        if len(self.reduced) != 1:
            raise self.refusal(f"{self.one.name} sums over {', '.join(self.reduced)}: a row has one axis")
        inner = without_casts(self.one.expression)
        if isinstance(inner, Apply) and inner.function == "mul":
            return self._match_weighted(inner), SHIFTED_MEAN
        return Weighted(self._exponent(inner, self.one), "", None), SHIFTED_SUM

    def _match_weighted(self, product: Apply) -> Weighted:
        """The term of a sum of quotients times something."""
        for quotient, factor in (product.operands, product.operands[::-1]):
            made = self._maker(without_casts(quotient))
            if made is None:
                continue
            divided, kept = self._match_quotient(made)
            exponent = self._exponent(without_casts(divided), self.one)
            return Weighted(exponent, kept if kept != "float32" else "", factor)
        raise self.refusal(f"no factor of {self.one.name} is a quotient of exponentials that a statement makes")

    def _match_quotient(self, quotient: Statement) -> tuple[Scalar, str]:
        """What a quotient divides, in the iterators of the sum, and the element type that its result is kept in."""
        value = without_casts(quotient.expression)
        if not isinstance(value, Apply) or value.function != "div":
            raise self.refusal(f"{quotient.name} is not a quotient")
        access = self._read_of(quotient.write.array)
        dividend, divisor = (self._substitute(operand, quotient, access) for operand in value.operands)
        total = self._maker(without_casts(divisor), reduces=True)
        if total is None or total.reduction is None:
            raise self.refusal(f"{quotient.name} does not divide by a sum that a statement makes")
        what = self._total(total, without_casts(divisor))
        if what != self._exponent(without_casts(dividend), self.one):
            raise self.refusal(f"{quotient.name} divides by a sum of other exponentials than its own")
        return dividend, self.program.arrays[quotient.write.array].dtype

    def _total(self, total: Statement, read: Scalar) -> Scalar:
        """The exponents whose exponentials a divisor sums, in the iterators of the sum that uses it."""
        assert isinstance(read, Access) and total.reduction is not None
        if len(total.reduction.iterators) != 1 or total.guards:
            raise self.refusal(f"{total.name} is not the sum of a row")
        inner = without_casts(total.expression)
        if total.reduction.operation == SHIFTED_SUM:
            made = match_weighted(inner)
            found = made.exponent if made is not None and made.factor is None else None
        else:
            found = self._exponent(inner, total) if total.reduction.operation == "sum" else None
        if found is None:
            raise self.refusal(f"{total.name} is not a sum of exponentials")
        return self._substitute(found, total, read, over=self.reduced[0])

    def _exponent(self, value: Scalar, where: Statement) -> Scalar:
        """The x of exp(x - m), in the iterators of `where`; m must be the largest x of the row that `where` reduces."""
        made = self._maker(value)
        if made is not None and isinstance(value, Access):
            value = self._substitute(without_casts(made.expression), made, value)
        if not isinstance(value, Apply) or value.function != "exp":
            raise self.refusal(f"{where.name} adds up {value}, which is no exponential")
        shifted = value.operands[0]
        if not isinstance(shifted, Apply) or shifted.function != "sub":
            raise self.refusal(f"the exponent {shifted} is not relative to a maximum")
        exponent, largest = shifted.operands
        top = self._maker(without_casts(largest), reduces=True)
        if top is None or top.reduction is None or top.reduction.operation != "max" or top.guards:
            raise self.refusal(f"{largest} is not the maximum of a row")
        assert where.reduction is not None
        read = without_casts(largest)
        assert isinstance(read, Access)
        row = self._substitute(top.expression, top, read, over=where.reduction.iterators[0])
        if len(top.reduction.iterators) != 1 or without_casts(row) != without_casts(exponent):
            raise self.refusal(f"{top.name} is the maximum of {row}, the exponents are {exponent}")
        return exponent

    def _maker(self, value: Scalar, reduces: bool = False) -> Statement | None:
        """The one statement that writes the element which is read, whole and element by element."""
        if not isinstance(value, Access) or value.guards:
            return None
        makers = [s for s in self.program.statements if s.write.array == value.array]
        if len(makers) != 1 or not makers[0].covers or (makers[0].reduction is not None) != reduces:
            return None
        plain = all(not i.terms or plain_iterator(i) is not None for i in makers[0].write.indices)
        return makers[0] if plain and not makers[0].guards else None

    def _read_of(self, array: str) -> Access:
        return next(access for access in self.one.reads() if access.array == array)

    def _substitute(self, value: Scalar, made: Statement, read: Access, over: str = "") -> Scalar:
        """An expression of `made` at the element that `read` reads; its reduced iterator becomes `over`."""
        places = {
            name: index
            for written, index in zip(made.write.indices, read.indices, strict=True)
            if (name := plain_iterator(written)) is not None
        }
        if made.reduction is not None:
            reduced = made.reduction.iterators[0]
            extents = {i.name: i.extent for i in self.one.iterators}
            if made.extents[reduced] != extents.get(over, made.extents[reduced]):
                raise self.refusal(f"{made.name} reduces {made.extents[reduced]} elements, {over} has {extents[over]}")
            places |= {reduced: Index.of(over)}
        return rewrite_scalar(value, places, lambda access: access, {**self.one.extents, **made.extents})
