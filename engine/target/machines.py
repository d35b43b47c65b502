"""Every machine by name: GPUs, CPUs, and this machine's own CPU."""

from __future__ import annotations

from engine.support.errors import BadInput, Unsupported
from engine.target import DEVICES, Target
from engine.target.cpu import NAMED_CPUS, CpuTarget
from engine.target.host_cpu import HOST, host_cpu

Machine = Target | CpuTarget
"""What a recipe is for."""
CPU_NAMES = (HOST, *NAMED_CPUS)


def is_cpu(name: str) -> bool:
    """Whether a target is a CPU."""
    return name.lower() == HOST or name.lower() in NAMED_CPUS


def refuse_cpu(subject: str, name: str) -> None:
    """Raise Unsupported where a target is a CPU and what is asked for is told of kernels for GPUs."""
    if is_cpu(name):
        raise Unsupported("codegen", subject, f"{name} is a CPU: this is told of kernels for GPUs", "name a GPU")


def cpu(name: str) -> CpuTarget:
    """The CPU of that name; BadInput for another."""
    if name.lower() == HOST:
        return host_cpu()
    found = NAMED_CPUS.get(name.lower())
    if found is None:
        raise BadInput("target", f"target {name}", "is no CPU that is described", f"known: {', '.join(CPU_NAMES)}")
    return found


def machine_titles() -> dict[str, str]:
    """Name of every machine -> what people call it, GPUs first."""
    here = {HOST: f"This machine: {host_cpu().title}"}
    return {**{n: one.title for n, one in DEVICES.items()}, **here, **{n: one.title for n, one in NAMED_CPUS.items()}}


def machine(name: str) -> Machine:
    """The machine of that name; BadInput that lists the known ones where there is none."""
    if is_cpu(name):
        return cpu(name)
    found = DEVICES.get(name.lower())
    if found is None:
        known = ", ".join((*DEVICES, *CPU_NAMES))
        raise BadInput("target", f"target {name}", "no such machine is described", f"known: {known}")
    return found
