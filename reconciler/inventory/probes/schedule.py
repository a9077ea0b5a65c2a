"""Runs the probes of a machine: each at its own interval, some also after a change of facts that they follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.errors import Refused
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import MachineFacts, PortFacts
from reconciler.wire.node import NodeReport
from reconciler.wire.tools import ToolSaid

from . import machine, system, upkeep
from .probe import Probe, Unknown
from .table import PROBES, Readings
from .verbs import KERNEL_OBJECTS, VERBS_PORTS

MAC = "Darwin"
ROUND_SECONDS_MAX = 40.0
"""Time after which no further probe begins: the rest runs in the next round."""
ANSWER_SECONDS = 10.0
"""Time for the answer, and for a tool that another controller has started."""
HUNG_SECONDS = 60.0
"""Time after which a tool that did not return is run again. The agent itself reports one that cannot be killed."""
UNKNOWN_SECONDS = 60.0
"""Time after which an unknown fact is probed again, even if it changes less often: somebody may install a runtime."""
REFUSED_SECONDS = 1800.0
"""Time after which a tool that sudo refused is run again: sudo logs each refusal on the machine."""
EXPECTED_SECONDS = 60.0
"""The longest time from a change of a machine's network to the driver's report of it."""
EXPECTED_EVERY_SECONDS = 5.0
"""The interval of the driver's probes meanwhile."""
LASTING_SECONDS = 60.0
"""Facts probed less often than this do not change while a machine runs, so neither gaps nor failures outdate them."""
SETTABLE = (upkeep.UPDATES, upkeep.INDEX, upkeep.BACKUP)
"""Probes of settings that last, unless a repair changes them."""
MACHINES_MAX = 4096
"""The most machines whose last readings are kept. If there were more machines, every probe would run in every round."""


@dataclass(slots=True)
class _Machine:
    """One machine since its agent started."""

    read: dict[str, Any] = field(default_factory=dict)
    asked_at: dict[str, float] = field(default_factory=dict)
    asked_under: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of the followed probes at the last run of each probe."""
    wired: machine.Wired = field(default_factory=machine.Wired)
    domains: dict[int, str] = field(default_factory=dict)
    """The last known domain of each receptacle: macOS 26 reports none for an idle one, and it lasts until a restart."""
    expected_until: float = 0.0
    """The time until which the driver may still report a new address."""
    deaf: bool = False
    """True if its agent is too old to run tools."""

    @property
    def readings(self) -> Readings:
        return Readings(self.read)

    def with_domain(self, port: PortFacts) -> PortFacts:
        """Return a port with its domain, also while nothing is plugged in. Without it, the machine that still names the
        domain as its other end would seem to be joined to a stranger."""
        if port.domain:
            self.domains[port.receptacle] = port.domain
        return replace(port, domain=self.domains.get(port.receptacle, ""))

    def followed(self, probe: Probe[Any]) -> tuple[Any, ...]:
        return tuple(self.readings.of(each) for each in probe.follows)

    def expects(self, now: float) -> bool:
        """Return whether a port has a new address that its device does not report yet."""
        if not self.expected_until - EXPECTED_SECONDS <= now < self.expected_until:
            return False
        return any(port.address and port.mapped_gid is False for port in machine.ports(self.readings))

    @property
    def verbs_in_use(self) -> bool:
        """Return whether a process there uses RDMA. Opening the driver at the same time is a risk, so it needs a
        reason: a changed port, a failed rank, a new address."""
        held = self.readings.of(KERNEL_OBJECTS)
        return held is not None and held.protection_domains > 0

    def due(self, probe: Probe[Any], now: float, refresh: bool) -> bool:
        asked_at = self.asked_at.get(probe.name)
        if asked_at is None or now < asked_at:
            return True
        age = now - asked_at
        if self.readings.hung(probe):
            return age >= HUNG_SECONDS
        if probe is VERBS_PORTS and self.expects(now):
            return age >= (0 if refresh else EXPECTED_EVERY_SECONDS)
        if probe.call.as_root and self.readings.of(probe) is None:
            return age >= REFUSED_SECONDS
        if probe.follows and (refresh or self.asked_under.get(probe.name) != self.followed(probe)):
            return age >= probe.soonest_seconds
        if self.readings.of(probe) is None:
            return age >= min(probe.every_seconds, UNKNOWN_SECONDS)
        if probe is VERBS_PORTS and self.verbs_in_use:
            return False
        return age >= (0 if refresh and probe.every_seconds <= LASTING_SECONDS else probe.every_seconds)


class Probes:
    """Probes Macs with their own tools. The facts of any other machine come from its agent's report alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._machines: dict[tuple[str, str], _Machine] = {}

    async def __call__(self, link: AgentConnection, report: NodeReport, refresh: bool) -> MachineFacts:
        """Run due probes and return the facts. Raises ``Unreachable``."""
        state = self._machine(report)
        if report.system == MAC and not state.deaf:
            await self._ask(link, state, refresh)
        if not state.read:
            return MachineFacts(boot_id=report.boot_id, system=report.system)
        now, pages = self._clock(), state.readings.of(system.PAGES)
        state.wired = state.wired.next(pages.wired_bytes if pages else None, report, now)
        facts = machine.facts(state.readings, report, state.wired, now)
        return replace(facts, ports=tuple(map(state.with_domain, facts.ports)))

    def expire(self, report: NodeReport) -> None:
        """Let every probe run in the next round, except tools that hang, tools that sudo forbids, and the RDMA driver,
        which has its own limits."""
        state = self._machine(report)
        for probe in PROBES:
            refused = probe.call.as_root and state.readings.of(probe) is None
            if not (refused or probe.follows or state.readings.hung(probe)):
                state.asked_at.pop(probe.name, None)

    def expect(self, report: NodeReport) -> None:
        """Run the driver's probes soon, and rare probes at once, because settings were just changed."""
        state = self._machine(report)
        state.expected_until = self._clock() + EXPECTED_SECONDS
        for probe in SETTABLE:
            state.asked_at.pop(probe.name, None)

    async def _ask(self, link: AgentConnection, state: _Machine, refresh: bool) -> None:
        ends_at = asyncio.get_running_loop().time() + ROUND_SECONDS_MAX
        for probe in PROBES:
            now = self._clock()
            if not state.due(probe, now, refresh) or asyncio.get_running_loop().time() > ends_at:
                continue
            try:
                result = await link.request(probe.call, timeout=probe.call.seconds + ANSWER_SECONDS)
            except Refused as error:
                state.deaf = error.code == "Malformed"
                return
            state.asked_at[probe.name] = now
            state.asked_under[probe.name] = state.followed(probe)
            state.read[probe.name] = (
                probe.read(result) if isinstance(result, ToolSaid) else Unknown("the answer was invalid")
            )

    def _machine(self, report: NodeReport) -> _Machine:
        """Return the memory of a machine. Another boot or agent starts with an empty one; beyond the limit the oldest
        is dropped."""
        key = (report.agent_id, report.boot_id)
        if key not in self._machines and len(self._machines) >= MACHINES_MAX:
            del self._machines[next(iter(self._machines))]
        return self._machines.setdefault(key, _Machine())
