"""The explanation panel: a group's figures, why it is one group, why its neighbours are not in it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from engine.documents.model import GroupDoc, ModelDoc, UncompiledDoc
from views.format import amount, compact_shape, duration, origin_of, plural, published_line
from views.panel import Elided, Panel, label

REASONS_SHOWN = 12
"""Reasons shown of each kind; equal ones count once."""


class ExplainView(Panel):
    """One group in words; the whole model where no group is selected."""

    def __init__(self) -> None:
        super().__init__("Explain")
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setAccessibleName("Explanation")
        self.body_layout.addWidget(self._area)
        self.show_empty("Select a group to see why it is as it is")

    def show_group(self, group: GroupDoc) -> None:
        """Explains a group."""
        page, layout = self._page()
        chips = (plural(group.instances, "instance"), f"{group.bound} bound" if group.bound else group.kind)
        layout.addWidget(_Headline(group.title, chips))
        layout.addLayout(_facts(_group_facts(group)))
        _section(layout, "Others' kernels for the same", [published_line(time) for time in group.published])
        _section(layout, "Why it is one group", (group.because,))
        _section(layout, "Why its neighbours are not in it", group.boundaries)
        self._set(page, layout, group.title)

    def show_model(self, model: ModelDoc) -> None:
        """Sums up the whole model."""
        page, layout = self._page()
        layout.addWidget(_Headline(model.name, (model.target,)))
        kernels = f"{len(model.nodes):,}", f"of {plural(len(model.groups), 'group')}"
        facts = [
            ("Operators", f"{len(model.operators):,}", ""),
            ("Kernels", *(kernels if model.is_planned else ("", "not planned yet"))),
        ]
        if model.total:
            facts.append(("Time", duration(model.total.microseconds), origin_of(model.total)))
        if model.seconds:
            seconds = sum(second for _, second in model.seconds)
            stages = ", ".join(f"{name} {second:.1f}" for name, second in model.seconds)
            facts.append(("Opened in", f"{seconds:.1f} s", stages))
        layout.addLayout(_facts(facts))
        if model.host:
            _section(layout, "On the host", [f"{name}: {what}" for name, what in model.host])
        if model.unsupported:
            _section(layout, "Not compiled", [f"{name}: {reason}" for name, reason in model.unsupported])
        self._set(page, layout, model.name)

    def show_uncompiled(self, operator: UncompiledDoc, model: ModelDoc) -> None:
        """Explains an operator that no kernel computes, and what of the model lies before and behind it."""
        page, layout = self._page()
        layout.addWidget(_Headline(operator.kind, (operator.state,)))
        layout.addLayout(_facts([("Operator", operator.operator, ""), ("Shape", compact_shape(operator.shape), "")]))
        _section(layout, "What the host does" if operator.on_host else "Why no kernel computes it", (operator.because,))
        before = [edge.source for edge in model.edges if edge.target == operator.id]
        behind = [edge.target for edge in model.edges if edge.source == operator.id]
        near = {*before, *behind}
        titles = {node.id: f"{node.title}, {node.group}" for node in model.nodes if node.id in near}
        titles |= {each.id: f"{each.kind}, {each.operator}" for each in model.uncompiled if each.id in near}
        _section(layout, "It waits for", [titles.get(node, "the graph's inputs") for node in before])
        _section(layout, "What waits for it", [titles.get(node, "the graph's outputs") for node in behind])
        self._set(page, layout, operator.kind)

    def _page(self) -> tuple[QWidget, QVBoxLayout]:
        page = QWidget()
        page.setProperty("role", "body")
        page.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        layout = QVBoxLayout(page)
        layout.setContentsMargins(12, 12, 12, 12)
        layout.setSpacing(4)
        return page, layout

    def _set(self, page: QWidget, layout: QVBoxLayout, name: str) -> None:
        layout.addStretch(1)
        read = self._area.verticalScrollBar().value() if name == self.subtitle.text() else 0
        self._area.setWidget(page)
        self._area.verticalScrollBar().setValue(read)
        self.subtitle.setText(name)
        self.show_body()


def _group_facts(group: GroupDoc) -> list[tuple[str, str, str]]:
    facts = [
        ("Shape", compact_shape(group.shape).replace("×", " × "), f"· {group.dtype}"),
        ("Traffic", amount(group.bytes), "read and written once"),
    ]
    if group.flops:
        facts.append(("Work", amount(group.flops, "FLOP"), ""))
    if group.time:
        facts.append(("Time", duration(group.time.microseconds), origin_of(group.time)))
    facts.append(("Floor", duration(group.floor), "to move the traffic once"))
    return facts


class _Headline(QWidget):
    """A title with chips beside it, or below it where there is no room."""

    def __init__(self, title: str, chips: tuple[str, ...]) -> None:
        super().__init__()
        self._parts = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._parts.setContentsMargins(0, 0, 0, 6)
        self._title, beside = label(title, "title", wrap=True), QHBoxLayout()
        beside.setSpacing(6)
        made = [label(chip, "chip") for chip in chips]
        for chip in made:
            beside.addWidget(chip, 0, Qt.AlignmentFlag.AlignTop)
        beside.addStretch(1)
        self._parts.addWidget(self._title, 1)
        self._parts.addLayout(beside)
        self._chips = made

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Beside each other where both fit on one line."""
        super().resizeEvent(event)
        needed = self._title.fontMetrics().horizontalAdvance(self._title.text())
        needed += sum(chip.sizeHint().width() + 6 for chip in self._chips)
        ways = QBoxLayout.Direction
        self._parts.setDirection(ways.LeftToRight if needed + 8 <= self.width() else ways.TopToBottom)


def _facts(facts: list[tuple[str, str, str]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(6)
    grid.setVerticalSpacing(3)
    grid.setColumnMinimumWidth(0, 76)
    grid.setColumnStretch(1, 1)
    for row, (name, value, note) in enumerate(facts):
        grid.addWidget(label(name, "hint"), row, 0)
        cell = QHBoxLayout()
        cell.setSpacing(6)
        cell.addWidget(label(value))
        hint = Elided("hint")
        hint.setText(note)
        cell.addWidget(hint, 1)
        grid.addLayout(cell, row, 1)
    return grid


def _section(layout: QVBoxLayout, title: str, paragraphs: tuple[str, ...] | list[str]) -> None:
    if not paragraphs:
        return
    heading = label(title, "title")
    heading.setContentsMargins(0, 10, 0, 0)
    layout.addWidget(heading)
    shown = list(dict.fromkeys(paragraphs))
    if len(shown) > REASONS_SHOWN:
        shown = [*shown[:REASONS_SHOWN], f"… and {len(shown) - REASONS_SHOWN} more"]
    # One label for all of them: a label each would hold the window up where a group has many neighbours.
    mark = "· " if len(shown) > 1 else ""
    text = label("\n".join(mark + each for each in shown), "paragraph", wrap=True)
    text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    layout.addWidget(text)
