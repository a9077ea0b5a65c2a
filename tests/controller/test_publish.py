"""Routes are written by the newest controller alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.controller.publish import Publisher
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Deposed
from reconciler.state import Plan
from reconciler.status import Snapshots
from reconciler.store import Store
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
