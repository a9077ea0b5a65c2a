"""Which groups prove that results over RDMA are right before their first request, and what such a proof is good for.

No error tells of a wrong result. So the first group of each combination of system, engine, weights, transport and ranks
compares results with known ones and with those over TCP. The next groups of that combination begin at once.
"""

from __future__ import annotations

from reconciler.planning.context.world import World
from reconciler.state import GroupRecord
from reconciler.state.formed_under import RESULT_FACTS, Facts
from reconciler.transports import VERBS

GOOD_SECONDS = 30 * 86_400.0
"""After this time, the next group of a combination proves it again."""


def to_prove(world: World, record: GroupRecord) -> bool:
    """Return whether a new group is to prove its transport."""
    if record.transport not in VERBS:
        return False
    known = world.memory.proofs.get(record.combination)
    return known is None or not 0 <= world.now - known.at < GOOD_SECONDS


def build(facts: Facts) -> Facts:
    """Return the facts whose change makes another try worth while after wrong results."""
    return Facts.of({fact: value for fact, value in facts if fact.name in RESULT_FACTS})
