"""What must never happen, whatever happens: faults, edits and half-done plans in any order.

After each history the cluster is left alone, and must come to rest in the state that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.planning.context import deadlines
from reconciler.planning.context.workload import hash_of
from reconciler.planning.recovery.stalls import CONTINUATIONS_MAX
from reconciler.resources import Manifest, ModelDeployment, Node
from reconciler.state import (
    AllocateEpoch,
    ContinueRank,
    NodeName,
    Plan,
    RefusedBecause,
    ReplicaId,
    Step,
    StopRank,
    WaitingFor,
    WorkloadId,
)
from reconciler.wire.launch import ExitCode, Phase, RankId
from reconciler.wire.node import Gone
from tests.examples import examples
from tests.worlds import World, deployment, model, node, settled

Act = Callable[[World, int], None]


def _obey(world: World, number: int) -> None:
    """The first steps of a plan are done, then the controller dies and another plans anew."""
    steps = world.plan().steps[: number + 1]
    check_ends(world, steps)
    for step in steps:
        world.obey(step)


def _obey_one(world: World, number: int) -> None:
    steps = world.plan().steps
    check_ends(world, steps)
    if steps:
        world.obey(steps[number % len(steps)])


def _restart(world: World, number: int) -> None:
    world.restart_controller()


# --- ranks -----------------------------------------------------------------------------------------


def _to_rank(change: Callable[[World, RankId, int], None]) -> Act:
    def act(world: World, number: int) -> None:
        alive = world.alive()
        if alive:
            change(world, alive[number % len(alive)], number)

    return act


def _kill(world: World, rank: RankId, number: int) -> None:
    world.end_rank(rank, signal=9)


def _refuse(world: World, rank: RankId, number: int) -> None:
    world.end_rank(rank, code=ExitCode.CONFIG if number > 5 else ExitCode.PEER_LOST)


def _stop(world: World, rank: RankId, number: int) -> None:
    world.report(rank, stopped=True)


def _hang(world: World, rank: RankId, number: int) -> None:
    world.report(rank, demand=1, silent_seconds=10.0 * number)


def _come_up(world: World, rank: RankId, number: int) -> None:
    if world.ranks[rank][1].phase == Phase.LOADING:
        world.report(rank, phase=Phase.READY)


def _leave(world: World, number: int) -> None:
    """A rank that has ended left something behind, just now or for long; or that is gone by now.

    An agent decides once that nothing is left: where the controller sees nothing new, nothing comes back.
    """
    ended = sorted(
        rank
        for rank, (place, report) in world.ranks.items()
        if report.phase == Phase.EXITED and (place not in world.stale or report.gone == Gone.NO)
    )
    if ended:
        rank = ended[number % len(ended)]
        left = world.ranks[rank][1].gone == Gone.NO
        world.report(rank, gone=Gone.YES if left else Gone.NO, kept="process 7", ended_seconds=10.0 * number)


def _slowly(world: World, number: int) -> None:
    """From here on ranks take their time to come up and to end, or no longer."""
    world.first_phase = Phase.LOADING if number % 2 else Phase.READY
    world.lingers = number % 4 > 1


def _mute(world: World, number: int) -> None:
    world.mute ^= {world.replica(index=number % 2)}


# --- nodes -----------------------------------------------------------------------------------------


def _agent(world: World, number: int) -> None:
    if world.agents:
        world.down.add(sorted(world.agents)[number % len(world.agents)])


def _break(world: World, number: int) -> None:
    """The agent of a node cannot be started, or can be again."""
    world.broken ^= {NodeName(f"node-{number % 3}")}


def _no_news(world: World, number: int) -> None:
    """What happens on a node is not seen, until it is again."""
    seen = world.observed().nodes.get(NodeName(f"node-{number % 3}"))
    if (
        seen is not None
        and seen.name not in world.lost
        and world.stale.pop(seen.name, None) is None
        and seen.report is not None
    ):
        world.stale[seen.name] = seen


def _lose(world: World, number: int) -> None:
    """A node gives no answer, or does again; sometimes it is lost at once."""
    name = f"node-{number % 3}"
    if name in world.lost:
        world.find(name)
    else:
        world.lose(name)
        world.pass_time(world.now + (31 if number > 5 else 0))


def _memory(world: World, number: int) -> None:
    """Nothing, or not much, has room on a node, or everything again."""
    world.memory_of[f"node-{number % 3}"] = (64 << 30, 0, 700 << 20)[number // 3]


# --- wishes ----------------------------------------------------------------------------------------


def _replicas(world: World, number: int) -> None:
    _change(world, deployment(replicas=number % 3, nodes={"min": 1, "max": 2}))


def _context(world: World, number: int) -> None:
    _change(world, deployment(serving={"context": 1024 + number}, nodes={"min": 1, "max": 2}))


def _restart_deployment(world: World, number: int) -> None:
    at = f"2030-01-01T00:00:0{number}Z" if number else None
    _change(world, deployment(restartedAt=at, nodes={"min": 1 + number % 2, "max": 2}))


def _change(world: World, new: ModelDeployment) -> None:
    named = new.metadata.name
    world.manifests = [
        new if isinstance(m, ModelDeployment) and m.metadata.name == named else m for m in world.manifests
    ]


def _nodes(world: World, number: int) -> None:
    """A node comes or goes; one always stays."""
    _toggle(world, node(f"node-{1 + number % 2}"))


def _remove(world: World, number: int) -> None:
    """The deployment, another one or their model comes or goes."""
    other = deployment("other", nodes=1)
    _toggle(world, (deployment(nodes={"min": 1, "max": 2}), model(), other)[number % 3])


def _toggle(world: World, manifest: Manifest) -> None:
    key = (manifest.kind, manifest.metadata.name)
    present = next((m for m in world.manifests if (m.kind, m.metadata.name) == key), None)
    if present is None:
        world.bring(manifest)
    else:
        world.remove(present)


def _drain(world: World, number: int) -> None:
    """A node is drained or cordoned, or no longer; one never is."""
    name = f"node-{1 + number % 2}"
    field = "drain" if number < 4 else "unschedulable"
    for at, manifest in enumerate(world.manifests):
        if isinstance(manifest, Node) and manifest.metadata.name == name:
            world.manifests[at] = node(name, **{field: not getattr(manifest.spec, field)})


def _down(world: World, number: int) -> None:
    """Everything is being stopped, or started again."""
    world.stopping = not world.stopping


# --- the store and time ----------------------------------------------------------------------------


def _lose_store(world: World, number: int) -> None:
    world.lose_store()


def _keep_store(world: World, number: int) -> None:
    world.kept = replace(
        world,
        groups=dict(world.groups),
        last_epochs=dict(world.last_epochs),
        attempts=dict(world.attempts),
    )


def _restore_store(world: World, number: int) -> None:
    world.lose_store(world.kept)


def _wait(world: World, number: int) -> None:
    world.pass_time(world.now + 10.0**number / 100)


DOINGS: dict[str, Act] = {
    "obey": _obey, "obey-one": _obey_one, "restart": _restart,
    "kill": _to_rank(_kill), "refuse": _to_rank(_refuse), "stop": _to_rank(_stop),
    "hang": _to_rank(_hang), "come-up": _to_rank(_come_up), "leave": _leave, "slowly": _slowly, "mute": _mute,
    "agent": _agent, "break": _break, "no-news": _no_news, "lose": _lose, "memory": _memory,
    "replicas": _replicas, "context": _context, "anew": _restart_deployment,
    "nodes": _nodes, "drain": _drain, "remove": _remove, "down": _down, "wait": _wait,
    "lose-store": _lose_store, "keep-store": _keep_store, "restore-store": _restore_store,
}  # fmt: skip

Action = tuple[str, int]
ACTIONS = st.tuples(st.sampled_from(["obey", "obey", "obey", "obey", *DOINGS]), st.integers(0, 7))


def live(world: World, history: list[Action]) -> None:
    """Every action of a history, one after the other."""
    for name, number in history:
        DOINGS[name](world, number)
        check(world)


def check(world: World) -> None:
    """True at every moment."""
    for route in world.routes(Plan()):
        replicas = [backend.replica for backend in route.backends]
        assert len(set(replicas)) == len(replicas), "two epochs of one replica have routes"
        for backend in route.backends:
            group = world.group(route.model, backend.replica)
            assert backend.epoch == group.epoch, "a replaced epoch has a route"
            assert not set(group.members) & world.lost.keys(), "a node that does not answer has a route"
            if not world.stale:
                assert set(group.rank_ids) <= set(world.alive()), "a group with a dead rank has a route"
    alive = [world.ranks[rank] for rank in world.alive()]
    groups = {(rank.id.deployment, rank.id.replica, rank.id.epoch): rank for _, rank in alive}
    ports = [port for rank in groups.values() for port in range(rank.port, rank.port + rank.size + 1)]
    assert len(set(ports)) == len(ports), "two groups have a port in common"


def check_ends(world: World, steps: tuple[Step, ...]) -> None:
    """No step ends a group of which there is nothing to complain."""
    for step in steps:
        if isinstance(step, AllocateEpoch):
            assert not sound(world, step.workload), f"{step}: that ends a sound group"
        if isinstance(step, StopRank) and step.workload in world.groups:
            current = step.id.epoch == world.groups[step.workload].epoch
            assert not (current and sound(world, step.workload)), f"{step}: that ends a sound group"


def sound(world: World, replica: WorkloadId) -> bool:
    """Whether the recorded group is as its manifest wishes, on nodes that are meant to be used, and serves."""
    assert isinstance(replica, ReplicaId)
    record, wish = world.groups.get(replica), world.desired().replicas().get(replica)
    wished = world.desired().models
    if record is None or wish is None or wish.spec.model not in wished or record.proven_at is None:
        return False
    bounds, nodes = wish.spec.parallelism.nodes, world.desired().nodes
    ranks = [world.ranks[rank] for rank in record.rank_ids if rank in world.ranks]
    newest = max(rank.epoch for rank in world.ranks if rank.replica == replica.index)
    return (
        record.fingerprint == hash_of(wish.spec, wished[wish.spec.model])
        and bounds.min <= len(record.members) <= bounds.max
        and all(name in nodes and not nodes[name].spec.drain for name in record.members)
        and set(record.members) <= world.within_reach
        and [place for place, _ in ranks] == list(record.members)
        and all(rank.phase == Phase.READY and not rank.silent_seconds for _, rank in ranks)
        and newest == record.epoch
    )


def repair(world: World) -> None:
    """Whatever only a person can change is as it should be."""
    world.broken, world.mute, world.stale, world.memory_of, world.lost = set(), set(), {}, {}, {}
    world.stopping = False
    for rank, (_, report) in world.ranks.items():
        demand = report.demand if report.silent_seconds else 0  # whoever does not hang has answered by now
        world.report(rank, gone=Gone.YES if report.gone == Gone.NO else report.gone, demand=demand)
    if not world.desired().models:
        world.bring(model())


def rest(world: World) -> Plan:
    """Leave the cluster alone until nothing more happens: time passes only while something waits for it.

    Who hangs goes on hanging; who comes up does so while others wait for it.
    """
    for _ in range(200):
        decided = world.settle()
        check(world)
        reasons = {waiting.reason for waiting in decided.waiting}
        untils = [w.until for w in decided.waiting if w.until is not None]
        if WaitingFor.QUIET in reasons:  # who does nothing has been idle ever longer
            for rank in world.alive():
                world.report(rank, idle_seconds=3600.0)
            reasons.add(WaitingFor.RANKS)
        # Rank 0 alone knows what is owed; silence of others is nobody's concern.
        hanging = [rank for rank in world.alive() if rank.rank == 0 and world.ranks[rank][1].silent_seconds]
        if not untils and not hanging and not reasons & {WaitingFor.RANKS, WaitingFor.STOPPING}:
            return decided
        world.pass_time(max([world.now + (100 if hanging else 0), *untils]) + 1)
        for rank in world.alive():
            report = world.ranks[rank][1]
            ready = Phase.READY if report.phase == Phase.LOADING else report.phase
            silent = report.silent_seconds + 100 if rank in hanging else 0.0
            world.report(rank, phase=ready, silent_seconds=silent)
    raise AssertionError(f"no rest: {decided}")


@example([*[("obey", 0)] * 6, ("kill", 0), *[("obey", 0)] * 2, ("no-news", 0), ("leave", 0), ("obey", 0)])
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_whatever_happens_the_cluster_comes_to_rest_as_wanted(history: list[Action]) -> None:
    nodes = [node("node-0"), node("node-1"), node("node-2")]
    world = World([*nodes, model(), deployment(nodes={"min": 1, "max": 2})])
    live(world, history)
    repair(world)
    plan = rest(world)
    if any(refusal.reason is RefusedBecause.RANK_REFUSES for refusal in plan.refused):
        size, config = world.weights["tiny"]  # what the rank had named was corrected
        world.weights["tiny"] = (size + 1, config)
        plan = rest(world)
    if plan.refused:  # what is drained or cordoned may be just what is missing
        for manifest in list(world.desired().nodes.values()):
            world.manifests[world.manifests.index(manifest)] = node(manifest.metadata.name)
        plan = rest(world)
    if plan.refused:
        assert {refusal.reason for refusal in plan.refused} == {RefusedBecause.NO_NODES}
        assert len(world.desired().nodes) == 1
        return
    assert plan == Plan()
    assert world.leaving == {}
    wanted = world.desired().replicas()
    assert world.groups.keys() == wanted.keys()
    members = sorted(rank for group in world.groups.values() for rank in group.rank_ids)
    # On a node that was given up nobody can end anything; nothing is told of it either.
    assert [rank for rank in world.alive() if world.ranks[rank][0] in world.agents] == members
    assert all(group.proven_at is not None for group in world.groups.values())
    drained = {name for name, found in world.desired().nodes.items() if found.spec.drain}
    assert not any(drained & set(group.members) for group in world.groups.values())
    assert {NodeName(name) for name in world.desired().nodes} == world.agents - world.down
    world.restart_controller()
    assert world.plan() == Plan(), "another controller acts on what agrees"


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(ACTIONS, max_size=15))
def test_the_same_snapshots_give_the_same_plan(history: list[Action]) -> None:
    world = World([node("node-0"), node("node-1"), model(), deployment()])
    live(world, history)
    assert world.plan() == world.plan()


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    """A rank that is up and has not stood still for longer than it may."""
    tokens = draw(st.integers(0, 512))
    return {
        "phase": draw(st.sampled_from([Phase.READY, Phase.DRAINING])),
        "demand": draw(st.integers(0, 16)),
        "steps": draw(st.integers(0, 1000)),
        "silent_seconds": draw(st.floats(0, deadlines.step_seconds(60.0, tokens))),
        "step_tokens": tokens,
        "stopped": draw(st.booleans()),
        "age_seconds": draw(st.floats(0, 1e7)),
    }


@settings(max_examples=examples(200), deadline=None)
@given(reports(), reports())
def test_a_group_that_has_not_stood_still_for_too_long_is_never_ended(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    world = settled(World([node("node-0"), node("node-1"), model(), deployment()]))
    for rank, changes in zip(world.alive(), (first, second), strict=True):
        world.report(rank, **changes)
    if first["stopped"] or second["stopped"]:
        world.report(world.alive()[0], step_tokens=512)  # its allowance holds for the group
    assert all(isinstance(step, ContinueRank) for step in world.plan().steps)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(0, 30), max_size=60))
def test_no_rank_is_continued_more_often_than_the_budget_allows(pauses: list[float]) -> None:
    world = settled(World([node("node-0"), node("node-1"), model(), deployment()]))
    victim = world.alive()[1]
    continued: list[float] = []
    for pause in pauses:
        world.now += pause
        world.report(victim, stopped=True)
        for step in world.plan().steps:
            assert isinstance(step, ContinueRank)
            continued.append(world.now)
            world.obey(step)
    for at in continued:
        assert sum(at - 130 < other <= at for other in continued) <= CONTINUATIONS_MAX
