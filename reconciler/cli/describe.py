"""`describe`: one object with everything that is known of it."""

from __future__ import annotations

from typing import Any

import click

from reconciler.wire.admin import Get, ListEvents, ShowPlan

from . import completing
from .app import Settings
from .approve import note_kept_out
from .client import Client
from .events import event_table
from .kinds import not_found, object_named
from .output import output_option, print_body
from .tables import table

EVENTS_SHOWN = 20


@click.command()
@click.argument("what", nargs=-1, required=True, shell_complete=completing.objects)
@output_option("yaml")
@click.pass_obj
def describe(settings: Settings, what: tuple[str, ...], output: str | None) -> None:
    """Show an object with its conditions, its part of the plan, and its latest events.

    \b
    Examples:
      reconciler describe deployment tiny
      reconciler describe node/node-a
    """
    kind, name = object_named(what)
    if kind is None or name is None or kind == "Rank":
        raise click.UsageError("expected KIND NAME or KIND/NAME, such as: deployment tiny")
    with Client(settings.socket) as client:
        found = client.ask(Get(kind, name))
        items = found["items"]
        if not items:
            raise not_found(kind, name)
        key = f"{kind.lower()}/{name}"
        plan = client.ask(ShowPlan())
        concerned = {part: [entry for entry in plan[part] if entry["object"] == key] for part in plan}
        events = client.ask(ListEvents(kind=kind, name=name, limit=EVENTS_SHOWN))["items"]
    if output:
        print_body({**items[0], "plan": concerned, "events": events}, output)
    else:
        click.echo(_page(items[0], concerned, events))
    note_kept_out(found)


def _page(item: dict[str, Any], plan: dict[str, list[dict[str, Any]]], events: list[dict[str, Any]]) -> str:
    from reconciler.source.editing import as_yaml

    status = {key: value for key, value in item["status"].items() if key != "conditions"}
    lines = [
        f"Name:        {item['metadata']['name']}",
        f"Kind:        {item['kind']}",
        f"Generation:  {item['metadata']['generation']} (observed {status.pop('observedGeneration')})",
        *_terminating(item),
        "Spec:",
        _indented(as_yaml(item["spec"])),
    ]
    if status:
        lines += ["Status:", _indented(as_yaml(status))]
    rows = [(c["type"], c["status"], c["reason"], c["message"]) for c in item["status"]["conditions"]]
    lines += ["Conditions:", _indented(table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows))]
    entries = [_planned(entry) for part in ("steps", "waiting", "refused") for entry in plan[part]]
    lines += ["Plan:", *(f"  {text}" for text in entries or ["nothing to do"])]
    lines += ["Events:", _indented(event_table(events)) if events else "  <none>"]
    return "\n".join(lines)


def _planned(entry: dict[str, Any]) -> str:
    until = entry.get("until")
    return f"{entry['text']} (until {until})" if until else str(entry["text"])


def _terminating(item: dict[str, Any]) -> list[str]:
    since = item["metadata"].get("deletionTimestamp")
    return [f"Terminating: since {since}"] if since else []


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip("\n").splitlines())
