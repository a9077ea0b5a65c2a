"""A machine in one line: its state, and its use of memory, processors and power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers
from reconciler.wire.objects import Mac, Node, NodeStatus

from .operation import words
from .state import doing, state_of

FULL = 0.9
"""Part of the memory above which a meter is amber."""
WATTS = (50, 100, 200, 400)
"""Possible ends of the scale of power: the first that fits all machines is used."""


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    state: str
    text: str
    models: tuple[str, ...]
    """Deployments that have a rank on it."""
    memory_bytes: int | None
    used_bytes: int | None
    short: bool
    """True if its memory is nearly full, or the system reports pressure."""
    cpus: int | None
    load: float | None
    watts: float | None
    gpu_use: float | None
    """Part of the time in which its GPU works."""
    throttled: bool
    """True if heat slows it down: a Mac reports this, but no temperature."""
    host: str
    """Equal for nodes that share a machine, and so its memory."""
    system: str
    standing: str
    """The operations in force on it; empty for none."""

    @property
    def used(self) -> float | None:
        """The part of its memory that is in use; None if unknown."""
        return (
            self.used_bytes / self.memory_bytes if self.used_bytes is not None and self.memory_bytes else None
        )


def machines(snapshot: Snapshot) -> tuple[Machine, ...]:
    use = {row["name"]: row for row in snapshot.usage["nodes"]}
    models: dict[str, dict[str, None]] = {}
    for rank in snapshot.ranks:
        models.setdefault(rank["node"], {})[rank["deployment"]] = None
    unknown = cast(answers.NodeUsage, {})
    named = ((each["metadata"]["name"], each) for each in snapshot.nodes)
    return tuple(_machine(each, use.get(name, unknown), tuple(models.get(name, ()))) for name, each in named)


def scale(found: tuple[Machine, ...]) -> int:
    """Return the end of the power scale for these machines, in watts."""
    most = max((each.watts or 0.0 for each in found), default=0.0)
    return next((end for end in WATTS if most <= end), WATTS[-1])


def _machine(each: Node, use: answers.NodeUsage, models: tuple[str, ...]) -> Machine:
    """``use``: empty if it is not known."""
    status = each["status"]
    total, used = use.get("memoryBytes") or status.get("memoryBytes"), use.get("memoryUsedBytes")
    full = bool(total and used is not None and used / total > FULL)
    return Machine(
        name=each["metadata"]["name"],
        state=state_of(each),
        text=doing(each, "seen"),
        models=models,
        memory_bytes=total,
        used_bytes=used,
        short=full or use.get("pressure", "") not in ("", "normal"),
        cpus=use.get("cpus") or status.get("cpus"),
        load=use.get("load"),
        watts=use.get("gpuWatts"),
        gpu_use=use.get("gpuUse"),
        throttled=(status.get("mac") or Mac()).get("throttled", False),
        host=use.get("host") or each["metadata"]["name"],
        system=_system(status),
        standing=words(each),
    )


def _system(status: NodeStatus) -> str:
    mac = status.get("mac")
    if mac and "chip" in mac:
        return f"{mac['chip']}, macOS {mac.get('macOS', 'unknown')}"
    return status.get("system", "")
