"""The store keeps which transports failed, and how often RDMA was set up since a machine booted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Conflict
from reconciler.state import FaultClass, NodeName, TransportFailure, VerbsAttempts
from reconciler.state.formed_under import Fact, Facts
from reconciler.store import Store

from .test_store import ATTEMPT, GROUP, TINY

FAILED = TransportFailure(
    "jaccl",
    Facts.of({Fact("cable", NodeName("node-a"), 3): "no"}),
    6.0,
    "the link is down",
    FaultClass.LINK_DOWN,
    "reseat it",
    trials=2,
)
VERBS = replace(GROUP, transport="jaccl", boots=("one", "two"))


def test_a_transport_that_failed_is_noted_with_the_epoch_that_leaves_it_and_survives_a_restart(
    store: Store, tmp_path: Path
) -> None:
    store.allocate(GROUP, ATTEMPT, FAILED)
    with pytest.raises(Conflict):
        store.allocate(GROUP, ATTEMPT, replace(FAILED, transport="ring"))
    store.close()
    again = Store(tmp_path / "store.db")
    assert again.transports.failures() == {TINY: (FAILED,)}
    again.free_transport(TINY, "jaccl")
    assert again.transports.failures() == {}
    again.close()


def test_what_failed_a_replica_is_forgotten_when_it_is_released(store: Store) -> None:
    store.allocate(GROUP, ATTEMPT, FAILED)
    store.release(TINY)
    assert store.transports.failures() == {}


def test_setting_up_rdma_in_vain_is_counted_for_each_boot_of_a_machine(store: Store) -> None:
    a, b = NodeName("node-a"), NodeName("node-b")
    store.allocate(VERBS, ATTEMPT)
    assert store.transports.verbs() == {}
    store.allocate(replace(VERBS, epoch=2), ATTEMPT, wasted_verbs=((a, "one"), (b, "two")))
    store.allocate(replace(VERBS, epoch=3), ATTEMPT, wasted_verbs=((a, "one"),))
    with pytest.raises(Conflict):
        store.allocate(replace(VERBS, epoch=3), ATTEMPT, wasted_verbs=((a, "one"),))
    store.allocate(replace(VERBS, epoch=4), ATTEMPT, wasted_verbs=((a, "one"), (b, "three")))
    assert store.transports.verbs() == {a: VerbsAttempts("one", 3), b: VerbsAttempts("three", 1)}


def test_a_group_comes_back_with_the_facts_and_boots_it_was_formed_under(store: Store) -> None:
    formed = replace(
        VERBS, facts=Facts.of({Fact("boot", NodeName("node-a")): "one"}), transport_why="jaccl: no cable"
    )
    store.allocate(formed, ATTEMPT)
    assert store.groups() == {TINY: formed}
