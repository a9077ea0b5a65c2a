"""The store keeps what must survive the controller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Conflict, Damaged, Invalid
from reconciler.resources import LOCAL, Access
from reconciler.state import (
    Attempt,
    DeploymentName,
    Desired,
    FaultClass,
    GroupRecord,
    Leaving,
    NodeName,
    Reboot,
    ReplicaId,
    Suspicion,
)
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.notification import Notification
from reconciler.state.reports.status import Condition, Event, ObjectStatus
from reconciler.store import EventFilter, Store
from reconciler.store.schema import MIGRATIONS
from reconciler.store.tables.attempts import ATTEMPTS_KEPT
from reconciler.store.tables.events import EVENTS_KEPT
from reconciler.store.tables.objects import APPROVALS_KEPT
from tests.worlds import deployment, gateway, model, node

TINY = ReplicaId(DeploymentName("tiny"), 0)
GROUP = GroupRecord(TINY, 1, (NodeName("node-a"), NodeName("node-b")), 21000, "secret", "print", 5.0)
SPEC = FormedSpec.of(deployment(nodes=2), model())
ATTEMPT = Attempt(
    1, 5.0, "RankExited", FaultClass.RANK_CRASH, "rank 1 was killed", "1/1", 12.5, Suspicion.FAINT
)


def reopened(store: Store, tmp_path: Path) -> Store:
    store.close()
    return Store(tmp_path / "store.db")


def test_a_spec_that_this_version_cannot_read_is_not_known_and_stays(store: Store, tmp_path: Path) -> None:
    store.allocate(replace(GROUP, spec=SPEC, spec_before=SPEC), ATTEMPT)
    store.close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        assert db.execute("SELECT spec, spec_before FROM groups").fetchone() == (SPEC.json, SPEC.json)
        db.execute("UPDATE groups SET spec = '{}'")
        db.commit()
    opened = Store(tmp_path / "store.db")
    opened.prove(TINY, 1, 9.0)
    found = opened.groups()[TINY]
    opened.close()
    assert (found.spec, found.spec_before) == (None, SPEC)
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        assert db.execute("SELECT spec FROM groups").fetchone() == ("{}",)


def test_a_group_is_there_again_after_a_restart(store: Store, tmp_path: Path) -> None:
    store.allocate(GROUP, ATTEMPT)
    store.prove(TINY, 1, 9.0)
    again = reopened(store, tmp_path)
    assert again.groups() == {TINY: replace(GROUP, proven_at=9.0)}
    assert again.last_epochs() == {TINY: 1}
    again.close()


def test_what_each_of_unequal_ranks_is_charged_is_kept(store: Store, tmp_path: Path) -> None:
    store.allocate(replace(GROUP, rank_bytes=7, needs=(7, 5)), ATTEMPT)
    again = reopened(store, tmp_path)
    assert again.groups()[TINY].charges == (7, 5)
    again.close()


def test_epochs_only_grow(store: Store) -> None:
    store.allocate(GROUP, ATTEMPT)
    with pytest.raises(Conflict, match="epoch 1 is not above 1"):
        store.allocate(GROUP, ATTEMPT)
    store.release(TINY)
    assert store.groups() == {}
    with pytest.raises(Conflict):
        store.allocate(GROUP, ATTEMPT)
    store.allocate(replace(GROUP, epoch=2), ATTEMPT)


def test_a_group_is_adopted_in_the_last_epoch_or_a_later_one(store: Store) -> None:
    store.allocate(replace(GROUP, epoch=4), ATTEMPT)
    store.release(TINY)
    with pytest.raises(Conflict, match="epoch 3 is not above"):
        store.adopt(replace(GROUP, epoch=3))
    for epoch in (4, 6):
        store.adopt(replace(GROUP, epoch=epoch))
        assert store.groups()[TINY].epoch == epoch
    assert store.last_epochs() == {TINY: 6}


def test_a_proof_of_an_epoch_that_was_replaced_is_void(store: Store) -> None:
    store.allocate(GROUP, ATTEMPT)
    store.allocate(replace(GROUP, epoch=2), ATTEMPT)
    with pytest.raises(Conflict, match="no longer the current one"):
        store.prove(TINY, 1, 9.0)
    assert store.groups()[TINY].proven_at is None


def test_a_store_that_was_lost_takes_a_token_above_what_agents_have_seen(store: Store) -> None:
    store.renew(above=41)
    assert store.token == 42
    store.renew()
    assert store.token == 43


def test_a_generation_counts_changes_of_the_spec_alone(store: Store) -> None:
    def generations(*manifests: object) -> dict[ObjectKey, int]:
        return dict(store.objects.apply(Desired.of("r", manifests), 1.0).generations)  # type: ignore[arg-type]

    key = ObjectKey("ModelDeployment", "tiny")
    assert generations(model(), deployment())[key] == 1
    assert generations(model(), deployment())[key] == 1
    assert generations(model(), deployment(replicas=1, health={"stallAfter": "60s"}))[key] == 1, (
        "as by default"
    )
    assert generations(model(), deployment(replicas=2))[key] == 2
    assert generations(model()) == {ObjectKey("Model", "tiny"): 1}
    assert generations(model(), deployment(replicas=2))[key] == 2, "it was back before it had left"
    generations(model())
    store.objects.remove(key)
    assert generations(model(), deployment(replicas=2))[key] == 1


def event(text: str, key: str = "") -> Event:
    return Event(1.5, ObjectKey("Node", "node-a"), False, "Tested", text, key)


def test_events_come_back_in_order_and_a_fact_with_a_key_is_recorded_once(store: Store) -> None:
    assert store.add_events([event("one"), event("two", key="k")]) == 2
    assert store.add_events([event("again", key="k"), event("three")]) == 1
    assert store.add_events([]) == 0
    found = store.events(EventFilter())
    assert [e.message for _, e in found] == ["one", "two", "three"]
    assert store.event_keys() == {"k"}
    last = found[-1][0]
    assert store.events(EventFilter(after=last)) == []
    assert [e.message for _, e in store.events(EventFilter(limit=1))] == ["three"]
    assert store.events(EventFilter(kind="Model")) == []
    assert [e.message for _, e in store.events(EventFilter(after=1, limit=1))] == [
        "two"
    ]  # a reader misses none


def test_events_are_chosen_by_type_and_age(store: Store) -> None:
    moments = [(1.0, True), (2.0, False), (3.0, True)]
    store.add_events(Event(at, ObjectKey("Node", "node-a"), bad, "Tested", f"{at:g}") for at, bad in moments)

    def messages(wanted: EventFilter) -> list[str]:
        return [e.message for _, e in store.events(wanted)]

    assert messages(EventFilter(warning=True)) == ["1", "3"]
    assert messages(EventFilter(warning=False)) == ["2"]
    assert messages(EventFilter(since=2.0)) == ["2", "3"]
    assert messages(EventFilter(limit=1, warning=True, since=1.0)) == ["3"]


def test_the_newest_event_is_known_without_reading_any(store: Store) -> None:
    assert store.last_event() == 0
    store.add_events([event("one"), event("two")])
    assert store.last_event() == store.events(EventFilter())[-1][0] == 2


def test_old_events_are_dropped(store: Store) -> None:
    store.add_events(event(str(number)) for number in range(EVENTS_KEPT + 50))
    found = store.events(EventFilter(limit=EVENTS_KEPT * 2))
    assert len(found) == EVENTS_KEPT
    assert found[-1][1].message == str(EVENTS_KEPT + 49)


def test_statuses_come_back_complete(store: Store) -> None:
    key = ObjectKey("ModelDeployment", "tiny")
    ready = Condition("Ready", True, "ReplicasReady", "1 of 1", 3.0, 2)
    stalled = Condition("Stalled", True, "RankRefuses", "it refuses", 3.0, 2, "correct it")
    status = ObjectStatus((ready, stalled), 2, {"replicas": 1})
    assert store.put_statuses({key: status}, [event("one")]) == 1
    assert store.statuses() == {key: status}
    assert [stored.message for _, stored in store.events(EventFilter())] == ["one"]


def test_a_status_is_not_written_without_its_events(store: Store) -> None:
    """A controller that ends between the two would never tell of the change: the next one sees the status as told."""

    def broken() -> Iterator[Event]:
        yield event("one")
        raise RuntimeError("the end of the process")

    key = ObjectKey("ModelDeployment", "tiny")
    with pytest.raises(RuntimeError):
        store.put_statuses({key: ObjectStatus((), 1)}, broken())
    assert store.statuses() == {}
    assert store.events(EventFilter()) == []


def test_what_only_tells_people_has_nothing_read_anew(store: Store) -> None:
    before = store.contents.read()
    store.put_statuses({ObjectKey("Node", "a"): ObjectStatus((), 1)}, [event("one")])
    store.add_events([event("two")])
    store.put_incidents([], [event("three")], [], 1.0)
    assert store.contents.read() is before
    store.keep_agent(NodeName("a"))
    assert store.contents.read().agents.keys() == {"a"}


def test_a_message_that_is_to_be_sent_is_read_by_the_next_pass(store: Store) -> None:
    store.contents.read()
    store.put_incidents([], [], [Notification("pager", 1, "opened", 5.0, "a rank has crashed")], 1.0)
    assert store.contents.read().deliveries.keys() == {"pager"}


def test_a_store_of_a_newer_version_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    store.close()
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(Invalid, match="newer reconciler"):
        Store(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is no database, and never was one" * 100)
    with pytest.raises(Damaged, match="is damaged: file is not a database"):
        Store(path)


def test_a_database_of_another_program_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE counters (other TEXT)")
    before = path.read_bytes()
    with pytest.raises(Invalid) as caught:
        Store(path)
    assert f"{path} cannot be used as the store: " in str(caught.value)
    assert "reconciler restore --force FILE" in str(caught.value)
    assert "delete store.db*, which is safe" in str(caught.value)
    assert path.read_bytes()[100:] == before[100:], "all but its header, which says how it is written to"


def test_the_store_is_readable_by_its_owner_alone(store: Store, tmp_path: Path) -> None:
    assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


# --- the inventory --------------------------------------------------------------------------------


def desired(revision: str, *manifests: Any) -> Desired:
    return Desired.of(revision, manifests)


EVERY_KIND = (node("a"), node("b", labels={"pool": "x"}), model(), deployment(replicas=2), gateway())


def test_what_is_in_force_is_there_again_after_a_restart(store: Store, tmp_path: Path) -> None:
    assert store.objects.in_force() is None
    applied = store.objects.apply(desired("r1", *EVERY_KIND), 5.0)
    again = reopened(store, tmp_path)
    found = again.objects.in_force()
    assert found is not None
    assert found == applied
    assert (found.revision, set(found.created.values())) == ("r1", {5.0})
    again.close()


def test_what_a_revision_does_not_have_leaves_and_is_in_force_no_more(store: Store, tmp_path: Path) -> None:
    store.objects.apply(desired("r1", model(), node("a")), 5.0)
    store.put_statuses({ObjectKey("Node", "a"): ObjectStatus((), 1)})
    store.objects.apply(desired("r2", model()), 6.0)
    store.objects.apply(desired("r3", model()), 7.0)
    again = reopened(store, tmp_path)
    assert again.objects.keys() == {ObjectKey("Model", "tiny")}
    assert again.objects.leaving() == {ObjectKey("Node", "a"): Leaving(node("a"), 1, 6.0)}
    again.remove_object(ObjectKey("Model", "tiny"))
    again.remove_object(ObjectKey("Node", "a"))
    assert again.objects.leaving() == {}
    assert again.statuses() == {}
    assert again.objects.keys() == {ObjectKey("Model", "tiny")}, "what is in force is not taken out"
    again.close()


def test_what_comes_back_before_it_has_left_is_the_same_object(store: Store) -> None:
    store.objects.apply(desired("r1", node("a")), 5.0)
    store.objects.apply(desired("r2"), 6.0)
    back = store.objects.apply(desired("r3", node("a")), 7.0)
    assert store.objects.leaving() == {}
    assert back.created == {ObjectKey("Node", "a"): 5.0}


def test_approvals_are_kept_but_not_all_for_ever(store: Store, tmp_path: Path) -> None:
    for number in range(APPROVALS_KEPT + 5):
        store.objects.approve(f"r{number}", float(number), "ada")
    store.objects.approve(f"r{APPROVALS_KEPT}", 0.0, "bob")
    again = reopened(store, tmp_path)
    assert again.objects.approved() == {f"r{number}" for number in range(5, APPROVALS_KEPT + 5)}
    again.close()


def test_a_store_of_version_1_is_brought_up_to_date_and_knows_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as db:
        db.executescript(f"{MIGRATIONS[0]} PRAGMA user_version = 1;")
        db.execute(
            "INSERT INTO objects VALUES ('Node', 'a', 'digest', 3, 5.0), ('Node', 'b', 'digest', 1, 5.0)"
        )
        db.execute("INSERT INTO groups VALUES ('tiny', 0, 1, '[]', 1, 's', 'f', 5.0, 0, NULL, 0)")
    db.close()
    store = Store(path)
    assert (tmp_path / "store.v1.db").exists()
    assert store.objects.keys() == {ObjectKey("Node", "a"), ObjectKey("Node", "b")}
    assert store.objects.in_force() is None, "their manifests are not known"
    assert [group.model for group in store.groups().values()] == [""]
    applied = store.objects.apply(desired("r1", node("a")), 6.0)
    assert applied.generations == {ObjectKey("Node", "a"): 4}
    assert applied.created == {ObjectKey("Node", "a"): 5.0}
    assert store.objects.leaving() == {}, "what cannot be shown is not kept"
    assert store.objects.in_force() == applied
    store.close()


def test_what_was_tried_is_written_with_the_epoch_and_survives(store: Store, tmp_path: Path) -> None:
    store.allocate(GROUP, ATTEMPT)
    with pytest.raises(Conflict):
        store.allocate(GROUP, replace(ATTEMPT, text="written without its epoch"))
    assert reopened(store, tmp_path).attempts.all() == {TINY: (ATTEMPT,)}


def test_what_a_pass_remembers_is_read_again_after_every_change_and_only_then(store: Store) -> None:
    store.allocate(GROUP, ATTEMPT)
    first = store.contents.read()
    assert first.groups == {TINY: GROUP}
    assert store.contents.read() is first
    store.prove(TINY, 1, 9.0)
    proven = store.contents.read()
    assert proven.groups == {TINY: replace(GROUP, proven_at=9.0)}
    with pytest.raises(Conflict):
        store.allocate(replace(GROUP, epoch=1, port=5), ATTEMPT)
    assert store.contents.read() == proven, "what was taken back is not remembered"
    store.release(TINY)
    assert store.contents.read().groups == {}


def test_of_many_attempts_the_latest_are_kept(store: Store) -> None:
    other = replace(GROUP, workload=ReplicaId(DeploymentName("other"), 0))
    store.allocate(other, ATTEMPT)
    for epoch in range(1, ATTEMPTS_KEPT + 3):
        store.allocate(replace(GROUP, epoch=epoch), replace(ATTEMPT, epoch=epoch))
    kept = store.attempts.all()
    assert [a.epoch for a in kept[TINY]] == list(range(3, ATTEMPTS_KEPT + 3))
    assert kept[other.replica] == (ATTEMPT,)


def test_what_was_written_is_on_disk_before_anything_is_done_about_it(store: Store) -> None:
    (level,) = store._db.execute("PRAGMA synchronous").fetchone()
    assert level == 2  # FULL: a commit returns when it is synced (sqlite.org/pragma.html)


def test_a_store_outgrows_another_and_never_goes_back(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other.db")
    second = TINY._replace(index=1)
    for kept, epoch in ((store, 5), (other, 3)):
        kept.allocate(replace(GROUP, epoch=epoch), replace(ATTEMPT, epoch=epoch))
    for kept, epoch in ((store, 2), (other, 9)):
        kept.allocate(replace(GROUP, workload=second, epoch=epoch), replace(ATTEMPT, epoch=epoch))
    other.renew(above=70)
    token = other.token
    other.close()
    store.outgrow(tmp_path / "other.db")
    assert store.last_epochs() == {TINY: 5, second: 9}
    assert store.token >= token
    store.renew()
    assert store.token > token


def test_another_deployment_of_the_same_name_begins_with_a_fresh_budget(store: Store) -> None:
    store.objects.apply(Desired.of("r1", [model(), deployment()]), 1.0)
    other = replace(GROUP, workload=ReplicaId(DeploymentName("other"), 0))
    store.allocate(GROUP, ATTEMPT)
    store.allocate(other, ATTEMPT)
    store.objects.apply(Desired.of("r2", [model()]), 2.0)
    assert set(store.attempts.all()) == {TINY, other.replica}, "it has not left yet"
    store.remove_object(ObjectKey("ModelDeployment", "tiny"))
    assert set(store.attempts.all()) == {other.replica}


def test_the_last_restart_of_each_machine_is_there_again_after_one_of_the_controller(
    store: Store, tmp_path: Path
) -> None:
    a, b, c = NodeName("node-a"), NodeName("node-b"), NodeName("node-c")
    store.note_reboot(a, Reboot(1.0, "boot-1", "C7: held"))
    store.note_reboot(b, Reboot(2.0, "boot-2", "C13: wedged"))
    store.note_reboot(c, Reboot(2.5, "boot-2", "somebody asked for it", requested=False))
    store.note_reboot(a, Reboot(3.0, "boot-3", "C7: held again"))
    store.drop_reboot(b)
    assert reopened(store, tmp_path).reboots.all() == {
        a: Reboot(3.0, "boot-3", "C7: held again"),
        c: Reboot(2.5, "boot-2", "somebody asked for it", requested=False),
    }


def test_an_agent_is_kept_with_the_route_to_it(tmp_path: Path) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"
    far = Access.model_validate({"ssh": {"host": "h", "user": "u", "hostKey": key}, "python": "/opt/python3"})
    store = Store(tmp_path / "store.db")
    store.keep_agent(NodeName("node-a"), LOCAL)
    store.keep_agent(NodeName("node-b"), LOCAL)
    store.keep_agent(NodeName("node-b"), far)
    store.close()
    again = Store(tmp_path / "store.db")
    assert again.agents.all() == {"node-a": LOCAL, "node-b": far}
    again.close()
