"""Each oracle bites: in a world that is broken on purpose it says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from reconciler import status
from reconciler.agent.server import Fence
from reconciler.planning import remains, replica, stalls
from reconciler.planning.ledger import Ledger
from reconciler.planning.stalls import Stall
from reconciler.planning.view import View
from reconciler.state import Cause, ObservedRank
from reconciler.store.connection import Connection
from reconciler.wire.generation import Backend, Route, Routes
from reconciler.wire.launch import RankId
from reconciler.wire.node import ForgetRank

from .loop import Process
from .net import SimLink
from .oracles import MESSAGES_PER_SECOND_MAX
from .play import finish, listening, play, verdict
from .points import Points
from .scenarios import SCENARIOS, USUAL, Scenario, cluster, crash, kill_agent, small
from .world import World

UP_SECONDS = 7.0
_worlds: list[World] = []


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """Every world of a test ends with it."""
    yield
    while _worlds:
        _worlds.pop().close()


def up(scenario: Scenario | None = None) -> World:
    """A world in which everything serves."""
    world = (scenario or Scenario("usual", USUAL)).world(Points())
    _worlds.append(world)
    world.run(UP_SECONDS)
    assert world.oracles.missing() == ""
    return world


def says(world: World, words: str) -> bool:
    return any(words in text for text in world.oracles.violations)


def test_a_new_epoch_that_does_not_wait_for_the_end_of_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "_leftovers", lambda view: None)
    found = play(SCENARIOS["spec-change"], Points())
    assert any("was started on" in text and "while" in text for text in found.violations)


def test_more_ranks_than_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "free", lambda self, name, replacing: 2**60)
    found = play(replace(SCENARIOS["memory"], memory_bytes=24 * 2**30), Points())
    assert any("is charged" in text for text in found.violations)


def test_routes_to_two_epochs_of_a_replica_and_to_one_beside_another() -> None:
    world = up()
    controller = world.controller
    assert controller is not None
    backends = (Backend(0, 1, "/run/a", "a"), Backend(0, 2, "/run/b", "b"))
    routes = Routes(1, 9, "127.0.0.1:8400", 1.0, (Route("big", (), 128, 0, backends),), 1)
    world.oracles.routed(routes, controller.process)
    assert says(world, "two epochs of big/0 are routed to")
    world.oracles.routed(routes, Process("somebody else"))
    assert says(world, "somebody else has written routes")
    assert says(world, "big/0 is routed to epoch 2 while the rank big.0.1.0 lives")


def _zombie() -> World:
    """A controller that goes on after another has taken its place."""
    world = Scenario("usual", USUAL).world(Points())
    _worlds.append(world)
    while not any("ask for a completion" in note for note in world.notes):
        world.run(0.05)
    world.freeze_controller(3.0, replaced=True)
    world.run(5.0)
    return world


def test_a_deposed_controller_that_writes_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _zombie().oracles.violations == []
    monkeypatch.setattr(Connection, "verify", lambda self: None)
    world = _zombie()
    assert says(world, "has written to the store")


@pytest.mark.parametrize("guarded", [True, False])
def test_an_agent_that_obeys_a_deposed_controller(monkeypatch: pytest.MonkeyPatch, guarded: bool) -> None:
    if not guarded:
        monkeypatch.setattr(Fence, "admits", lambda self, token: True)
    world = up()
    old = world.controller
    assert old is not None
    assert old.parts is not None
    token = old.parts.store.token
    agent = world.machines["a"].agent
    assert agent is not None
    link = SimLink(world, old.process, agent)
    world.freeze_controller(60.0, replaced=True)
    world.run(5.0)
    gone = RankId("gone", 0, 1, 0)
    crash("big", 0, 0)(world)
    world.run(8.0)
    ended = next(id for id in sorted(world.machines["a"].disk.ranks) if id.deployment == "big")
    assert ended != gone
    world.controller, now = old, world.controller
    old.process.frozen = False
    world.loop.spawn(old.process, link.request(ForgetRank(token, ended), timeout=5.0), "late")
    world.run(1.0)
    world.controller = now
    assert says(world, "for a controller that was deposed") is not guarded


def test_a_healthy_group_that_is_stopped_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_group(view: View, ranks: Sequence[ObservedRank]) -> Stall | None:
        return Stall(Cause.STALLED, "it seems so", 100.0) if view.world.now % 1000 > 90 and ranks else None

    world = up()
    world.run(80.0)
    monkeypatch.setattr(stalls, "of_group", of_group)
    world.run(30.0)
    assert says(world, "was asked to end, and its group was well")


def test_files_of_a_rank_that_lives() -> None:
    world = up()
    agent = world.machines["a"].agent
    assert agent is not None
    agent.host.remove(sorted(world.machines["a"].disk.ranks)[0], "")
    assert says(world, "are removed while it lives")


def test_a_rank_on_a_machine_that_is_not_fit_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "of", lambda world, name: iter(()))
    found = play(SCENARIOS["wired-memory"], Points())
    assert any("is not fit for it" in text for text in found.violations)


def test_a_person_who_is_not_told() -> None:
    found = play(replace(SCENARIOS["bring-up"], persons=(("node/d", "C11"),)), Points())
    assert any("a person was told 0 times of C11 of node/d" in text for text in found.violations)


def test_a_storm_of_requests() -> None:
    world = up()
    for _ in range(MESSAGES_PER_SECOND_MAX):
        world.oracles.asked()
    assert says(world, "requests within a second")


def test_a_world_that_does_not_converge() -> None:
    four = cluster(small(1), nodes=("a", "b", "c"))
    found = play(Scenario("too-little", four, memory_bytes=2**20), Points())
    assert any("not converged" in text for text in found.violations)


def test_a_quiet_hour_in_which_something_is_done() -> None:
    world = up()
    world.loop.call_later(2000.0, kill_agent("a"), world)
    finish(world, 0.0)
    assert says(world, "the quiet hour was not quiet")


def test_an_error_that_the_product_only_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    def routes(*_: object) -> None:
        raise ValueError("nobody expected this")

    with listening() as complaints:
        world = up()
        monkeypatch.setattr(status, "routes", routes)
        world.run(15.0)
        found = verdict(world, 0.0, complaints)
    assert any("nobody expected this" in text for text in found.violations)
