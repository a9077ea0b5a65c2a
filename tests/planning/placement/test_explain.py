"""Why replicas are where they are, node by node."""

from __future__ import annotations

from reconciler.planning.placement.explain import Places, explain
from reconciler.state import DeploymentName, NodeName
from tests.worlds import TINY, World, deployment, model, node, settled

GIB = 2**30
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def told(world: World, name: str = "tiny") -> list[Places]:
    snapshots = world.seen()
    return list(explain(snapshots, DeploymentName(name)))


def texts(places: Places) -> dict[str, str]:
    return {seat.node: seat.text for seat in places.nodes}


def test_every_node_says_what_its_rank_is_charged_or_why_it_has_none() -> None:
    nodes = [
        node("node-a", labels={"pool": "x"}),
        node("node-b", labels={"pool": "x"}),
        node("node-c", labels={"pool": "x"}),
        node("node-d"),
        node("node-e", labels={"pool": "x"}, taints=[TAINT]),
        node("node-f", labels={"pool": "x"}, unschedulable=True),
        node("node-g", labels={"pool": "x"}),
        node("node-h", labels={"pool": "x"}),
    ]
    world = World([*nodes, model(), deployment(placement={"nodeSelector": {"pool": "x"}})])
    world.memory_of = {"node-g": GIB // 4}
    world.settle()
    world.lose("node-h")
    world.now += 60
    (places,) = told(world)
    assert places.text == (
        "2 nodes, as its manifest wants; a context of 4096, because the model's config.json does not say what it was made for"
    )
    assert [(seat.node, seat.rank) for seat in places.nodes if seat.rank is not None] == [
        ("node-a", 0),
        ("node-b", 1),
    ]
    assert texts(places) == {
        "node-a": "charged 0.6 GiB, of 64.0 GiB that others leave",
        "node-b": "charged 0.6 GiB, of 64.0 GiB that others leave",
        "node-c": "it is not needed: it has 64.0 GiB free",
        "node-d": "it lacks the label pool=x",
        "node-e": "it has the taint dedicated=x:NoSchedule",
        "node-f": "it is cordoned",
        "node-g": "it lacks 0.4 GiB of memory: a rank needs 0.6 GiB, it has 0.2 GiB free",
        "node-h": "it is quarantined: it does not answer: timed out",
    }


def test_weights_that_are_missing_are_told_of_the_node() -> None:
    world = settled(World([node("node-a"), model(), deployment(nodes=1)]))
    world.manifests.append(node("node-b"))
    world.agents.add(NodeName("node-b"))
    world.says["tiny"] = {"problem": "model.safetensors is cut short: 5 of 9 bytes"}
    (places,) = told(world)
    assert texts(places)["node-b"].startswith("model tiny on node-b: model.safetensors is cut short")


def test_a_node_that_is_about_to_report_is_not_said_to_be_free() -> None:
    world = settled(World([node("node-a"), model(), deployment(nodes=1)]))
    world.manifests.append(node("node-b"))
    (places,) = told(world)
    assert texts(places)["node-b"] == "it has not reported yet what it can do"


def test_a_smaller_group_says_why_it_is_not_larger() -> None:
    nodes = [node(f"node-{letter}") for letter in "abc"]
    world = settled(World([*nodes, model(), deployment(nodes={"min": 1, "max": 3})]))
    (places,) = told(world)
    assert places.text.startswith(
        "2 nodes; not more: model tiny cannot be split by tensor over 3 nodes: its 8 heads do not divide by 3"
    )


def test_a_replica_without_a_group_says_of_each_node_whether_it_could_be_used() -> None:
    nodes = [node(f"node-{letter}") for letter in "ab"]
    world = World([*nodes, model(), deployment()])
    world.weights["tiny"] = (80 * GIB, TINY)
    world.memory_of = {"node-b": 8 * GIB}
    world.settle()
    (places,) = told(world)
    assert places.text == ""
    assert texts(places) == {
        "node-a": "it could be used: it has 64.0 GiB free",
        "node-b": "it lacks 32.6 GiB of memory: a rank needs 40.6 GiB, it has 8.0 GiB free",
    }


def test_what_others_take_of_a_node_is_not_there() -> None:
    nodes = [node(f"node-{letter}") for letter in "ab"]
    world = World([*nodes, model(), deployment("one", nodes=1), deployment("two", nodes=1)])
    world.weights["tiny"] = (40 * GIB, TINY)
    world.settle()
    (places,) = told(world, "one")
    missing = "it lacks 17.6 GiB of memory: a rank needs 40.8 GiB, it has 23.2 GiB free"
    assert texts(places)["node-b"] == missing


def test_of_what_is_not_wanted_nothing_is_told() -> None:
    assert told(World([node("node-a")])) == []
    assert told(World([node("node-a"), deployment(nodes=1)])) == []
