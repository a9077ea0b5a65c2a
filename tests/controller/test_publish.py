"""Routes are written by the newest controller alone, and statuses only of what is there."""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reconciler.controller import publish
from reconciler.controller.publish import Publisher
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Deposed
from reconciler.state import ObjectKey, Plan, ReplicaId
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event
from reconciler.state.slices import whole
from reconciler.status import Snapshots
from reconciler.store import EventFilter, Store
from tests.store.test_full_disk import files_no_longer_than
from tests.store.test_locked import locked
from tests.worlds import World, gateway, node, two_nodes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> RoutesFile:
    return RoutesFile(tmp_path / "routes.json")


@pytest.fixture
def publisher(store: Store, file: RoutesFile) -> Publisher:
    return Publisher(store, file)


def with_gateway(**spec: Any) -> World:
    world = two_nodes()
    world.manifests.append(gateway(**spec))
    return world


def snapshots(world: World) -> Snapshots:
    return Snapshots(world.desired(), world.observed(), world.memory(), Plan(), world.now)


async def test_who_was_replaced_after_its_last_look_at_the_store_writes_no_routes(
    tmp_path: Path, publisher: Publisher, file: RoutesFile
) -> None:
    world = with_gateway()
    whole(publisher.publish(snapshots(world)))
    written = file.path.read_bytes()
    newer = Store(tmp_path / "store.db")
    world.settle()
    with pytest.raises(Deposed):
        whole(publisher.publish(snapshots(world)))
    assert file.path.read_bytes() == written
    whole(Publisher(newer, RoutesFile(file.path)).publish(snapshots(world)))
    assert file.path.read_bytes() != written
    newer.close()


async def test_routes_do_not_wait_for_a_locked_store(
    tmp_path: Path, publisher: Publisher, file: RoutesFile
) -> None:
    world = with_gateway()
    whole(publisher.publish(snapshots(world)))
    written = file.path.read_bytes()
    world.settle()
    with locked(tmp_path / "store.db"):
        whole(publisher.publish(snapshots(world)))
    assert file.path.read_bytes() != written
    assert publisher.problem == ""


async def test_groups_are_published_when_the_gateway_has_their_routes(tmp_path: Path, store: Store) -> None:
    world = two_nodes()
    world.settle()
    (found,) = world.groups.values()
    file = RoutesFile(tmp_path / "routes" / "routes.json")
    publisher = Publisher(store, file)

    def published() -> frozenset[tuple[ReplicaId, int]] | None:
        whole(publisher.publish(snapshots(world)))
        return publisher.published

    assert published() is None, "there is no gateway to have them"
    world.manifests.append(gateway())
    assert published() == frozenset(), "the folder of the file is not there"
    file.path.parent.mkdir()
    assert published() == frozenset({(found.replica, found.epoch)})
    assert Publisher(store, file).published == frozenset({(found.replica, found.epoch)})


