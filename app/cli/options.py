"""What the verbs of the command line share: their options, and how their errors reach the user.

An option without a flag of its own is called as the parameter that it stands at.

The engine and Qt are imported inside functions, so that `--help` is quick.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from app.cli import output
from app.cli.standard_streams import read_file, send_on, written_file
from app.exit_codes import CHECK_FAILED, INTERRUPTED, PIPE_CLOSED

if TYPE_CHECKING:
    from app.cli.compile_job import CompileJob


def one_of(*names: str) -> Callable[[str], list[str]]:
    """What a shell completes the value of an option to."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


File = Annotated[
    str,
    Argument(
        metavar="FILE",
        help="ONNX model, program of torch.export (.pt2), AKG description (.json), saved workspace (.loom), "
        "`example` (the built-in model), "
        "`suite:NAME/ROW` (a benchmark); `-` for standard input.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print one JSON document instead of tables.")]
Csv = Annotated[
    Path | None,
    Option("--csv", metavar="FILE", parser=written_file, help="Write the rows of --json as comma-separated values."),
]
_GPUS = "h200", "h100", "h100-pcie", "a100", "a100-pcie-80", "a100-pcie-40"
_CPUS = "avx2", "skylake-avx512", "sapphire-rapids", "zen4"
_NAMES = f"{', '.join(_GPUS)}; a CPU: cpu (this machine), {', '.join(_CPUS)}"
complete_gpu = one_of(*_GPUS, "cpu", *_CPUS)
Gpu = Annotated[
    str | None,
    Option(metavar="GPU", autocompletion=complete_gpu, help=f"Machine to compile for, h200 by default: {_NAMES}."),
]
Target = Annotated[
    str | None,
    Option(
        metavar="GPU", autocompletion=complete_gpu, help=f"Machine to compile for, the recipe's or else h200: {_NAMES}."
    ),
]
GpuAlone = Annotated[
    str | None,
    Option(
        metavar="GPU", autocompletion=one_of(*_GPUS),
        help=f"Machine to compile for, the recipe's or else h200: {', '.join(_GPUS)}.",
    ),
]  # fmt: skip
"""Of verbs that are told of kernels for GPUs."""
OneSize = Annotated[list[str], Option(metavar="NAME=VALUE", help="Size of a symbolic dimension.")]
"""Of verbs that show a model at one size."""
Dims = Annotated[list[str], Option(metavar="NAME=VALUE", help="Size of a symbolic dimension, or batch=1..64.")]
Numerics = Annotated[
    list[str],
    Option(
        metavar="NAME=WORD",
        autocompletion=one_of("arithmetic=faithful", "arithmetic=opmath", "tensor_cores=tf32"),
        help="How kernels round: arithmetic=opmath (float32 inside a kernel, the default with 16-bit floats) or "
        "arithmetic=faithful (behind every operator); tensor_cores=tf32.",
    ),
]
Group = Annotated[str | None, Option(metavar="NAME", help="Only this group.")]
RecipeFile = Annotated[Path | None, Option(metavar="FILE", parser=read_file, help="Recipe instead of all advisers'.")]
Records = Annotated[list[Path], Option(metavar="DB", parser=read_file, help="Tuning run whose progress is drawn.")]
TreeFile = Annotated[
    Path | None,
    Option(metavar="FILE", parser=read_file, help="Advice for the group: our text, or a published JSON file."),
]
Policy = Annotated[
    str | None,
    Option(
        metavar="NAME",
        autocompletion=one_of("stitch", "xla", "none"),
        help="stitch: the search (default); xla: the rules of XLA's fusion passes; none: a kernel for each operator.",
    ),
]
NOTHING: list[str] = []
NO_PATHS: list[Path] = []
"""What an option that may be repeated is by default."""


def percentage(text: str | float) -> float:
    """ "5" or "5%" as 5.0; typer hands defaults over, too."""
    try:
        value = float(str(text).removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{text} is no percentage of 0 or more")
    return value


def verb(body: Callable[..., bool | None]) -> Callable[..., None]:
    """A command whose engine errors become a message and an exit code, never a traceback; False is a failed check.

    A library that is missing is told as such, a fault of ours with a report file.  An interrupt, and a reader of
    standard output that goes away (`| head`), end it without a word.
    """

    @functools.wraps(body)
    def run(*arguments: Any, csv: Path | None = None, **options: Any) -> None:
        from engine.support.cache import sweep_leftovers
        from engine.support.errors import EngineError, MissingCapability

        failed: EngineError
        try:
            sweep_leftovers()
            with send_on({**options, "csv": csv}, output.send):
                if csv is None:
                    is_good = body(*arguments, **options)
                else:
                    with output.rows_to(csv):
                        is_good = body(*arguments, **{**options, "json": True})
            output.flush()
        except ImportError as error:
            failed = MissingCapability("start", error.name or "a library", str(error), "try `loomscope doctor`")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            output.discard()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            failed = output.io_error(error)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:  # the last resort: any exception becomes a message in place of a traceback
            from engine.support.fault import as_engine_error

            failed = as_engine_error(error, " ".join([body.__name__, *sys.argv[1:]]))
        else:
            if is_good is False:
                raise typer.Exit(CHECK_FAILED)
            return
        output.failure(failed)
        raise typer.Exit(failed.exit_code)

    declared = inspect.signature(body, eval_str=True)
    if "json" in declared.parameters:  # whatever prints rows can write them
        added = inspect.Parameter("csv", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Csv)
        vars(run)["__signature__"] = declared.replace(parameters=[*declared.parameters.values(), added])
    return run


def job(
    file: str, target: str | None = None, dim: list[str] = NOTHING, group: str | None = None,
    recipe: Path | None = None, tree: Path | None = None, numerics: list[str] = NOTHING,
) -> CompileJob:  # fmt: skip
    """What a verb works on, from its operands."""
    from app.cli.compile_job import CompileJob
    from app.session.dimensions import dimensions_of, range_of, words_of

    words = words_of(numerics, "--numerics", "arithmetic=faithful")
    single, sizes = range_of(dim)
    return CompileJob(
        file, target, dimensions_of(single), group, recipe, tree, asked_numerics=words, asked_sizes=sizes
    )
