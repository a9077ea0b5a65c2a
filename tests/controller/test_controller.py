"""The controller as a process: agents are real, weights are missing on purpose, so that no rank starts."""

from __future__ import annotations

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

from reconciler.cli.client import ask
from reconciler.errors import Unreachable
from reconciler.wire.admin import Get, ListEvents, Look, ShowPlan, ShowStatus, Stop

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0


class Controller:
    """A home with manifests in a folder, and the controller that watches it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.manifests = folder / "manifests"
        self.process: subprocess.Popen[bytes] | None = None
        shutil.copytree(ROOT / "manifests", self.manifests)

    def start(self) -> None:
        command = [sys.executable, "-m", "reconciler", "--home", str(self.home), "controller"]
        command += ["--watch", str(self.manifests)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)
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
        return sorted(int(lock.read_text()) for lock in locks)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
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
    return controller.conditions("ModelDeployment", "tiny").get("Stalled", {}).get("status") == "True"


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


def test_a_mistake_in_the_folder_is_told_and_the_last_good_state_stays(controller: Controller) -> None:
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
    agents, told = controller.agents(), controller.reasons()
    assert controller.process is not None
    controller.process.kill()
    controller.process.wait(10)
    controller.start()
    controller.wait(lambda: controller.ask(ShowStatus())["revision"])
    controller.wait(lambda: stalled(controller))
    assert controller.agents() == agents
    assert controller.reasons()[: len(told)] == told
    assert set(controller.reasons()[len(told) :]) <= {"RevisionApplied"}


def test_a_lost_store_does_not_lock_its_controller_out_of_the_nodes(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    assert controller.process is not None
    for _ in range(2):  # so that the agents have seen a token that a new store does not give
        controller.process.kill()
        controller.process.wait(10)
        controller.start()
    controller.process.kill()
    controller.process.wait(10)
    for file in controller.home.glob("store.db*"):
        file.unlink()
    controller.start()
    controller.wait(lambda: stalled(controller))
    controller.ask(Stop())
    assert controller.process.wait(40) == 0
    controller.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in controller.agents()))


def test_a_deleted_gateway_offers_nothing(controller: Controller) -> None:
    routes = controller.home / "routes.json"
    controller.wait(lambda: routes.exists() and json.loads(routes.read_text())["routes"])
    (controller.manifests / "gateway.yaml").unlink()
    controller.wait(lambda: json.loads(routes.read_text())["routes"] == [])


def test_a_second_controller_is_refused_by_name(controller: Controller) -> None:
    assert controller.process is not None
    command = [sys.executable, "-m", "reconciler", "--home", str(controller.home), "controller"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert second.returncode == 1
    assert f"in use by another controller (pid {controller.process.pid})" in second.stderr


def test_stop_ends_agents_and_controller_and_sigterm_the_controller_alone(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    assert controller.process is not None
    controller.process.terminate()
    assert controller.process.wait(20) == 0
    for pid in controller.agents():
        os.kill(pid, 0)
    controller.start()
    controller.ask(Stop())
    assert controller.process.wait(40) == 0
    controller.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in controller.agents()))


def test_the_socket_is_for_its_owner_alone(controller: Controller) -> None:
    assert (controller.home / "controller.sock").stat().st_mode & 0o777 == 0o600
    assert controller.home.stat().st_mode & 0o777 == 0o700
