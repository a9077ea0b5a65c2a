"""All probes, the cheap ones first, and what was read by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from . import management, network, power, system, thunderbolt, verbs
from .probe import Probe, Unknown

T = TypeVar("T")

PROBES: tuple[Probe[Any], ...] = (
    system.SYSTEM_VERSION,
    system.SETTINGS,
    system.PAGES,
    system.DISK,
    network.INTERFACES,
    network.ROUTES,
    verbs.RDMA_ENABLED,
    verbs.RDMA_SET,
    verbs.KERNEL_OBJECTS,
    management.FILEVAULT,
    management.JOB,
    management.RANK_PROCESSES,
    management.SYSTEM_REPORTS,
    management.USER_REPORTS,
    power.POWER_SETTINGS,
    network.HARDWARE_PORTS,
    network.SERVICES,
    thunderbolt.RECEPTACLES,
    management.ENROLMENT,
    power.POWER,
    verbs.DEVICES,
    verbs.VERBS_PORTS,
    verbs.JACCL,
)
"""In the order in which they are asked. What is asked first is what others are judged by."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What the probes of one machine have told, by their names. One that was never asked is missing."""

    by_name: Mapping[str, Any] = field(default_factory=dict)

    def of(self, probe: Probe[T]) -> T | None:
        """What a probe told; None where it is not known."""
        told = self.by_name.get(probe.name)
        return None if isinstance(told, Unknown) else cast("T | None", told)

    def hung(self, probe: Probe[T]) -> bool:
        """Whether its tool did not come back when it was asked last."""
        told = self.by_name.get(probe.name)
        return isinstance(told, Unknown) and told.hung

    def unknown(self) -> tuple[tuple[str, str], ...]:
        """What was asked in vain, and why it is not known, for people."""
        return tuple(
            (name, told.reason) for name, told in sorted(self.by_name.items()) if isinstance(told, Unknown)
        )
