"""Placement against brute force: never too much memory, never a forbidden node, and nothing feasible is refused.

The oracle knows manifests, reports and cables, and tries everything: it shares nothing with ``planning`` but them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from reconciler.resources import Manifest, ModelDeployment, Node
from reconciler.state import (
    AllocateEpoch,
    GroupRecord,
    MachineFacts,
    NodeName,
    Plan,
    PortFacts,
    RefusedBecause,
)
from reconciler.wire.launch import CACHE_STEP, PIECE_TOKENS_MAX
from reconciler.wire.weights import RankShare
from tests.examples import examples
from tests.worlds import TINY, World, deployment, model, node

GIB = 2**30
OVERHEAD = GIB // 2
USUAL_CONTEXT = 8192
NODES_MAX = 5
LEAST, MOST = 4096, 40960
"""The contexts that `auto` allows: the model was made for the longer one."""
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
TOLERATED: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"key": "dedicated", "value": "x"}],
    [{"operator": "Exists"}],
    [{"key": "dedicated", "value": "y"}],
)
CABLED = ["ring"]
"""A ladder with which every two neighbours need a cable."""

Shares = dict[str, tuple[RankShare, ...]]


@dataclass(frozen=True)
class Problem:
    """A cluster, and what is wanted of it."""

    world: World
    shares: Shares
    unsplittable: dict[str, str]
    cables: frozenset[tuple[str, str]]


sizes = st.integers(1, 24).map(lambda half: half * GIB // 2)


@st.composite
def nodes_of(draw: st.DrawFn) -> tuple[list[Node], dict[str, str], dict[str, int]]:
    """Nodes, the host of each, and the memory of each."""
    names = [f"node-{letter}" for letter in "abcde"[: draw(st.sampled_from([1, 2, 3, 4, 4, 5, 5, 5]))]]
    hosts = {name: draw(st.sampled_from(["mac-1", "mac-2", name, name])) for name in names}
    memory = {host: draw(st.integers(1, 40)) * GIB for host in sorted(set(hosts.values()))}
    manifests = []
    for name in names:
        spec: dict[str, Any] = {"memory": {"reserve": f"{draw(st.sampled_from([0, 0, 0, 3]))}GiB"}}
        if draw(st.integers(0, 7)) == 0:
            spec["memory"]["limit"] = f"{draw(st.integers(1, 20))}GiB"
        if draw(st.integers(0, 8)) == 0:
            spec["taints"] = [TAINT]
        if draw(st.integers(0, 12)) == 0:
            spec["unschedulable"] = True
        spec["labels"] = {"pool": draw(st.sampled_from(["x", "x", "x", "y"]))}
        manifests.append(node(name, **spec))
    return manifests, hosts, {name: memory[hosts[name]] for name in names}


@st.composite
def shares_of(draw: st.DrawFn) -> tuple[Shares, dict[str, str]]:
    """What each rank holds, equal or not, and what cannot be done."""
    shares: Shares = {"tensor/1": (RankShare(draw(sizes) * 2, ((0, 4096),)),)}
    unsplittable: dict[str, str] = {}
    for strategy in ("tensor", "pipeline"):
        for ranks in range(2, NODES_MAX + 1):
            key = f"{strategy}/{ranks}"
            if draw(st.integers(0, 4)) == 0:
                unsplittable[key] = f"cannot be split over {ranks}"
            cache = ((0, draw(st.sampled_from([0, 4096, 65536]))), (128, 4096))
            if strategy == "tensor":
                shares[key] = (RankShare(draw(sizes), cache),)
            else:
                shares[key] = tuple(RankShare(draw(sizes), cache) for _ in range(ranks))
    return shares, unsplittable


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    manifests, hosts, memory = draw(nodes_of())
    shares, unsplittable = draw(shares_of())
    wanted = []
    for name in ("one", "two")[: draw(st.integers(1, 2))]:
        least = draw(st.sampled_from([1, 1, 2, 2, 3, 4, 5]))
        placement: dict[str, Any] = {"tolerations": draw(st.sampled_from(TOLERATED))}
        if draw(st.integers(0, 3)) == 0:
            placement["nodeSelector"] = {"pool": "x"}
        more: dict[str, Any] = {"transport": CABLED} if draw(st.integers(0, 3)) == 0 else {}
        wanted.append(
            deployment(
                name,
                nodes={"min": least, "max": draw(st.integers(least, NODES_MAX))},
                strategy=draw(st.sampled_from(["auto", "tensor", "pipeline"])),
                replicas=draw(st.integers(1, 2)),
                placement=placement,
                serving={
                    "context": draw(st.sampled_from([64, LEAST, "auto"])),
                    "maxBatch": draw(st.sampled_from([1, 8])),
                },
                **more,
            )
        )
    names = [manifest.metadata.name for manifest in manifests]
    pairs = [(a, b) for a in names for b in names if a < b]
    cables = frozenset(pair for pair in pairs if draw(st.booleans()))
    world = World([*manifests, model(), *wanted])
    world.agents = {NodeName(name) for name in names}
    world.hosts, world.memory_of = hosts, memory
    shape = {"num_attention_heads": 60, "num_key_value_heads": 60, "max_position_embeddings": MOST}
    world.weights["tiny"] = (20 * GIB, {**TINY, **shape})
    world.says["tiny"] = {"shares": shares, "unsplittable": unsplittable, "ranks_tried": 8}
    world.facts = {NodeName(name): _facts(name, names, cables) for name in names}
    return Problem(world, shares, unsplittable, cables)


def _facts(name: str, names: list[str], cables: frozenset[tuple[str, str]]) -> MachineFacts:
    """A cable to each of these, at a receptacle of its number."""
    ports = tuple(
        PortFacts(
            receptacle=number, interface=f"en{number}", connected=True, active=True, gbps=80,
            peer=(NodeName(other), names.index(name)), address=f"10.0.{names.index(name)}.{number}",
        )
        for number, other in enumerate(names)
        if (min(name, other), max(name, other)) in cables
    )  # fmt: skip
    return MachineFacts(ports=ports)


# --- the oracle --------------------------------------------------------------------------------------


class Oracle:
    """What is free, and everything that could be done with it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        world = problem.world
        self.nodes = {m.metadata.name: m for m in world.manifests if isinstance(m, Node)}
        self.free: dict[str, int] = {}
        for name, manifest in self.nodes.items():
            host = world.hosts[name]
            on_host = [n.spec.memory for m, n in self.nodes.items() if world.hosts[m] == host]
            limits = [memory.limit for memory in on_host if memory.limit is not None]
            room = world.memory_of[name] - max(memory.reserve for memory in on_host)
            self.free[host] = min([room, *limits])
            assert manifest.metadata.name == name

    def allowed(self, wish: ModelDeployment) -> list[str]:
        covered = wish.spec.placement.tolerations in _covering()
        selector = wish.spec.placement.node_selector
        return [
            name
            for name, manifest in self.nodes.items()
            if not manifest.spec.unschedulable
            and (covered or not manifest.spec.taints)
            and all(manifest.metadata.labels.get(key) == value for key, value in selector.items())
        ]

    def needs(self, wish: ModelDeployment, key: str, context: int) -> list[int]:
        serving = wish.spec.serving
        shares = self.problem.shares[key]
        if len(shares) == 1:
            shares = shares * int(key[-1])

        def sequence(share: RankShare, tokens: int) -> int:
            return sum(size * min(tokens, most or tokens) for most, size in share.cache or ())

        kept = max(sequence(share, context) for share in shares)
        usual = min(context, USUAL_CONTEXT) + CACHE_STEP
        return [
            share.weights_bytes
            + OVERHEAD
            + sequence(share, context + CACHE_STEP)
            + 4096 * min(PIECE_TOKENS_MAX, max(0, context - 128)) * any(most for most, _ in share.cache or ())
            + (serving.max_batch - 1) * sequence(share, usual)
            + kept
            for share in shares
        ]

    def room_for(self, members: tuple[str, ...], needs: list[int]) -> bool:
        taken: Counter[str] = Counter()
        for name, need in zip(members, needs, strict=True):
            taken[self.problem.world.hosts[name]] += need
        return all(self.free[host] >= size for host, size in taken.items())

    def joined(self, wish: ModelDeployment, members: tuple[str, ...]) -> bool:
        if not cabled(wish) or len(members) == 1:
            return True
        around = zip(members, members[1:] + members[:1], strict=True)
        return all((min(pair), max(pair)) in self.problem.cables for pair in around)

    def keys(self, wish: ModelDeployment) -> Iterator[str]:
        strategies = {"auto": ("tensor", "pipeline")}.get(
            wish.spec.parallelism.strategy, (wish.spec.parallelism.strategy,)
        )
        bounds = wish.spec.parallelism.nodes
        for size in range(bounds.min, bounds.max + 1):
            for strategy in ("tensor",) if size == 1 else strategies:
                # 60 heads divide by each of these sizes, and the 4 layers make up to 4 stages
                if f"{strategy}/{size}" not in self.problem.unsplittable and (strategy, size) != (
                    "pipeline",
                    5,
                ):
                    yield f"{strategy}/{size}"

    def feasible(self, wish: ModelDeployment) -> tuple[str, tuple[str, ...]] | None:
        """Some placement, by trying every one."""
        allowed = self.allowed(wish)
        for key in self.keys(wish):
            needs = self.needs(wish, key, least(wish))
            for members in permutations(allowed, len(needs)):
                if self.room_for(members, needs) and self.joined(wish, members):
                    return key, members
        return None

    def check(self, wish: ModelDeployment, record: GroupRecord) -> None:
        """It is one of the placements that may be, and is charged."""
        members = tuple(record.members)
        key = f"{record.strategy}/{len(members)}"
        assert set(members) <= set(self.allowed(wish)), "a forbidden node is used"
        assert len(set(members)) == len(members)
        assert key in set(self.keys(wish))
        assert least(wish) <= record.context <= (MOST if wish.spec.serving.context == "auto" else least(wish))
        assert list(record.charges) == self.needs(wish, key, record.context)
        assert self.room_for(members, list(record.charges)), "more memory is given away than there is"
        assert self.joined(wish, members)
        for name, need in zip(members, record.charges, strict=True):
            self.free[self.problem.world.hosts[name]] -= need


