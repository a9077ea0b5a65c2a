"""Each oracle bites: in a world that is broken on purpose it says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from reconciler import status
from reconciler.agent.server import Fence
from reconciler.planning.context.lost_nodes import LOST_AFTER_SECONDS
from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.view import View
from reconciler.planning.diagnosis import detectors
from reconciler.planning.nodes import leftovers
from reconciler.planning.recovery import stalls
from reconciler.planning.recovery.diagnose import PROOFS_MAX
from reconciler.planning.recovery.stalls import Stall
from reconciler.planning.replica import ladder, start
from reconciler.state import (
    Cause,
    Contact,
    DeploymentName,
    GroupRecord,
    NodeName,
    ObjectKey,
    Observed,
    ObservedRank,
    ReplicaId,
    WorkloadId,
)
from reconciler.status import model_routes, serving
from reconciler.store import Store
from reconciler.store.connection import Connection
from reconciler.wire.generation import Backend, Route, Routes
from reconciler.wire.launch import RankId
from reconciler.wire.node import ForgetRank
from tests.simulation.schedules.acts import commit, crash, kill_agent, lose_ipv4, lose_store, nothing
from tests.simulation.schedules.play import finish, listening, play, verdict
from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import SCENARIOS, USUAL, Scenario, big, cluster, small, wide
from tests.simulation.world.loop import Process
from tests.simulation.world.net import SimLink
from tests.simulation.world.ranks import Files, Shim
from tests.simulation.world.world import World

from .oracles import MESSAGES_PER_SECOND_MAX
from .pruning import REASONS_KEPT_SECONDS, replica_of
from .up import kept, up


def stored(world: World) -> Store:
    """The store of the controller that runs."""
    assert world.controller is not None
    assert world.controller.parts is not None
    return world.controller.parts.store


def has_violation(world: World, words: str) -> bool:
    return any(words in text for text in world.oracles.violations)


def test_a_new_epoch_that_does_not_wait_for_the_end_of_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    without = tuple(rule for rule in ladder.LADDER if rule.judge is not start.old_ranks)
    monkeypatch.setattr(ladder, "LADDER", without)
    found = play(SCENARIOS["spec-change"], Points())
    assert any("was started on" in text and "while" in text for text in found.violations)


def test_more_ranks_than_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def plenty(ledger: Ledger, names: Iterable[NodeName], replacing: WorkloadId) -> dict[str, int]:
        return {ledger.hosts[name]: 2**60 for name in names}

    monkeypatch.setattr(Ledger, "free_by_host", plenty)
    found = play(replace(SCENARIOS["memory"], memory_bytes=24 * 2**30), Points())
    assert any("is charged" in text for text in found.violations)


def test_a_ring_over_an_address_that_its_machine_has_no_more_does_not_come_up() -> None:
    ring = cluster(big(transport=["ring"]), nodes=SCENARIOS["repair"].names)
    world = up(replace(SCENARIOS["cable"], manifests=ring, acts=()))
    (rank,) = world.machines["b"].alive()
    assert rank.hindrance() == ""
    lose_ipv4("b")(world)
    assert "is no address of b" in rank.hindrance()


def test_routes_to_two_epochs_of_a_replica_and_to_one_beside_another() -> None:
    world = up()
    controller = world.controller
    assert controller is not None
    backends = (Backend(0, 1, "/run/a", "a"), Backend(0, 2, "/run/b", "b"))
    routes = Routes(1, 9, "127.0.0.1:8400", 1.0, (Route("big", (), 128, 0, backends),), 1)
    world.oracles.routed(routes, controller.process)
    assert has_violation(world, "two epochs of big/0 are routed to")
    world.oracles.routed(routes, Process("somebody else"))
    assert has_violation(world, "somebody else has written routes")
    assert has_violation(world, "big/0 is routed to epoch 2 while the rank big.0.1.0 lives")


def test_a_route_to_a_group_that_is_long_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(SCENARIOS["reboot"], Points()).violations == []
    monkeypatch.setattr(model_routes, "serving", _serving_as_last_seen)
    found = play(SCENARIOS["reboot"], Points())
    assert any("is routed to epoch 1, of which a rank is long gone" in text for text in found.violations)


def test_a_route_to_a_group_whose_epoch_another_had_before_the_store_was_lost() -> None:
    none, one = cluster(), cluster(small(1))
    acts = ((10.0, commit(*none)), (15.0, lose_store), (40.0, commit(*one)), (60.0, nothing))
    found = play(Scenario("again", one, acts), Points())
    assert found.formed[ReplicaId(DeploymentName("small"), 0)] == 1, "nobody remembers the first"
    assert found.violations == []


def _serving_as_last_seen(record: GroupRecord, observed: Observed) -> ObservedRank | None:
    """As if an agent that is down after a silence were one that is down."""
    nodes = [observed.nodes[name] for name in record.members if name in observed.nodes]
    believed = {node.name: replace(node, silent=node.contact is Contact.UNREACHABLE) for node in nodes}
    return serving(record, replace(observed, nodes={**observed.nodes, **believed}))


def _zombie() -> World:
    """A controller that goes on after another has taken its place."""
    world = Scenario("usual", USUAL).world(Points())
    kept(world)
    while not any("ask for a completion" in note for note in world.notes):
        world.run(0.05)
    world.freeze_controller(3.0, replaced=True)
    world.run(5.0)
    return world


def test_a_deposed_controller_that_writes_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _zombie().oracles.violations == []
    monkeypatch.setattr(Connection, "verify", lambda self: None)
    world = _zombie()
    assert has_violation(world, "has written to the store")


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
    assert has_violation(world, "for a controller that was deposed") is not guarded


def test_a_healthy_group_that_is_stopped_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_group(view: View, ranks: Sequence[ObservedRank]) -> Stall | None:
        return Stall(Cause.STALLED, "it seems so", 100.0) if view.world.now % 1000 > 90 and ranks else None

    world = up()
    world.run(80.0)
    monkeypatch.setattr(stalls, "of_group", of_group)
    world.run(30.0)
    assert has_violation(world, "was asked to end, and its group was well")


def test_files_of_a_rank_that_lives() -> None:
    world = up()
    agent = world.machines["a"].agent
    assert agent is not None
    agent.host.remove(sorted(world.machines["a"].disk.ranks)[0], "")
    assert has_violation(world, "are removed while it lives")


def test_a_rank_on_a_machine_that_is_not_fit_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "leftovers", lambda world, name: iter(()))
    found = play(SCENARIOS["wired-memory"], Points())
    assert any("is not fit for it" in text for text in found.violations)


def test_a_person_who_is_not_told() -> None:
    found = play(replace(SCENARIOS["bring-up"], persons=(("node/d", "C11"),)), Points())
    assert any("a person was told 0 times of C11 of node/d" in text for text in found.violations)


def test_a_storm_of_requests() -> None:
    world = up()
    for number in range(MESSAGES_PER_SECOND_MAX):
        world.oracles.requested(Process("somebody"), world.machines["a"], number)
    assert has_violation(world, "requests within a second")


def test_a_world_that_does_not_converge() -> None:
    four = cluster(small(1), nodes=("a", "b", "c"))
    found = play(Scenario("too-little", four, memory_bytes=2**20), Points())
    assert any("not converged" in text for text in found.violations)


def test_a_quiet_hour_in_which_something_is_done() -> None:
    world = up()
    world.loop.call_later(2000.0, kill_agent("a"), world)
    finish(world, 0.0)
    assert has_violation(world, "the quiet hour was not quiet")


def test_an_error_that_the_product_only_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    def routes(*_: object) -> None:
        raise ValueError("nobody expected this")

    with listening() as complaints:
        world = up()
        monkeypatch.setattr(status, "routes", routes)
        world.run(15.0)
        found = verdict(world, 0.0, complaints)
    assert any("nobody expected this" in text for text in found.violations)


def test_a_commit_excuses_what_it_has_changed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_group(view: View, ranks: Sequence[ObservedRank]) -> Stall | None:
        return Stall(Cause.STALLED, "it seems so", 100.0) if view.world.now % 1000 > 90 and ranks else None

    world = up()
    world.run(80.0)
    world.commit(cluster(big(serving={"context": 8192}), small(3), wide()))
    monkeypatch.setattr(stalls, "of_group", of_group)
    world.run(15.0)
    ended = [text for text in world.oracles.violations if "its group was well" in text]
    assert any("the rank small.0" in text for text in ended)
    assert any("the rank wide.0" in text for text in ended)
    assert not any("the rank big.0" in text for text in ended)


def test_first_completions_that_did_not_come_excuse_the_end_of_a_group_when_they_are_enough() -> None:
    world = up()
    world.run(REASONS_KEPT_SECONDS)
    rank = world.rank("wide", 0, 0)
    assert rank is not None
    for _ in range(PROOFS_MAX - 1):
        world.oracles.broke_off(rank)
    world.oracles.terminated(rank)
    assert len(world.oracles.violations) == 1
    world.oracles.broke_off(rank)
    world.oracles.terminated(rank)
    assert len(world.oracles.violations) == 1


def test_an_object_that_is_taken_out_although_the_manifests_have_it() -> None:
    world = up()
    world.run(REASONS_KEPT_SECONDS)
    store = stored(world)
    with store._db.writing():
        store._db.execute("UPDATE objects SET deleted_at = 1 WHERE name IN ('wide', 'small')")
        store._db.execute("DELETE FROM objects WHERE name = 'big'")
    store.remove_object(ObjectKey("ModelDeployment", "wide"))
    assert has_violation(
        world, "modeldeployment/wide is taken out of the inventory, and the manifests have it"
    )
    assert has_violation(world, "modeldeployment/big is taken out of the inventory, and was not leaving")
    assert not has_violation(world, "modeldeployment/small")


def test_a_group_that_is_let_go_of_although_the_manifests_have_it() -> None:
    world = up()
    world.run(REASONS_KEPT_SECONDS)
    stored(world).release(ReplicaId(DeploymentName("big"), 0))
    assert has_violation(world, "the group of big/0 is released")


def test_an_agent_that_is_ended_although_the_manifests_have_its_node() -> None:
    world = up()
    world.run(REASONS_KEPT_SECONDS)
    agent = world.machines["a"].agent
    assert agent is not None
    assert agent.agent is not None
    agent.agent.ending.set()
    world.run(1.0)
    assert has_violation(world, "the agent of a is ended, and the manifests have the node")


def test_the_last_trace_of_a_replica_that_is_removed() -> None:
    world = up()
    world.run(REASONS_KEPT_SECONDS)
    world.oracles.forgotten(world.machines["a"], RankId("big", 0, 1, 0))
    assert has_violation(world, "the files of big.0.1.0 are removed, and nothing newer of it is known")


def test_an_epoch_that_is_given_again_by_who_could_have_known() -> None:
    world = up()
    rank = world.rank("small", 0, 0)
    assert rank is not None
    world.cut_off(rank.node)
    lose_store(world)
    world.run(LOST_AFTER_SECONDS - 5.0)
    controller = world.controller
    assert controller is not None
    world.oracles.drawn((replica_of(rank.id), 1), controller.process)
    machine = next(each for each in world.machines.values() if each.reachable)
    machine.disk.ranks[rank.id] = Files(rank.spec)
    Shim(machine, machine.disk.ranks[rank.id])
    world.run(0.1)
    assert has_violation(world, "the rank small.0.1.0 was started twice")


@pytest.mark.parametrize(
    ("failed", "seconds"), [(False, 60.0), (True, LOST_AFTER_SECONDS - 5.0), (True, 60.0)]
)
def test_a_rank_beside_one_whose_machine_counts_as_lost_is_no_violation(failed: bool, seconds: float) -> None:
    world = up()
    rank = world.rank("small", 0, 0)
    assert rank is not None
    assert rank.machine.agent is not None
    rank.machine.agent.hang()
    rank.machine.agent.gone_at = world.loop.now - seconds
    rank.machine.start_failed = failed
    id = replace(rank.id, epoch=2)
    other = next(each for each in world.machines.values() if each is not rank.machine)
    other.disk.ranks[id] = Files(replace(rank.spec, id=id))
    Shim(other, other.disk.ranks[id])
    world.run(0.1)
    lost = failed and seconds > LOST_AFTER_SECONDS
    assert has_violation(world, f"while {rank} lives on {rank.node}") != lost


def test_an_epoch_that_is_given_again_where_nobody_could_know() -> None:
    world = up()
    rank = world.rank("small", 0, 0)
    assert rank is not None
    world.cut_off(rank.node)
    lose_store(world)
    world.run(LOST_AFTER_SECONDS + 15.0)
    assert sum(each.id == rank.id for each in world.ranks()) == 2
    assert world.oracles.violations == []


def test_a_world_that_comes_to_another_end_than_without_faults() -> None:
    found = play(replace(SCENARIOS["bring-up"], acts=((8.0, commit(*cluster(big()))),)), Points())
    world = SCENARIOS["bring-up"].world(Points())
    kept(world)
    finish(world, 0.0, wanted=found.ending)
    assert has_violation(
        world, "in the end modeldeployment/other is in force, and None where nothing goes wrong"
    )
    assert has_violation(world, "in the end the route of wide is")


def test_a_group_that_is_started_again_where_it_has_brought_a_machine_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detectors, "PANICS_MAX", 9)
    found = play(SCENARIOS["panic"], Points())
    assert any("which it has brought down 2 times" in text for text in found.violations)


def test_a_serving_replica_that_is_taken_down_beside_another_is_noticed() -> None:
    world = up(Scenario("two", cluster(small(2))))
    cases: list[tuple[int, list[str]]] = [(0, []), (1, ["small.1.1.0"])]
    for index, told in cases:
        rank = world.rank("small", index, 0)
        assert rank is not None
        world.oracles.availability.terminated(rank)
        rank.terminate()  # it serves no more: the oracle looks again whenever it is told
        assert [name for name in told if name in str(world.oracles.violations)] == told
        assert len(world.oracles.violations) == len(told)
