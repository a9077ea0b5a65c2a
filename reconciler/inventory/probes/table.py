"""All probes, the cheap ones first, and their readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from . import engine, management, network, power, system, thunderbolt, upkeep, verbs
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
    management.PANICS,
    power.POWER_SETTINGS,
    network.HARDWARE_PORTS,
    network.SERVICES,
    thunderbolt.RECEPTACLES,
    management.ENROLMENT,
    upkeep.FIREWALL,
    upkeep.UPDATES,
    upkeep.INDEX,
    upkeep.BACKUP,
    power.POWER,
    verbs.DEVICES,
    verbs.VERBS_PORTS,
    engine.ENGINE,
)
"""All probes, in the order of their runs: followed probes come first."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The newest results of one machine's probes, by name. A probe that has never run is missing."""

    by_name: Mapping[str, Any] = field(default_factory=dict)

    def of(self, probe: Probe[T]) -> T | None:
        """Return the result of a probe; None if unknown."""
        reading = self.by_name.get(probe.name)
        return None if isinstance(reading, Unknown) else cast("T | None", reading)

    def hung(self, probe: Probe[T]) -> bool:
        reading = self.by_name.get(probe.name)
        return isinstance(reading, Unknown) and reading.hung

    def unknown(self) -> tuple[tuple[str, str], ...]:
        """Return the failed probes with their reasons, for people."""
        return tuple(
            (name, reading.reason)
            for name, reading in sorted(self.by_name.items())
            if isinstance(reading, Unknown)
        )