def least(wish: ModelDeployment) -> int:
    """The shortest context that its group may have."""
    wanted = wish.spec.serving.context
    return LEAST if wanted == "auto" else wanted


def _covering() -> list[Any]:
    wishes = (deployment(placement={"tolerations": TOLERATED[at]}) for at in (1, 2))
    return [wish.spec.placement.tolerations for wish in wishes]


# --- what must hold ----------------------------------------------------------------------------------


@settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_what_is_placed_may_be_and_what_is_refused_cannot_be(problem: Problem) -> None:
    world = problem.world
    decided = world.plan()
    oracle = Oracle(problem)
    formed = {step.workload: step.group for step in decided.steps if isinstance(step, AllocateEpoch)}
    refused = {refusal.workload: refusal for refusal in decided.refused}
    for replica, wish in sorted(world.desired().replicas().items()):
        if replica in formed:
            event("placed")
            oracle.check(wish, formed[replica])
        else:
            event(f"refused: {refused[replica].reason.value}")
            assert oracle.feasible(wish) is None, refused[replica].text


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(), st.randoms(use_true_random=False))
def test_the_same_question_has_the_same_answer_and_what_runs_stays(problem: Problem, random: Any) -> None:
    world = problem.world
    decided = world.plan()
    shuffled = replace(world, manifests=random.sample(world.manifests, len(world.manifests)))
    shuffled.facts = dict(random.sample(sorted(world.facts.items()), len(world.facts)))
    assert shuffled.plan() == decided
    world.settle()
    places = {replica: group.members for replica, group in world.groups.items()}
    left = world.plan()
    assert left.steps == ()
    for id in world.alive():
        if id.rank == 0:
            world.end_rank(id, signal=9)
    world.now += 3600
    world.settle()
    assert {replica: group.members for replica, group in world.groups.items()} == places
    assert {r.workload: r.reason for r in world.plan().refused} == {
        r.workload: r.reason for r in left.refused
    }


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_what_a_refusal_offers_does(problem: Problem) -> None:
    """Each offer by itself, where no other replica and no cable has a say in it."""
    world = problem.world
    wishes = world.desired().deployments
    single = {name for name, wish in wishes.items() if wish.spec.replicas == 1 and not cabled(wish)}
    for refused in world.plan().refused:
        if refused.reason is not RefusedBecause.NO_MEMORY or refused.object.name not in single:
            continue
        offers = refused.text.partition("fits: ")[2].partition(" (")[0]
        for offer in offers.split(" or ") if offers else ():
            what, _, value = offer.partition(": ")
            if value:
                event(what)
                decided = replace(
                    world, manifests=changed(world, refused.object.name, what, int(value))
                ).plan()
                formed = [step.workload for step in decided.steps if isinstance(step, AllocateEpoch)]
                assert refused.workload in formed, (offer, [r.text for r in decided.refused])


