"""Divisors of a number: what tiles and blocks of equal size may have."""

from __future__ import annotations


def divisors(number: int, most: int) -> tuple[int, ...]:
    """All of a number up to `most`, 1 first.

    >>> divisors(12, 6)
    (1, 2, 3, 4, 6)
    """
    return tuple(n for n in range(1, min(number, most) + 1) if number % n == 0)
