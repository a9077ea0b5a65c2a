"""Cases of probes: what a tool said, and beside it what is to be read in that.

``cases/TOOL/NAME.txt`` is the standard output of a tool, byte for byte; ``NAME.yaml`` says where it comes from, how
the tool ended where that was not with 0, and either the ``facts`` or why they are ``unknown`` (a part of the reason).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from reconciler.inventory.probes import engine, management, network, power, system, thunderbolt, upkeep, verbs
from reconciler.inventory.probes.probe import Probe
from reconciler.wire.tools import Ending, ToolSaid

FOLDER = Path(__file__).parent / "cases"

BY_TOOL: dict[str, Probe[Any]] = {
    "defaults": upkeep.UPDATES,
    "df": system.DISK,
    "fdesetup": management.FILEVAULT,
    "find_marker": upkeep.INDEX,
    "find": management.SYSTEM_REPORTS,
    "find_panics": management.PANICS,
    "ibv_devices": verbs.DEVICES,
    "ibv_devinfo": verbs.VERBS_PORTS,
    "ifconfig": network.INTERFACES,
    "ioclasscount": verbs.KERNEL_OBJECTS,
    "mlx": engine.ENGINE,
    "launchctl": management.JOB,
    "netstat": network.ROUTES,
    "networksetup_order": network.SERVICES,
    "networksetup_ports": network.HARDWARE_PORTS,
    "nvram": verbs.RDMA_SET,
    "pgrep": management.RANK_PROCESSES,
    "pmset": power.POWER_SETTINGS,
    "powermetrics": power.POWER,
    "profiles": management.ENROLMENT,
    "rdma_ctl": verbs.RDMA_ENABLED,
    "socketfilterfw": upkeep.FIREWALL,
    "sw_vers": system.SYSTEM_VERSION,
    "sysctl": system.SETTINGS,
    "system_profiler": thunderbolt.RECEPTACLES,
    "tmutil": upkeep.BACKUP,
    "vm_stat": system.PAGES,
}


@dataclass(frozen=True)
class Case:
    """One answer of a tool."""

    tool: str
    name: str
    output: ToolSaid
    expected: dict[str, Any]
    """``facts`` or ``unknown``."""

    @property
    def probe(self) -> Probe[Any]:
        return BY_TOOL[self.tool]

    @property
    def known(self) -> bool:
        return "facts" in self.expected


def load() -> list[Case]:
    """All of them, by tool and name."""
    found = []
    for path in sorted(FOLDER.glob("*/*.yaml")):
        sample = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        output = ToolSaid(
            Ending.ENDED,
            sample.get("status", 0),
            path.with_suffix(".txt").read_text(),
            sample.get("stderr", ""),
        )
        expected = {key: sample[key] for key in ("facts", "unknown") if key in sample}
        found.append(Case(path.parent.name, path.stem, output, expected))
    return found


def plain(value: Any) -> Any:
    """Facts as YAML has them."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(each) for name, each in asdict(value).items()}
    return {name: plain(each) for name, each in value.items()} if isinstance(value, dict) else value
