"""`logs`: what ranks print."""

from __future__ import annotations

import time
from typing import Any

import click

from reconciler.errors import Refused
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.launch import RankId

from .app import Settings
from .client import Client
from .kinds import not_found
from .output import output_option, print_json

BYTES_MAX = 1024 * 1024
FOLLOW_SECONDS = 0.5


@click.command()
@click.argument("name")
@click.option("--replica", type=click.IntRange(0), default=0, show_default=True, help="Of a deployment.")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Of a replica.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing.")
@output_option()
@click.pass_obj
def logs(settings: Settings, /, name: str, replica: int, rank: int, **how: Any) -> None:
    """Print what a rank has printed.

    NAME is a deployment (with --replica and --rank), or a rank such as tiny.0.3.1
    (deployment, replica, epoch, rank), also one that has ended.

    \b
    Examples:
      reconciler logs tiny --rank 1 --tail 20
      reconciler logs tiny.0.3.1
    """
    with Client(settings.socket) as client:
        rank_id = _rank(client, name, replica, rank)
        body = client.ask(ReadRankLog(rank_id, BYTES_MAX))
        if how["output"] == "json":
            print_json({"rank": str(rank_id), **body})
            return
        click.echo(_last_lines(body["text"], how["tail"]), nl=False)
        while how["follow"]:
            time.sleep(FOLLOW_SECONDS)
            body = client.ask(ReadRankLog(rank_id, BYTES_MAX, body["offset"]))
            click.echo(body["text"], nl=False)


def _rank(client: Client, name: str, replica: int, rank: int) -> RankId:
    if name.count(".") >= 3:
        try:
            return RankId.parse(name)
        except ValueError:
            pass
    name = name.rpartition("/")[2]  # `deployment/tiny` as well
    rows: list[dict[str, Any]] = client.ask(Get("Rank", name))["items"]
    epochs = [row["epoch"] for row in rows if row["replica"] == replica and row["rank"] == rank]
    if not epochs:  # it has ended: when logs are wanted most
        found = client.ask(Get("ModelDeployment", name))["items"]
        if not found:
            raise not_found("ModelDeployment", name)
        groups = found[0]["status"].get("groups", [])
        epochs = [group["epoch"] for group in groups if group["replica"] == replica]
    if not epochs:
        raise Refused(
            "NotFound",
            f"replica {replica} of {name} has no group now; see: reconciler describe deployment {name}",
        )
    return RankId(name, replica, max(epochs), rank)


def _last_lines(text: str, count: int | None) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines if count is None else lines[len(lines) - min(count, len(lines)) :])
