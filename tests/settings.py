"""What the commands that repair a Mac do to its settings, as its probes tell of them afterwards."""

from __future__ import annotations

from dataclasses import replace

from reconciler.state import MachineFacts

_MIB = 2**20


def changed(facts: MachineFacts, argv: tuple[str, ...]) -> MachineFacts:
    """The facts after a command."""
    if argv[0] == "sysctl":
        return replace(facts, wired_limit_bytes=int(argv[1].partition("=")[2]) * _MIB)
    if argv[0] == "pmset":
        return replace(facts, sleeps=argv[3] != "0", sleep_minutes=(int(argv[3]), int(argv[5])))
    if argv[0] == "defaults":
        return replace(facts, updates_itself=argv[-1] == "true")
    if argv[0] in ("touch", "unlink"):
        return replace(facts, weights_indexed=argv[0] == "unlink")
    if argv[0] == "tmutil":
        return replace(facts, weights_backed_up=argv[1] == "removeexclusion")
    if argv[1] == "bridge0":
        ports = tuple(
            replace(port, bridged=argv[2] == "addm") if port.interface == argv[3] else port
            for port in facts.ports
        )
    else:
        address = "" if argv[4] == "delete" else argv[3]
        ports = tuple(
            replace(port, address=address, mapped_gid=bool(address)) if port.interface == argv[1] else port
            for port in facts.ports
        )
    return replace(facts, ports=ports)
