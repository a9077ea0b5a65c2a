"""Thunderbolt: the receptacles of a machine, and the other ends of their cables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.wire.tools import RunTool, ToolSaid

from .network import INTERFACES
from .probe import Probe, Unknown, failed, unambiguous, unlike

_TYPE = "SPThunderboltDataType"
_RDMA_PROTOCOL = 64087
"""Protocol number of the service that a machine with enabled RDMA offers."""
_DEPTH_MAX = 8
"""Six devices may follow each other on one Thunderbolt chain."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another machine at the other end, with or without docks between."""

    domain: str
    """The port's own UUID: two ports are joined exactly if each names the other's. Empty if unknown, as behind a
    dock."""
    model: str
    rdma: bool | None
    """True if the other end offers RDMA; None if a service does not identify itself."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """One port of the machine. A field is None, or empty, if it was not reported."""

    number: int
    domain: str = ""
    """UUID; an idle port may have none."""
    connected: bool | None = None
    """True if there is anything at the other end."""
    gbps: int | None = None
    """Speed of the connection, the lowest on the path to a machine; not the highest speed of the port."""
    peer: Peer | None = None
    through: tuple[str, ...] = ()
    """Docks and hubs between here and the peer; without a peer, the connected devices."""
    ceiling_gbps: int | None = None
    """The highest speed of the port, which is reported of one without a cable."""


def receptacles(result: ToolSaid) -> tuple[Receptacle, ...] | Unknown:
    """Parse ``system_profiler SPThunderboltDataType -json``: one object for each bus, and so for each receptacle."""
    if result.code:
        return failed(result)
    try:
        data = json.loads(result.stdout)
    except (ValueError, RecursionError):
        return unlike(result.stdout, "JSON")
    buses = data.get(_TYPE) if isinstance(data, dict) else None
    if not isinstance(buses, list):
        return unlike(result.stdout, f"an object with a list {_TYPE!r}")
    ports = (port for bus in buses if isinstance(bus, dict) for port in _ports(bus))
    found = unambiguous(ports, lambda port: port.number, Receptacle)
    if buses and not found:
        return unlike(result.stdout, "buses with 'receptacle_id_key'")
    return tuple(sorted(found, key=lambda port: port.number))


def _ports(bus: Mapping[str, Any]) -> Iterator[Receptacle]:
    """Yield the receptacle of a bus, if the bus names one."""
    own = _tag(bus)
    number = _text(own, "receptacle_id_key")
    if not re.fullmatch(r"[0-9]{1,2}", number):
        return
    domain = _text(bus, "domain_uuid_key").upper()
    connected = _connected(own)
    paths = (
        [path for path in _paths(bus, (own,)) if not domain or path.peer.domain != domain]
        if connected
        else []
    )
    if len(paths) == 1:
        speeds = [_gbps(tag) for tag in paths[0].tags]
        known = [speed for speed in speeds if speed is not None]
        yield Receptacle(
            int(number), domain, connected, min(known, default=None), paths[0].peer, paths[0].through
        )
        return
    devices = tuple(_name(item) for item in _items(bus)) if connected else ()
    speed = _gbps(own) if connected else None
    yield Receptacle(int(number), domain, connected, speed, None, devices, _gbps(own, "Up to "))


@dataclass(frozen=True, slots=True)
class _Path:
    """A path from a receptacle to a machine."""

    peer: Peer
    through: tuple[str, ...]
    tags: tuple[Mapping[str, Any], ...]


def _paths(
    above: Mapping[str, Any], tags: tuple[Mapping[str, Any], ...], through: tuple[str, ...] = ()
) -> Iterator[_Path]:
    """Yield every machine below a bus; docks and drives have no domain."""
    for item in _items(above) if len(through) < _DEPTH_MAX else ():
        domain = _text(item, "domain_uuid_key").upper()
        if domain or isinstance(item.get("services_title"), list):
            yield _Path(Peer(domain, _text(item, "device_name_key"), _offers_rdma(item)), through, tags)
        else:
            passed = tuple(tag for tag in _tags(item) if _connected(tag))
            yield from _paths(item, (*tags, *passed), (*through, _name(item)))


def _items(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    below = item.get("_items")
    return [each for each in below if isinstance(each, dict)] if isinstance(below, list) else []


def _tags(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        tag for key, tag in item.items() if re.fullmatch(r"receptacle_\w+_tag", key) and isinstance(tag, dict)
    ]


def _tag(bus: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tag of the host's own receptacle, one per bus."""
    tags = _tags(bus)
    return tags[0] if len(tags) == 1 else {}


def _connected(tag: Mapping[str, Any]) -> bool | None:
    status = _text(tag, "receptacle_status_key")
    return {"receptacle_connected": True, "receptacle_no_devices_connected": False}.get(status)


def _gbps(tag: Mapping[str, Any], before: str = "") -> int | None:
    """Parse ``80 Gb/s``; with ``Up to`` before it, it is the port's highest speed."""
    found = re.fullmatch(rf"{before}([0-9]{{1,4}}) Gb/s", _text(tag, "current_speed_key"))
    return int(found[1]) if found else None


def _offers_rdma(item: Mapping[str, Any]) -> bool | None:
    offered = item.get("services_title")
    if not isinstance(offered, list):
        return None
    protocols = [one.get("protocol_id_key") if isinstance(one, dict) else None for one in offered]
    return True if _RDMA_PROTOCOL in protocols else None if None in protocols else False


def _name(item: Mapping[str, Any]) -> str:
    return _text(item, "_name") or "a device without a name"


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return value.strip() if isinstance(value, str) and len(value) < 256 else ""


RECEPTACLES = Probe(
    "Thunderbolt", RunTool(("system_profiler", _TYPE, "-json"), 30.0), receptacles, 30.0, (INTERFACES,)
)
