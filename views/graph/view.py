"""The graph panel: pan, zoom, open layers, select groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from PySide6.QtCore import Signal

from engine.documents.model import ModelDoc, Time
from views.format import plural
from views.fusion.card import FusionCard
from views.graph.canvas import Canvas
from views.graph.scene import GraphScene
from views.hierarchy import groups_by_name
from views.overview import Overview
from views.panel import Elided, Panel, bar, label
from views.theme import Theme, load_theme

ORIGINS = {
    "predicted": ("▭", "Hollow bars are predicted times"),
    "measured": ("▬", "Filled bars are measured times"),
    "synthetic": ("┅", "Dashed bars are made-up times"),
}
"""Origin -> its mark, and the tool tip."""


class GraphView(Panel):
    """The fusion plan; `group_selected` carries the name of the clicked group."""

    group_selected = Signal(str)
    uncompiled_selected = Signal(str)
    """Id of an operator that no kernel computes."""
    pointed = Signal(object)
    """The Handle of the launch or operator that commands are about from now on."""
    edge_selected = Signal(object)
    """A Line that was clicked."""
    tried = Signal(object, object)
    """While it is dragged: the Handle of what, and the Handle of what it is over (None: of nothing)."""
    dropped = Signal(object, object)

    def __init__(self) -> None:
        super().__init__("Graph")
        self.scene = GraphScene(load_theme("dark"))
        self.canvas = Canvas(self.scene)
        self.canvas.group_selected.connect(self.group_selected)
        self.canvas.uncompiled_selected.connect(self.uncompiled_selected)
        self.canvas.pointed.connect(self.pointed)
        self.canvas.edge_selected.connect(self.edge_selected)
        self.canvas.tried.connect(self.tried)
        self.canvas.dropped.connect(self.dropped)
        self.card = FusionCard()
        self.fit_button = self.add_header_icon("fit", "Fit the whole graph (0)")
        self.fit_button.clicked.connect(self.canvas.fit_all)
        strip, layout = bar("subheader", 32)
        self.name = Elided("title", hug=True)
        self.counts = label("", "chip")
        self.origin = label("▭ predicted", "outline-chip")
        layout.addWidget(self.name, 100)  # before the gap, up to its own width: a long name makes no panel wide
        layout.addWidget(self.counts)
        layout.addStretch(1)
        layout.addWidget(self.origin)
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(self.canvas, 1)
        self.body_layout.addWidget(self.card)
        self.show_empty("The graph of the opened model appears here")

    def show_model(self, overview: Overview, keep: bool = False) -> None:
        """Replaces the graph; with `keep`, of other groups of the same model, what is open and in sight stays."""
        model = overview.model
        self.name.setText(model.name)
        launches = f" → {plural(len(model.nodes), 'kernel')}" if model.is_planned else ", no kernels yet"
        self.counts.setText(f"{plural(len(model.operators), 'operator')}{launches}")
        self.show_body()
        if not keep:
            self.canvas.fit_when_built()
        self.scene.show_model(overview, keep)

    def show_selection(self, group: str) -> None:
        """Marks a group's boxes; scrolls only if none of them is in sight."""
        self.scene.look.selected, self.scene.look.uncompiled = group, ""
        self.scene.update()
        self.canvas.reveal(group)
        self.canvas.minimap.update()

    def show_uncompiled(self, operator: str) -> None:
        """Marks an operator that no kernel computes."""
        self.scene.look.uncompiled = operator
        self.scene.update()

    def show_found(self, groups: Collection[str]) -> None:
        """Dims everything but the groups that a search found; nothing found means no search."""
        self.scene.look.found = frozenset(groups)
        self.scene.update()

    def set_colour_by(self, what: str) -> None:
        """ "time", "measured", "traffic" or "bound"."""
        self.scene.look.show(what)
        self._show_origin()

    def show_groups(self, model: ModelDoc) -> None:
        """Figures of the same groups under their present advice."""
        self.scene.look.groups = groups_by_name(model)
        self.scene.update()

    def show_times(
        self, predicted: Mapping[str, Time], predicted_where: str, measured: Mapping[str, Time], measured_where: str
    ) -> None:
        """Puts times on the nodes: those of the origin that is shown; `..._where` says where they come from."""
        look = self.scene.look
        look.predicted, look.predicted_where = predicted, predicted_where
        look.measured, look.measured_where = measured, measured_where
        look.show(look.colour_by)
        self._show_origin()

    def _show_origin(self) -> None:
        look = self.scene.look
        mark, tip = ORIGINS[look.origin]
        self.origin.setText(f"{mark} {look.origin}")
        self.origin.setToolTip(tip)
        self.scene.update()
        self.canvas.legend.update()

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        super().show_theme(theme)
        self.scene.look.theme = theme
        self.scene.update()
