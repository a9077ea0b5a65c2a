"""States of a cluster that a controller answers for: what it says is scripted, what is written is a real repository."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from reconciler import status
from reconciler.bootstrap import CONSOLE, Home
from reconciler.console.access.rights import Refusal, rights_of
from reconciler.console.chat.upstream import NoGateway, gateway_of
from reconciler.console.snapshot import Snapshot
from reconciler.controller.admin import bodies as answers
from reconciler.controller.admin.doctor_session import _finding
from reconciler.doctor import examine
from reconciler.errors import Invalid, Refused
from reconciler.gateway.errors import model_refused, older_group
from reconciler.hardening import nftables, pf
from reconciler.hardening.policy import Policy
from reconciler.services.lock import held
from reconciler.source.git import commit_log
from reconciler.source.sources import GitSource
from reconciler.source.yaml.documents import load
from reconciler.state import GatewayAnswer, GatewayObservation, Observed, Plan
from reconciler.status import Snapshots
from reconciler.status.gateway import readiness
from reconciler.wire.admin import Get
from tests.cli import bodies
from tests.cli.commands.machines.test_reboot import node, scene
from tests.cli.commands.write.test_fabric import PAIR, fabric, row
from tests.cli.commands.write.test_writing import future
from tests.cli.conftest import listening
from tests.cli.live import API, manifest
from tests.console.doors import key, secret, with_keys
from tests.console.snapshots import recorded
from tests.controller.test_desired_state import Controller as Reading
from tests.doctor.test_findings import BESIDE
from tests.planning.macs import two_macs
from tests.source.conftest import AUTHOR
from tests.worlds import World, deployment, gateway, model

from .bench import Bench
from .scenes import Scene, Scenes, elsewhere, scripted
from .test_healing import CASES, said

SCENES = Scenes()
NODES = tuple(manifest("node-a").replace("node-a", name) for name in ("node-a", "node-b"))
REFUSED = {
    "object": "modeldeployment/tiny", "replica": "tiny/0", "reason": "NoMemory", "text": "tiny/0: there is too little memory",
}  # fmt: skip
FOUND = {
    "run": "r1", "asking": [], "nodes": ["node-a"], "notKnown": [], "healed": [],
    "findings": [{
        "class": "C12", "title": "memory", "objects": [], "nodes": [], "seen": "a", "means": "b", "steps": "c", "person": True,
    }],
}  # fmt: skip


@SCENES.at("cli/commands/read/history.py", "apply -f FILE")
def no_commits(bench: Bench) -> Iterator[Scene]:
    def commits(_: Any) -> dict[str, Any]:
        return {"version": "1", "items": [bodies.commit()] if bench.repo.head() else [], "problem": None}

    bench.home.mkdir(mode=0o700)
    bench.file("all.yaml", manifest("node-a"))
    with scripted(bench, commits=commits):
        yield Scene(lambda: bench.calls("history").err)


@SCENES.at("cli/commands/read/incidents.py", "doctor")
def nothing_is_known_but_nothing_is_served(bench: Bench) -> Iterator[Scene]:
    plan = {"steps": [], "waiting": [], "refused": [REFUSED]}
    with scripted(bench, plan=plan, doctor=FOUND):
        yield Scene(lambda: bench.calls("incidents", "--open").err, mends=False, codes=(1,))


@SCENES.at("cli/commands/read/trace.py", "plan")
def not_in_force(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, manifest("tiny-model"), manifest("tiny")) as controller:
        controller.answers["status"] = {**bodies.at_rest()["status"], "revision": bench.repo.head()}
        bench.has_texts(manifest("tiny").replace("{model: tiny}", "{model: tiny, replicas: 2}"))
        yield Scene(lambda: bench.calls("trace", "md/tiny").out, mends=False)


@SCENES.at("cli/commands/cluster/chat.py", "get gateways")
def a_gateway_without_an_endpoint(bench: Bench) -> Iterator[Scene]:
    silent = bodies.gateway()
    silent["status"].pop("endpoint")
    with scripted(bench, get={"revision": "x", "version": "1", "items": [silent]}):
        yield Scene(lambda: bench.calls("chat", "tiny", "hello").err, mends=False)


@SCENES.at("console/chat/upstream.py", "get gateways")
def a_gateway_that_does_not_listen(bench: Bench) -> Iterator[Scene]:
    with pytest.raises(NoGateway) as refused:
        gateway_of(replace(recorded("four-macs"), status=Snapshot().status))
    with scripted(bench):
        yield Scene(lambda: elsewhere(bench, str(refused.value)), mends=False)


@SCENES.at("cli/commands/cluster/console.py", "key create NAME --console view")
def a_console_with_keys(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, manifest("node-a")):
        place = Home(bench.home)
        with held(place.lock_of(CONSOLE), "console"):
            place.console.write_text(json.dumps({"url": "http://127.0.0.1:1/", "keys": True, "problem": ""}))
            yield Scene(lambda: bench.calls("console").err, mends=False)


@SCENES.at("console/access/rights.py", "edit apikey/{x}")
def a_key_that_opens_no_console(bench: Bench) -> Iterator[Scene]:
    body = key("ada", 1, "none")
    text = f"{API}kind: ApiKey\nmetadata: {{name: ada}}\nspec:\n  hash: {body['spec']['hash']}\n"

    def said() -> str:
        (document,) = load(bench.repo.read(bench.repo.head() or ""))
        now = document.manifest.model_dump(mode="json", by_alias=True)
        shown: Any = {**body, "spec": {**body["spec"], "console": now["spec"].get("console") or "none"}}
        found = rights_of(with_keys(recorded("four-macs"), shown)).admit(secret(1), 0.0)
        return elsewhere(bench, found.text) if isinstance(found, Refusal) else ""

    with scripted(bench, text):
        edit = bench.file("edit", 'echo "  console: view" >> "$1"\n')
        bench.monkeypatch.setenv("EDITOR", f"sh {edit}")
        yield Scene(said)


@SCENES.at("cli/commands/machines/reboot.py", "describe node {x}")
def a_machine_that_does_not_answer(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, *NODES, foresee=future(moves=["node-a"])) as controller:
        scene(controller, [node("node-b", "one", agent="unreachable")])
        yield Scene(lambda: bench.calls("reboot", "node-b").err, mends=False)


@SCENES.at("cli/commands/machines/reboot.py", "reboot {x} --force")
def what_is_not_served_meanwhile(bench: Bench) -> Iterator[Scene]:
    with scripted(
        bench, *NODES, foresee=future(ends=True, text="needs 2 nodes, 1 can be used")
    ) as controller:
        scene(controller, [node("node-b", "one")], [node("node-b", "one")], [node("node-b", "two")])
        yield Scene(lambda: bench.calls("reboot", "node-b", "--dry-run").err, mends=False)


@SCENES.at("cli/commands/machines/reboot.py", "get nodes", "undo reboot.node.NAME")
def a_restart_that_takes_long(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, *NODES, foresee=future(moves=["node-a"])) as controller:
        scene(controller, [node("node-b", "one", "it is being emptied")])
        said = bench.calls("reboot", "node-b", "--timeout=200ms").err
        yield Scene(lambda: said, {"NAME": "node-b", "reboot.node.NAME": "reboot.node.node-b"}, mends=False)


@SCENES.at("doctor/checks.py", "reboot {node}")
def memory_that_leaked_beside_ranks(bench: Bench) -> Iterator[Scene]:
    world = two_macs()
    world.settle()
    BESIDE["C11 wired memory beside ranks"](world)
    with scripted(bench, *NODES, foresee=future(moves=["node-a"])) as controller:
        scene(controller, [node("node-b", "one")], [node("node-b", "one")], [node("node-b", "two")])
        yield Scene(lambda: elsewhere(bench, "\n".join(said(world))), mends=False)


@SCENES.at("source/operating/verbs.py", "drain {x} --force")
def what_would_stop_being_served(bench: Bench) -> Iterator[Scene]:
    with scripted(
        bench, *NODES, foresee=future(ends=True, text="needs 2 nodes, 1 can be used")
    ) as controller:
        said = bench.calls("drain", "node-b").err
        controller.answers["get"] = {"revision": "x", "version": "1", "items": []}
        yield Scene(lambda: said, mends=False)


@SCENES.at("cli/core/confirm.py", "apply -f -")
def cables_that_are_not_committed(bench: Bench) -> Iterator[Scene]:
    nodes = [manifest("node-a").replace("node-a", each["metadata"]["name"]) for each in PAIR]
    with scripted(bench, *nodes) as controller:
        cabled(controller, PAIR, [])
        shown = bench.calls("fabric", "import", "studios", "--pool", "10.77.0.0/16")
        yield Scene(lambda: shown.err, stdin=shown.out, mends=False)
        assert b"studio-1/3" in b"".join(bench.repo.read(bench.repo.head() or "").values())


@SCENES.at("cli/commands/write/fabric.py", "get nodes -o yaml")
def no_cable_is_known(bench: Bench) -> Iterator[Scene]:
    with scripted(bench) as controller:
        cabled(controller, PAIR, [fabric(row("studio-1/3", "studio-2/4"), name="other")])
        yield Scene(lambda: bench.calls("fabric", "import").err, mends=False)


def cabled(controller: Any, nodes: list[dict[str, Any]], fabrics: list[dict[str, Any]]) -> None:
    others = controller.answers["get"]

    def get(asked: Any) -> dict[str, Any]:
        items = {"Node": nodes, "Fabric": fabrics}.get(asked.kind)
        return others(asked) if items is None else {"version": "1", "revision": "1", "items": items}

    controller.answers["get"] = get


@SCENES.at("cli/commands/write/source.py", "source show")
def a_remote_that_does_not_answer(bench: Bench) -> Iterator[Scene]:
    bench.home.mkdir(mode=0o700)
    assert bench.calls("source", "set", "https://git.example/cluster.git").code == 0
    standing = {"url": "https://git.example/cluster.git", "looks": 4, "conditions": []}
    with listening(bench.home) as controller:
        controller.answers["source"] = standing
        yield Scene(lambda: bench.calls("source", "sync", "--timeout=100ms").err, mends=False)


@SCENES.at("cli/core/objects.py", "get nodes")
def not_observed_yet(bench: Bench) -> Iterator[Scene]:
    with scripted(bench) as controller:
        read = controller.answers["get"]
        controller.answers["get"] = lambda asked: {**read(asked), "unobserved": ["node-b"]}
        yield Scene(lambda: bench.calls("get", "ranks").err, mends=False)


@SCENES.at("cli/core/objects.py", "events")
def manifests_that_were_not_read_yet(bench: Bench) -> Iterator[Scene]:
    with scripted(bench) as controller:
        read, asked = controller.answers["get"], iter((True,))
        controller.answers["get"] = lambda each: {
            **read(each),
            **({} if next(asked, False) else {"revision": None}),
        }
        said = bench.calls("wait", "node/node-a", "--for=condition=Ready", "--timeout=100ms").err
        yield Scene(lambda: said, mends=False)


@SCENES.at("source/git/commit_log.py", "history")
def a_commit_that_is_none(bench: Bench) -> Iterator[Scene]:
    def show(asked: Any) -> dict[str, Any]:
        try:
            commit_log.found(bench.repo, asked.revision)
        except Invalid as error:
            raise Refused("Invalid", str(error)) from None
        raise AssertionError(asked)

    with scripted(bench, manifest("node-a"), commit=show):
        yield Scene(lambda: bench.calls("history", "1234567").err, mends=False)


@SCENES.at("gateway/errors.py", "describe modeldeployment/{x}")
def a_model_that_nobody_can_serve(bench: Bench) -> Iterator[Scene]:
    with scripted(bench):
        said = model_refused("tiny", "NoMemory", 30).text
        yield Scene(lambda: elsewhere(bench, said), mends=False)


@SCENES.at("gateway/errors.py", "rollout restart deployment/NAME")
def a_group_of_an_earlier_version(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, manifest("tiny-model"), manifest("tiny")):
        yield Scene(
            lambda: elsewhere(bench, older_group().text), {"deployment/NAME": "deployment/tiny"}, mends=False
        )
        assert "restart" in bench.calls("history").out or bench.repo.head("refs/heads/operations")


@SCENES.at("controller/operations_layer.py", "undo {x}")
def an_operation_without_its_object(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, *NODES):
        assert bench.calls("cordon", "node-b").code == 0
        bench.repo.commit(bench.repo.head(), {"node-node-b.yaml": None}, "Remove node-b", AUTHOR)
        yield Scene(lambda: elsewhere(bench, "\n".join(asyncio.run(_operations_reported(bench)))))


async def _operations_reported(bench: Bench) -> list[str]:
    """What a controller says that begins now, and learns of each operation."""
    reading = Reading(GitSource(bench.repo), bench.folder / f"{time.monotonic_ns()}.db")
    try:
        reading.desired_state._layer.report(())
        await reading.look()
    finally:
        reading.store.close()
    return [event.message for event in reading.events]


@SCENES.at("hardening/nftables.py", "node firewall {x}")
@SCENES.at("hardening/pf.py", "node firewall {x}")
def rules_that_say_how_they_were_made(bench: Bench) -> Iterator[Scene]:
    made = Policy("node-a", "Linux", "cluster", ("192.168.1.11",), (), (22,), ())

    def protection(asked: Any) -> dict[str, Any]:
        firewall = {"file": "x", "rules": "\n".join((nftables.rules(made), pf.rules(made))), "unknown": []}
        return {"commands": [], "unknown": [], "system": "Linux", "firewall": firewall}

    with scripted(bench, protection=protection):
        written = bench.calls("node", "firewall", "node-a")
        yield Scene(lambda: elsewhere(bench, written.out), mends=False)
        assert bench.calls("node", "firewall", "node-a") == written, "it is written again as it was"


def answers_of(world: World) -> dict[str, Any]:
    """What a controller of a world answers."""
    now = Snapshots(world.desired(), world.observed(), world.memory(), world.plan(), world.now)
    statuses = status.statuses(now, {})

    def get(asked: Get[Any]) -> dict[str, Any]:
        if asked.kind == "Rank":
            return {"version": "1", "revision": "x", "items": answers.ranks(now, asked.name, asked.ended)}
        if asked.kind == "Operation":
            return {"version": "1", "revision": "x", "items": []}
        items = answers.objects(now, statuses, asked.kind, asked.name)
        return {"version": "1", "revision": "x", "items": items}

    found = [_finding(each) for each in examine(now).findings]
    return {
        "get": get,
        "plan": answers.plan_body(now.plan),
        "doctor": {"run": "r", "asking": [], "nodes": [], "findings": found, "notKnown": [], "healed": []},
    }


def _of_world(bench: Bench, world: World, codes: tuple[int, ...] = (0,)) -> Iterator[Scene]:
    with scripted(bench, **answers_of(world)):
        yield Scene(lambda: elsewhere(bench, "\n".join(said(world))), mends=False, codes=codes)


@SCENES.at("doctor/checks.py", "describe node {node}")
def a_full_disk(bench: Bench) -> Iterator[Scene]:
    world = two_macs()
    world.settle()
    BESIDE["C8 a full disk"](world)
    yield from _of_world(bench, world)


@SCENES.at("doctor/examine.py", "describe {x}/{x}")
def what_is_refused_without_a_remedy(bench: Bench) -> Iterator[Scene]:
    yield from _of_world(bench, CASES["cordoned"]().world)


@SCENES.at("status/gateway.py", "logs --gateway")
def a_gateway_that_gives_no_answer(bench: Bench) -> Iterator[Scene]:
    (bench.home / "logs").mkdir(parents=True)
    (bench.home / "logs" / "gateway.log").write_text("the reason\n")
    yield from _at_the_door(bench, GatewayAnswer(False, problem="no answer within 2 s"))


@SCENES.at("status/gateway.py", "get deployments")
def a_gateway_without_groups(bench: Bench) -> Iterator[Scene]:
    yield from _at_the_door(bench, GatewayAnswer(False, unserved=("tiny",)))


def _at_the_door(bench: Bench, door: GatewayAnswer) -> Iterator[Scene]:
    world = World([gateway(), model(), deployment()])
    seen = GatewayObservation(1, "http://127.0.0.1:8400/v1", door=door)
    now = Snapshots(world.desired(), Observed(gateway=seen), world.memory(), Plan(), 0.0)
    with scripted(bench, **answers_of(world)):
        yield Scene(lambda: elsewhere(bench, readiness("main", now).message), mends=False)
