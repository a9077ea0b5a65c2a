"""`events`: the story, in order."""

from __future__ import annotations

import json
from typing import Any

import click

from reconciler.wire.admin import ListEvents

from .app import Settings
from .client import Client
from .kinds import object_named
from .output import output_option, print_json
from .tables import age, clip, table, terminal_width

WAIT_SECONDS = 20.0
HEADERS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


@click.command()
@click.option("-w", "-f", "--watch", is_flag=True, help="Go on printing events as they come.")
@click.option("--for", "about", metavar="KIND/NAME", help="Only events of this object.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="The newest N."
)
@output_option()
@click.pass_obj
def events(settings: Settings, watch: bool, about: str | None, limit: int, output: str | None) -> None:
    """Show what has happened, oldest first.

    \b
    Examples:
      reconciler events
      reconciler events --for deployment/tiny -w
    """
    kind, name = object_named((about,)) if about else (None, None)
    with Client(settings.socket) as client:
        body = client.ask(ListEvents(limit=limit, kind=kind, name=name))
        if not watch:
            _print(body, output)
            return
        while True:
            for event in body["items"]:
                click.echo(json.dumps(event, ensure_ascii=False) if output == "json" else event_line(event))
            request = ListEvents(body["last"], limit, kind, name, WAIT_SECONDS)
            body = client.ask(request, WAIT_SECONDS)


def _print(body: dict[str, Any], output: str | None) -> None:
    if output == "json":
        print_json(body)
    elif body["items"]:
        click.echo(event_table(body["items"]))
    else:
        click.echo("No events found.", err=True)


def event_table(items: list[dict[str, Any]]) -> str:
    """Events with the age of each."""
    return table(
        HEADERS, [(age(e["time"]), e["type"], e["reason"], e["object"], e["message"]) for e in items]
    )


def event_line(event: dict[str, Any]) -> str:
    """One event for a growing list: the time of day, in UTC, instead of the age."""
    moment = event["time"][11:23]
    mark = "!" if event["type"] == "Warning" else " "
    return clip(f"{moment} {mark} {event['object']}: {event['reason']}: {event['message']}", terminal_width())
