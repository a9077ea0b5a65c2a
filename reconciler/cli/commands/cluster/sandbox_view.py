"""Formats `sandbox status`: a table of machines and one of cables, in at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.cli.output import table_layout

_FAULTS = {
    "privacy": "local network forbidden",
    "hung": "ranks hang",
    "unkillable_seconds": "ranks cannot be ended",
    "verbs_wedged": "verbs tools hang",
    "ports_held": "ports in use",
    "pairs_busy": "queue pairs busy",
    "leaked_per_kill": "killed ranks leak",
    "panic_percent": "kernel panics",
    "pairs_refused": "queue pairs refused",
    "decayed": "queue pairs decayed",
    "alone": "groups of one",
    "mute": "does not answer",
    "partitioned": "cut off from the network",
}


def view(world: Mapping[str, Any]) -> list[str]:
    """Return lines for a terminal, from the control socket's answer."""
    machines = [
        (
            each["name"],
            each["product"],
            each["chip"],
            each["version"],
            "on" if each["rdma_enabled"] else "off",
            str(each["ssh_port"]),
            _state(each),
        )
        for each in world["machines"]
    ]
    headers = ("EMULATED MAC", "PRODUCT", "CHIP", "MACOS", "RDMA", "SSH PORT", "STATE")
    lines = table_layout.folded_table(headers, machines, table_layout.WIDTH).splitlines()
    if world["controller_private"]:
        lines += ["", "macOS keeps the controller out of the local network."]
    if world["cables"]:
        ports = {
            (each["name"], port["receptacle"]): port for each in world["machines"] for port in each["ports"]
        }
        cables = [_cable(each, ports) for each in world["cables"]]
        columns = ("END", "OTHER END", "SPEED", "RDMA", "ADDRESSES", "STATE")
        lines += ["", *table_layout.table(columns, cables, table_layout.WIDTH).splitlines()]
    return lines


def _state(machine: Mapping[str, Any]) -> str:
    if not machine["up"]:
        return "restarting" if machine["away_until"] else "waits for its disk's password"
    return ", ".join(_wrong(machine)) or "up"


def _wrong(machine: Mapping[str, Any]) -> Iterator[str]:
    faults = machine["faults"]
    yield from (text for name, text in _FAULTS.items() if faults[name])
    if faults["gpu"]:
        yield f"GPU fails ({faults['gpu']})"
    if faults["ssh_seconds"]:
        yield f"SSH delayed by {faults['ssh_seconds']:g} s"
    if not machine["jaccl"]:
        yield "no JACCL"
    if machine["firewall"]:
        yield "firewall on"
    if any(port["kept"] for port in machine["ports"]):
        yield "settings of ports come back"
    if not all(port["service"] for port in machine["ports"]):
        yield "ports without a network service"
    if any(port["hardware_port"] for port in machine["ports"]):
        yield "ports with other names"
    if machine["adapter"]:
        yield "a USB adapter in bridge0"
    if machine["leaked_bytes"]:
        yield f"{table_layout.size(machine['leaked_bytes'])} leaked"
    if machine["domains_held"]:
        yield f"{machine['domains_held']} protection domains held"
    if machine["panics"]:
        yield f"{len(machine['panics'])} panics"


def _cable(cable: Mapping[str, Any], ports: Mapping[Any, Mapping[str, Any]]) -> tuple[str, ...]:
    ends = [tuple(cable[end]) for end in ("a", "b")]
    sides = [ports[end] for end in ends]
    plugged = cable["plugged"]
    bridged = [
        f"{end[0]}/{end[1]} in {port['bridge']}"
        for end, port in zip(ends, sides, strict=True)
        if port["bridged"]
    ]
    state = (["unplugged"] if not plugged else []) + ([cable["dock"]] if cable["dock"] else []) + bridged
    return (
        f"{ends[0][0]}/{ends[0][1]}",
        f"{ends[1][0]}/{ends[1][1]}",
        f"{cable['gbps']} Gb/s",
        "up" if all(port["rdma_up"] for port in sides) else "down",
        " ".join("-" if not port["address"] or port["bridged"] else port["address"] for port in sides),
        ", ".join(state) or "plugged",
    )
