"""The controller's clock is set by an hour or a year, at any moment of any history: nothing breaks, nothing waits for ever.

What waits in memory is put off by the jump, as the loop does; what is on disk is of before it.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context.back_off_time import BACK_OFF_SECONDS_MAX
from reconciler.planning.context.world import CLOCK_JUMP_SECONDS
from reconciler.resources.deployment import Growth
from reconciler.state import Plan, RequestedStop, WaitingFor
from tests.examples import examples
from tests.properties.test_planning import DOINGS, check, repair, rest
from tests.worlds import World, deployment, model, node, settled

HOUR, YEAR = 3600.0, 365 * 86_400.0
JUMPS = (HOUR, -HOUR, YEAR, -YEAR, 30.0, -30.0)
WAIT_SECONDS_MAX = BACK_OFF_SECONDS_MAX + CLOCK_JUMP_SECONDS
"""The longest wait for anything that is missing, and a clock that was set back by less than is noticed."""
QUIET_SECONDS_MAX = float(Growth.model_fields["group_age"].default) + CLOCK_JUMP_SECONDS
"""A group that serves gets another node only when it is so old."""
REST_SECONDS_MAX = 3 * WAIT_SECONDS_MAX
LEFT_OUT = {"down", "remove", "lose-store", "keep-store", "restore-store"}
"""What has its own properties, and nothing to do with time."""

KEPT = (("stop", "stops"), ("continue", "continued"))

Action = tuple[str, int]
ACTIONS = st.tuples(
    st.sampled_from(["obey", "obey", "obey", "jump", "jump", *sorted(DOINGS.keys() - LEFT_OUT)]),
    st.integers(0, 7),
)


def jump(world: World, seconds: float) -> None:
    """The clock is set, and the loop puts off what waits in memory."""
    world.now += seconds
    world.stops = {
        rank: RequestedStop(stop.gone_by + seconds, stop.void_at + seconds)
        for rank, stop in world.stops.items()
    }
    world.continued = {rank: tuple(at + seconds for at in times) for rank, times in world.continued.items()}
    world.failures = {
        key: replace(failure, retry_at=failure.retry_at + seconds) for key, failure in world.failures.items()
    }


def live(world: World, history: list[Action]) -> None:
    for name, number in history:
        if name == "jump":
            before = repeated_steps(world)
            jump(world, JUMPS[number % len(JUMPS)])
            assert repeated_steps(world) <= before, "a clock that was set is no reason to ask again"
        else:
            DOINGS[name](world, number)
        check(world)
        check_waits(world, world.plan())


def repeated_steps(world: World) -> set[str]:
    """Steps that were tried before, and are decided once more."""
    noted = {f"{kind}/{rank}" for kind, of in KEPT for rank in getattr(world, of)} | world.failures.keys()
    return {step.key for step in world.plan().steps} & noted


def check_waits(world: World, plan: Plan) -> None:
    """Nothing waits for longer than it would have without a jump."""
    for waiting in plan.waiting:
        if waiting.until is not None:
            longest = QUIET_SECONDS_MAX if waiting.reason is WaitingFor.QUIET else WAIT_SECONDS_MAX
            assert waiting.until - world.now <= longest, f"{waiting.text} at {waiting.until}"


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(ACTIONS, max_size=25), st.sampled_from(JUMPS))
def test_however_the_clock_jumps_the_cluster_comes_to_rest_soon(history: list[Action], last: float) -> None:
    nodes = [node("node-0"), node("node-1"), node("node-2")]
    world = World([*nodes, model(), deployment(nodes={"min": 1, "max": 2})], now=2 * YEAR)
    live(world, history)
    jump(world, last)
    repair(world)
    for number, manifest in enumerate(world.manifests):
        if manifest.kind == "Node":  # drained and cordoned no longer
            world.manifests[number] = node(manifest.metadata.name)
    begun = world.now
    plan = rest(world)
    assert world.now - begun <= REST_SECONDS_MAX
    wanted = world.desired().replicas()
    if plan == Plan():
        members = sorted(rank for group in world.groups.values() for rank in group.rank_ids)
        assert world.alive() == members
        assert world.groups.keys() == wanted.keys()
    else:
        assert plan.refused, "it rests for no reason"


CRASHES = st.tuples(
    st.sampled_from(["kill", "kill", "refuse", "slowly", "mute", "wait", "jump", "jump"]), st.integers(0, 7)
)
"""Groups that die again and again: what is waited for is noted on disk."""


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(CRASHES, max_size=20))
def test_a_group_that_dies_again_and_again_waits_for_no_other_clock(history: list[Action]) -> None:
    world = settled(World([node("node-0"), node("node-1"), model(), deployment()], now=2 * YEAR))
    for action in history:
        live(world, [action])
        world.settle()
    repair(world)
    begun = world.now
    if not (plan := rest(world)).refused:
        assert plan == Plan()
    assert world.now - begun <= REST_SECONDS_MAX
