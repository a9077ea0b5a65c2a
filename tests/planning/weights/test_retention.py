"""Weights that nobody wants any more go; what may be used, or gone back to, stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.resources import Model
from reconciler.state import NodeName, ObjectKey
from reconciler.state.machine.weights import RemoveWeights, named
from reconciler.state.rollback import Rollback
from reconciler.wire.weights import FetchPhase, FetchReport, KeptWeights, Progress, hub_path
from tests.worlds import World, deployment, hub_model, model, node

REPO = "org/tiny"


def kept(
    letter: str, changed_at: float = 0.0, stale: bool = True, whole: bool = True, repo: str = REPO
) -> KeptWeights:
    path = hub_path(repo, letter * 40)
    return KeptWeights(path, f"/models/{path}", whole, 10**9, changed_at, stale)


def world(*on_disk: KeptWeights, keep: int = 0) -> World:
    """A settled cluster of one machine with two nodes that serves revision a."""
    a = hub_model()
    made = World([node("node-a"), node("node-b"), _keeping(a, keep), deployment(nodes=2)])
    made.hosts = {"node-a": "one", "node-b": "one"}
    made.settle()
    made.on_disk = on_disk
    return made


def _keeping(a: Model, keep: int) -> Model:
    return a.model_copy(update={"spec": a.spec.model_copy(update={"keep": keep})})


def removed(made: World) -> list[tuple[str, str]]:
    steps = [step for step in made.plan().steps if isinstance(step, RemoveWeights)]
    return [(step.node, step.path.rsplit("/", 1)[1][0]) for step in steps]


def test_what_nobody_wants_goes_once_for_each_folder() -> None:
    assert removed(world(kept("a"), kept("b"), kept("c"))) == [("node-a", "b"), ("node-a", "c")]


def test_nothing_goes_that_was_asked_for_a_while_ago() -> None:
    assert removed(world(kept("a"), kept("b", stale=False))) == []


def test_the_newest_older_revisions_are_kept() -> None:
    on_disk = (kept("a"), kept("b", 1.0), kept("c", 3.0), kept("d", 2.0))
    assert removed(world(*on_disk, keep=1)) == [("node-a", "b"), ("node-a", "d")]
    assert removed(world(*on_disk, keep=2)) == [("node-a", "b")]


def test_what_a_fetch_left_is_not_worth_keeping() -> None:
    assert removed(world(kept("a"), kept("b", whole=False), keep=1)) == [("node-a", "b")]


def test_a_repository_that_no_model_names_any_more_goes_whole() -> None:
    assert removed(world(kept("a"), kept("e", repo="org/other"), keep=1)) == [("node-a", "e")]


def test_nothing_goes_while_a_group_holds_it_or_could_go_back_to_it() -> None:
    made = world(kept("a"), kept("b"))
    replica = made.replica()
    made.groups[replica] = replace(made.groups[replica], weights_before=f"{REPO}@{'b' * 40}")
    assert removed(made) == []


def test_nothing_goes_that_a_setback_names() -> None:
    made = world(kept("a"), kept("b"))
    a = named(hub_model().spec.source.huggingface)
    made.rollbacks[made.replica().deployment] = Rollback("tiny", f"{REPO}@{'b' * 40}", a, "", 0.0, "")
    assert removed(made) == []


@pytest.mark.parametrize("phase", [FetchPhase.FETCHING, FetchPhase.VERIFYING, *FetchPhase.ENDED])
def test_nothing_goes_that_is_being_fetched_or_verified_until_that_has_ended(phase: str) -> None:
    made = world(kept("a"), kept("b"))
    path = kept("b").path
    made.weights[path] = (10**9, {})
    made.says[path] = {"fetch": FetchReport(Progress(phase), "1/1")}
    assert removed(made) == ([("node-a", "b")] if phase in FetchPhase.ENDED else [])


def test_nothing_goes_of_a_model_that_is_just_leaving() -> None:
    made = world(kept("a"), kept("b"))
    other = hub_model("other", "b" * 40)
    made.bring(other)
    made.remove(other)
    assert removed(made) == []


def test_nothing_goes_while_it_is_not_known_what_ranks_hold() -> None:
    made = world(kept("a"), kept("b"))
    replica = made.replica()
    made.groups[replica] = replace(made.groups[replica], secret="")
    assert removed(made) == []


def test_a_node_without_news_is_left_alone() -> None:
    made = world(kept("a"), kept("b"))
    made.lose("node-a")
    made.asked_with = 0
    assert removed(made) == []


def test_what_is_removed_is_removed_once() -> None:
    made = world(kept("a"), kept("b"))
    made.settle()
    assert [each.path for each in made.on_disk] == [kept("a").path]
    made.on_disk = (kept("b"),)
    made.in_flight.add(f"weights/node-a/{kept('b').path}")
    made.in_flight.add(f"weights/node-b/{kept('b').path}")
    assert removed(made) == []


def test_weights_of_a_path_are_nobody_s_to_remove() -> None:
    made = World([node("node-a"), model(), deployment(nodes=1)])
    made.settle()
    assert made.done(RemoveWeights) == []
    assert ObjectKey("Node", NodeName("node-a")) == RemoveWeights(NodeName("node-a"), "hub/a/b", 1).object
