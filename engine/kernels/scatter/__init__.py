"""Scatters: each element of the result is joined with the updates whose index names it."""
