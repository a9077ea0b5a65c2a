"""A plan made of recorded facts is the controller's own; the file has nothing that is nobody's business, and is strict."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from reconciler.admission.judge import Incoming
from reconciler.admission.overlay import overlay
from reconciler.controller.admin.bodies import plan_body
from reconciler.errors import Invalid
from reconciler.facts.privacy import LEFT_OUT, TEXTS, Disguise
from reconciler.facts.recorded import Facts, facts_of, of_file, written
from reconciler.planning import plan
from reconciler.resources import Manifest
from reconciler.resources.operation import Operation, operation_name
from reconciler.state import Desired, Memory, NodeObservation, ReplicaId, WaitingFor
from reconciler.state.identity import ObjectKey
from reconciler.state.machine.facts import MachineFacts, PortFacts, Route
from reconciler.state.observed import Ends
from reconciler.wire.generation import Jump
from reconciler.wire.launch import RankId
from tests import worlds
from tests.worlds import World

CHANGES: dict[str, list[Manifest]] = {
    "nothing": worlds.two_nodes().manifests,
    "another context": worlds.two_nodes(serving={"context": 1024}).manifests,
    "three replicas": worlds.two_nodes(replicas=3).manifests,
    "more nodes than there are": [worlds.node("node-a"), worlds.node("node-b"), worlds.model(), worlds.deployment(nodes=5)],
    "a node less": [worlds.node("node-a"), worlds.model(), worlds.deployment(nodes=1)],
    "a node more": [*worlds.two_nodes().manifests, worlds.node("node-c")],
    "another model": [worlds.node("node-a"), worlds.node("node-b"), worlds.model(path="large"), worlds.deployment()],
    "nothing served": [worlds.node("node-a"), worlds.node("node-b")],
}  # fmt: skip


def serving() -> World:
    made = worlds.two_nodes()
    made.settle()
    return made


def one_dead() -> World:
    made = serving()
    made.end_rank(made.alive()[0], signal=9)
    return made


MOMENTS = {"before the first group": worlds.two_nodes, "serving": serving, "with a dead rank": one_dead}


def recorded(made: World) -> Facts:
    """What was recorded of a world, after a file."""
    desired = made.desired()
    in_force = tuple(sorted(desired.objects()))
    facts = facts_of(desired, made.observed(), made.memory(), made.now, in_force)
    return of_file(json.loads(json.dumps(written(facts, desired, "1.2.3"))), "facts.json")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_the_plan_of_a_change_is_the_controllers_own(moment: str, change: str) -> None:
    made = MOMENTS[moment]()
    desired = Desired.of("this change", CHANGES[change])
    here = plan(desired, made.observed(), made.memory(), made.now, "1" * 64)
    assert plan_body(recorded(made).plan(desired)) == plan_body(here)


def test_a_change_that_no_node_can_hold_is_named_and_what_was_in_force_is_not() -> None:
    made = serving()
    huge = worlds.deployment("huge", nodes=1, serving={"kvCache": "4TiB"})
    (said,) = recorded(made).too_large(Desired.of("this change", [*made.manifests, huge]))
    assert said.startswith("modeldeployment/huge: needs 4096.")
    made.manifests.append(huge)
    assert list(recorded(made).too_large(made.desired())) == []


def test_what_was_in_force_is_recorded() -> None:
    facts = recorded(serving())
    assert ObjectKey("ModelDeployment", "tiny") in facts.in_force
    assert facts.memory.groups.keys() == {worlds.two_nodes().replica()}


def operation(verb: str, kind: str, name: str, **spec: Any) -> Operation:
    spec = {
        "verb": verb, "target": {"kind": kind, "name": name},
        "by": "Ada <ada@example.com>", "at": "2026-01-01T00:00:00Z", "reason": "a demonstration for Lovelace", **spec,
    }  # fmt: skip
    metadata = {"name": operation_name(verb, kind, name)}
    body = {"apiVersion": "reconciler/v1alpha1", "kind": "Operation", "metadata": metadata}
    return Operation.model_validate({**body, "spec": spec}, strict=False)


def scaled() -> Operation:
    return operation("scale", "ModelDeployment", "tiny", replicas=3)


def overridden(until: str) -> Operation:
    return operation("override", "SyncWindow", "office-hours", until=until)


def test_operations_in_force_are_laid_over_a_change_and_nobody_is_named() -> None:
    made = serving()
    laid = overlay(made.desired().objects().values(), (scaled(),), made.now)
    desired = Desired.of("r1", laid.manifests)
    facts = facts_of(desired, made.observed(), made.memory(), made.now, (), (scaled(),))
    text = json.dumps(written(facts, desired, "1.2.3"))
    assert not {"Ada", "ada@example.com", "Lovelace"} & set(re.findall(r"[\w@.]+", text))
    read = of_file(json.loads(text), "facts.json")
    change = Desired.of("this change", CHANGES["another context"])
    desired = approved(read, change, made.now)
    assert len(desired.replicas()) == 3
    (cost,) = read.costs(desired, read.plan(desired))
    assert cost.changes == ("serving.context auto → 1024",)


def approved(facts: Facts, wished: Desired, now: float) -> Desired:
    incoming = Incoming(wished.revision, wished.objects(), approved=True)
    return facts.desired(facts.judge(incoming, now))


NOON = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
EVENING = datetime(2026, 11, 25, 18, tzinfo=UTC).timestamp()
HELD = {
    "nothing": (),
    "another context": ("modeldeployment/tiny",),
    "another model": ("model/tiny",),
    "a node more": ("node/node-c",),
    "nothing served": ("model/tiny", "modeldeployment/tiny"),
}
"""What a window for everything holds of a change."""


def recorded_with(*windows: Manifest) -> Facts:
    made = World([*worlds.two_nodes().manifests, *windows])
    made.settle()
    return recorded(made)


@pytest.mark.parametrize("change", HELD)
def test_the_windows_of_the_manifests_hold_what_they_hold_at_the_present_time(change: str) -> None:
    window = worlds.sync_window()
    facts = recorded_with(window)
    wished = Desired.of("this change", [*CHANGES[change], window])
    at_noon = approved(facts, wished, NOON)
    in_force = Desired.of("", [*worlds.two_nodes().manifests, window])
    assert at_noon.objects() == in_force.objects()
    waiting = [each for each in facts.plan(at_noon).waiting if each.reason is WaitingFor.WINDOW]
    assert {str(each.object): each.until for each in waiting} == dict.fromkeys(HELD[change], EVENING)
    in_the_evening = approved(facts, wished, EVENING)
    assert (in_the_evening.objects(), in_the_evening.held_changes) == (wished.objects(), None)


def test_a_window_that_is_new_holds_nothing_nor_does_one_that_is_overridden() -> None:
    wished = Desired.of("this change", [*CHANGES["another context"], worlds.sync_window()])
    assert approved(recorded(serving()), wished, NOON).held_changes is None
    facts = replace(
        recorded_with(worlds.sync_window()), operations=(overridden(until="2026-11-25T13:00:00Z"),)
    )
    assert approved(facts, wished, NOON).held_changes is None
    assert approved(facts, wished, NOON + 3600).held_changes is not None


# --- what does not go ----------------------------------------------------------------------------------


def leaves(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) is not None or isinstance(hint, types.UnionType):
        for each in typing.get_args(hint):
            yield from leaves(each)
    else:
        yield getattr(hint, "__supertype__", hint)


def texts(root: type[Any], seen: dict[type[Any], set[str]]) -> None:
    """Collect, of every class that a snapshot consists of, the fields that hold texts."""
    if root in seen:
        return
    seen[root] = set()
    hints = typing.get_type_hints(root)
    for each in dataclasses.fields(root):
        for leaf in leaves(hints[each.name]):
            if dataclasses.is_dataclass(leaf) and leaf not in (RankId,) and isinstance(leaf, type):
                texts(leaf, seen)
            elif leaf in (str, Any):
                seen[root].add(each.name)


def test_of_every_text_it_was_decided_whether_it_goes() -> None:
    seen: dict[type[Any], set[str]] = {}
    for root in (NodeObservation, Memory):
        texts(root, seen)
    undecided = {
        f"{cls.__name__}.{name}"
        for cls, names in seen.items()
        for name in names - TEXTS.get(cls, {}).keys() - LEFT_OUT.get(cls, frozenset())
    }
    # Reached only through fields that are left out.
    assert {
        each for each in undecided if not each.startswith(("Jump.", "Delivery.", "GatewaysInForce."))
    } == set()
    for table in (TEXTS, LEFT_OUT):
        for cls, names in table.items():
            assert set(names) <= {each.name for each in dataclasses.fields(cls)}, cls


MAC, LINUX = "/Users", "/home"
SECRETS = (
    "leonhardt",
    "lovelace",
    "studio-of-leonhardt",
    "8.8.4.4",
    "8.8.8.9",
    "sk-secret",
    "A1B2-DOMAIN",
    "fe80::1",
)


def private() -> World:
    """A cluster that has much to hide."""
    made = serving()
    name = made.alive()[0]
    made.report(name, detail=f"cannot read {MAC}/leonhardt/models/tiny/model.safetensors from 8.8.4.4")
    made.groups = {key: replace(group, secret="sk-secret") for key, group in made.groups.items()}
    ports = (
        PortFacts(1, "en3", address="8.8.4.4/30", domain="A1B2-DOMAIN"),
        PortFacts(2, "en4", address="10.77.0.1/30"),
    )
    made.facts = {
        node: MachineFacts(ports=ports, routes=(Route("8.8.0.0/16", "en0"),), unknown=(("probe", f"{LINUX}/leonhardt/x failed"),))
        for node in made.desired().nodes
    }  # fmt: skip
    jump = Jump("gate.example.com", 22, "lovelace", "ssh-ed25519 AAAA")
    made.ends = {node: Ends("fe80::1", "8.8.8.9", 22, (jump,)) for node in made.desired().nodes}
    made.reports = {
        "node-a": {"hostname": "studio-of-leonhardt", "python": f"{MAC}/leonhardt/venv/bin/python"}
    }
    return made


def test_no_user_no_host_no_public_address_and_no_secret_is_in_the_file() -> None:
    made = private()
    desired = made.desired()
    facts = facts_of(desired, made.observed(), made.memory(), made.now, ())
    assert any(group.secret == "sk-secret" for group in facts.memory.groups.values())
    text = json.dumps(written(facts, desired, "1.2.3"))
    assert [each for each in SECRETS if each in text] == []
    assert "10.77.0.1/30" in text
    assert "~/venv/bin/python" in text


def test_equal_ids_stay_equal_and_others_differ() -> None:
    disguise = Disguise()
    one, other = disguise.identity("A1B2"), disguise.identity("C3D4")
    assert (one, other) == (disguise.identity("A1B2"), disguise.identity("C3D4"))
    assert one != other
    assert disguise.identity("") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"no weights at {MAC}/leonhardt/models/x on a", "no weights at ~/models/x on a"),
        (f"{LINUX}/leonhardt", "~"),
        ("/var/root/models", "~/models"),
        ("/rooted/models", "/rooted/models"),
        ("/Volumes/weights/x", "/Volumes/weights/x"),
        ("10.0.0.5 does not answer, 8.8.8.8 does", "10.0.0.5 does not answer, 192.0.2.1 does"),
        ("mlx 0.32.4", "mlx 0.32.4"),
    ],
)
def test_sentences_lose_homes_and_public_addresses(text: str, shown: str) -> None:
    assert Disguise().written(text) == shown


# --- a file that is wrong --------------------------------------------------------------------------------


def content() -> dict[str, Any]:
    made = serving()
    desired = made.desired()
    found = written(facts_of(desired, made.observed(), made.memory(), made.now, ()), desired, "1.2.3")
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def spoiled(*path: str, value: Any) -> dict[str, Any]:
    made = content()
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "has no recorded facts"),
        ({"kind": "List"}, "has no recorded facts"),
        (spoiled("version", value=2), "has facts of version 2, and this reconciler reads 1"),
        (spoiled("nodes", "node-a", "contakt", value=1), 'facts.nodes.node-a: unknown field "contakt", did you mean "contact"?'),
        (spoiled("nodes", "node-a", "contact", value="near"), "facts.nodes.node-a.contact: expected one of unknown, reached,"),
        (spoiled("at", value="now"), "facts.at: expected a number, got 'now'"),
        (spoiled("inForce", value=["tiny"]), "facts.inForce[0]: expected a ObjectKey, got 'tiny'"),
        (spoiled("nodes", value=[]), "facts.nodes: expected an object, got []"),
        (spoiled("agents", value="node-a"), "facts.agents: expected a list, got 'node-a'"),
        (spoiled("served", value=[{"kind": "Node"}]), "facts.served[0]: expected a manifest of Model or ModelDeployment"),
        (spoiled("operations", value=[{"kind": "Operation"}]), "facts.operations[0].apiVersion: Field required"),
        (spoiled("nodes", "node-a", "report", value={}), "facts.nodes.node-a.report: sequence is missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(wrong: Any, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        of_file(wrong, "facts.json")
    assert said in str(caught.value)
    assert "facts.json" in str(caught.value)
    assert "reconciler facts export" in str(caught.value)


def test_enums_and_ids_come_back_as_they_were() -> None:
    facts = recorded(serving())
    node = next(iter(facts.nodes.values()))
    assert isinstance(node.contact, Enum)
    assert node.report is not None
    assert all(isinstance(rank.id, RankId) for rank in node.report.ranks)
    assert all(isinstance(replica, ReplicaId) for replica in facts.memory.last_epochs)
