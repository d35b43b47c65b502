"""Verbs about the choices that a tuner searches."""

from __future__ import annotations

from typing import Annotated

import typer

from app.options import NO_DIMS, Dims, File, Group, Json, RecipeFile, Target, job, verb


@verb
def mappings(
    file: File,
    check: Annotated[bool, typer.Option("--check", help="Run their kernels on the CPU and compare.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All mappings, not the cheapest of each intrinsic.")] = False,
    group: Group = None, recipe: RecipeFile = None, target: Target = None, dim: Dims = NO_DIMS, json: Json = False,
) -> None:  # fmt: skip
    """Every way to compute each sum of products by an intrinsic, and why the others cannot."""
    from app import tuning

    if not tuning.mappings(job(file, target, dim, group, recipe), check, every, json):
        raise typer.Exit(1)
