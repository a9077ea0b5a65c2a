"""Tools that show RDMA and Thunderbolt on an emulated Mac, in formats seen on real ones."""

from __future__ import annotations

import json
from typing import Any

from reconciler.sandbox.world.state import DOMAINS_MAX, TB4_GBPS, TB5_GBPS, End, Machine, Port

from .call import ToolCall, ToolOutput, refused

_DOMAINS, _PAIRS = "AppleThunderboltRDMAProtectionDomain", "AppleThunderboltRDMAQueuePair"
NOBODY = 77
"""The message of ``rdma_ctl enable`` outside Recovery."""


def rdma_ctl(call: ToolCall) -> ToolOutput:
    if call.words == ("status",):
        return ToolOutput("enabled\n" if call.machine.rdma_enabled else "disabled\n")
    return refused(call, "this can be changed in Recovery only", NOBODY)


def nvram(call: ToolCall) -> ToolOutput:
    if call.words == ("rdma-enable",) and call.machine.rdma_enabled:
        return ToolOutput("rdma-enable\t1\n")
    name = call.words[0] if call.words else ""
    return refused(call, f"Error getting variable - '{name}': (iokit/common) data was not found")


def ioclasscount(call: ToolCall) -> ToolOutput:
    """Count the objects of all devices together."""
    machine, devices = call.machine, len(call.world.devices(call.name))
    held = machine.domains_held * devices + call.live.domains
    if not any(port.device for port in machine.ports):
        counts = dict.fromkeys(call.words, "<no such class>")
    else:
        counts = {name: str({_DOMAINS: held, _PAIRS: call.live.domains}.get(name, 0)) for name in call.words}
    return ToolOutput(", ".join(f"{name} = {count}" for name, count in counts.items()) + "\n")


def ibv_devices(call: ToolCall) -> ToolOutput:
    if call.machine.faults.verbs_wedged:
        return ToolOutput(hangs=True)
    rows = [f"    {device:<16}\t{_guid(port)}\n" for port, device in _devices(call)]
    return ToolOutput(
        "    device          \t   node GUID\n    ------          \t----------------\n" + "".join(rows)
    )


def ibv_devinfo(call: ToolCall) -> ToolOutput:
    if call.machine.faults.verbs_wedged:
        return ToolOutput(hangs=True)
    wanted = call.words[call.words.index("-d") + 1] if "-d" in call.words[:-1] else ""
    found = [each for each in _devices(call) if wanted in ("", each[1])]
    if not found:
        return ToolOutput(stderr="No IB devices found\n", code=255)
    show = _verbose if "-v" in call.words else _brief
    return ToolOutput("\n".join(show(call, port, device) for port, device in found))


def _devices(call: ToolCall) -> list[tuple[Port, str]]:
    listed = call.world.devices(call.name)
    return [(port, port.device) for port in call.machine.ports if port.device in listed]


def _brief(call: ToolCall, port: Port, device: str) -> str:
    return (
        f"hca_id:\t{device}\n\ttransport:\t\t\tThunderbolt (100)\n\tnode_guid:\t\t\t{_colons(_guid(port))}\n"
        f"\tsys_image_guid:\t\t\t{_colons(_guid(call.machine.ports[0]))}\n\tvendor_id:\t\t\t0x0000\n"
        "\tvendor_part_id:\t\t\t0\n\thw_ver:\t\t\t\t0x0\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\t{_state(call, port)}\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
        f"\t\t\tsm_lid:\t\t\t{port.receptacle}\n\t\t\tport_lid:\t\t{port.receptacle}\n"
        "\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\tThunderbolt\n"
    )


def _verbose(call: ToolCall, port: Port, device: str) -> str:
    gids = [link_local(port)]
    if call.world.has_mapped_gid((call.name, port.receptacle), call.now):
        gids = [*gids * port.gid_index, *(f"::ffff:{ip}" for ip in port.ips)]
    table = "".join(f"\t\t\tGID[{at:3}]:\t\t{gid}\n" for at, gid in enumerate(gids))
    return (
        f"hca_id:\t{device}\n\ttransport:\t\t\tThunderbolt (100)\n\tnode_guid:\t\t\t{_colons(_guid(port))}\n"
        f"\tsys_image_guid:\t\t\t{_colons(_guid(call.machine.ports[0]))}\n\tphys_port_cnt:\t\t\t1\n"
        f"\tmax_mr_size:\t\t\t0xfa0000\n\tmax_qp:\t\t\t\t{DOMAINS_MAX}\n\tmax_pd:\t\t\t\t{DOMAINS_MAX}\n"
        "\tatomic_cap:\t\t\tATOMIC_NONE (0)\n\tnum_comp_vectors:\t\t1\n\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\t{_state(call, port)}\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tlink_layer:\t\tThunderbolt\n"
        f"\t\t\tgid_tbl_len:\t\t1024\n\t\t\tactive_width:\t\t{_width(call, port)}\n"
        "\t\t\tactive_speed:\t\t10.0 Gbps (4)\n" + table
    )


