"""Routes are written by the newest controller alone, and statuses only of what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.controller.publish import Publisher
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Deposed
from reconciler.state import ObjectKey, Plan
from reconciler.state.reports.status import Event
from reconciler.status import Snapshots
from reconciler.store import EventFilter, Store
from tests.store.test_full_disk import files_no_longer_than
from tests.store.test_locked import locked
from tests.worlds import World, gateway, two_nodes


def snapshots(world: World) -> Snapshots:
    return Snapshots(world.desired(), world.observed(), world.memory(), Plan(), world.now)


async def test_who_was_replaced_after_its_last_look_at_the_store_writes_no_routes(tmp_path: Path) -> None:
    world = two_nodes()
    world.manifests.append(gateway())
    path = tmp_path / "routes.json"
    older = Store(tmp_path / "store.db")
    publisher = Publisher(older, RoutesFile(path))
    publisher.publish(snapshots(world))
    written = path.read_bytes()
    newer = Store(tmp_path / "store.db")
    world.settle()
    with pytest.raises(Deposed):
        publisher.publish(snapshots(world))
    assert path.read_bytes() == written
    Publisher(newer, RoutesFile(path)).publish(snapshots(world))
    assert path.read_bytes() != written
    older.close()
    newer.close()


async def test_routes_do_not_wait_for_a_locked_store(tmp_path: Path) -> None:
    world = two_nodes()
    world.manifests.append(gateway())
    path = tmp_path / "routes.json"
    store = Store(tmp_path / "store.db")
    publisher = Publisher(store, RoutesFile(path))
    publisher.publish(snapshots(world))
    written = path.read_bytes()
    world.settle()
    with locked(tmp_path / "store.db"):
        publisher.publish(snapshots(world))
    assert path.read_bytes() != written
    assert publisher.problem == ""
    store.close()


async def test_what_the_disk_did_not_take_is_not_written_of_an_object_that_was_removed_since(
    tmp_path: Path,
) -> None:
    world = two_nodes()
    key = ObjectKey("ModelDeployment", "tiny")
    store = Store(tmp_path / "store.db")
    publisher = Publisher(store, RoutesFile(tmp_path / "routes.json"))
    with files_no_longer_than((tmp_path / "store.db-wal").stat().st_size):
        publisher.publish(snapshots(world))
    assert key in publisher.statuses
    store.recover()
    store.remove_object(key)
    publisher.publish_events((Event(world.now, key, False, "Removed", "it has left"),))
    world.manifests = [each for each in world.manifests if each.metadata.name != key.name]
    publisher.publish(snapshots(world))
    assert key not in store.statuses()
    assert "it has left" in [event.message for _, event in store.events(EventFilter())]
    store.close()


async def test_a_change_is_reported_with_what_has_changed_or_not_at_all(tmp_path: Path) -> None:
    world = two_nodes()
    world.settle()
    store = Store(tmp_path / "store.db")
    publisher = Publisher(store, RoutesFile(tmp_path / "routes.json"))
    with files_no_longer_than((tmp_path / "store.db-wal").stat().st_size):
        publisher.publish(snapshots(world))
    store.recover()
    publisher.publish_events(())
    assert (store.statuses(), store.events(EventFilter())) == ({}, [])
    publisher.publish(snapshots(world))
    objects = [event.object for _, event in store.events(EventFilter())]
    assert store.statuses() == publisher.statuses
    assert objects
    assert sorted(objects) == sorted(set(objects))
    store.close()
