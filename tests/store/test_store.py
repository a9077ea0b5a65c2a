"""The store keeps what must survive the controller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Conflict, Invalid
from reconciler.state import DeploymentName, Desired, GroupRecord, NodeName, ReplicaId
from reconciler.state.identity import ObjectKey
from reconciler.state.report import Condition, Event, ObjectStatus
from reconciler.store import EventFilter, Store
from reconciler.store.sqlite import EVENTS_KEPT
from tests.worlds import deployment, model

TINY = ReplicaId(DeploymentName("tiny"), 0)
GROUP = GroupRecord(TINY, 1, (NodeName("node-a"), NodeName("node-b")), 21000, "secret", "print", 5.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()


def reopened(store: Store, tmp_path: Path) -> Store:
    store.close()
    return Store(tmp_path / "store.db")


def test_a_group_is_there_again_after_a_restart(store: Store, tmp_path: Path) -> None:
    store.allocate(GROUP)
    store.prove(TINY, 1, 9.0)
    again = reopened(store, tmp_path)
    assert again.groups() == {TINY: replace(GROUP, proven_at=9.0)}
    assert again.last_epochs() == {TINY: 1}
    again.close()


def test_epochs_only_grow(store: Store) -> None:
    store.allocate(GROUP)
    with pytest.raises(Conflict, match="epoch 1 is not above 1"):
        store.allocate(GROUP)
    store.release(TINY)
    assert store.groups() == {}
    with pytest.raises(Conflict):
        store.allocate(GROUP)
    store.allocate(replace(GROUP, epoch=2))


def test_a_proof_of_an_epoch_that_was_replaced_is_void(store: Store) -> None:
    store.allocate(GROUP)
    store.allocate(replace(GROUP, epoch=2))
    with pytest.raises(Conflict, match="no longer the current one"):
        store.prove(TINY, 1, 9.0)
    assert store.groups()[TINY].proven_at is None


def test_ports_go_on_behind_those_of_the_last_group(store: Store, tmp_path: Path) -> None:
    first = store.next_port(21000)
    assert 21000 <= first < 25000
    assert store.next_port(21000) == first
    store.allocate(replace(GROUP, port=first))
    assert store.next_port(21000) == first + 3
    again = reopened(store, tmp_path)
    assert again.next_port(21000) == first + 3
    again.close()


def test_each_controller_has_a_higher_token(store: Store, tmp_path: Path) -> None:
    tokens = [store.next_token(), store.next_token()]
    again = reopened(store, tmp_path)
    tokens.append(again.next_token())
    assert tokens == [1, 2, 3]
    again.close()


def test_a_store_that_was_lost_takes_a_token_above_what_agents_have_seen(store: Store) -> None:
    assert store.next_token() == 1
    assert store.next_token(above=41) == 42
    assert store.next_token() == 43


def test_agents_are_kept_until_they_are_dropped(store: Store, tmp_path: Path) -> None:
    store.keep_agent(NodeName("node-a"))
    store.keep_agent(NodeName("node-a"))
    store.keep_agent(NodeName("node-b"))
    store.drop_agent(NodeName("node-b"))
    again = reopened(store, tmp_path)
    assert again.agents() == {"node-a"}
    again.close()


def test_a_generation_counts_changes_of_the_spec_alone(store: Store) -> None:
    def generations(*manifests: object) -> dict[ObjectKey, int]:
        return dict(store.objects.apply(Desired.of("r", manifests), 1.0).generations)  # type: ignore[arg-type]

    key = ObjectKey("ModelDeployment", "tiny")
    assert generations(model(), deployment())[key] == 1
    assert generations(model(), deployment())[key] == 1
    assert generations(model(), deployment(replicas=2))[key] == 2
    assert generations(model()) == {ObjectKey("Model", "tiny"): 1}
    assert generations(model(), deployment(replicas=2))[key] == 2, "it was back before it had left"
    generations(model())
    store.objects.remove(key)
    assert generations(model(), deployment(replicas=2))[key] == 1


def event(text: str, key: str = "") -> Event:
    return Event(1.5, ObjectKey("Node", "node-a"), False, "Tested", text, key)


def test_events_come_back_in_order_and_a_fact_with_a_key_is_told_once(store: Store) -> None:
    assert store.add_events([event("one"), event("two", key="k")]) == 2
    assert store.add_events([event("again", key="k"), event("three")]) == 1
    found = store.events(EventFilter())
    assert [e.message for _, e in found] == ["one", "two", "three"]
    assert store.told() == {"k"}
    last = found[-1][0]
    assert store.events(EventFilter(after=last)) == []
    assert [e.message for _, e in store.events(EventFilter(limit=1))] == ["three"]
    assert store.events(EventFilter(kind="Model")) == []
    assert [e.message for _, e in store.events(EventFilter(after=1, limit=1))] == [
        "two"
    ]  # a reader misses none


def test_old_events_are_dropped(store: Store) -> None:
    store.add_events(event(str(number)) for number in range(EVENTS_KEPT + 50))
    found = store.events(EventFilter(limit=EVENTS_KEPT * 2))
    assert len(found) == EVENTS_KEPT
    assert found[-1][1].message == str(EVENTS_KEPT + 49)


def test_statuses_come_back_whole(store: Store) -> None:
    key = ObjectKey("ModelDeployment", "tiny")
    status = ObjectStatus((Condition("Ready", True, "ReplicasReady", "1 of 1", 3.0, 2),), 2, {"replicas": 1})
    store.put_statuses({key: status})
    assert store.statuses() == {key: status}


def test_a_store_of_a_newer_version_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    store.close()
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(Invalid, match="newer reconciler"):
        Store(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is no database, and never was one" * 100)
    with pytest.raises(Invalid, match="cannot be used as the store"):
        Store(path)


def test_the_store_is_readable_by_its_owner_alone(store: Store, tmp_path: Path) -> None:
    assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0
