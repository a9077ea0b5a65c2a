"""Measures groups for `verify`: the serving ones, and smaller ones formed for comparison."""

from __future__ import annotations

from typing import Any, Final

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import Files, How, carry_out
from reconciler.cli.core.confirm import agreed
from reconciler.cli.core.waiting import wait_until
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.errors import Invalid, ReconcilerError, Refused
from reconciler.resources import ModelDeployment
from reconciler.wire import answers, objects
from reconciler.wire.admin import Accept, Get
from reconciler.wire.objects import condition

DEPLOYMENT: Final = "ModelDeployment"
HELD_BACK_SECONDS = 1.0
ROUNDS_MAX = 3600
"""Far above the sum of the controller's limits for the parts of a trial."""
READY_SECONDS_MAX = 600.0
"""Time for a smaller group to load the weights and answer."""
GONE_SECONDS_MAX = 120.0


def tried(client: Client, request: Accept, screen: Screen) -> answers.Trial:
    """Return the result of a trial; meanwhile show progress on ``screen``."""
    body = client.ask(request)
    for _ in range(ROUNDS_MAX):
        again = Accept(
            request.deployment, request.under_load, request.smaller, body["run"], HELD_BACK_SECONDS
        )
        body = client.ask(again, HELD_BACK_SECONDS)
        if not body["doing"]:
            break
        screen.show(f"{body['doing']} ...")
    screen.clear()
    return body


def smaller_groups(settings: Settings, client: Client, name: str, yes: bool) -> list[answers.SmallerGroup]:
    """Measure a group of every smaller size, one after the other, each in a temporary deployment.

    Raises ``Invalid`` without consent.
    """
    (item,) = client.ask(Get(DEPLOYMENT, name))["items"]
    largest = max((len(group["nodes"]) for group in item["status"].get("groups", [])), default=1)
    if largest == 1:
        return []
    question = f"form groups of 1 to {largest - 1} nodes beside {name}, one after the other, each for about a minute?"
    if not yes and not agreed(question):
        raise Invalid(f"smaller groups of {name} need your consent: answer at a terminal, or add --yes")
    return [_measured(settings, item, nodes) for nodes in range(1, largest)]


def _measured(settings: Settings, item: objects.ModelDeployment, nodes: int) -> answers.SmallerGroup:
    """Measure one smaller group, and always remove its deployment."""
    screen = quiet_screen()
    name = f"{item['metadata']['name']}-verify-{nodes}"
    try:
        _commit(settings, _deployment(item, name, nodes))
        wait_until(settings, lambda client: _missing(client, name), READY_SECONDS_MAX, screen)
        with Client(settings.socket) as client:
            body = tried(client, Accept(name), screen)
        streams = body["replicas"][0]["streams"]
        rate = streams[0]["tokensPerSecond"] if streams else None
        return {"nodes": nodes, "rate": rate, "problem": ""}
    except ReconcilerError as error:
        return {"nodes": nodes, "rate": None, "problem": str(error)}
    finally:
        screen.clear()
        _remove(settings, name)
        wait_until(settings, lambda client: _remaining(client, name), GONE_SECONDS_MAX, screen)


def _deployment(item: objects.ModelDeployment, name: str, nodes: int) -> ModelDeployment:
    """Return a deployment like ``item`` with one replica on ``nodes`` nodes, and without aliases."""
    like = item["spec"]
    spec = {
        **like,
        "replicas": 1,
        "parallelism": {**like["parallelism"], "nodes": {"min": nodes, "max": nodes}},
        "serving": {**like["serving"], "aliases": []},
    }
    body = {**item, "metadata": {"name": name}, "spec": spec}
    del body["status"]
    return ModelDeployment.model_validate(body, strict=False)


def _commit(settings: Settings, manifest: ModelDeployment) -> None:
    def decide(files: Files) -> Any:
        from reconciler.source.editing import apply_documents, normalised
        from reconciler.source.yaml.documents import load

        text = normalised(manifest).encode()
        return apply_documents(files, load({f"{manifest.metadata.name}.yaml": text}, part=True))

    carry_out(settings, How(), decide, "Verify with")


def _remove(settings: Settings, name: str) -> None:
    def decide(files: Files) -> Any:
        from reconciler.cli.core.targets import labels_of
        from reconciler.source.editing import delete_objects

        there = (DEPLOYMENT, name) in labels_of(files)
        return delete_objects(files, [(DEPLOYMENT, name)] if there else [])

    carry_out(settings, How(), decide, "Delete")


def _missing(client: Client, name: str) -> str:
    """Return the reason why a deployment is not served yet; empty once it is. Raises ``Refused`` if it cannot be."""
    items = client.ask(Get(DEPLOYMENT, name))["items"]
    if not items:
        return f"{name} is being read"
    stalled, ready = condition(items[0], "Stalled"), condition(items[0], "Ready")
    if stalled["status"] == "True":
        raise Refused("Stalled", stalled["message"])
    return "" if ready["status"] == "True" else ready["message"] or f"{name} is being formed"


def _remaining(client: Client, name: str) -> str:
    return f"{name} is being removed" if client.ask(Get(DEPLOYMENT, name))["items"] else ""
