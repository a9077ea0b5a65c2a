"""Power: whether the machine may fall asleep, the power of its GPU, and whether heat slows it down."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reconciler.wire import repair
from reconciler.wire.tools import RunTool, ToolSaid

from .probe import Probe, Unknown, failed, number, of_complete, unlike


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """Settings from ``pmset``; None means unknown. Minutes, 0 means never."""

    sleep_minutes: int | None = None
    disk_sleep_minutes: int | None = None
    sleep_disabled: bool | None = None
    """True if sleep is disabled for the machine, whatever the minutes."""
    low_power: bool | None = None
    restarts: bool | None = None
    """True if it starts again after a power failure."""

    @property
    def sleeps(self) -> bool | None:
        """Return whether it may fall asleep while nobody uses its keyboard: RDMA does not wake it."""
        if self.sleep_disabled:
            return False
        return None if self.sleep_minutes is None else self.sleep_minutes > 0


@of_complete
def power_settings(text: str) -> PowerSettings | Unknown:
    """Parse ``pmset -g``: names, which may contain spaces, numbers, and remarks in parentheses."""
    names = ("sleep", "disksleep", "SleepDisabled", "lowpowermode", "autorestart")
    sleep, disk, disabled, low, restarts = (
        number(text, rf"^ ?{name}[ \t]+([0-9]+)(?=[ \t]*(?:\(|$))") for name in names
    )
    found = PowerSettings(
        sleep, disk, *(None if value is None else value == 1 for value in (disabled, low, restarts))
    )
    return unlike(text, "lines such as ' sleep  1'") if found == PowerSettings() else found


@dataclass(frozen=True, slots=True)
class Power:
    """Power, from ``powermetrics``; None means unknown."""

    gpu_milliwatts: int | None = None
    gpu_busy_percent: float | None = None
    all_milliwatts: int | None = None
    """Power of CPU, GPU and neural engine together."""
    throttled: bool | None = None
    """True if heat throttles the machine."""


_PRESSURES = {"Nominal": False, "Moderate": True, "Heavy": True, "Trapping": True, "Sleeping": True}
"""Names of OSThermalPressureLevel in <libkern/OSThermalNotification.h>, and whether each throttles."""


def power(result: ToolSaid) -> Power | Unknown:
    """Parse ``powermetrics``, run as root: the first of several percentages and samples counts."""
    if result.code == 1 and re.search(r"^sudo: ", result.stderr, re.MULTILINE):
        return Unknown("sudo does not allow it without a password")
    if result.code != 0:
        return failed(result)
    busy = re.search(r"^GPU HW active residency: +([0-9]{1,3}\.[0-9]{1,4})%", result.stdout, re.MULTILINE)
    pressure = re.search(r"^Current pressure level: (\w+)$", result.stdout, re.MULTILINE)
    found = Power(
        number(result.stdout, r"^GPU Power: ([0-9]+) mW$"),
        float(busy[1]) if busy and float(busy[1]) <= 100 else None,
        number(result.stdout, r"^Combined Power \([^)\n]*\): ([0-9]+) mW$"),
        _PRESSURES.get(pressure[1]) if pressure else None,
    )
    return unlike(result.stdout, "'GPU Power:' or 'Current pressure level:'") if found == Power() else found


POWER_SETTINGS = Probe("power settings", RunTool(("pmset", "-g"), 5.0), power_settings, 60.0)
POWER = Probe(
    "power",
    RunTool(repair.POWER, 10.0, as_root=True),
    power,
    120.0,
)