def _width(call: ToolCall, port: Port) -> str:
    """Return the number of lanes; that of a fast cable also for a port that is down."""
    end = (call.name, port.receptacle)
    cable = call.world.link_of(end)
    slow = cable is not None and cable.gbps < TB5_GBPS and call.world.is_verbs_up(end, call.now)
    return "4X (2)" if slow else "8X (4)"


def _state(call: ToolCall, port: Port) -> str:
    up = call.world.is_verbs_up((call.name, port.receptacle), call.now)
    return "PORT_ACTIVE (4)" if up else "PORT_DOWN (1)"


def _guid(port: Port) -> str:
    return port.domain.replace("-", "")[:16].lower()


def _colons(guid: str) -> str:
    return ":".join(guid[at : at + 4] for at in range(0, 16, 4))


def link_local(port: Port) -> str:
    """Return the port's IPv6 address in fe80::/64, derived from its MAC (RFC 4291, appendix A)."""
    a, b, c, d, e, f = (int(part, 16) for part in port.mac.split(":"))
    return f"fe80::{(a ^ 2) << 8 | b:x}:{c << 8 | 0xFF:x}:{0xFE00 | d:x}:{e << 8 | f:x}"


def system_profiler(call: ToolCall) -> ToolOutput:
    if call.words[:2] != ("SPThunderboltDataType", "-json"):
        return refused(call, "of this machine only SPThunderboltDataType -json is known")
    buses = [_bus(call, port) for port in reversed(call.machine.ports)]
    return ToolOutput(json.dumps({"SPThunderboltDataType": buses}, indent=1) + "\n")


def _bus(call: ToolCall, port: Port) -> dict[str, Any]:
    end = (call.name, port.receptacle)
    cable, peer = call.world.link_of(end), call.world.peer_of(end)
    bus: dict[str, Any] = {"_name": f"thunderboltusb4_bus_{port.receptacle - 1}"}
    connected = cable is not None and peer is not None and call.world.is_active(end, call.now)
    if connected:
        assert cable is not None
        assert peer is not None
        below = _peer(call, peer, cable.named)
        for name in cable.docks(end):
            below = _dock(name, cable.gbps, below)
        bus["_items"] = [below]
    bus["device_name_key"] = call.machine.product
    if connected or call.machine.version.startswith("27"):  # others report none for an idle port
        bus["domain_uuid_key"] = port.domain
    speed = f"{cable.gbps} Gb/s" if connected and cable else _ceiling(port)
    tag = _tag(speed, connected)
    tag.update({"micro_version_key": "0.0.0", "receptacle_id_key": str(port.receptacle)})
    bus["receptacle_1_tag"] = tag
    return {
        **bus,
        "route_string_key": "0",
        "switch_uid_key": f"0x{_guid(port)}",
        "vendor_name_key": "Apple Inc.",
    }


def _ceiling(port: Port) -> str:
    return f"Up to {120 if port.thunderbolt5 else TB4_GBPS} Gb/s"


def _tag(speed: str, connected: bool) -> dict[str, Any]:
    return {
        "current_speed_key": speed,
        "link_status_key": "0x2" if connected else "0x100",
        "receptacle_status_key": "receptacle_connected" if connected else "receptacle_no_devices_connected",
    }


def _peer(call: ToolCall, end: End, named: bool) -> dict[str, Any]:
    machine = call.world.machine(end[0])
    port = machine.port(end[1])
    item: dict[str, Any] = {
        "_name": machine.product,
        "device_id_key": "0xA",
        "device_name_key": machine.model,
    }
    if named:
        item["domain_uuid_key"] = port.domain
    services = [_service("service_ip", 1)]
    if _offers_rdma(machine, port):
        services.append(_service("unknown_xd_service", 64087))
    return {**item, "services_title": services, "vendor_id_key": "0x0A27", "vendor_name_key": "Apple Inc."}


def _offers_rdma(machine: Machine, port: Port) -> bool:
    return machine.rdma_enabled and bool(port.device)


def _service(name: str, protocol: int) -> dict[str, Any]:
    return {"_name": name, "protocol_id_key": protocol, "protocol_revision_key": 0, "protocol_version_key": 1}


def _dock(name: str, gbps: int, below: dict[str, Any]) -> dict[str, Any]:
    tag = _tag(f"{gbps} Gb/s", True)
    return {
        "_items": [below], "_name": name, "device_name_key": name,
        "mode_key": "usb_four_v2" if gbps >= TB5_GBPS else "thunderbolt_three",
        "receptacle_2_tag": tag, "receptacle_upstream_ambiguous_tag": tag,
    }  # fmt: skip
