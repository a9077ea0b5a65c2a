"""What is written of one replica, or of one message, is written of that one alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.state import DeploymentName, FaultClass, NodeName, Reboot, ReplicaId, Stored, TransportFailure
from reconciler.state.formed_under import NO_FACTS
from reconciler.state.reports.notification import Notification
from reconciler.state.rollback import Rollback
from reconciler.store import Store
from reconciler.store.tables.notifications import WAITING_MAX
from tests.store.test_store import ATTEMPT, GROUP, SPEC, TINY

NEXT = ReplicaId(TINY.deployment, 1)
OPENED = Notification("pager", 1, "opened", 5.0, "a rank has crashed")
CLOSED = Notification("pager", 1, "closed", 9.0, "it serves again")


def test_one_replica_that_has_answered_proves_no_other(store: Store) -> None:
    other = replace(GROUP, workload=ReplicaId(TINY.deployment, 1))
    for group in (GROUP, other):
        store.allocate(group, ATTEMPT)
    store.prove(TINY, 1, 9.0)
    assert {id: group.proven_at for id, group in store.groups().items()} == {
        TINY: 9.0,
        other.replica: None,
    }


def test_messages_are_sent_in_their_order_and_each_ends_alone(store: Store) -> None:
    store.put_incidents([], [], [CLOSED, OPENED], 9.0)
    assert store.notifications.next("pager") == OPENED
    store.notifications.mark(replace(OPENED, attempts=1, ended_at=10.0))
    assert store.notifications.next("pager") == CLOSED
    store.notifications.mark(replace(CLOSED, attempts=1, ended_at=11.0))
    assert store.notifications.next("pager") is None


def test_of_too_many_messages_the_oldest_is_given_up_and_none_of_its_incident_or_of_another_notifier(
    store: Store,
) -> None:
    others = [Notification("pager", n, "opened", 5.0 + n, "more") for n in range(2, WAITING_MAX + 1)]
    late, elsewhere = replace(CLOSED, at=900.0), replace(OPENED, notifier="chat")
    store.put_incidents([], [], [OPENED, *others, late, elsewhere], 9.0)
    sent = []
    while (message := store.notifications.next("pager")) is not None:
        sent.append(message)
        store.notifications.mark(replace(message, attempts=1, ended_at=1000.0))
    assert sent == [*others, late]
    assert store.notifications.next("chat") == elsewhere


OTHER = ReplicaId(DeploymentName("other"), 0)
NO_CABLE = TransportFailure("jaccl", NO_FACTS, 1.0, "no cable", FaultClass.LINK_DOWN)
RING = replace(NO_CABLE, transport="ring")
TAKEN_BACK = Rollback("tiny", "org/tiny@b", "org/tiny@a", "", 5.0, "it crashed")
A, B = NodeName("node-a"), NodeName("node-b")
OF_ONE: dict[str, tuple[Callable[[Store], object], Callable[[Stored], object], object]] = {
    "release": (lambda s: s.release(TINY), lambda found: {*found.groups}, {NEXT, OTHER}),
    "release, and its transports": (
        lambda s: s.release(TINY),
        lambda found: {*found.transport_failures},
        {NEXT, OTHER},
    ),
    "keep a spec": (
        lambda s: s.keep_spec(TINY, 1, SPEC),
        lambda found: {id for id, group in found.groups.items() if group.spec},
        {TINY},
    ),
    "free a transport": (
        lambda s: s.free_transport(TINY, "jaccl"),
        lambda found: {
            id: [each.transport for each in some] for id, some in found.transport_failures.items()
        },
        {TINY: ["ring"], NEXT: ["jaccl", "ring"], OTHER: ["jaccl", "ring"]},
    ),
    "drop an agent": (lambda s: s.drop_agent(A), lambda found: {*found.agents}, {B}),
    "drop a reboot": (lambda s: s.drop_reboot(A), lambda found: {*found.reboots}, {B}),
    "forget a rollback": (
        lambda s: s.forget_rollback(TINY.deployment),
        lambda found: {*found.rollbacks},
        {OTHER.deployment},
    ),
    "a new attempt": (
        lambda s: s.allocate(replace(GROUP, epoch=2), replace(ATTEMPT, epoch=2)),
        lambda found: {id: len(some) for id, some in found.attempts.items()},
        {TINY: 3, NEXT: 2, OTHER: 2},
    ),
}
"""A change that is about one, what to look at, and what is there afterwards."""


@pytest.mark.parametrize(("change", "look", "after"), OF_ONE.values(), ids=OF_ONE)
def test_what_is_about_one_leaves_all_others_as_they_were(
    change: Callable[[Store], object], look: Callable[[Stored], object], after: object, store: Store
) -> None:
    for replica in (TINY, NEXT, OTHER):
        for epoch, failed in ((0, NO_CABLE), (1, RING)):
            group, attempt = replace(GROUP, workload=replica, epoch=epoch), replace(ATTEMPT, epoch=epoch)
            store.allocate(group, attempt, failed)
        store.set_back(replica.deployment, TAKEN_BACK)
    for name in (A, B):
        store.keep_agent(name)
        store.note_reboot(name, Reboot(5.0, "boot", "wanted"))
    change(store)
    assert look(store._stored()) == after


def test_what_was_tried_is_printed_oldest_first(store: Store) -> None:
    for epoch in (1, 2, 3):
        store.allocate(replace(GROUP, epoch=epoch), replace(ATTEMPT, epoch=epoch))
    assert [attempt.epoch for attempt in store.attempts.all()[TINY]] == [1, 2, 3]
