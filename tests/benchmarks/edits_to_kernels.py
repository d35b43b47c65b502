"""How many legal edits of a constraint tree become kernels: `python -m tests.benchmarks.edits_to_kernels [--seed N]`.

Draws groups of all families from the shared models, AKG's operators, our own models and random programs, and puts one
or two random required entries under each group's default advice.  An edit is legal when some schedule keeps all
dependences and all required entries.  Counts how many of the legal ones have a kernel, prints every refusal with its
reason, emulates kernels that changed against the reference, and compares predicted times with the unedited kernel's
where no loop became sequential.  Two shares: entries of every field, and entries about coefficients alone (sum, scale,
reverse, constant, shift, skew).

Which changed kernels are emulated is drawn, too; a process for each core does it, one group's after the other.  Large
kernels run a sample of their blocks and all of a smaller size, as `check` does everywhere.  One that takes longer than
a limit even so (one thread has all the work) is told, counted as slow, and another one takes its place.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import engine
from engine import EngineError
from engine.cost.estimate import model_microseconds
from engine.execution.nodes import Check
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Entry, Recipe
from engine.scheduling.nodes import Band, walk
from engine.scheduling.untaken_entries import NoKernel, NotTaken
from engine.support.errors import Illegal
from engine.tensor.nodes import Statement
from tests.benchmarks import report
from tests.everything.files import files
from tests.explore.groups import made_of
from tests.support.checked_programs import check_program
from tests.support.random_programs import random_program

OWN = Path(__file__).resolve().parents[2] / "resources" / "models"
FIELDS = ("pin", "cut", "parallel", "equal", "objective", "split", "mark", "sum", "scale", "reverse", "constant")
COEFFICIENTS = ("sum", "scale", "reverse", "constant", "shift", "skew")
MARKED = ("thread", "block", "vector", "unroll")
PER_GROUP = 4
"""Edits of each kind of draw."""
PER_FILE = 4
"""Groups of one file at the most."""
SECONDS = 60.0
"""Of one kernel's emulation in one order of threads, at most."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What became of one edit."""

    group: str
    entries: str
    coefficients: bool
    outcome: str
    """"kernel", "refused" (legal, but no kernel), "illegal", or "unclear" where the entries say nothing here."""
    family: str = ""
    because: str = ""
    ratio: float | None = None
    """Predicted time by that of the unedited kernel; None where a parallel loop was lost."""
    check: str = ""
    """"pass", "fail", or "slow" past `SECONDS`; "" where it was not asked."""
    seconds: float = 0.0
    """That the check took."""
    blocks: str = ""
    """How many of the kernel's blocks ran at its own size: "12 of 4096"."""


