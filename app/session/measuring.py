"""What the kernels of a target are measured on here: this machine's GPU, or its CPU where they are for one."""

from __future__ import annotations

from dataclasses import dataclass

from app.session.client import MachineProbe
from engine.target.host_cpu import host_cpu
from engine.target.machines import is_cpu


@dataclass(frozen=True, slots=True)
class MeasuringDevice:
    """Whether kernels can be measured, and on what."""

    device: str | None
    """Its name, "" where there is none, None until that is known."""
    lacking: str
    """What keeps this machine from measuring, and what to install."""

    @property
    def can_be(self) -> bool:
        """Whether kernels can be timed here."""
        return bool(self.device) and not self.lacking


def measuring(machine: MachineProbe, target: str) -> MeasuringDevice:
    """For the kernels of a target, which need not be open yet."""
    if is_cpu(target):
        return MeasuringDevice(host_cpu().title, "")
    return MeasuringDevice(machine.gpu, machine.lacking)
