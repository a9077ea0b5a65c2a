"""What is done, and not done, about the settings of machines."""

from __future__ import annotations

from .mutant import Mutant

PLANNED = "tests/planning/test_repair.py"
AGENT = "tests/agent/test_repair.py"
MESH = "test_a_port_that_a_ring_goes_past_is_set_while_it_serves_and_then_the_mesh_can_be_had"

REPAIRED = (
    Mutant(
        "old-facts-confirm-a-repair",
        "reconciler/planning/repair.py",
        "and node.facts_link == node.link",
        "",
        "a machine that was cut off by its new settings keeps them: what was seen before is taken for after",
        (f"{PLANNED}::test_it_is_confirmed_only_by_what_was_seen_over_a_new_connection",),
    ),
    Mutant(
        "another-s-network-is-given",
        "reconciler/planning/settings.py",
        "if IPv4Network(route.network).overlaps(own) and",
        "if False and",
        "a port gets addresses of the office network or of a VPN, and the machine reaches neither any more",
        (f"{PLANNED}::test_a_network_that_something_else_has_is_not_given",),
    ),
    Mutant(
        "ports-of-living-groups-are-changed",
        "reconciler/planning/repair.py",
        'need.user in ("", ending)',
        "True",
        "a group that serves loses its addresses in the middle of an answer",
        (f"{PLANNED}::test_the_port_of_a_group_that_lives_is_left_alone_until_it_does_no_more",),
    ),
    Mutant(
        "a-ring-holds-the-cables-across",
        "reconciler/planning/rungs.py",
        "return pair in _joined(transport, members) or found",
        "return True",
        "a cable that is plugged in across a ring of four never gets its addresses: the mesh comes with the next crash",
        (f"{PLANNED}::{MESH}",),
    ),
    Mutant(
        "the-way-to-rank-0-is-forgotten",
        "reconciler/planning/rungs.py",
        "found = members[0] in pair and ",
        "found = False and ",
        "the port over which a rank of a ring hears from rank 0 loses its address while the group serves",
        (f"{PLANNED}::test_a_port_over_which_a_rank_has_found_the_first_is_left_alone",),
    ),
    Mutant(
        "repairs-that-do-not-help-go-on",
        "reconciler/planning/repair.py",
        "if times >= TRIES_MAX:",
        "if False:",
        "the network of a machine goes up and down for ever, and nobody is told what to do",
        (f"{PLANNED}::test_what_does_not_help_is_tried_a_few_times_in_a_boot_and_then_left_to_a_person",),
    ),
    Mutant(
        "what-nobody-confirms-stays",
        "reconciler/agent/repair.py",
        "if (yield Await(record.confirm_seconds)):",
        "if (yield Await(record.confirm_seconds)) is not None:",
        "a machine that its new settings have cut off stays cut off",
        (f"{AGENT}::test_what_nobody_confirms_is_undone_by_the_machine_itself",),
    ),
    Mutant(
        "an-old-connection-may-confirm",
        "reconciler/agent/repairing.py",
        "if peer in self._before:",
        "if False:",
        "a connection that was there before tells nothing of whether another can be made",
        (f"{AGENT}::test_what_is_confirmed_over_a_new_connection_stays",),
    ),
)
