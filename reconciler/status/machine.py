"""The facts of a Mac for its node's status. Unknown facts are omitted, or have a reason."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from reconciler.state import MachineFacts, PortFacts
from reconciler.wire import objects

F = TypeVar("F")


def as_json(facts: MachineFacts) -> objects.Mac:
    """Return ``mac``; empty before the first probe. Values that change all the time and hardware identifiers are left
    out."""
    return _known(
        objects.Mac,
        {
            "model": facts.model,
            "chip": facts.chip,
            "macOS": ".".join(map(str, facts.version)),
            "jaccl": facts.jaccl,
            "rdmaEnabled": facts.rdma_enabled,
            "rdmaToolsAnswer": facts.verbs_answer,
            "protectionDomainsHeld": facts.protection_domains,
            "wiredExcessBytes": facts.wired_excess_bytes,
            "wiredLimitBytes": facts.wired_limit_bytes,
            "gpuMemoryBytes": facts.gpu_bytes,
            "localNetworkAllowed": facts.launch_context,
            "fileVault": facts.filevault,
            "managed": facts.managed,
            "bridgeService": facts.bridge_service,
            "firewall": facts.firewall,
            "updatesItself": facts.updates_itself,
            "weightsIndexed": facts.weights_indexed,
            "weightsBackedUp": facts.weights_backed_up,
            "sleeps": facts.sleeps,
            "throttled": facts.throttled,
            "panicsLastHour": facts.panics,
            "crashesLastHour": facts.crashes,
            "memoryKillsLastHour": facts.memory_kills,
            "strayRanks": facts.stray_ranks,
            "ports": [_port(port) for port in facts.ports],
            "notKnown": dict(facts.unknown),
        },
    )


def _port(port: PortFacts) -> objects.Port:
    return _known(
        objects.Port,
        {
            "receptacle": port.receptacle,
            "interface": port.interface,
            "device": port.device,
            "connected": port.connected,
            "peer": f"{port.peer[0]}/{port.peer[1]}" if port.peer else "",
            "through": list(port.through),
            "gbps": port.gbps,
            "interfaceActive": port.active,
            "rdmaUp": port.verbs_up,
            "bridged": port.bridged,
            "address": "none" if port.address == "" else port.address,
            "otherAddresses": list(port.other_addresses),
            "mappedGid": port.mapped_gid,
            "gidIndex": port.gid_index,
        },
    )


def _known(kind: type[F], fields: dict[str, Any]) -> F:
    """Return the fields that are known. All of them must be fields of ``kind``."""
    assert kind.__annotations__.keys() >= fields.keys()
    found = {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}
    return cast(F, found)