def cabled(wish: ModelDeployment) -> bool:
    return list(wish.spec.transport) == CABLED


def changed(world: World, name: str, what: str, value: int) -> list[Manifest]:
    """The manifests with one number of one deployment as it was offered."""
    manifests: list[Manifest] = []
    for manifest in world.manifests:
        if isinstance(manifest, ModelDeployment) and manifest.metadata.name == name:
            body = manifest.model_dump(by_alias=True, mode="json")
            within = body["spec"]["parallelism" if what == "nodes" else "serving"]
            within[what] = value
            manifests.append(ModelDeployment.model_validate_json(json.dumps(body)))
        else:
            manifests.append(manifest)
    return manifests


def test_the_oracle_knows_a_bad_placement() -> None:
    """It would notice a forbidden node, and too much memory."""
    world = World([node("node-a"), node("node-b", taints=[TAINT]), model(), deployment(nodes=1)])
    world.hosts, world.memory_of = {"node-a": "a", "node-b": "b"}, {"node-a": GIB, "node-b": GIB}
    shares: Shares = {"tensor/1": (RankShare(4 * GIB, ((0, 1),)),)}
    oracle = Oracle(Problem(world, shares, {}, frozenset()))
    (wish,) = world.desired().deployments.values()
    assert oracle.allowed(wish) == ["node-a"]
    assert oracle.feasible(wish) is None
    oracle.free["a"] = 8 * GIB
    assert oracle.feasible(wish) == ("tensor/1", ("node-a",))
    assert world.plan() != Plan()
