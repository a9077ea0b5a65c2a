"""The controller on a disk that is full for a while: it goes on, says so, and makes up for it."""

from __future__ import annotations

import json
import resource
from typing import Any

from reconciler.wire.admin import Get, Look, ShowPlan

from .test_controller import Controller, controller, stalled

__all__ = ["controller"]


def limit(made: Controller, size: int) -> None:
    """How long files may become that the controller writes."""
    assert made.process is not None
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
    assert "store.db: cannot be written now: " in refusals(controller)["StateUnwritable"]
    controller.wait(lambda: "what serves goes on, nothing new is started" in controller.log.read_text())
    assert generation(controller) == 1
    assert "Traceback" not in controller.log.read_text()
    routes = json.loads((controller.home / "routes.json").read_text())

    limit(controller, resource.RLIM_INFINITY)

    controller.wait(lambda: generation(controller) == 2)
    controller.wait(lambda: "StateUnwritable" not in refusals(controller))
    controller.wait(lambda: "StateWritable" in controller.reasons())
    assert controller.reasons().count("StateUnwritable") == 1
    assert json.loads((controller.home / "routes.json").read_text())["sequence"] >= routes["sequence"]


def test_routes_that_cannot_be_written_are_never_half_written(controller: Controller) -> None:
    routes = controller.home / "routes.json"

    def sequence() -> Any:
        return json.loads(routes.read_text())["sequence"]

    controller.wait(lambda: stalled(controller) and routes.exists())
    before = sequence()
    gateway = controller.manifests / "gateway.yaml"
    limit(controller, routes.stat().st_size - 20)  # room for the store's first pages, not for this file
    gateway.write_text(gateway.read_text().replace("listen: 127.0.0.1:8400", "listen: 127.0.0.1:8455"))
    controller.ask(Look("source"))
    controller.wait(lambda: "StateUnwritable" in refusals(controller))
    assert sequence() == before
    limit(controller, resource.RLIM_INFINITY)
    controller.wait(lambda: sequence() > before)
    assert json.loads(routes.read_text())["listen"] == "127.0.0.1:8455"
