"""The protection of one machine, for the command line: the commands that sudo should allow, and its firewall's
rules."""

from __future__ import annotations

from reconciler.planning.context.world import World
from reconciler.planning.nodes.root_commands import needed
from reconciler.state import NodeName
from reconciler.wire import answers

from . import nftables, pf
from .policy import policy

WRITERS = {"Darwin": pf, "Linux": nftables}
"""The writers of firewall rules, by ``uname -s``."""


def body(world: World, name: NodeName, own_user: str) -> answers.Protection:
    """Return plain JSON about a node. Raises ``ValueError`` if its rules cannot be written."""
    rights = needed(world, name)
    wanted = policy(world, name, own_user)
    writer = WRITERS.get(wanted.system)
    return {
        "commands": [{"argv": list(each.argv), "why": each.why} for each in rights.commands],
        "unknown": list(rights.unknown),
        "jobs_user": rights.jobs_user,
        "system": wanted.system,
        "firewall": {
            "file": writer.FILE if writer else "",
            "rules": writer.rules(wanted) if writer else "",
            "unknown": list(wanted.unknown),
        },
    }
