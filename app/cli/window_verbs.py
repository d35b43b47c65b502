"""Verbs that show the window, on a display or as a picture."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from app.cli import output
from app.cli.options import NOTHING, File, Gpu, OneSize, one_of
from app.cli.standard_streams import read_file, written_file
from app.shell.panels import PANELS, PERSPECTIVES
from app.shell.sigint import note_interrupts

_PANELS = [panel.name for panel in PANELS]
_PERSPECTIVES = [name.lower() for name in PERSPECTIVES]


def open_(
    file: Annotated[str | None, Argument(metavar="FILE", help="What to open, else the example.")] = None,
    target: Gpu = None,
    dim: OneSize = NOTHING,
) -> None:
    """Open the window."""
    from app.cli.doctor import display
    from app.session.dimensions import dimensions_of
    from app.session.named_models import EXAMPLE
    from engine.support.errors import MissingCapability

    if not display():
        hint = "`loomscope render FILE -o PNG` draws the window without one; `loomscope verify FILE` checks kernels"
        raise MissingCapability("window", "display", "this machine has none, so no window can open", hint)
    gc.disable()  # what is imported stays; once there is a window, `app.shell.gc_control` collects
    with note_interrupts():  # also while Qt is imported, which an exception would abort
        from app.shell.main import run

        code = run(file or EXAMPLE, target=target, dimensions=dimensions_of(dim))
    raise typer.Exit(code)


def render(
    file: File,
    out: Annotated[Path, Option("-o", "--output", metavar="FILE", parser=written_file, help="Picture: .png, or .svg.")],
    panel: Annotated[
        str | None,
        Option(metavar="NAME", autocompletion=one_of(*_PANELS), help=f"Only this one: {', '.join(_PANELS)}."),
    ] = None,
    perspective: Annotated[
        str,
        Option(metavar="NAME", autocompletion=one_of(*_PERSPECTIVES), help=f"One of {', '.join(_PERSPECTIVES)}."),
    ] = "explore",
    size: Annotated[str, Option(metavar="WxH", help="Pixels.")] = "1440x900",
    theme: Annotated[
        str, Option(metavar="NAME", autocompletion=one_of("dark", "light"), help="dark or light.")
    ] = "dark",
    group: Annotated[str | None, Option(metavar="NAME", help="The dearest one by default.")] = None,
    tab: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Of schedule: tree, iteration space, decisions, addresses, pipeline; code: cuda, ptx, "
            "sass; timing: kernels, prediction, live, roofline; "
            "tuning: progress, estimate vs. result (or promise), dimensions, ablation, "
            "two runs.",
        ),
    ] = "tree",
    advice: Annotated[Path | None, Option(metavar="FILE", parser=read_file, help="Entries to add, as text.")] = None,
    replay: Annotated[Path | None, Option(metavar="FILE", parser=read_file, help="Recorded times to show.")] = None,
    records: Annotated[Path | None, Option(metavar="DB", parser=read_file, help="Tuning run to show.")] = None,
    against: Annotated[
        Path | None, Option(metavar="DB", parser=read_file, help="Run to compare it with: --tab 'two runs'.")
    ] = None,
    what_if: Annotated[list[str], Option(metavar="NAME=VALUE", help="Of the pipeline: stages=3.")] = NOTHING,
    tile: Annotated[int | None, Option(metavar="N", help="Tile to select in the pipeline.")] = None,
    target: Gpu = None,
    dim: OneSize = NOTHING,
) -> None:
    """Draw the window as a picture; no display is needed."""
    from app.session.dimensions import dimensions_of, numbers_of

    with note_interrupts():  # also while Qt is imported, which an exception would abort
        from app.shell.render import PictureOptions, size_of
        from app.shell.render import render as draw

        wanted = PictureOptions(
            size_of(size), theme, panel, perspective, tab, group, advice, replay, records, against,
            numbers_of(what_if, "--what-if", "stages=3"), tile, target, dimensions_of(dim),
        )  # fmt: skip
        draw(file, out, wanted)
    output.say(f"{out}")
