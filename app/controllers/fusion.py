"""Controller of fusion edits in the graph: dragging, the card under it, the chooser, commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QObject

from app.controllers.edge_descriptions import boundary_told, link_told, refused_told, short, trial_note
from app.session.fusion_edits import FusionEdits, Pair
from engine.documents.exploration import JOIN, RELEASE, SPLIT, TAKE_OUT, FusionEdit, WhyDoc
from engine.documents.model import EdgeDoc, LinkDoc, NodeDoc, ProblemDoc
from views.fusion.chooser import Chooser, Option
from views.graph.drawing import EdgeLine
from views.graph.handles import Handle
from views.graph.view import GraphView

MERGE, MOVE = "Merge with…", "Move to…"
OFFERED = 8
"""Launches without a connection that are offered: those closest to the one in the order of the launches."""


class FusionController(QObject):
    """Turns gestures and commands on the graph into edits of groups."""

    def __init__(self, view: GraphView, fusing: FusionEdits) -> None:
        super().__init__()
        self.view, self.fusing = view, fusing
        self.workspace = fusing.workspace
        self.chooser = Chooser(view)
        self._line: EdgeLine | None = None
        self._dragged: FusionEdit | None = None
        self._source: Handle = Handle("")
        self._target: Handle | None = None
        self._options: dict[str, tuple[str, FusionEdit]] = {}
        view.tried.connect(self._try)
        view.dropped.connect(self._drop)
        view.edge_selected.connect(self.show_edge)
        view.card.chosen.connect(self._choose)
        view.card.closed.connect(lambda: self.show_edge(None))
        self.chooser.chosen.connect(lambda key: fusing.carry_out(self._options[key][1]))
        fusing.answered.connect(self._on_answer)
        fusing.refused.connect(self._on_refused)
        self.workspace.model_changed.connect(self._forget)

    @property
    def handle(self) -> Handle | None:
        """What commands are about: what was pointed at in the graph, else the first launch of the selected group."""
        group, pointed = self.workspace.bus.selection.group, self.view.scene.look.cursor
        if pointed is not None and pointed.node.rpartition("#")[0] == group:
            return pointed
        node = next((node for node in self._nodes if node.group == group), None)
        return Handle(node.id) if node else None

    def why(self) -> None:
        """Tells about the next edge of what commands are about; asked again, about the one after."""
        handle = self.handle
        if handle is None:
            return
        self.view.canvas.reveal_launch(handle.node)
        lines = self.view.scene.lines_at(handle) or self.view.scene.lines_at(Handle(handle.node))
        if lines:
            keys = [(line.source, line.target) for line in lines]
            present = self.view.scene.look.edge
            self.show_edge(lines[(keys.index(present) + 1) % len(lines) if present in keys else 0])

    def split(self) -> None:
        """Splits a group at the edge that the card describes, else before the operator that is pointed at."""
        handle, line = self.handle, self._line
        if line is not None and line.links:
            self.fusing.carry_out(FusionEdit(SPLIT, (line.links[0].producer, line.links[0].consumer)))
        elif handle is not None and handle.operator:
            self.fusing.carry_out(FusionEdit(SPLIT, (handle.operator,)))
        elif handle is not None:
            self._offer("Split at", [
                (f"{short(link.producer)} → {short(link.consumer)}", FusionEdit(SPLIT, (link.producer, link.consumer)))
                for link in self._links(handle.node)
            ])  # fmt: skip

    def merge(self) -> None:
        """Offers the launches before and after as those to be one kernel with, then some that nothing connects."""
        handle, model = self.handle, self.workspace.model
        if handle is not None and model is not None:
            own = self._node(handle.node)
            near = [(_node_title(other), _join_wish(own, other)) for other in self._neighbours(own.id)]
            free = _launches_beside(model.nodes, model.edges, own.id)
            others = [(f"{_node_title(other)}  ·  beside it", _join_wish(own, other)) for other in free]
            self._offer(MERGE, [*near, *others])

    def move(self) -> None:
        """Offers the launches around an operator as those to move it to, or a kernel of its own."""
        handle = self.handle
        if handle is None:
            return
        own = self._node(handle.node)
        operator = handle.operator or own.operators[-1]
        out = [("a kernel of its own", FusionEdit(TAKE_OUT, (operator,)))] if len(own.operators) > 1 else []
        others = [(_node_title(n), FusionEdit(JOIN, (*n.operators, operator))) for n in self._neighbours(own.id)]
        self._offer(f"{MOVE} {short(operator)}", [*others, *out])

    def release(self) -> None:
        """Leaves the edge that the card describes, the operator or the launch to the search again."""
        handle, line = self.handle, self._line
        pair = self._kept_pair(line) if line is not None else ()
        if pair:
            self.fusing.carry_out(FusionEdit(RELEASE, pair))
        elif handle is not None:
            self.fusing.carry_out(FusionEdit(RELEASE, self._node(handle.node).operators))

    def show_edge(self, line: EdgeLine | None) -> None:
        """Tells about an edge, or no longer."""
        self._line = line
        self.view.scene.mark_edge(line)
        if line is None:
            return
        if line.links:
            self.view.card.show_told(link_told(line.links))
            return
        if self._is_between_launches(line):
            self.fusing.ask(_pair(line))
        self._show_boundary()

    def _show_boundary(self) -> None:
        line = self._line
        if line is None or line.links:
            return
        edge, names = line.tensors[0], tuple(self._title(end) for end in _pair(line))
        known = self.fusing.answer(_pair(line)) if self._is_between_launches(line) else None
        merged = self.fusing.ask(_join_wish(*map(self._node, _pair(line)))) if edge.fixed and known else None
        self.view.card.show_told(boundary_told(edge, line.tensors, names, known, merged))

    def _choose(self, name: str) -> None:
        line = self._line
        if name == "split":
            self.split()
        elif name == "release":
            self.release()
        elif name == "merge" and line is not None and not line.links:
            self.fusing.carry_out(_join_wish(*map(self._node, _pair(line))))

    def _try(self, source: Handle, target: Handle | None) -> None:
        wish = self._dragged = self._wish(source, target)
        self._source, self._target = source, target
        known = self.fusing.ask(wish) if wish else None
        self.view.canvas.show_trial(*trial_note(source, self._title(target.node) if target else "", wish, known))

    def _drop(self, source: Handle, target: Handle | None) -> None:
        wish = self._wish(source, target)
        self._dragged = None
        if wish is not None:
            self.fusing.carry_out(wish)

    def _wish(self, source: Handle, target: Handle | None) -> FusionEdit | None:
        """What dropping one on another asks for; None where it asks for nothing."""
        if target is not None and target.node == source.node:
            return None
        if target is None:
            alone = len(self._node(source.node).operators) < 2
            return FusionEdit(TAKE_OUT, (source.operator,)) if source.operator and not alone else None
        own, other = self._node(source.node), self._node(target.node)
        return FusionEdit(JOIN, (*other.operators, source.operator)) if source.operator else _join_wish(own, other)

    def _on_answer(self, question: FusionEdit | Pair) -> None:
        known = self.fusing.answer(question)
        if isinstance(question, FusionEdit):
            if question == self._dragged and self.view.canvas.is_dragging:
                name = self._title(self._target.node) if self._target else ""
                self.view.canvas.show_trial(*trial_note(self._source, name, question, known))
            self._fill()
            self._show_boundary()
        elif isinstance(known, WhyDoc | ProblemDoc):
            self._show_boundary()

    def _on_refused(self, wish: FusionEdit | None, problem: ProblemDoc) -> None:
        self.show_edge(None)
        self.view.card.show_told(refused_told(wish, problem))

    def _offer(self, title: str, options: Iterable[tuple[str, FusionEdit]]) -> None:
        """Opens the chooser; what is known of each option follows."""
        self._options = {str(number): option for number, option in enumerate(options)}
        self.chooser.open(title)
        self._fill()

    def _fill(self) -> None:
        """Shows what is known of the options, and asks for the next that is not."""
        if not self.chooser.isVisible():
            return
        rows = []
        for key, (title, wish) in self._options.items():
            _, sentence, outcome = trial_note(Handle(""), "", wish, self.fusing.answer(wish))
            rows.append(Option(key, title, sentence, outcome))
        self.chooser.show_options(rows)
        unknown = next((wish for _, wish in self._options.values() if self.fusing.answer(wish) is None), None)
        if unknown is not None:
            self.fusing.ask(unknown)

    def _forget(self) -> None:
        """Edges and choices were about other groups."""
        self._line, self._dragged = None, None
        self.view.canvas.end_drag()
        self.view.scene.mark_edge(None)
        self.view.card.close_card()
        self.chooser.close()

    @property
    def _nodes(self) -> tuple[NodeDoc, ...]:
        return self.workspace.model.nodes if self.workspace.model else ()

    def _node(self, name: str) -> NodeDoc:
        return next(node for node in self._nodes if node.id == name)

    def _links(self, node: str) -> list[LinkDoc]:
        return [link for link in self.workspace.model.links if link.node == node] if self.workspace.model else []

    def _neighbours(self, node: str) -> list[NodeDoc]:
        """The launches that a launch reads from, then those that read from it."""
        model = self.workspace.model
        edges = model.edges if model else ()
        ends = [e.source for e in edges if e.target == node] + [e.target for e in edges if e.source == node]
        known = {each.id: each for each in self._nodes}
        return [known[end] for end in dict.fromkeys(ends) if end in known]

    def _is_between_launches(self, line: EdgeLine) -> bool:
        """Whether there are two kernels to ask about: not at the graph's own ends, nor at an operator without one."""
        return {node.id for node in self._nodes}.issuperset(_pair(line))

    def _title(self, end: str) -> str:
        """What stands at an end of an edge."""
        model = self.workspace.model
        titles = {each.id: each.kind for each in model.uncompiled} if model else {}
        return titles.get(end) or (self._node(end).title if end else "the graph's input or output")

    def _kept_pair(self, line: EdgeLine) -> tuple[str, ...]:
        """The operators at the ends of an edge that are kept apart."""
        edge = next((tensor for tensor in line.tensors if tensor.fixed), None)
        if edge is None:
            return ()
        before, after = self._node(edge.source).operators, self._node(edge.target).operators
        return next((pair for pair in self.fusing.fixed.apart if pair[0] in before and pair[1] in after), ())


