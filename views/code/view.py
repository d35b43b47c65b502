"""The code panel: CUDA text whose lines follow the selected statements, and the PTX and SASS that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QStackedWidget

from engine.documents.model import Check, CompiledDoc, KernelDoc
from engine.documents.pipeline import ListingDoc
from engine.documents.units import kib
from views.code.chips import ChipStrip
from views.code.editor import CodeText
from views.code.find import FindStrip
from views.code.spans import Span, assembly_spans
from views.format import plural
from views.panel import PADDING, Panel, label

CUDA, PTX, SASS = LANGUAGES = ("CUDA", "PTX", "SASS")


class CodeView(Panel):
    """The CUDA text in use; `statements_selected` carries the statements behind the clicked line."""

    statements_selected = Signal(tuple)
    line_selected = Signal(int)
    """Of the CUDA text, also where a line of a listing was clicked."""

    def __init__(self) -> None:
        super().__init__("Code", LANGUAGES)
        self._kernel: KernelDoc | None = None
        self._listing: ListingDoc | None = None
        self._marked: frozenset[int] = frozenset()
        self._on_cpu = False
        self._chips = ChipStrip(32)
        self.text, self.listing = CodeText("CUDA text"), CodeText("Listing")
        self.text.line_selected.connect(self._select)
        self.copy_button = self.add_header_icon("copy", "Copy the CUDA text")
        self.copy_button.clicked.connect(self._copy)
        self.finder = FindStrip(self._chips, self.text, self.listing)
        self.body_layout.addWidget(self._chips)
        self.body_layout.addWidget(self.finder)
        self.listing.line_selected.connect(self._select_in_listing)
        self.mix = label("", "second", wrap=True)
        self.mix.setContentsMargins(PADDING, 6, PADDING, 6)
        self.mix.hide()
        self.pages = QStackedWidget()
        self.pages.addWidget(self.text)
        self.pages.addWidget(self.listing)
        self.body_layout.addWidget(self.mix)
        self.body_layout.addWidget(self.pages, 1)
        self.tab_selected.connect(lambda _: self._show_text())
        self.show_empty("Select a group to see its text")

    def show_languages(self, on_cpu: bool) -> None:
        """What kernels are written in: CUDA C++ with its listings, or the C++ of a CPU."""
        self._on_cpu = on_cpu
        self.tabs[CUDA].setText("C++" if on_cpu else CUDA)
        for name in (PTX, SASS):
            self.tabs[name].setVisible(not on_cpu)
        if on_cpu and self.language != CUDA:
            self.select_tab(CUDA)

    @property
    def language(self) -> str:
        """The tab in front."""
        return next(name for name, button in self.tabs.items() if button.isChecked())

    def show_kernel(self, kernel: KernelDoc, check: Check | None = None) -> None:
        """Shows a kernel's text and what is known about it."""
        changed = self._kernel is None or (self._kernel.cuda, self._kernel.lines) != (kernel.cuda, kernel.lines)
        self._kernel = kernel
        if changed:
            labels = {line.line: _label(line.statements, line.dimensions) for line in kernel.lines}
            self.text.show_cuda(kernel.cuda.rstrip("\n"), labels)
            self._listing, self._marked = None, frozenset()
            self._show_text()
        self._show_chips(kernel, check)
        self.show_body()

    def show_listing(self, listing: ListingDoc | None, because: str = "") -> None:
        """The kernel in the language of the tab in front; None while it is not known, or because it cannot be."""
        changed = listing != self._listing
        self._listing = listing
        if self.language != CUDA and (changed or listing is None):
            self._show_text(because)

    def show_selection(self, statements: Iterable[str]) -> None:
        """Marks the lines of statements, if they are not all of the kernel's."""
        wanted = frozenset(statements)
        lines = self._kernel.lines if self._kernel and wanted else ()
        self.mark([line.line for line in lines if line.statements and wanted.issuperset(line.statements)])

    def mark(self, lines: Iterable[int]) -> None:
        """Marks lines of the CUDA text, in a listing the instructions that they become."""
        self._marked = frozenset(lines)
        self.text.mark(self._marked)
        if self._listing is not None:
            self.listing.mark([own for own, cuda in self._listing.lines if cuda in self._marked])

    def _show_text(self, because: str = "") -> None:
        """The text of the tab in front."""
        if self._kernel is None:
            return
        language = self.language
        self.copy_button.setToolTip(f"Copy the {self.tabs[language].text()} text")
        in_front = self.text if language == CUDA else self.listing
        self.pages.setCurrentWidget(in_front)
        self.finder.turn_to(in_front)
        self.listing.setAccessibleName(f"{language} text")
        is_known = self._listing is not None and self._listing.language == language
        self.mix.setText("\n".join(self._listing.mix) if self._listing and is_known else "")
        self.mix.setVisible(bool(self.mix.text()))
        self.copy_button.setEnabled(bool(self._in_front()))
        self._chips.show_note(self._length())
        if language == CUDA:
            self.mix.hide()
            return
        if self._listing is None or not is_known:
            self.listing.show_text(because or f"{language} is on its way…", {}, _plain)
        else:
            labels = {own: f"{cuda}" for own, cuda in self._listing.lines}
            self.listing.show_text(self._listing.text or self._listing.because, labels, _listing_colours(labels))
            self.mark(self._marked)

    def _select(self, line: int) -> None:
        found = next((each for each in self._kernel.lines if each.line == line), None) if self._kernel else None
        self.statements_selected.emit(found.statements if found else ())
        self.line_selected.emit(line)

    def _select_in_listing(self, line: int) -> None:
        """A line of a listing stands for the line of the CUDA text that it comes from."""
        cuda = dict(self._listing.lines).get(line, 0) if self._listing else 0
        if cuda:
            self.mark((cuda,))
            self.line_selected.emit(cuda)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._in_front())

    def _in_front(self) -> str:
        """The text of the tab in front, "" while it is not known or where there is none."""
        if self.language == CUDA:
            return self._kernel.cuda if self._kernel else ""
        known = self._listing
        return known.text if known is not None and known.language == self.language else ""

    def _length(self) -> str:
        text = self._in_front().rstrip("\n")
        return plural(text.count("\n") + 1, "line") if text else ""

    def _show_chips(self, kernel: KernelDoc, check: Check | None) -> None:
        chips = [] if self._on_cpu else [label(text, "chip") for text in _chips(kernel)]
        if check:
            chip = label(_check_chip(check), "chip" if check.status == "pass" else "wrong")
            error = f"largest error {check.max_error:.2g}, tolerance {check.tolerance:.2g}"
            chip.setToolTip(f"{check.message}\n{error}: {check.tolerance_because}")
            chips.insert(0, chip)
        self._chips.show_chips(chips, self._length())


