"""The gateways of nodes: what each is to have, and the steps about them. Two of them on two hosts:
``tests/hosts/test_two_gateways.py``."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.errors import Refused, Unreachable, Unwritable
from reconciler.execution import Tools
from reconciler.execution.gateways import Gateways, routes_for
from reconciler.execution.handlers import carry_out, gateways
from reconciler.inventory import GatewaysOnNodes
from reconciler.remote.nodes.gateway import GatewayFiles, GatewayState
from reconciler.remote.runtime.gateway_file import gateway_file
from reconciler.state import (
    ContinueGateway,
    GatewayProcess,
    NodeGatewayObservation,
    NodeName,
    ReplaceGateway,
    SendRoutes,
    StartGateway,
    StopGateway,
)
from reconciler.state.identity import ObjectKey
from reconciler.wire.gateway import HookSecret
from reconciler.wire.generation import Backend, Machine, Route, Routes
from tests.machines import LocalMachines

A = NodeName("a")
KEY = ObjectKey("Gateway", "main")
FAR = Machine("10.0.0.3", 22, "me", "ssh-ed25519 AAAA")
BEHIND = replace(FAR, key="jump-a")
BACKENDS = (
    Backend(0, 1, "/run/r-0.sock", "here"),
    Backend(1, 1, "/run/r-1.sock", "studio-2", FAR),
    Backend(2, 1, "/run/r-2.sock", "studio-3", BEHIND),
)
ROUTES = Routes(1, 7, "0.0.0.0:8400", 60.0, (Route("tiny", (), 0, 0, BACKENDS),), nodes=("a", "studio-2"))


class Double:
    """A gateway on a machine. ``obeys``: the signals that end it."""

    def __init__(self) -> None:
        self.state = GatewayState()
        self.obeys = {"TERM", "KILL"}
        self.held = False
        """Whether it stays stopped whatever continues it."""
        self.loses = False
        """Whether what is sent does not stay there."""
        self.starts = True
        self.away = False
        self.sent_at = 0.0
        self.did: list[str] = []

    async def look(self) -> GatewayState:
        if self.away:
            raise Unreachable("no route to host")
        return self.state

    async def send(self, files: GatewayFiles) -> None:
        self.did.append("send")
        self.sent_at = time.time()
        sums = {path: sha256(content).hexdigest() for path, content in files.contents.items()}
        self.state = replace(self.state, files={} if self.loses else sums)

    async def start(self) -> None:
        self.did.append("start")
        if self.starts:
            said = {"pid": 7, "endpoint": "http://g/v1", "listen": "0.0.0.0:8400", "problem": ""}
            self.state = replace(self.state, pid=7, said=said, program=gateway_file().name)

    async def signal(self, *names: str) -> None:
        self.did += names
        if self.obeys & set(names):
            self.state = replace(self.state, pid=None)
        elif "CONT" in names:
            self.state = replace(self.state, stopped=self.held)

    async def remove_files(self) -> None:
        self.did.append("remove")
        self.state = replace(self.state, files={})


class Bed:
    """The tools of handlers, with a watcher of one gateway."""

    def __init__(self, home: Path) -> None:
        self.path = home / "fronts.json"
        self.key = home / "keys" / "gateway"
        self.key.parent.mkdir()
        self.key.write_bytes(b"secret")
        self.double = Double()
        self.gateways = Gateways(self._gateway, self.path, self.key)
        self.watch = GatewaysOnNodes(self._gateway, lambda: None)
        self.gateways.watcher = self.watch
        self.gateways.on_news = lambda: self.watch.watch(self.gateways.names)
        self.tools = Tools(
            cast(Any, None), cast(Any, None), LocalMachines(), lambda: 0.0, gateways=self.gateways
        )
        self.refuses = False

    def _gateway(self, name: NodeName) -> Double:
        if self.refuses:
            raise Refused("SameMachine", "it is no node over SSH")
        return self.double

    def written(self) -> list[str]:
        return sorted(json.loads(self.path.read_text())) if self.path.exists() else []

    @property
    def seen(self) -> NodeGatewayObservation:
        return self.watch.seen[A]


@pytest.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    for name in ("START_SECONDS", "END_SECONDS", "KILLED_SECONDS", "CONTINUED_SECONDS"):
        monkeypatch.setattr(gateways, name, 0.1)
    monkeypatch.setattr(gateways, "LOOK_SECONDS", 0.01)
    made = Bed(tmp_path)
    made.gateways.follow(replace(ROUTES, nodes=("a",)))
    yield made
    await made.watch.close()


# --- what each is to have -----------------------------------------------------------------------------


def test_a_gateway_reaches_its_own_ranks_directly_and_none_of_the_controllers_machine() -> None:
    found = routes_for(NodeName("studio-2"), ROUTES)
    assert [(each.replica, each.machine) for each in found.routes[0].backends] == [(1, None), (2, BEHIND)]
    assert (found.sequence, found.listen) == (7, "0.0.0.0:8400")


def test_a_gateway_on_a_node_answers_no_webhook_for_its_secret_is_on_the_controllers_machine() -> None:
    routes = Routes(1, 7, "0.0.0.0:8400", 60.0, nodes=("studio-2",), hook=HookSecret(file="/etc/secret"))
    found = routes_for(NodeName("studio-2"), routes)
    assert (found.hook, found.gateway) == (None, "studio-2")


def test_nothing_is_wanted_before_there_are_routes_and_then_each_node_has_files_of_its_own(
    tmp_path: Path,
) -> None:
    key = tmp_path / "gateway"
    key.write_bytes(b"secret")
    made = Gateways(remembered=tmp_path / "fronts.json", key=key)
    news: list[int] = []
    made.on_news = lambda: news.append(1)
    assert made.known.files is None
    made.follow(ROUTES)
    files = made.known.files
    assert files is not None
    assert sorted(files) == ["a", "studio-2"]
    assert files[A] != files[NodeName("studio-2")], "one reaches its own ranks directly"
    assert files[A] == made.files(A).digest
    assert made.known.program == gateway_file().name
    made.follow(replace(ROUTES))
    assert len(news) == 1
    key.with_name("jump-a").write_bytes(b"made later")
    after = made.known.files
    assert after is not None
    assert after[A] != files[A]
    assert dict(made.files(A).keys) == {"gateway": b"secret", "jump-a": b"made later"}
    made.follow(replace(ROUTES, nodes=()))
    assert (made.known.files, made.known.program) == ({}, "")
    with pytest.raises(Refused):
        made.files(A)


@pytest.mark.parametrize(("written", "known"), [('["a"]', {"a"}), ("[", set()), ("7", set()), (None, set())])
def test_the_file_of_earlier_versions_is_read_and_a_broken_one_is_empty(
    tmp_path: Path, written: str | None, known: set[str]
) -> None:
    path = tmp_path / "fronts.json"
    if written is not None:
        path.write_text(written)
    made = Gateways(remembered=path)
    assert made.known.remembered == made.names == known


# --- steps --------------------------------------------------------------------------------------------


async def test_a_gateway_is_remembered_before_it_gets_anything_and_seen_at_the_end_of_each_step(
    bed: Bed,
) -> None:
    await carry_out(SendRoutes(A, KEY, "digest"), bed.tools)
    assert (bed.written(), bed.double.did) == (["a"], ["send"])
    assert bed.seen.files != ""
    await carry_out(StartGateway(A, KEY), bed.tools)
    assert (bed.seen.process, bed.seen.listen) == (GatewayProcess.RUNNING, "0.0.0.0:8400")
    bed.double.state = replace(bed.double.state, stopped=True)
    await carry_out(ContinueGateway(A, KEY), bed.tools)
    assert bed.seen.process is GatewayProcess.RUNNING
    await carry_out(ReplaceGateway(A, KEY, "older"), bed.tools)
    assert (bed.seen.process, bed.seen.files != "") == (GatewayProcess.GONE, True)
    assert bed.seen.ends_in_a_row == 0, "its end was asked for"
    await carry_out(StopGateway(A, KEY), bed.tools)
    assert (bed.seen.files, bed.written()) == ("", [])


async def test_nothing_is_sent_or_started_that_could_be_forgotten(bed: Bed) -> None:
    bed.path.parent.joinpath(".fronts.json.new").mkdir()
    for step in (SendRoutes(A, KEY, "digest"), StartGateway(A, KEY)):
        with pytest.raises(Unwritable):
            await carry_out(step, bed.tools)
    assert bed.double.did == []
    bed.path.parent.joinpath(".fronts.json.new").rmdir()
    await carry_out(StartGateway(A, KEY), bed.tools)
    assert bed.double.did == ["start"]


async def test_one_that_does_not_come_up_is_a_failed_step_with_its_last_words(bed: Bed) -> None:
    bed.double.starts, bed.double.state = False, GatewayState(last_words="No module named uvicorn")
    with pytest.raises(Unreachable, match="No module named uvicorn"):
        await carry_out(StartGateway(A, KEY), bed.tools)
    bed.double.state = GatewayState(said={"endpoint": None, "problem": "0.0.0.0:8400 is taken"})
    with pytest.raises(Unreachable, match="is taken"):
        await carry_out(StartGateway(A, KEY), bed.tools)
    assert bed.seen.cannot_listen


async def test_one_that_stays_stopped_is_a_failed_step_so_that_it_is_not_continued_all_the_time(
    bed: Bed,
) -> None:
    await carry_out(StartGateway(A, KEY), bed.tools)
    bed.double.state, bed.double.held = replace(bed.double.state, stopped=True), True
    with pytest.raises(Unreachable, match="it is still stopped"):
        await carry_out(ContinueGateway(A, KEY), bed.tools)
    assert bed.seen.process is GatewayProcess.STOPPED


async def test_routes_that_do_not_stay_there_are_a_failed_step_so_that_they_are_not_sent_all_the_time(
    bed: Bed,
) -> None:
    bed.double.loses = True
    with pytest.raises(Unreachable, match="other routes or keys than those that were sent"):
        await carry_out(SendRoutes(A, KEY, "digest"), bed.tools)


async def test_one_that_does_not_end_is_killed_and_forgotten_only_once_it_is_gone(bed: Bed) -> None:
    await carry_out(StartGateway(A, KEY), bed.tools)
    bed.double.obeys = {"KILL"}
    await carry_out(ReplaceGateway(A, KEY, "older"), bed.tools)
    assert bed.double.did[1:] == ["TERM", "CONT", "KILL"]
    await carry_out(StartGateway(A, KEY), bed.tools)
    bed.double.obeys = set()
    with pytest.raises(Unreachable, match="still runs, as pid 7"):
        await carry_out(StopGateway(A, KEY), bed.tools)
    assert bed.written() == ["a"]


async def test_a_machine_that_is_lost_during_a_step_fails_it(bed: Bed) -> None:
    await carry_out(StartGateway(A, KEY), bed.tools)
    bed.double.away = True
    with pytest.raises(Unreachable, match="no route to host"):
        await carry_out(StopGateway(A, KEY), bed.tools)
    assert bed.written() == ["a"]
    assert (bed.seen.reached, bed.seen.process) == (False, GatewayProcess.RUNNING)


async def test_one_on_a_machine_that_is_no_longer_reached_is_only_forgotten(bed: Bed) -> None:
    await carry_out(StartGateway(A, KEY), bed.tools)
    bed.refuses = True
    await carry_out(StopGateway(A, KEY), bed.tools)
    assert (bed.written(), bed.double.did) == ([], ["start"])


async def test_by_default_no_node_can_have_a_gateway() -> None:
    assert not (await Gateways().watcher.look(A)).reached
    with pytest.raises(Refused):
        Gateways().on(A)
