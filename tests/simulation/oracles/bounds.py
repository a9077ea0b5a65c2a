"""The bounds that worlds are judged by, in one place: docs/faults.md has them for people."""

from __future__ import annotations

import math
from collections.abc import Mapping

from reconciler.execution.handlers.machines import REPAIR_SECONDS_MAX
from reconciler.planning.context.back_off_time import BACK_OFF_SECONDS_MAX
from reconciler.planning.context.deadlines import PROOF_SECONDS_MAX
from reconciler.state import WaitingFor
from reconciler.state.observed import KILL_SECONDS
from reconciler.status.unserved import UNSERVED_SECONDS
from tests.simulation.schedules import points

FORMING_SECONDS = 40.0
"""A group is formed and proven, on machines that are as slow as in any schedule."""

SERVICE_LOST_SECONDS: Mapping[str, float] = {
    "agent-death": 20.0,  # its ranks go on
    "agent-hang": 45.0,  # so do its ranks; it counts as silent after 15 s, and may have 20 s to begin and 4 s to answer
    "controller-death": 20.0,
    "controller-sleeps": 60.0,  # of which it sleeps 40 at most
    "controller-zombie": 45.0,
    "rank-crash": 20.0,
    "rank-hang": 150.0,  # spec.health.stallAfter, and a grace
    "rank-deaf": 60.0,  # spec.health.stallAfter
    "rank-stopped": 150.0,  # it is continued; one that cannot be is as one that hangs
    "shim-death": 30.0,
    "store-lost": 90.0,  # a node that does not answer is asked for until it is lost
    "tables-lost": 90.0,
    "older-backup": 90.0,
    "reboot": 120.0,  # a machine is away for 30 s at most
    "panics": 240.0,  # and is left alone until its panics are old
    "cable-out": 90.0,
    "cable-slow": 90.0,
    "cable-swapped": 90.0,
    "panics-apart": 3900.0,  # an hour, after which its panics are old
    "leak": 180.0,  # the machine is away for 30 s
    "deaths": 20.0,
    "partition": 180.0,  # 80 s at most, and spec.lostAfter
    "slow-node": 240.0,  # eight times as slow, for 40 s and one load
    "node-disk-full": 150.0,
    "disk-full": 60.0,
    "pushes-lost": 90.0,
    "pushes-repeated": 20.0,
    "commands-late": 60.0,
    "clock-jump": 90.0,  # whatever has happened before is observed again
    "clock-jump-of-node": 20.0,
    "stranger": 30.0,
    "wrong-results": 60.0,  # a forming over RDMA that fails, a back-off, and one over TCP
    "poison": 20.0,
    "story": 180.0,  # what the story of a scenario does
    points.LOST: PROOF_SECONDS_MAX + 30.0,
    points.UNANSWERED: 90.0,
}
"""How long a replica may be out of service because of one fault, besides the forming of a group. Several that come
together add up."""
OTHER_SECONDS = 60.0
"""The same for any fault that is not listed."""
EARLY_DEATHS = 6
"""So many faults within an hour cost no back-off."""
CEILING_SECONDS = 1.2 * BACK_OFF_SECONDS_MAX
"""The longest back-off, as far as it is spread."""

WAITING_SECONDS: Mapping[WaitingFor, float] = {
    WaitingFor.SOURCE: 40.0,
    WaitingFor.STORE: 10.0,
    WaitingFor.ROUTES: 40.0,
    WaitingFor.STEP: PROOF_SECONDS_MAX + 60.0,
    WaitingFor.AGENT: 120.0,
    WaitingFor.EXAMINED: 120.0,
    WaitingFor.EXAMINATION: 1800.0 + 600.0 + 60.0,
    WaitingFor.OBSERVATION: REPAIR_SECONDS_MAX + 30.0,
    WaitingFor.STOPPING: 2 * KILL_SECONDS + 15.0,
    WaitingFor.RANKS: 600.0,
    WaitingFor.PROGRESS: 150.0,
    WaitingFor.LEFTOVERS: 75.0,
    WaitingFor.BACK_OFF: CEILING_SECONDS + 60.0,
    WaitingFor.QUIET: math.inf,
    WaitingFor.RESTART: 960.0,
    WaitingFor.TURN: 3 * 960.0,
    WaitingFor.ROLLOUT: 3 * 600.0,
    WaitingFor.PAUSED: math.inf,
    WaitingFor.SUSPENDED: math.inf,
    WaitingFor.WINDOW: math.inf,
    WaitingFor.REPAIR: 240.0,
    WaitingFor.REMOVAL: 120.0,
    WaitingFor.ROOM: math.inf,  # a job waits for nodes until some are free
}
"""How long each reason of a plan may stay, counted from the last fault: the table "Of the plan" in docs/faults.md, with a
look more. A machine that nobody reaches is waited for without end."""

UNTOLD_SECONDS = UNSERVED_SECONDS + 30.0
"""So long nothing may serve a deployment, and nobody work on it, before an incident tells it."""

REPEATS_MAX = 24
"""So often within ``REPEATS_SECONDS`` one controller may ask an agent for the same: a step that fails is repeated after
half a second, doubling to a minute."""
REPEATS_SECONDS = 600.0

FRONT_NEWS_SECONDS = 15.0
"""So soon passes know of a change of a node's gateway, besides two looks at it: a machine that is slow, or far away."""

TOGETHER_SECONDS = 400.0
"""So soon after the first rank of an attempt all others are there, or none is: the rendezvous is given up after 120 s, which
a slow machine counts more slowly."""
ROOM_SECONDS = 300.0
"""So soon a group leaves nodes that were given to a job: it finishes its requests first."""
