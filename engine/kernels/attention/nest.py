"""The loops of an attention after its online rewrite, or of two products with whole rows between them, as their kernel
takes them.

    band batch, query (parallel)                                    band batch, query (parallel)
      band key                                                        band key, depth: scores
        sequence  band depth: scores   |  chain  |  band head: values    chain: in any order that is legal
      after                                                           band key, head: values
                                                                      after
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.fusion.chained_products import chain_of
from engine.fusion.shape import product_operands
from engine.kernels.gemm.row_nest import marks_by_iterator, member_of_all, members_by_iterator
from engine.kernels.loop_nest import Nest, Phase, block_nest, with_plain_rows
from engine.scheduling.nodes import Band, Member, Node, ScheduleTree, Sequence, statements_of, walk
from engine.support.errors import Unsupported
from engine.tensor.nodes import Access, Scalar, Statement, TensorProgram, accesses
from engine.tensor.rewrite import plain_iterator
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, match_weighted


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of one of the two products: what is read, and what is computed from it before it is multiplied."""

    access: Access
    expression: Scalar


@dataclass(frozen=True, slots=True)
class AttentionNest:
    """Statements and dimensions by their part."""

    batch: tuple[Member, ...]
    queries: tuple[Member, ...]
    """Dimensions of the rows of scores; none where there is a single query."""
    key: Member
    depth: tuple[Member, ...]
    heads: tuple[Member, ...]
    """Dimensions that only the second product's values move with."""
    scores: Statement
    chain: tuple[Statement, ...]
    """What is done to each score, in order."""
    values: Statement
    after: tuple[Statement, ...]
    """What is done to each result, in order."""
    query_factor: Factor
    key_factor: Factor
    value_factor: Factor
    rounded: str
    """Element type that each weight is rounded to, "" for none."""
    is_online: bool
    """Whether the weights are those of a softmax whose rows are known only at the end; else `chain` makes them."""

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows of scores are reduced between the products: a block then has all keys at once."""
        return any(s.reduction is not None for s in self.chain)

    @property
    def nest(self) -> Nest:
        """The same as a nest, whose marks a kernel reads."""
        inner = (Phase((self.key, *self.depth), (self.scores,)), Phase((), self.chain))
        return Nest((*self.batch, *self.queries), (*inner, Phase(self.heads, (self.values, *self.after))))


def attention_nest(program: TensorProgram, tree: ScheduleTree) -> AttentionNest:
    """The nest of an attention's schedule; Unsupported where the two products do not share the loop over keys."""
    tree = with_plain_rows(program, tree)
    values = next((s for s in program.statements if s.reduction and s.reduction.operation == SHIFTED_MEAN), None)
    if values is None or values.reduction is None:
        last = [s.name for s in program.statements if s.reduction and product_operands(s.expression)][-1:]
        hint = f"rewrite online {', '.join(last)}" if last else ""
        raise _refusal(program, "the second product waits for the maximum and the sum of a row of scores", hint)
    name = values.reduction.iterators[0]
    node: Node = tree.root
    outer: list[Member] = []
    while isinstance(node, Band) and not _walks(node, values, name):
        outer += node.members
        node = node.child
    inside, after = (node.children[0], node.children[1:]) if isinstance(node, Sequence) else (node, ())
    if not isinstance(inside, Band) or not _walks(inside, values, name) or len(inside.members) != 1:
        raise _refusal(program, f"no loop {name} is around both products", f"pin {name} after the queries")
    statements = [program.statement(s) for s in statements_of(inside)]
    scores, *chain = [s for s in statements if s is not values]
    if statements[-1] is not values or len(set(statements_of(inside))) < 2 or scores.reduction is None:
        raise _refusal(program, f"the loop {name} is around {' '.join(s.name for s in statements)} only")
    whole = {s.name for s in program.statements}
    if any(set(m.rows) != whole or not m.parallel for m in outer):
        raise _refusal(program, "an outer loop is not parallel, or not that of all statements")
    loops = {s.name: _loops_of(inside.child, s.name) for s in (scores, values)}
    loose = [s.name for s in chain if s.reduction or _loops_of(inside.child, s.name)]
    if loose:
        raise _refusal(program, f"{loose[0]} has a loop of its own between the products")
    key, term = inside.members[0], match_weighted(values.expression)
    factors, name_of_key = product_operands(scores.expression), plain_iterator(key.rows[scores.name])
    assert term is not None and term.factor is not None and factors is not None
    query_factor, key_factor = (_factor(factor, scores) for factor in factors)
    # The operator may multiply keys by queries: the loop over keys tells them apart, not their order.
    if name_of_key not in _moving(key_factor.access):
        query_factor, key_factor = key_factor, query_factor
    with_keys = _moving(key_factor.access)
    queries = tuple(m for m in outer if plain_iterator(m.rows[scores.name]) not in with_keys)
    return AttentionNest(
        tuple(m for m in outer if m not in queries), queries, key, loops[scores.name], loops[values.name],
        scores, tuple(chain), values, tuple(program.statement(s) for child in after for s in statements_of(child)),
        query_factor, key_factor, _factor(term.factor, values), term.rounded, True,
    )  # fmt: skip


