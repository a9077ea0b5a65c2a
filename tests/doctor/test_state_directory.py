"""What the doctor says of the controller's own files."""

from __future__ import annotations

from dataclasses import replace

from reconciler.doctor import examine_home
from tests.worlds import World, node

HEALTHY = World([node("node-a")]).memory()


def test_a_state_directory_without_a_fault_has_no_finding() -> None:
    assert list(examine_home(HEALTHY, [])) == []


def test_every_fault_says_what_was_seen_and_what_to_do() -> None:
    memory = replace(HEALTHY, unwritable="the disk is full", locked="store.db is locked")
    found = list(examine_home(memory, ["store.db.damaged-20270115T080000000000Z"]))
    assert [each.seen for each in found] == [
        "the disk is full",
        "store.db is locked",
        "the store was damaged, and is kept as store.db.damaged-20270115T080000000000Z",
    ]
    assert all(each.means and each.steps for each in found)
    assert found[-1].steps.endswith("then delete store.db.damaged-20270115T080000000000Z*")