def _plain(line: int, text: str) -> Iterable[Span]:
    """A sentence in place of a listing."""
    return ((0, len(text), "text-2"),)


def _listing_colours(labels: Mapping[int, str]) -> Callable[[int, str], Iterable[Span]]:
    """Instructions that no line of the CUDA text stands for are quieter."""
    return lambda line, text: (*(() if line in labels else _plain(line, text)), *assembly_spans(text))


def _label(statements: tuple[str, ...], dimensions: tuple[str, ...]) -> str:
    """At most five characters: the statement, the first of several, or the loop."""
    if len(statements) == 1:
        return statements[0][:5]
    return f"{statements[0][:4]}…" if statements else dimensions[-1][:5] if dimensions else ""


def _chips(kernel: KernelDoc) -> list[str]:
    chips = [_compiled_text(each) for each in kernel.compiled[-1:]]
    shared_bytes = max((one.shared_bytes for one in kernel.launches), default=0)
    chips.append(f"{kib(shared_bytes)} shared" if shared_bytes else "no shared memory")
    if len(kernel.launches) > 1:
        chips.append(" then ".join(f"{one.blocks:,} x {one.threads}" for one in kernel.launches))
    if kernel.stages > 1:
        chips.append(plural(kernel.stages, "stage"))
    return chips


def _compiled_text(figures: CompiledDoc) -> str:
    spills = f"{figures.spill_bytes} B spilled" if figures.spill_bytes else "no spills"
    return f"{plural(figures.registers, 'register')}, {spills}, {figures.architecture}"


def _check_chip(check: Check) -> str:
    blocks = f"{check.blocks_run:,} of {plural(check.blocks_total, 'block')}"
    return f"✓ checked, {blocks}" if check.status == "pass" else f"✕ {check.status}, {blocks}"
