"""Of weights that are served as a pipeline each node gets what its rank reads, and outlines of the rest."""

from __future__ import annotations

from typing import Any

from reconciler.state import AllocateEpoch, NodeName, Plan, StartRank, WaitingFor
from reconciler.state.machine.weights import FetchWeights
from reconciler.wire.weights import FetchPhase, FetchProblem, FetchReport, Progress, RankShare, hub_path
from tests.worlds import World, deployment, hub_model, model, node, settled

PATH = hub_path("org/tiny", "a" * 40)
FILES = ("f1", "f2", "f3", "f4")
SHARES = {
    "pipeline/2": (("f3", "f4"), ("f1", "f2", "f4")),
    "pipeline/3": (("f3", "f4"), ("f2", "f4"), ("f1", "f4")),
}
"""mlx-lm has the last layers in rank 0; the last file is that of the embeddings, which every rank reads."""
A, B, C = (NodeName(f"node-{letter}") for letter in "abc")


def machines(nodes: Any = 3, strategy: str = "pipeline") -> World:
    wanted = deployment(nodes=nodes, strategy=strategy)
    world = World([node(A), node(B), node(C), hub_model(), wanted])
    world.agents = {A, B, C}
    world.weight_files = FILES
    shares = {key: tuple(RankShare(1000, files=files) for files in each) for key, each in SHARES.items()}
    world.says[PATH] = {"shares": shares, "ranks_tried": 8}
    return world


def outlined(world: World, **held: set[str]) -> World:
    """All nodes have outlines, and some have files as well."""
    world.fetched[PATH] = dict.fromkeys((A, B, C))
    world.held[PATH] = {name: set(held.get(name[-1], ())) for name in (A, B, C)}
    return world


def asked(plan: Plan) -> dict[str, tuple[tuple[str, ...] | None, str | None]]:
    """By node: which files it is to fetch, and from which node."""
    return {step.node: (step.only, step.origin) for step in plan.steps if isinstance(step, FetchWeights)}


def fails(world: World, name: NodeName, attempts: int = 1) -> None:
    text = "no connection to the hub"
    progress = Progress(FetchPhase.FAILED, problem=FetchProblem.UNREACHABLE, text=text)
    told = FetchReport(progress, "1/1", attempts, ended_seconds=1000.0)
    world.fetched[PATH][name] = told


def test_outlines_come_first_and_once_from_the_hub() -> None:
    world = machines()
    assert asked(world.plan()) == {A: ((), None)}
    world.fetched[PATH] = {A: None}
    assert asked(world.plan()) == {B: ((), A), C: ((), A)}


def test_each_node_of_the_group_gets_what_its_rank_reads_and_what_several_read_comes_once() -> None:
    world = outlined(machines())
    plan = world.plan()
    assert asked(plan) == {A: (("f3", "f4"), None), B: (("f2",), None), C: (("f1",), None)}
    assert not [step for step in plan.steps if isinstance(step, AllocateEpoch)]
    texts = [waiting.text for waiting in plan.waiting if waiting.reason is WaitingFor.WEIGHTS]
    assert texts == ["tiny/0: weights of tiny that its ranks read are not on node-a, node-b, node-c yet"]
    assert "fetch 2 weight files of org/tiny at aaaaaaaaaa on node-a" in [str(step) for step in plan.steps]


def test_a_node_copies_from_another_what_that_has() -> None:
    world = outlined(machines(), a={"f3", "f4"}, b={"f2"}, c={"f1"})
    assert asked(world.plan()) == {B: (("f4",), A), C: (("f4",), A)}


def test_the_group_is_formed_when_everything_is_there_and_nothing_more_comes() -> None:
    world = settled(machines())
    assert world.held[PATH] == {A: {"f3", "f4"}, B: {"f2", "f4"}, C: {"f1", "f4"}}
    assert len(world.done(StartRank)) == 3


def test_a_group_of_other_nodes_gets_what_they_lack_first() -> None:
    world = settled(machines(nodes={"min": 2, "max": 3}))
    world.history.clear()
    world.manifests = [each for each in world.manifests if each.metadata.name != C]
    world.settle()
    assert world.group().members == (A, B)
    assert world.held[PATH][A] == {"f3", "f4"}
    assert world.held[PATH][B] == {"f1", "f2", "f4"}
    begun = [step.only for step in world.done(FetchWeights)]
    assert begun == [("f1",)]


def test_what_a_node_cannot_get_from_the_hub_comes_to_one_that_can() -> None:
    world = outlined(machines())
    fails(world, A)
    assert asked(world.plan()) == {B: (("f2", "f3", "f4"), None), C: (("f1",), None)}
    world.held[PATH][B] = {"f2", "f3", "f4"}
    assert asked(world.plan())[A] == (("f3", "f4"), B)


def test_weights_that_are_split_by_tensor_come_in_full() -> None:
    world = machines(strategy="tensor")
    assert asked(world.plan()) == {A: (None, None)}
    outlined(world, a={"f1"})
    assert asked(world.plan()) == {A: (None, None)}, "what is there in part is not there"
    world.held[PATH][A] = set(FILES)
    assert asked(world.plan()) == {B: (None, A), C: (None, A)}


def test_a_deployment_that_one_node_could_serve_alone_has_them_in_full() -> None:
    world = machines(nodes={"min": 1, "max": 3})
    assert asked(world.plan()) == {A: (None, None)}


def test_of_a_runtime_that_does_not_tell_what_ranks_read_every_rank_reads_everything() -> None:
    world = outlined(machines())
    world.says[PATH] = {}
    world.settle()
    assert all(held == set(FILES) for held in world.held[PATH].values())


def test_weights_in_a_folder_of_a_person_are_used_as_they_are() -> None:
    """Nobody but that person brings their files."""
    world = World([node(A), node(B), model(), deployment(strategy="pipeline")])
    world.agents = {A, B}
    shares = {"pipeline/2": tuple(RankShare(1000, files=files) for files in SHARES["pipeline/2"])}
    world.says["tiny"] = {"shares": shares, "ranks_tried": 8, "lacking": FILES}
    world.settle()
    assert world.done(FetchWeights) == []
    assert world.group().members == (A, B)
