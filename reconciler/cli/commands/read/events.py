"""`events`: list events, oldest first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.durations import DURATION
from reconciler.cli.core.kinds import is_kind, object_named
from reconciler.cli.core.objects import LastingClient
from reconciler.cli.output.colour import Cell, painted
from reconciler.cli.output.form import limit_option, output_option, print_body, print_line
from reconciler.cli.output.parsed import Parsed
from reconciler.cli.output.table_layout import age, fold, folded_table, terminal_width
from reconciler.cli.output.typed import typed
from reconciler.wire import answers
from reconciler.wire.admin import ListEvents

WAIT_SECONDS = 20.0
LINE_INDENT = 17
"""Indent of folded lines in a growing list: a little to the right of the object's column."""
HEADERS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
TYPES = ("Normal", "Warning")


def _parse_types(text: str) -> tuple[str, ...]:
    """Return types of events, separated by commas, in any case."""
    found = tuple(word.strip().capitalize() for word in text.split(","))
    for word in found:
        if word not in TYPES:
            raise ValueError(f'"{word}" is not a type of event; expected {" or ".join(TYPES)}')
    return found


@click.command()
@click.option("-w", "-f", "--watch", is_flag=True, help="Keep printing new events.")
@click.option("--for", "about", metavar="KIND/NAME", help="Show events of this object only.")
@click.option(
    "--types",
    type=Parsed("types", _parse_types),
    metavar="Warning,Normal",
    help="Show events of these types only.",
)
@click.option("--since", type=DURATION, metavar="5m", help="Show events of this last period only.")
@limit_option("events", default=1000, most=10_000)
@output_option()
@click.pass_obj
def events(settings: Settings, /, watch: bool, output: str | None, **how: Any) -> None:
    """List events, oldest first.

    \b
    Examples:
      reconciler events
      reconciler events --for deployment/tiny -w
      reconciler events --types=Warning --since 1h
    """
    request = _request(how)
    if not watch:
        _print(ask(settings.socket, request), output)
        return
    with LastingClient(settings.socket) as client:
        while True:
            body = client.ask_again(request, request.wait_seconds)
            if body is None:
                continue
            for event in body["items"]:
                print_line(event, output) if output else click.echo(typed(event_line(event)))
            request = replace(request, after=body["last"], wait_seconds=WAIT_SECONDS)


def _request(how: dict[str, Any]) -> ListEvents:
    kind, name = _parse_for(how["about"])
    types = how["types"] or TYPES
    since = None if how["since"] is None else time.time() - how["since"]
    warning = None if set(types) == set(TYPES) else "Warning" in types
    return ListEvents(limit=how["limit"], kind=kind, name=name, warning=warning, since=since)


def _parse_for(text: str | None) -> tuple[str | None, str | None]:
    """Return the object of `--for`; `cluster` stands for all manifests together."""
    if text is None:
        return None, None
    if text.partition("/")[0].lower() == "cluster":
        return "Cluster", None
    if "/" not in text and not is_kind(text):
        raise click.UsageError(f"expected KIND/NAME, such as: --for deployment/{text}")
    return object_named((text,))


def _print(body: answers.Events, output: str | None) -> None:
    if output:
        print_body(body, output)
    elif body["items"]:
        click.echo(event_table(body["items"]))
    else:
        click.echo("No events found.", err=True)


def event_table(items: Sequence[answers.EventEntry], width: int | None = None) -> str:
    rows = [(age(e["time"]), _type(e), e["reason"], e["object"], e["message"]) for e in items]
    return folded_table(HEADERS, rows, width)


def _type(event: answers.EventEntry) -> Cell:
    return Cell.of(event["type"], "yellow" if event["type"] == "Warning" else "")


def event_line(event: answers.EventEntry) -> str:
    """Return one event for a growing list: with the time of day (UTC) instead of its age."""
    moment = event["time"][11:23]
    mark = Cell.of("!", "yellow") if event["type"] == "Warning" else Cell(" ")
    text = f"{moment} {mark} {event['object']}: {event['reason']}: {event['message']}"
    lines = "\n".join(fold(text, terminal_width(), indent=" " * LINE_INDENT))
    return lines.replace(f"{moment} {mark}", f"{moment} {painted(mark, mark)}", 1)