async def test_routes_that_could_not_be_written_are_no_problem_when_those_in_force_are_wanted_again(
    publisher: Publisher, file: RoutesFile
) -> None:
    world = with_gateway()
    whole(publisher.publish(snapshots(world)))
    before = list(world.manifests)
    world.manifests[-1] = gateway(hosts=["ai.example.com"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(file, "replace", no_room)
        whole(publisher.publish(snapshots(world)))
    assert "No space left" in publisher.problem
    world.manifests = before
    whole(publisher.publish(snapshots(world)))
    assert publisher.problem == ""


def no_room(_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_the_routes_have_the_names_of_the_endpoint_also_after_its_gateway_was_removed(
    publisher: Publisher, file: RoutesFile
) -> None:
    world = with_gateway(hosts=["ai.example.com"])
    for _ in range(2):
        whole(publisher.publish(snapshots(world)))
        written = json.loads(file.path.read_bytes())
        assert written["hosts"] == ["ai.example.com"]
        world.manifests = [each for each in world.manifests if each.kind != "Gateway"]
    assert written["routes"] == []


async def test_what_the_disk_did_not_take_is_not_written_of_an_object_that_was_removed_since(
    tmp_path: Path, store: Store, publisher: Publisher
) -> None:
    world = two_nodes()
    key = ObjectKey("ModelDeployment", "tiny")
    with files_no_longer_than((tmp_path / "store.db-wal").stat().st_size):
        whole(publisher.publish(snapshots(world)))
    assert key in publisher.statuses
    store.recover()
    store.remove_object(key)
    publisher.publish_events((Event(world.now, key, False, "Removed", "it has left"),))
    world.manifests = [each for each in world.manifests if each.metadata.name != key.name]
    whole(publisher.publish(snapshots(world)))
    assert key not in store.statuses()
    assert "it has left" in [event.message for _, event in store.events(EventFilter())]


async def test_an_object_that_is_removed_while_statuses_are_derived_has_none(
    store: Store, publisher: Publisher
) -> None:
    """Steps of the same pass run meanwhile."""
    world = two_nodes()
    world.settle()
    gone = next(each for each in world.manifests if each.kind == "ModelDeployment")
    world.remove(gone)
    for _ in publisher.publish(snapshots(world)):
        pass  # in the store it has left already
    assert ObjectKey("ModelDeployment", "tiny") not in store.statuses() | publisher.statuses
    assert ObjectKey("Model", "tiny") in store.statuses()


async def test_many_statuses_are_written_some_at_a_time_each_with_its_events(
    store: Store, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "WRITTEN_MAX", 10)
    names = [f"node-{number:03}" for number in range(20)]
    world = World([node(name) for name in names])
    whole(publisher.publish(snapshots(world)))
    world.settle()
    written = set()
    for _ in publisher.publish(snapshots(world)):
        told = {event.object for _, event in store.events(EventFilter())}
        ready = {key for key, found in store.statuses().items() if found.condition("Ready").status}  # type: ignore[union-attr]
        assert told == ready
        written.add(len(told))
    assert written == {0, 10}
    assert store.statuses() == publisher.statuses
    assert len(store.events(EventFilter())) == len(names)


async def test_the_ends_of_a_hundred_steps_in_one_turn_of_the_event_loop_are_written_in_one_transaction(
    tmp_path: Path, publisher: Publisher
) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as reader:
        seen = []
        for number in range(100):
            publisher.publish_events((Event(1.0, CLUSTER, False, "Tested", f"step {number}"),))
            seen.append(reader.execute("PRAGMA data_version").fetchone())
        await asyncio.sleep(0)
        assert len(set(seen)) == 1
        assert reader.execute("PRAGMA data_version").fetchone() != seen[0]
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (100,)


async def test_a_change_is_reported_with_what_has_changed_or_not_at_all(
    tmp_path: Path, store: Store, publisher: Publisher
) -> None:
    world = two_nodes()
    world.settle()
    with files_no_longer_than((tmp_path / "store.db-wal").stat().st_size):
        whole(publisher.publish(snapshots(world)))
    store.recover()
    publisher.publish_events(())
    await asyncio.sleep(0)
    assert (store.statuses(), store.events(EventFilter())) == ({}, [])
    whole(publisher.publish(snapshots(world)))
    objects = [event.object for _, event in store.events(EventFilter())]
    assert store.statuses() == publisher.statuses
    assert objects
    assert sorted(objects) == sorted(set(objects))


async def test_the_status_of_an_object_whose_removal_nobody_remembers_goes(
    tmp_path: Path, store: Store, file: RoutesFile
) -> None:
    world = two_nodes()
    whole(Publisher(store, file).publish(snapshots(world)))
    there = store.statuses().keys()
    gone = ObjectKey("Node", "node-b")
    assert gone in there
    world.manifests = [each for each in world.manifests if each.metadata.name != "node-b"]
    publisher = Publisher(store, file)
    with locked(tmp_path / "store.db"):
        whole(publisher.publish(snapshots(world)))
    assert store.statuses().keys() == there, "it could not be written"
    whole(publisher.publish(snapshots(world)))
    assert store.statuses().keys() == there - {gone}
