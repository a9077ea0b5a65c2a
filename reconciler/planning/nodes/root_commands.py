"""Lists the exact commands that may run as root on a machine: its restart, the probe of its power, and the repairs that
its Node allows. Repairs concern the ports and addresses that its Fabrics declare. Pure.

One word is not known beforehand: the address that macOS has given a port by itself. A repair removes that address and
its undoing gives it back, so one command stands for any link-local address of that port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from reconciler.planning.context.gpu_memory import left_to_models
from reconciler.planning.context.world import World
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources.node import NodeSpec
from reconciler.state import NodeName, PortFacts
from reconciler.wire.repair import POWER, RESTART

from . import settings

LINK_LOCAL_WORD = "169.254.*.*"
"""Stands for any address that macOS gives a port by itself (RFC 3927)."""
_INTERFACE = re.compile("en[0-9]{1,3}")
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class RootCommand:
    """One command that sudo should allow."""

    argv: tuple[str, ...]
    """The tool's name, then each argument; one of them may be ``LINK_LOCAL_WORD``."""
    why: str

    def covers(self, argv: tuple[str, ...]) -> bool:
        return len(argv) == len(self.argv) and all(map(_is, self.argv, argv))


def _is(declared: str, word: str) -> bool:
    if declared != LINK_LOCAL_WORD:
        return declared == word
    try:
        return IPv4Address(word) in settings.LINK_LOCAL
    except AddressValueError:
        return False


@dataclass(frozen=True, slots=True)
class RootCommands:
    """Everything that should run as root on a machine."""

    commands: tuple[RootCommand, ...]
    unknown: tuple[str, ...] = ()
    """Why some commands are not known yet, for people."""
    jobs_user: str = ""
    """The user as whom the agent's user runs programs of jobs; empty for none."""


def needed(world: World, name: NodeName) -> RootCommands:
    """Return the commands to allow on a machine now; none on one that was not seen yet."""
    manifest, report = world.desired.nodes.get(name), world.node(name).report
    if manifest is None or report is None:
        return RootCommands((), (f"{name} was not seen yet",))
    spec, found, unknown = manifest.spec, list[RootCommand](), list[str]()
    if report.system == "Darwin":
        found.append(RootCommand(POWER, "tell power and heat"))
        if spec.repair.network:
            found += _network(world, name, unknown)
        found += [*_wired_limit(world, name, spec), *_sleep(world, name, spec)]
        if spec.repair.updates:
            for value in ("false", "true"):
                found.append(RootCommand(settings.update_itself(value), "whether macOS updates itself"))
    if spec.repair.reboot:
        found.append(RootCommand(RESTART, "restart it"))
    jobs_user = "" if spec.jobs == "deny" else spec.jobs.allow.user or ""
    return RootCommands(tuple({each.argv: each for each in found}.values()), tuple(unknown), jobs_user)


def _network(world: World, name: NodeName, unknown: list[str]) -> Iterator[RootCommand]:
    ports = {port.receptacle: port for port in world.node(name).facts.ports}
    planned = world.desired.once(all_addresses)
    for end, other in world.once(settings.ends_of_links).get(name, ()):
        port = ports.get(end.receptacle)
        if port is None or not _INTERFACE.fullmatch(port.interface):
            unknown.append(f"the interface of {end} is not known")
            continue
        why = f"the cable {end} - {other}"
        out = settings.bridge(port)
        for argv in (out.argv, out.undo):
            yield RootCommand(argv, why)
        for argv in _addresses(world, port, str(planned[end].ip) if end in planned else ""):
            yield RootCommand(argv, why)


def _addresses(world: World, port: PortFacts, planned: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands that give a port its address, and those that remove and give back another that it may have."""
    if not planned:
        return
    link, own = settings.LINK_MASK, settings.LINK_LOCAL_MASK
    current = port.address or ""
    earlier = current if settings.previous_mask(world, current) == link else ""
    for address, mask in ((planned, link), (LINK_LOCAL_WORD, own), (earlier, link)):
        if address:
            yield settings.set_address(port, address, mask)
            yield settings.remove(port, address)


def _wired_limit(world: World, name: NodeName, spec: NodeSpec) -> Iterator[RootCommand]:
    report, facts = world.node(name).report, world.node(name).facts
    if not spec.repair.wired_limit or report is None or not (spec.memory.limit or spec.memory.reserve):
        return
    for limit in (left_to_models(spec.memory, report) // _MIB, 0, (facts.wired_limit_bytes or 0) // _MIB):
        if limit >= 0:
            yield RootCommand(settings.wire(limit), "how much its GPU may wire")


def _sleep(world: World, name: NodeName, spec: NodeSpec) -> Iterator[RootCommand]:
    if spec.repair.sleep:
        for minutes in ((0, 0), world.node(name).facts.sleep_minutes or (0, 0)):
            yield RootCommand(settings.sleep_after(*minutes), "whether it falls asleep")
