"""The transports between the ranks of a group: those of MLX's distributed backends, which jobs use too. Pure facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransportRow:
    """A transport between the ranks of a group."""

    name: str
    """Its name in ``spec.transport``."""
    backend: str
    """MLX's own name."""
    rdma: bool = False
    """True if it registers memory with RDMA devices."""
    cables: bool = False
    """True if it needs Thunderbolt cables between its ranks; otherwise any network is enough."""
    ring: bool = False
    """True if each rank talks only to its two neighbours, over cables."""


TABLE = (
    TransportRow("jaccl", "jaccl", rdma=True, cables=True),
    TransportRow("jaccl-ring", "jaccl", rdma=True, cables=True, ring=True),
    TransportRow("ring", "ring", cables=True, ring=True),
    TransportRow("ring-lan", "ring"),
)
"""All transports, fastest first."""
VERBS = tuple(each.name for each in TABLE if each.rdma)
CABLES = tuple(each.name for each in TABLE if each.cables)
RINGS = tuple(each.name for each in TABLE if each.ring)
MESH = next(name for name in VERBS if name not in RINGS)
LAN = next(each.name for each in TABLE if not each.cables)
BACKENDS = {each.name: each.backend for each in TABLE}
VERBS_ATTEMPTS_MAX = 5
"""Set-ups of RDMA without a serving group in one boot of a machine, before a restart is needed. A Mac has eleven
protection domains, and a failed set-up may keep one."""
GID_INDEX = 1
"""The index of the GID that RDMA uses, in a port's table of GIDs. It is fixed in ``rdma.cpp`` of MLX 0.32, which
announces the first mapped GID of any index: RTR fails with errno 22 if that is another one."""
WIRES_MAX = 4
"""Most cables between two ranks that carry RDMA together: ``RING_MAX_CONNS`` of MLX's ``ring_impl.h``. A mesh has no
limit of its own."""
