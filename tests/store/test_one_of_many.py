"""What is written of one replica, or of one message, is written of that one alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.state import ReplicaId
from reconciler.state.reports.notification import Notification
from reconciler.store import Store
from tests.store.test_store import ATTEMPT, GROUP, TINY

OPENED = Notification("pager", 1, "opened", 5.0, "a rank has crashed")
CLOSED = Notification("pager", 1, "closed", 9.0, "it serves again")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()


def test_one_replica_that_has_answered_proves_no_other(store: Store) -> None:
    other = replace(GROUP, replica=ReplicaId(TINY.deployment, 1))
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


def test_what_was_tried_is_printed_oldest_first(store: Store) -> None:
    for epoch in (1, 2, 3):
        store.allocate(replace(GROUP, epoch=epoch), replace(ATTEMPT, epoch=epoch))
    assert [attempt.epoch for attempt in store.attempts.all()[TINY]] == [1, 2, 3]