def chained_nest(program: TensorProgram, tree: ScheduleTree) -> AttentionNest:
    """The nest of a schedule of two products in a row; Unsupported where an iterator has no loop of its own."""
    found, nest = chain_of(program), block_nest(program, tree)
    of_scores, of_values = (_loops_by_iterator(program, nest, one) for one in (found.scores, found.values))
    batch, queries, (key,) = (
        tuple(member_of_all(of_scores[i.name], found.scores, program) for i in side)
        for side in (found.batch, found.queries, (found.key,))
    )
    order = [s for phase in nest.phases for s in phase.statements]
    chain, after = (tuple(s for s in order if s in side) for side in (found.between, found.after))
    weighed = program.arrays[found.weights].dtype
    query_factor, key_factor = (_factor(f, found.scores) for f in product_operands(found.scores.expression) or ())
    if found.key.name not in _moving(key_factor.access):
        query_factor, key_factor = key_factor, query_factor
    return AttentionNest(
        batch, queries, key, tuple(of_scores[i.name] for i in found.scores.reduced),
        tuple(of_values[i.name] for i in found.heads), found.scores, chain, found.values, after,
        query_factor, key_factor, _factor(found.value_factor, found.values),
        "" if weighed == "float32" else weighed, False,
    )  # fmt: skip


def _loops_by_iterator(program: TensorProgram, nest: Nest, statement: Statement) -> dict[str, Member]:
    """The dimension of each iterator of a statement, with the marks on all loops over its axis."""
    marks, members = marks_by_iterator(nest, statement), members_by_iterator(nest, statement)
    missing = [i.name for i in statement.iterators if i.name not in members]
    if missing:
        raise _refusal(program, f"{statement.name} has no loop {missing[0]}", "let each iterator have a loop")
    return {name: replace(member, marks=marks.get(name, ())) for name, member in members.items()}


def _walks(band: Band, values: Statement, key: str) -> bool:
    """Whether a band is the loop over keys of the second product."""
    row = band.members[0].rows.get(values.name)
    return row is not None and plain_iterator(row) == key


def _loops_of(node: Node, statement: str) -> tuple[Member, ...]:
    """The dimensions below a node that move a statement."""
    bands = [band for band in walk(node) if isinstance(band, Band) and statement in statements_of(band)]
    return tuple(m for band in bands for m in band.members if plain_iterator(m.rows[statement]) is not None)


def _factor(expression: Scalar, statement: Statement) -> Factor:
    """A factor and the one array element that it is computed from."""
    read = [a for a in dict.fromkeys(accesses(expression)) if _moving(a)]
    if len(read) != 1 or read[0].guards or any(i.is_indirect for i in read[0].indices):
        reason = f"the factor {expression} is not made from one element of an array"
        raise Unsupported("codegen", statement.name, reason)
    return Factor(read[0], expression)


def _moving(access: Access) -> set[str]:
    return {name for index in access.indices for name in index.iterators()}


def _refusal(program: TensorProgram, reason: str, hint: str = "") -> Unsupported:
    return Unsupported("codegen", f"schedule of {program.name}", reason, hint)
