"""The controller as a process: agents are real, weights are missing on purpose, so that no rank starts."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.bootstrap.controller import EXIT_DEPOSED
from reconciler.cli.core.client import ask
from reconciler.errors import Refused, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.store import EventFilter, Store
from reconciler.wire.admin import (
    Approve,
    Get,
    ListEvents,
    Look,
    ShowPlaces,
    ShowPlan,
    ShowSeries,
    ShowStatus,
    ShowUsage,
    Stop,
)
from reconciler.wire.node import Observe
from reconciler.wire.paths import agent_socket
from tests import fork_server

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0


class Controller:
    """A home with manifests in a folder, and the controller that watches it."""

    process: fork_server.Process

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.manifests = folder / "manifests"
        self.log = folder / "controller.log"
        shutil.copytree(ROOT / "manifests", self.manifests)

    def start(self) -> None:
        arguments = ["--home", str(self.home), "controller", "--watch", str(self.manifests)]
        with self.log.open("ab") as log:
            self.process = fork_server.start(fork_server.CONTROLLERS, "reconciler", log, arguments=arguments)
        self.wait(lambda: self.ask(ShowStatus()))

    def ask(self, message: Any) -> Any:
        return ask(self.home / "controller.sock", message)

    def wait(self, true: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with suppress(Unreachable):
                if found := true():
                    return found
            time.sleep(0.05)
        raise AssertionError("waited in vain")

    def conditions(self, kind: str, name: str) -> dict[str, dict[str, Any]]:
        items = self.ask(Get(kind, name))["items"]
        return {c["type"]: c for item in items for c in item["status"]["conditions"]}

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.ask(ListEvents())["items"]]

    def agents(self) -> list[int]:
        locks = self.home.glob("nodes/*/agent.lock")
        return sorted(int(pid) for lock in locks if (pid := lock.read_text()))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        self.kill()
        for pid in self.agents():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def controller() -> Iterator[Controller]:
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    made = Controller(folder)
    made.start()
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def stalled(controller: Controller) -> bool:
    """All that can be done is done: each node has its agent, and the deployment cannot be served."""
    nodes = controller.ask(Get("Node"))["items"]
    ready = [c["status"] for node in nodes for c in node["status"]["conditions"] if c["type"] == "Ready"]
    if not ready or ready.count("True") < len(nodes):
        return False
    return controller.conditions("ModelDeployment", "tiny").get("Stalled", {}).get("status") == "True"


def test_what_is_asked_of_a_controller_that_has_just_started_is_answered_once_its_nodes_were_observed(
    controller: Controller,
) -> None:
    for message in (Get("Rank"), Get("Node"), ShowUsage()):
        controller.kill()
        controller.start()
        assert controller.ask(message)["unobserved"] == []
    assert {each["status"]["agent"] for each in controller.ask(Get("Node"))["items"]} == {"reached"}


def test_missing_weights_are_said_on_the_condition_and_nothing_is_started(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    condition = controller.conditions("ModelDeployment", "tiny")["Stalled"]
    assert condition["reason"] == "WeightsMissing"
    assert f"no weights at {controller.home}/models/tiny on node-a" in condition["message"]
    assert controller.ask(Get("Rank"))["items"] == []
    plan = controller.ask(ShowPlan())
    assert (plan["steps"], plan["waiting"]) == ([], [])
    assert [refused["reason"] for refused in plan["refused"]] == ["WeightsMissing"]
    assert controller.conditions("Node", "node-a")["Ready"]["status"] == "True"
    series = {each["name"]: each["series"] for each in controller.ask(ShowSeries())["families"]}
    assert [["tiny", "Stalled"], 1.0] in series["reconciler_deployment_status_condition"]
    assert [["WeightsMissing"], 1.0] in series["reconciler_plan_refused"]
    assert series["reconciler_source_up"] == []
    (places,) = controller.ask(ShowPlaces("tiny"))["items"]
    assert ["no weights at" in seat["text"] for seat in places["nodes"]] == [True] * len(places["nodes"])


def test_a_mistake_in_the_folder_is_reported_and_the_last_good_state_stays(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    before = controller.ask(ShowStatus())["revision"]
    file = controller.manifests / "tiny.yaml"
    good = file.read_text()
    file.write_text(good.replace("replicas: 1", "replicas: -1"))
    controller.wait(lambda: controller.ask(ShowStatus())["rejection"])
    status = controller.ask(ShowStatus())
    assert status["revision"] == before
    assert "tiny.yaml:" in status["rejection"]
    file.write_text(good)
    controller.wait(lambda: controller.ask(ShowStatus())["rejection"] is None)
    assert controller.reasons().count("RevisionRejected") == 1


def test_generations_grow_with_the_spec_and_are_observed(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    file = controller.manifests / "tiny.yaml"
    file.write_text(file.read_text().replace("replicas: 1", "replicas: 2"))
    controller.ask(Look("source"))

    def second() -> Any:
        (item,) = controller.ask(Get("ModelDeployment", "tiny"))["items"]
        generation: int = item["metadata"]["generation"]
        return generation == 2 and item["status"]["observedGeneration"] == generation

    controller.wait(second)
    assert len(controller.ask(Get("ModelDeployment"))["items"]) == 1


def test_a_killed_controller_s_successor_adopts_the_agents_and_repeats_no_event(
    controller: Controller,
) -> None:
    controller.wait(lambda: stalled(controller))
    agents, reasons = controller.agents(), controller.reasons()
    controller.kill()
    controller.start()
    controller.wait(lambda: controller.ask(ShowStatus())["revision"])
    controller.wait(lambda: stalled(controller))
    assert controller.agents() == agents
    assert controller.reasons()[: len(reasons)] == reasons
    assert set(controller.reasons()[len(reasons) :]) <= {"RevisionApplied"}


def test_a_lost_store_does_not_lock_its_controller_out_of_the_nodes(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    for _ in range(2):  # so that the agents have seen a token that a new store does not give
        controller.kill()
        controller.start()
    controller.kill()
    for file in controller.home.glob("store.db*"):
        file.unlink()
    controller.start()
    controller.wait(lambda: stalled(controller))
    controller.ask(Stop())
    assert controller.process.wait(WAIT_SECONDS) == 0
    controller.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in controller.agents()))


def test_a_controller_whose_store_another_opens_ends_and_changes_nothing_more(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    routes = controller.home / "routes.json"
    controller.wait(routes.exists)
    newer = Store(controller.home / "store.db")
    before, last = routes.read_bytes(), newer.events(EventFilter())
    (controller.manifests / "gateway.yaml").unlink()  # something to do
    assert controller.process.wait(WAIT_SECONDS) == EXIT_DEPOSED
    assert "another controller has taken over" in controller.log.read_text().splitlines()[-1]
    assert routes.read_bytes() == before
    assert newer.events(EventFilter()) == last
    newer.close()


def test_a_controller_that_finds_its_nodes_obeying_another_ends(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    asyncio.run(look(controller.home / "run", "node-a", 1_000))
    assert controller.process.wait(WAIT_SECONDS) == EXIT_DEPOSED
    assert "node-a obeys another controller (its token is 1000" in controller.log.read_text().splitlines()[-1]
    controller.start()
    controller.wait(lambda: stalled(controller))
    controller.wait(lambda: json.loads((controller.home / "routes.json").read_text())["token"] > 1_000)


async def look(run_directory: Path, name: str, token: int) -> None:
    """As another controller would."""
    reader, writer = await asyncio.open_unix_connection(agent_socket(str(run_directory), name))
    link = await AgentConnection(reader, writer).open("controller")
    await link.request(Observe((), token), timeout=WAIT_SECONDS)
    await link.close()


def test_routes_that_somebody_else_has_written_or_removed_are_written_again(controller: Controller) -> None:
    routes = controller.home / "routes.json"
    controller.wait(lambda: routes.exists() and json.loads(routes.read_text())["routes"])
    wanted = json.loads(routes.read_text())["routes"]
    routes.unlink()
    controller.ask(Look("source"))
    controller.wait(lambda: routes.exists() and json.loads(routes.read_text())["routes"] == wanted)
    routes.write_text("{}")
    controller.ask(Look("source"))
    controller.wait(lambda: json.loads(routes.read_text()).get("routes") == wanted)


def test_a_deleted_gateway_offers_nothing(controller: Controller) -> None:
    routes = controller.home / "routes.json"
    controller.wait(lambda: routes.exists() and json.loads(routes.read_text())["routes"])
    controller.wait(
        lambda: stalled(controller)
    )  # by then it is known that no gateway runs, whose removal would be held
    (controller.manifests / "gateway.yaml").unlink()
    controller.wait(lambda: json.loads(routes.read_text())["routes"] == [])


def test_a_second_controller_is_refused_by_name(controller: Controller) -> None:
    command = [sys.executable, "-m", "reconciler", "--home", str(controller.home), "controller"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert second.returncode == 1
    assert f"in use by another controller (pid {controller.process.pid})" in second.stderr


def test_a_controller_whose_home_is_taken_away_ends_by_itself(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))  # an agent that is being started would make the home again
    aside = controller.home.with_name("aside")
    controller.home.rename(aside)
    assert controller.process.wait(WAIT_SECONDS) == EXIT_DEPOSED
    aside.rename(controller.home)  # its agents are found there
    assert "was removed: this controller ends" in controller.log.read_text()


def test_stop_ends_agents_and_controller_and_sigterm_the_controller_alone(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    controller.process.terminate()
    assert controller.process.wait(WAIT_SECONDS) == 0
    for pid in controller.agents():
        os.kill(pid, 0)
    controller.start()
    controller.ask(Stop())
    assert controller.process.wait(WAIT_SECONDS) == 0
    controller.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in controller.agents()))


def test_the_socket_is_for_its_owner_alone(controller: Controller) -> None:
    assert (controller.home / "controller.sock").stat().st_mode & 0o777 == 0o600
    assert controller.home.stat().st_mode & 0o777 == 0o700


def objects(controller: Controller) -> dict[str, dict[str, Any]]:
    return {f"{o['kind']}/{o['metadata']['name']}": o for o in controller.ask(Get())["items"]}


def test_an_emptied_folder_stops_nothing_until_that_is_approved(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    before, agents = objects(controller), controller.agents()
    for file in controller.manifests.glob("*.yaml"):
        file.rename(file.with_suffix(".gone"))
    held = controller.wait(lambda: controller.ask(ShowStatus())["held"])
    assert held["removes"] == sorted(key.lower() for key in before)
    assert held["of"] == len(before)
    assert controller.ask(Get())["held"] == held
    assert "RevisionHeld" in [refused["reason"] for refused in controller.ask(ShowPlan())["refused"]]
    assert objects(controller).keys() == before.keys()
    with pytest.raises(Refused, match=f"reconciler approve {held['revision']}"):
        controller.ask(Approve("dir-000000000000", "ada"))
    assert (controller.agents(), controller.ask(ShowStatus())["held"]) == (agents, held)

    answer = controller.ask(Approve(held["revision"][:8], "ada"))
    assert answer == {
        "revision": held["revision"],
        "removes": held["removes"],
        "runs": [],
        "again": False,
    }
    controller.wait(lambda: controller.ask(Get())["items"] == [])
    assert controller.reasons().count("Removed") == len(before)
    assert controller.ask(ShowStatus())["held"] is None
    controller.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in agents))
    assert controller.ask(Approve(held["revision"], "ada"))["again"] is True


def test_a_node_that_is_removed_terminates_until_its_agent_has_ended(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    goes, stays = (int((controller.home / f"nodes/{n}/agent.lock").read_text()) for n in ("node-b", "node-a"))
    os.kill(goes, signal.SIGSTOP)
    file = controller.manifests / "nodes.yaml"
    file.write_text(file.read_text().replace("name: node-b", "name: node-c"))

    def terminating() -> Any:
        return objects(controller).get("Node/node-b", {}).get("metadata", {}).get("deletionTimestamp")

    controller.wait(terminating)
    conditions = controller.conditions("Node", "node-b")
    assert conditions["Ready"]["reason"] == "Terminating"
    assert conditions["Reconciling"]["status"] == "True"
    assert conditions["Stalled"]["status"] == "False"
    texts = [w["text"] for w in controller.ask(ShowPlan())["waiting"] if w["object"] == "node/node-b"]
    assert any("waiting for the end of its agent" in text for text in texts)
    os.kill(goes, signal.SIGCONT)
    controller.wait(lambda: "Node/node-b" not in objects(controller))
    controller.wait(lambda: not Path(f"/proc/{goes}").exists())
    assert stays in controller.agents()
    reasons = [event["reason"] for event in controller.ask(ListEvents(kind="Node", name="node-b"))["items"]]
    ending = ["Terminating", "AgentStopped", "Removed"]
    assert [reason for reason in reasons if reason in ending] == ending


def test_a_restart_while_the_folder_is_wrong_goes_on_with_what_was_in_force(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    before, agents = objects(controller), controller.agents()
    (controller.manifests / "nodes.yaml").write_text("kind: Nod\n")
    controller.wait(lambda: controller.ask(ShowStatus())["rejection"])
    controller.kill()
    controller.start()
    controller.wait(lambda: stalled(controller))
    assert objects(controller).keys() == before.keys()
    assert {o["metadata"]["generation"] for o in objects(controller).values()} == {1}
    assert controller.ask(ShowStatus())["rejection"]
    assert controller.agents() == agents