def _launches_beside(nodes: Sequence[NodeDoc], edges: Iterable[EdgeDoc], name: str) -> list[NodeDoc]:
    """The launches closest to one that neither need anything of it nor feed it: it can be packed with them."""
    import networkx as nx  # a tenth of the window's start, for what few ask for

    graph = nx.DiGraph()
    graph.add_nodes_from(node.id for node in nodes)
    graph.add_edges_from((e.source, e.target) for e in edges if e.source and e.target)  # "": the graph's own ends
    connected = {name, *nx.ancestors(graph, name), *nx.descendants(graph, name)}
    place = next(n for n, node in enumerate(nodes) if node.id == name)
    free = [(abs(n - place), n) for n, node in enumerate(nodes) if node.id not in connected]
    return [nodes[n] for _, n in sorted(free)[:OFFERED]]


def _node_title(node: NodeDoc) -> str:
    """A launch by its title and its last operator: several may have one title."""
    return f"{node.title}  ·  {short(node.operators[-1])}"


def _join_wish(first: NodeDoc, second: NodeDoc) -> FusionEdit:
    return FusionEdit(JOIN, tuple(dict.fromkeys((*first.operators, *second.operators))))


def _pair(line: EdgeLine) -> Pair:
    """The launches that an edge goes between, in the first copy of what is drawn."""
    return line.tensors[0].source, line.tensors[0].target
