"""Library calls that make again what the window shows: what *Copy as Script* puts on the clipboard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import engine
from app.session.fusion_constraints import FREE, fixed_of
from app.session.named_models import path_of
from app.session.open_request import OpenRequest

HEAD = '''\
"""{title}, as it was in Loomscope."""

import sys

import engine

graph = engine.load({path!r}, dims={dimensions!r})
plan = engine.fuse(graph, target={target!r}{fixed}{numerics})
'''

ONE = """
group = plan.group({group!r})
recipe = engine.replace_advice(engine.default_recipe(group, target={target!r}), group, ADVICE)
kernel = engine.compile(group, recipe)
print(kernel.source.text, end="")

check = engine.check(kernel)
print(f"{{group.name}}: {{check.status}}, {{check.blocks_run}} of {{check.blocks_total}} blocks", file=sys.stderr)
"""

ALL = """
for group in plan.groups:
    recipe = engine.default_recipe(group, target={target!r})
    if group.name in ADVICE:
        recipe = engine.replace_advice(recipe, group, ADVICE[group.name])
    kernel = engine.compile(group, recipe)
    print(kernel.source.text, end="")
    check = engine.check(kernel)
    print(f"{{group.name}}: {{check.status}}, {{check.blocks_run}} of {{check.blocks_total}} blocks", file=sys.stderr)
"""


def group_script(opened: OpenRequest, group: str, advice: str, fixed: str = FREE) -> str:
    """A program that prints the CUDA text of one group under `advice`, and checks it.  fixed: about groups."""
    head = _head(f"{group} of {Path(path_of(opened.path)).name}", opened, fixed)
    return f"{head}\nADVICE = {_literal(advice, '    ')}\n{ONE.format(group=group, target=opened.target)}"


def workspace_script(opened: OpenRequest, advice: Mapping[str, str], fixed: str = FREE) -> str:
    """A program that prints the CUDA text of every group, and checks them; groups without advice get the advisers'."""
    entries = "".join(f"    {group!r}: {_literal(text, '        ')},\n" for group, text in advice.items())
    head = _head(Path(path_of(opened.path)).name, opened, fixed)
    return f"{head}\nADVICE = {{\n{entries}}}\n{ALL.format(target=opened.target)}"


def _head(title: str, opened: OpenRequest, fixed: str) -> str:
    path, groups = str(path_of(opened.path)), _groups(fixed_of(fixed))
    title = title.replace("\\", "/").replace('"', "'")
    numerics = "" if opened.numerics is None else f", numerics={dict(opened.numerics)!r}"
    return HEAD.format(
        title=title, path=path, dimensions=dict(opened.dimensions), target=opened.target, fixed=groups,
        numerics=numerics,
    )  # fmt: skip


def _groups(fixed: engine.Fixed) -> str:
    """The argument of `engine.fuse` that fixes groups; "" where none is fixed."""
    return f", fixed=engine.Fixed(groups={fixed.groups!r}, apart={fixed.apart!r})" if fixed else ""


def _literal(text: str, indent: str) -> str:
    """A text as one string literal a line."""
    lines = "".join(f"{indent}{line!r}\n" for line in text.splitlines(keepends=True))
    return f"(\n{lines or indent + repr('')}{indent[:-4]})"
