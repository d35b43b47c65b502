"""What the worker's machine can do."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.session.client import Client, Pending


class MachineProbe(QObject):
    """Asks once, when the window starts."""

    changed = Signal()

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.gpu: str | None = None
        """Its name, "" without one, None until the worker has answered."""
        self.lacking = ""
        """What keeps this machine from measuring, and what to install."""

    @property
    def can_measure(self) -> bool:
        """Whether kernels can be timed here."""
        return bool(self.gpu) and not self.lacking

    def look(self) -> None:
        """Asks the worker."""
        pending = Pending(None, self._on_machine, lambda _: self._on_machine({}))
        self._client.request("machine", {}, "Looking at this machine", pending)

    def _on_machine(self, answer: dict[str, str]) -> None:
        self.gpu, self.lacking = answer.get("gpu", ""), answer.get("lacking", "")
        self.changed.emit()