def groups(draw: random.Random, number: int) -> Iterator[tuple[str, FusionGroup]]:
    """(name, group) from files in random order, then from random programs."""
    found = [(path.stem, path) for _, path in files()] + [(path.stem, path) for path in sorted(OWN.glob("*.onnx"))]
    draw.shuffle(found)
    left = number - number // 6
    for name, path in found:
        if left <= 0:
            break
        try:
            plan = engine.fuse(engine.load(str(path)))
        except EngineError:
            continue  # a file that the engine does not take is another benchmark's business
        kinds = list({group.kind: group for group in draw.sample(plan.groups, len(plan.groups))}.values())
        for group in kinds[: min(PER_FILE, left)]:
            left -= 1
            yield f"{name} {group.name}", group
    for _ in range(number // 6):
        program = random_program(draw.randrange(10**6))
        kind = "row reduction" if any(s.reduction for s in program.statements) else "element-wise"
        yield program.name, made_of(program, kind)


def draw_entry(draw: random.Random, statements: Sequence[Statement], kind: str) -> Entry | None:
    """A random required entry; None where the statements have no room for one of that kind."""
    statement = draw.choice([s for s in statements if s.iterators] or list(statements))
    names = [iterator.name for iterator in statement.iterators]
    if not names:
        return None
    name, other = draw.choice(names), draw.choice(names)
    at = draw.choice(["outermost", "innermost", name])
    pair = [s.name for s in draw.sample(list(statements), min(2, len(statements)))]
    make: dict[str, Callable[[], Entry | None]] = {
        "pin": lambda: engine.entry(statement.name, pin=name, at=at, required=True),
        "cut": lambda: _cut(draw, statements, at),
        "parallel": lambda: engine.entry(statement.name, parallel=draw.random() < 0.5, at=at, required=True),
        "equal": lambda: engine.entry(equal=(pair[0], pair[-1]), at=at, required=True) if len(pair) > 1 else None,
        "objective": lambda: engine.entry(statement.name, objective=((name, 1),), at=at, required=True),
        "split": lambda: engine.entry(statement.name, split=2 ** draw.randint(1, 5), at=at, required=True),
        "mark": lambda: engine.entry(
            statement.name, mark=(draw.choice(MARKED), 2 ** draw.randint(0, 8)), at=at, required=True
        ),
        "sum": lambda: (
            engine.entry(statement.name, terms=((name, 1), (other, 1)), at=at, required=True)
            if name != other else None
        ),
        "scale": lambda: engine.entry(statement.name, terms=(statement.name, name, 2), at=at, required=True),
        "reverse": lambda: engine.entry(statement.name, terms=(statement.name, name, -1), at=at, required=True),
        "constant": lambda: engine.entry(
            statement.name, terms=(statement.name, "const", draw.randint(1, 4)), at=at, required=True
        ),
        "shift": lambda: engine.entry(statement.name, terms="shift", at=at, required=True),
        "skew": lambda: engine.entry(statement.name, terms="skew", at=at, required=True),
    }  # fmt: skip
    return make[kind]()


def _cut(draw: random.Random, statements: Sequence[Statement], at: str) -> Entry | None:
    if len(statements) < 2:
        return None
    place = draw.randrange(1, len(statements))
    parts = tuple(s.name for s in statements[:place]), tuple(s.name for s in statements[place:])
    return engine.entry(cut=parts, at=at, required=True)


def try_edit(
    name: str, group: FusionGroup, plain: Kernel, recipe: Recipe, entries: Sequence[Entry], coefficients: bool
) -> tuple[Edit, Kernel | None]:
    """The outcome of one edit, and its kernel."""
    text = "; ".join(map(str, entries))
    try:
        kernel = engine.compile(group, recipe.advise("user", *entries, group=group.name))
    except (NotTaken, NoKernel) as refused:
        return Edit(name, text, coefficients, "refused", because=str(refused)), None
    except Illegal as illegal:
        return Edit(name, text, coefficients, "illegal", because=str(illegal)), None
    except EngineError as refused:
        return Edit(name, text, coefficients, "unclear", because=str(refused)), None
    ratio = None
    if _parallel(kernel) >= _parallel(plain):
        machine = plain.target
        ratio = model_microseconds(kernel.facts, machine) / model_microseconds(plain.facts, machine)
    return Edit(name, text, coefficients, "kernel", kernel.family, ratio=ratio), kernel


def _parallel(kernel: Kernel) -> int:
    """Parallel dimensions of a schedule."""
    bands = [node for node in walk(kernel.schedule.root) if isinstance(node, Band)]
    return sum(member.parallel for band in bands for member in band.members)


def make_edits(seed: int, number: int, tell: Callable[[str], None]) -> tuple[list[Edit], dict[int, Kernel]]:
    """All edits of a seed, and by their numbers the kernels that they changed.  number: of groups."""
    draw = random.Random(seed)
    edits: list[Edit] = []
    changed: dict[int, Kernel] = {}
    for name, group in groups(draw, number):
        recipe = engine.default_recipe(group)
        try:
            plain = engine.compile(group, recipe)
        except EngineError as refused:
            tell(f"{name}: no kernel unedited: {refused}")
            continue
        for coefficients, kinds in ((False, FIELDS), (True, COEFFICIENTS)):
            for _ in range(PER_GROUP):
                some = draw.choices(kinds, k=draw.randint(1, 2))
                drawn = [draw_entry(draw, group.program.statements, kind) for kind in some]
                entries = [entry for entry in drawn if entry is not None]
                if not entries:
                    continue
                edit, kernel = try_edit(name, group, plain, recipe, entries, coefficients)
                if kernel is not None and kernel.source.text != plain.source.text:
                    changed[len(edits)] = kernel
                if edit.outcome == "refused":
                    tell(f"refused {name}: {edit.entries}: {edit.because}")
                edits.append(edit)
    return edits, changed


def check_all(
    edits: list[Edit], changed: Mapping[int, Kernel], wanted: int, draw: random.Random, tell: Callable[[str], None]
) -> None:
    """Emulate some of the changed kernels, and write into their edits what came of it.  wanted: how many, not slow."""
    waiting = draw.sample(sorted(changed), len(changed))
    done = 0
    # The processes have the kernels by being forked: as the same objects, whose reference values they keep.
    with ProcessPoolExecutor(mp_context=get_context("fork"), initializer=_KERNELS.update, initargs=(changed,)) as pool:
        while waiting and done < wanted:
            now, waiting = waiting[: wanted - done], waiting[wanted - done :]
            of_group: dict[str, list[int]] = {}
            for number in now:
                of_group.setdefault(edits[number].group, []).append(number)
            for future in as_completed([pool.submit(_check_group, numbers) for numbers in of_group.values()]):
                for number, status, message, blocks, seconds in future.result():
                    edits[number] = edit = replace(edits[number], check=status, blocks=blocks, seconds=seconds)
                    done += status != "slow"
                    if status != "pass":
                        tell(f"CHECK {edit.group}: {edit.entries}: {status} after {seconds:.0f} s: {message}")
                tell(f"{done} of {wanted} kernels checked, now {edit.group}")


_KERNELS: dict[int, Kernel] = {}
"""Of a process that checks."""


def _check_group(numbers: Sequence[int]) -> list[tuple[int, str, str, str, float]]:
    """(number, status, message, blocks, seconds) of kernels of one group."""
    found = []
    for number in numbers:
        started = time.monotonic()
        kernel = _KERNELS[number]
        check = check_program(kernel, SECONDS) if kernel.group.graph is None else engine.check(kernel, timeout=SECONDS)
        is_slow = bool(check.findings) and all(finding.kind == "hang" for finding in check.findings)
        blocks = f"{check.blocks_run} of {check.blocks_total}"
        found.append((number, "slow" if is_slow else check.status, _message(check), blocks, time.monotonic() - started))
    return found


def _message(check: Check) -> str:
    return "; ".join(f"{finding.kind}: {finding.message}" for finding in check.findings) or check.message


def summarize(edits: Sequence[Edit]) -> dict[str, object]:
    """The figures of a run."""

    def share(some: Sequence[Edit]) -> float | None:
        legal = [edit for edit in some if edit.outcome in ("kernel", "refused")]
        return sum(edit.outcome == "kernel" for edit in legal) / len(legal) if legal else None

    general = [edit for edit in edits if not edit.coefficients]
    legal = [edit for edit in edits if edit.outcome in ("kernel", "refused")]
    checked = [edit for edit in edits if edit.check not in ("", "slow")]
    ratios = [edit.ratio for edit in edits if edit.ratio is not None]
    return {
        "legal": len(legal),
        "generated": sum(edit.outcome == "kernel" for edit in edits),
        "share": share(general),
        "coefficients_share": share([edit for edit in edits if edit.coefficients]),
        "illegal": sum(edit.outcome == "illegal" for edit in edits),
        "unclear": sum(edit.outcome == "unclear" for edit in edits),
        "checked": len(checked),
        "passed": sum(edit.check == "pass" for edit in checked),
        "checked_in_all_blocks": sum(edit.blocks.split(" of ")[0] == edit.blocks.split(" of ")[1] for edit in checked),
        "too_slow_to_check": sum(edit.check == "slow" for edit in edits),
        "predicted_ratio_median": median(ratios) if ratios else None,
        "families": dict(Counter(edit.family for edit in edits if edit.family)),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.edits_to_kernels", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", type=int, default=36, help="groups to draw (default 36)")
    parser.add_argument("--checks", type=int, default=40, help="changed kernels to emulate (default 40)")
    parser.add_argument("--json", type=Path, help="write rows and figures to this file")
    options = parser.parse_args(arguments)
    tell = partial(print, flush=True)
    started = time.monotonic()
    edits, changed = make_edits(options.seed, options.groups, tell)
    made = time.monotonic()
    tell(f"{len(edits)} edits of {len({edit.group for edit in edits})} groups in {made - started:.0f} s")
    check_all(edits, changed, options.checks, random.Random(options.seed), tell)
    summary = summarize(edits) | {"compile_seconds": made - started, "check_seconds": time.monotonic() - made}
    if options.json:
        rows = [asdict(edit) for edit in edits]
        report.write(options.json, "edits_to_kernels", report.environment("islpy"), rows, summary)
    print("\n".join(report.figures_in_words(summary)))
    return 0 if summary["checked"] == summary["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
