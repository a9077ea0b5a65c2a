"""`verify`: check a deployment after bring-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import Files, How, carry_out
from reconciler.cli.core.confirm import agreed
from reconciler.cli.core.kinds import object_named
from reconciler.cli.core.targets import check_there, labels_of
from reconciler.cli.core.waiting import wait_until
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.cli.output.table_layout import beside, fold, page_width
from reconciler.errors import Invalid, ReconcilerError, Refused
from reconciler.resources import ModelDeployment
from reconciler.wire import answers, objects
from reconciler.wire.admin import Accept, Get
from reconciler.wire.objects import condition

WORDS = {True: "ok", False: "FAILED", None: "-"}
INDENT = 8
DEPLOYMENT: Final = "ModelDeployment"
HELD_BACK_SECONDS = 1.0
ROUNDS_MAX = 3600
"""Far above the sum of the controller's limits for the parts of a trial."""
READY_SECONDS_MAX = 600.0
"""Time for a smaller group to load the weights and answer."""
GONE_SECONDS_MAX = 120.0


@click.command()
@click.argument("deployment", shell_complete=complete.deployments)
@click.option(
    "--scale",
    is_flag=True,
    help="Compare with temporary groups of fewer nodes: commits a deployment for each, and its removal.",
)
@click.option("-y", "--yes", is_flag=True, help="Form these groups without asking.")
@click.option("--under-load", is_flag=True, help="Measure even while requests are being answered.")
@output_option()
@click.pass_obj
def verify(
    settings: Settings, deployment: str, scale: bool, yes: bool, under_load: bool, output: str | None
) -> int:
    """Test every group of a deployment, and find the machine or link that makes one slow.

    All ranks together check sums that are known, and measure the speed of their machines and the time of collectives. Then
    the group answers 1, 2 and 4 requests at once, while the ranks are observed. A dash marks a value that could not be measured or compared.
    Exits with 1 if a check failed.

    \b
    Examples:
      reconciler verify llama
      reconciler verify llama --under-load -o json
      reconciler verify llama --scale --yes
    """
    name = deployment if "/" not in deployment else object_named((deployment,))[1] or deployment
    with Client(settings.socket) as client:
        check_there(client, DEPLOYMENT, (name,))
        smaller = _smaller_groups(settings, client, name, yes) if scale else []
        rates = {str(each["nodes"]): rate for each in smaller if (rate := each["rate"]) is not None}
        found = _tried(client, Accept(name, under_load, rates), quiet_screen())
    body: answers.Tried = {
        "deployment": found["deployment"],
        "ok": found["ok"],
        "replicas": found["replicas"],
    }
    if scale:
        body["scale"] = smaller
    print_body(body, output, _page(body))
    return 0 if body["ok"] else 1


def _page(body: answers.Tried) -> Iterator[str]:
    width = page_width()
    for replica in body["replicas"]:
        over = f" over {replica['transport']}" if replica["transport"] else ""
        yield from fold(
            f"{body['deployment']}/{replica['replica']}, epoch {replica['epoch']}, on"
            f" {', '.join(replica['nodes'])}{over}",
            width,
            "  ",
        )
        for check in replica["checks"]:
            blame = f"; to blame: {', '.join(check['blame'])}" if check["blame"] else ""
            text = f"{check['name']}: {check['text']}{blame}"
            yield from beside(f"{WORDS[check['ok']]:<{INDENT}} ", text, width)
        yield ""
    for each in body.get("scale", []):
        if each["rate"] is None:
            line = f"-        a group of {each['nodes']} could not be measured: {each['problem']}"
            yield from fold(line, width, " " * (INDENT + 1))
    yield from fold(_verdict(body), width)


def _verdict(body: answers.Tried) -> str:
    checks = [check for replica in body["replicas"] for check in replica["checks"]]
    failed = [check for check in checks if check["ok"] is False]
    untold = sum(1 for check in checks if check["ok"] is None)
    more = f"; {untold} could not be measured or compared" if untold else ""
    if not failed:
        return f"{body['deployment']} is fine: {len(checks) - untold} checks passed{more}"
    blame = dict.fromkeys(name for check in failed for name in check["blame"])
    why = f"; to blame: {', '.join(blame)}" if blame else ""
    return f"{body['deployment']} has problems: {', '.join(check['name'] for check in failed)}{why}{more}"


# --- trials ------------------------------------------------------------------------------------------


def _tried(client: Client, request: Accept, screen: Screen) -> answers.Trial:
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


def _smaller_groups(settings: Settings, client: Client, name: str, yes: bool) -> list[answers.SmallerGroup]:
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
            body = _tried(client, Accept(name), screen)
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
