"""Network: the interfaces of receptacles, and the settings of interfaces."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from reconciler.state import Route
from reconciler.wire.tools import RunTool

from .probe import Probe, Unknown, keyed, of_complete, unambiguous, unlike

_NAME = re.compile(r"[a-z]{1,12}[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class HardwarePort:
    """Such as ``Thunderbolt 2`` with its interface ``en6``."""

    name: str
    interface: str


@of_complete
def hardware_ports(text: str) -> tuple[HardwarePort, ...] | Unknown:
    """Parse ``networksetup -listallhardwareports``: blocks of three lines, separated by blank lines. Several ports may
    have one name, as two equal USB adapters do."""
    found = []
    for block in text.split("\n\n"):
        fields = keyed(block)
        name, interface = fields.get("Hardware Port", ""), fields.get("Device", "")
        if name and _NAME.fullmatch(interface):
            found.append(HardwarePort(name, interface))
    return tuple(found) or unlike(text, "blocks with 'Hardware Port:' and 'Device:'")


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface, from ``ifconfig``. None means unknown."""

    name: str
    active: bool | None = None
    """From ``status:``: whether there is a device at the other end. ``RUNNING`` is useless: it is set without a
    cable."""
    addresses: tuple[str, ...] | None = None
    """Its IPv4 addresses, in the order of ``ifconfig``."""
    members: tuple[str, ...] | None = None
    """Interfaces of a bridge."""
    ethernet: bool | None = None
    """True if it has a link over an Ethernet cable, from ``media:``."""


@of_complete
def interfaces(text: str) -> tuple[Interface, ...] | Unknown:
    """Parse ``ifconfig -a``: a block for each interface. Bridges and interfaces with a cable are used. The last block
    may be truncated."""
    blocks = [block for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if block]
    found = []
    for at, block in enumerate(blocks):
        head = re.match(r"((?:en|bridge)[0-9]{1,4}): flags=[0-9a-fA-F]{1,16}<[A-Z0-9_,]*>", block)
        if head:
            found.append(_interface(head[1], block, at + 1 < len(blocks)))
    once = unambiguous(found, lambda interface: interface.name, Interface)
    return once or unlike(text, "a line such as 'en1: flags=8863<UP,...>'")


def _interface(name: str, block: str, followed: bool) -> Interface:
    status = re.search(r"^\s+status: (active|inactive)$", block, re.MULTILINE)
    is_complete = followed or bool(status)
    members = tuple(re.findall(r"^\s+member: ([a-z]{1,12}[0-9]{1,4}) ", block, re.MULTILINE))
    is_bridge = name.startswith("bridge")
    return Interface(
        name,
        status[1] == "active" if status else None,
        _addresses(block, is_complete),
        members if is_bridge and (is_complete or members) else None,
        _ethernet(block),
    )


def _ethernet(block: str) -> bool | None:
    media = re.search(r"^\s+media: ([^\n]*)\n", block, re.MULTILINE)
    return None if media is None else bool(re.search(r"\([0-9.]{1,9}[Gg]?base", media[1]))


def _addresses(block: str, is_complete: bool) -> tuple[str, ...] | None:
    """Return the valid addresses; None if there is none, unless the block shows that there is none."""
    words = re.findall(r"^\s+inet (\S+)", block, re.MULTILINE)
    found = tuple(word for word in words if _is_address(word))
    return found if found or (is_complete and not words) else None


def _is_address(word: str) -> bool:
    try:
        return str(ipaddress.IPv4Address(word)) == word
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Service:
    """A network service in the order of services."""

    name: str
    enabled: bool
    port: str
    interface: str
    """Interface; empty for a service without one, such as a VPN."""


@of_complete
def services(text: str) -> tuple[Service, ...] | Unknown:
    """Parse ``networksetup -listnetworkserviceorder``: two lines per service."""
    pattern = r"^\(([0-9]{1,4}|\*)\) (.+)\n\(Hardware Port: (.+), Device: ?([a-z0-9]*)\)$"
    found = tuple(
        Service(name, mark != "*", port, interface)
        for mark, name, port, interface in re.findall(pattern, text, re.MULTILINE)
    )
    return found or unlike(text, "lines such as '(1) Wi-Fi' and '(Hardware Port: Wi-Fi, Device: en0)'")


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of IPv4, without learnt ones to single hosts, and multicast."""

    networks: tuple[Route, ...]
    default: str
    """The interface of the default route; empty if there is none through a gateway."""


@of_complete
def routes(text: str) -> Routes | Unknown:
    """Parse ``netstat -rn -f inet``: a table with a heading. If it does not understand a line, the complete table counts
    as unknown, because that line may matter."""
    heading = re.search(r"^Destination +Gateway +Flags +(?:\w+ +)*Netif(?: .*)?$", text, re.MULTILINE)
    if heading is None:
        return unlike(text, "a heading 'Destination Gateway Flags Netif'")
    at = heading[0].split().index("Netif")
    found: list[Route] = []
    defaults: list[str] = []
    for line in text[heading.end() :].split("\n"):
        words = line.split()
        if not words or words[0] == "default":
            defaults += words[at : at + 1] if _through_gateway(words) else []
            continue
        network = _network(words[0])
        if network is None or len(words) <= at or not re.fullmatch(r"[a-z]{1,12}[0-9]{1,4}!?", words[at]):
            return unlike(line, "a route such as '10.10.10/24 link#4 UCS en0'")
        learnt = "W" in words[2] and network.prefixlen == 32
        if not learnt and not network.is_multicast and not network.is_reserved:
            found.append(Route(str(network), words[at].rstrip("!")))
    if not found:
        return unlike(text, "at least one route")
    return Routes(tuple(dict.fromkeys(found)), defaults[0] if defaults else "")


def _through_gateway(words: list[str]) -> bool:
    """Return whether a default route is for all traffic (no flag ``I``, RTF_IFSCOPE) and through a gateway (flag ``G``).

    macOS gives each further service a default route of its own interface. Services that share a connection get one
    without a gateway.
    """
    return len(words) > 2 and "G" in words[2] and "I" not in words[2]


_CLASSES = ((128, 8), (192, 16), (224, 24))
"""The implied prefix of a network that is written without one, by its first number, as BSD does."""


def _network(text: str) -> ipaddress.IPv4Network | None:
    """Parse a network such as ``10.10.10/24`` or ``169.254``, which may omit trailing zeros."""
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3}){0,3})(?:/([0-9]{1,2}))?", text)
    if found is None:
        return None
    numbers = found[1].split(".")
    usual = next((prefix for below, prefix in _CLASSES if int(numbers[0]) < below), 4)
    prefix = found[2] or (32 if len(numbers) == 4 else min(usual, 8 * len(numbers)))
    try:
        padded = ".".join(numbers + ["0"] * (4 - len(numbers)))
        return ipaddress.IPv4Network(f"{padded}/{prefix}", strict=False)
    except ValueError:
        return None


HARDWARE_PORTS = Probe(
    "hardware ports", RunTool(("networksetup", "-listallhardwareports"), 10.0), hardware_ports, 300.0
)
SERVICES = Probe(
    "network services", RunTool(("networksetup", "-listnetworkserviceorder"), 10.0), services, 300.0
)
INTERFACES = Probe("interfaces", RunTool(("ifconfig", "-a"), 5.0), interfaces, 10.0)
ROUTES = Probe("routes", RunTool(("netstat", "-rn", "-f", "inet"), 5.0), routes, 30.0, follows=(INTERFACES,))
