"""What is done, and not done, about the settings of machines."""

from __future__ import annotations

from ast import BoolOp, Call, Compare, If, Yield

from reconciler.agent.repairs import requests
from reconciler.agent.repairs import script as agent_repair
from reconciler.planning.nodes import repair as planning_repair
from reconciler.planning.nodes import settings
from reconciler.planning.transport import fallback
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, drop, never, put

PLANNED = "tests/planning/nodes/test_repair.py"
AGENT = "tests/agent/repairs/test_repair.py"
MESH = "test_a_port_that_a_ring_goes_past_is_set_while_it_serves_and_then_the_mesh_can_be_had"

REPAIRED = (
    Mutant(
        "old-facts-confirm-a-repair",
        planning_repair._finish,
        drop(Compare, 3, 5),
        "a machine that was cut off by its new settings keeps them: what was seen before is taken for after",
        (f"{PLANNED}::test_it_is_confirmed_only_by_what_was_seen_over_a_new_connection",),
    ),
    Mutant(
        "another-s-network-is-given",
        settings._obstacle,
        never(Call, 4, 6),
        "a port gets addresses of the office network or of a VPN, and the machine reaches neither any more",
        (f"{PLANNED}::test_a_network_that_something_else_has_is_not_given",),
    ),
    Mutant(
        "ports-of-living-groups-are-changed",
        planning_repair._due,
        always(Compare, 1, 2),
        "a group that serves loses its addresses in the middle of an answer",
        (f"{PLANNED}::test_the_port_of_a_group_that_lives_is_left_alone_until_it_does_no_more",),
    ),
    Mutant(
        "a-ring-holds-the-cables-across",
        fallback.crosses,
        always(BoolOp, 3, 4),
        "a cable that is plugged in across a ring of four never gets its addresses: the mesh comes with the next crash",
        (f"{PLANNED}::{MESH}",),
    ),
    Mutant(
        "the-way-to-rank-0-is-forgotten",
        fallback.crosses,
        never(Compare, 3, 5),
        "the port over which a rank of a ring hears from rank 0 loses its address while the group serves",
        (f"{PLANNED}::test_a_port_over_which_a_rank_has_found_the_first_is_left_alone",),
    ),
    Mutant(
        "repairs-that-do-not-help-go-on",
        planning_repair._spent,
        never(If, 2, 5),
        "the network of a machine goes up and down for ever, and nobody is told what to do",
        (f"{PLANNED}::test_what_does_not_help_is_tried_a_few_times_in_a_boot_and_then_left_to_a_person",),
    ),
    Mutant(
        "what-nobody-confirms-stays",
        agent_repair.carry_out,
        put(Yield, "{it} is not None", 3, 4),
        "a machine that its new settings have cut off stays cut off",
        (f"{AGENT}::test_what_nobody_confirms_is_undone_by_the_machine_itself",),
    ),
    Mutant(
        "an-old-connection-may-confirm",
        requests.RepairRequests.confirm,
        never(If, 0, 2),
        "a connection that was there before tells nothing of whether another can be made",
        (f"{AGENT}::test_what_is_confirmed_over_a_new_connection_stays",),
    ),
)
