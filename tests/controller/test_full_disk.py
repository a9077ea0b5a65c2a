"""The controller on a disk that is full for a while: it goes on, says so, and makes up for it."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.controller.routes_file import RoutesFile
from reconciler.wire.admin import Get, Look, ShowPlan
from reconciler.wire.generation import Route, Routes
from tests.store.test_full_disk import files_no_longer_than

from .test_controller import Controller, controller, stalled

__all__ = ["controller"]


def limit(made: Controller, size: int) -> None:
    """How long files may become that the controller writes."""
    _, hard = resource.prlimit(made.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(made.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def refusals(made: Controller) -> dict[str, str]:
    return {refused["reason"]: refused["text"] for refused in made.ask(ShowPlan())["refused"]}


def generation(made: Controller) -> int:
    (item,) = made.ask(Get("ModelDeployment", "tiny"))["items"]
    return int(item["metadata"]["generation"])


def test_a_full_disk_is_said_and_what_had_to_wait_is_done_when_there_is_room(controller: Controller) -> None:
    controller.wait(lambda: stalled(controller))
    file = controller.manifests / "tiny.yaml"
    limit(controller, 16 * 1024)  # less than the store has, more than the log will have
    file.write_text(file.read_text().replace("replicas: 1", "replicas: 2"))
    controller.ask(Look("source"))
    controller.wait(lambda: "StateUnwritable" in refusals(controller))
    assert "store.db cannot be written now: " in refusals(controller)["StateUnwritable"]
    controller.wait(lambda: "serving continues, nothing new is started" in controller.log.read_text())
    assert generation(controller) == 1
    assert "Traceback" not in controller.log.read_text()
    routes = json.loads((controller.home / "routes.json").read_text())

    limit(controller, resource.RLIM_INFINITY)

    controller.wait(lambda: generation(controller) == 2)
    controller.wait(lambda: "StateUnwritable" not in refusals(controller))
    controller.wait(lambda: "StateWritable" in controller.reasons())
    assert controller.reasons().count("StateUnwritable") == 1
    assert json.loads((controller.home / "routes.json").read_text())["sequence"] >= routes["sequence"]


def test_routes_that_cannot_be_written_are_said_and_written_when_they_can(controller: Controller) -> None:
    routes = controller.home / "routes.json"

    def read() -> Any:
        return json.loads(routes.read_text())

    controller.wait(lambda: stalled(controller) and routes.exists())
    before = read()
    message, obstacle = "routes.json cannot be written now: ", controller.home / ".routes.json.new"
    obstacle.mkdir()
    gateway = controller.manifests / "gateway.yaml"
    gateway.write_text(gateway.read_text().replace("listen: 127.0.0.1:8400", "listen: 127.0.0.1:8455"))
    controller.ask(Look("source"))
    controller.wait(lambda: message in refusals(controller).get("StateUnwritable", ""))
    assert read() == before
    assert "Traceback" not in controller.log.read_text()
    obstacle.rmdir()
    controller.wait(lambda: read()["listen"] == "127.0.0.1:8455")
    controller.wait(lambda: "StateUnwritable" not in refusals(controller))


def test_routes_are_never_half_written(tmp_path: Path) -> None:
    file = RoutesFile(tmp_path / "routes.json")
    before = Routes(1, 1, "127.0.0.1:8400", 30.0, ())
    file.replace(before)
    room = file.path.stat().st_size
    with files_no_longer_than(room), pytest.raises(OSError, match="File too large"):
        file.replace(replace(before, sequence=2, routes=(Route("tiny", (), 4096, 0, ()),)))
    assert file.read() == before
