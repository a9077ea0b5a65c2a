"""Writes a policy as its own table of nftables (nft(8)). Pure.

The kernel knows the owner of a listening socket only after these rules, so they name the ports that groups get from the
controller and from the kernel. The rules block only new connections. Other tables may still block connections that
this table lets through.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.planning.context.tcp_ports import PORT_FIRST, PORT_LAST

from .policy import CablePort, Policy

TABLE = "reconciler"
FILE = "/etc/nftables.d/reconciler.nft"
EPHEMERAL = (32_768, 60_999)
"""The default of ``net.ipv4.ip_local_port_range``."""
_BEGINS = "tcp flags & (fin | syn | rst | ack) == syn"


def rules(policy: Policy) -> str:
    """Return the file; loading it again replaces the table at once."""
    return "\n".join(_lines(policy)) + "\n"


def _lines(policy: Policy) -> Iterator[str]:
    yield f"# Who may connect to the ranks of {policy.node}. Written by: reconciler node firewall {policy.node}"
    yield f"# check  sudo nft -c -f {FILE}"
    yield f"# load   sudo nft -f {FILE}"
    yield f"# undo   sudo nft delete table inet {TABLE}"
    yield f"table inet {TABLE}"
    yield f"delete table inet {TABLE}"
    yield f"table inet {TABLE} {{"
    yield "    chain input {"
    yield "        type filter hook input priority filter - 10; policy accept;"
    yield '        iifname "lo" accept'
    yield f"        tcp dport {{ {', '.join(map(str, policy.ports))} }} accept"
    for cable in policy.cables:
        yield from _cable(cable)
    if policy.machines:
        yield f"        ip saddr {{ {', '.join(policy.machines)} }} accept"
    ports = f"{{ {PORT_FIRST}-{PORT_LAST}, {EPHEMERAL[0]}-{EPHEMERAL[1]} }}"
    yield f"        {_BEGINS} tcp dport {ports} counter reject with tcp reset"
    yield "    }"
    yield "}"


def _cable(cable: CablePort) -> Iterator[str]:
    yield f"        # {cable.name}"
    yield f'        iifname "{cable.interface}" ip saddr {cable.peer} ip daddr {cable.own} accept'
    yield f'        iifname "{cable.interface}" {_BEGINS} counter reject with tcp reset'
