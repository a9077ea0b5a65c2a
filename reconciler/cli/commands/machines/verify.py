"""`verify`: check a deployment after bring-up."""

from __future__ import annotations

from collections.abc import Iterator

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.kinds import object_named
from reconciler.cli.core.targets import check_there
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import quiet_screen
from reconciler.cli.output.table_layout import beside, fold, page_width
from reconciler.wire import answers
from reconciler.wire.admin import Accept

from .trials import smaller_groups, tried

WORDS = {True: "ok", False: "FAILED", None: "-"}
INDENT = 8


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
        check_there(client, "ModelDeployment", (name,))
        smaller = smaller_groups(settings, client, name, yes) if scale else []
        rates = {str(each["nodes"]): rate for each in smaller if (rate := each["rate"]) is not None}
        found = tried(client, Accept(name, under_load, rates), quiet_screen())
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
