"""Writes a policy as rules of macOS's packet filter (pf.conf(5)). Pure.

The rules have their own anchor below ``com.apple``, which the main rules of macOS already evaluate: no file of the
system is changed, because updates overwrite those. The rules block only new connections (``flags S/SA``) to a
socket of the user who runs the ranks. Answers to this user's own connections come through, and other users' services
are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .policy import CablePort, Policy

ANCHOR = "com.apple/reconciler"
FILE = "/etc/pf.anchors/reconciler"
_USER = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]*")


def rules(policy: Policy) -> str:
    """Return the file. Raises ``ValueError`` for a user name that cannot be part of a rule."""
    if not _USER.fullmatch(policy.user):
        raise ValueError(f"the user name {policy.user!r} cannot stand in a rule of pf")
    return "\n".join(_lines(policy)) + "\n"


def _lines(policy: Policy) -> Iterator[str]:
    yield f"# Who may connect to the ranks of {policy.node}. Written by: reconciler node firewall {policy.node}"
    yield f"# check  sudo pfctl -n -a {ANCHOR} -f {FILE}"
    yield f"# load   sudo pfctl -a {ANCHOR} -f {FILE} -E      (remember the token that it prints)"
    yield f"# undo   sudo pfctl -a {ANCHOR} -F all; sudo pfctl -X TOKEN"
    if policy.machines:
        yield f"table <reconciler> const {{ {', '.join(policy.machines)} }}"
    yield "pass in quick on lo0 all"
    yield f"pass in quick proto tcp from any to any port {{ {', '.join(map(str, policy.ports))} }}"
    for cable in policy.cables:
        yield from _cable(cable)
    if policy.machines:
        yield f"pass in quick proto tcp from <reconciler> to any user {policy.user}"
    yield f"block return in quick proto tcp from any to any user {policy.user} flags S/SA"


def _cable(cable: CablePort) -> Iterator[str]:
    yield f"# {cable.name}"
    yield f"pass in quick on {cable.interface} proto tcp from {cable.peer} to {cable.own}"
    yield f"block return in quick on {cable.interface} proto tcp from any to any flags S/SA"
