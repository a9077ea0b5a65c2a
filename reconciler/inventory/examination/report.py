"""The verdicts on one machine, from the file of its examination. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.doctor.preconditions import Circumstances, Examined, Judgement, Versions, judge
from reconciler.errors import Refused
from reconciler.inventory.probes import machine, system
from reconciler.inventory.probes.schedule import MAC
from reconciler.state import MachineFacts
from reconciler.wire.node import NodeReport

from .probing import REMOTE_LOGIN
from .record import Record


@dataclass(frozen=True, slots=True)
class Report:
    """One machine."""

    name: str
    record: Record
    facts: MachineFacts
    versions: Versions
    judgements: tuple[Judgement, ...]


def report(name: str, record: Record) -> Report:
    """Judge a machine. Raises ``Refused`` if it is no Mac."""
    kernel, _, rest = record.system.partition(" ")
    if kernel != MAC:
        raise Refused("NoMac", f"{name} is no Mac: its system is {kernel or 'unknown'}, expected {MAC}")
    readings = record.readings()
    version, settings = readings.of(system.SYSTEM_VERSION), readings.of(system.SETTINGS) or system.Settings()
    facts = machine.facts(readings, _without_agent(kernel, rest, settings), machine.Wired(), 0.0)
    sshd = readings.of(REMOTE_LOGIN)
    circumstances = Circumstances(record.over_ssh, record.terminal, sshd.exists if sshd else None)
    shown = f"{'.'.join(map(str, version.version))} ({version.build})" if version else ""
    return Report(
        name,
        record,
        facts,
        Versions(name, shown, settings.rdma_driver),
        judge(Examined.of(name, facts, circumstances)),
    )


def _without_agent(kernel: str, rest: str, settings: system.Settings) -> NodeReport:
    """Return the report that an agent would make: no rank, no runtime."""
    release, _, hardware = rest.partition(" ")
    return NodeReport(
        sequence=0, boot_id="", agent_id="", system=kernel, release=release, machine=hardware, hostname="",
        memory_bytes=settings.memory_bytes or 0, cpus=0, host_id="", python="", runtime=None, run_directory="", token=0,
    )  # fmt: skip
