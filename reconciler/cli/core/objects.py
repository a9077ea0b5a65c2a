"""Objects as the controller has them now: those that a command line names, and as they change."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from reconciler.errors import Refused, Unreachable
from reconciler.resources import API_VERSION
from reconciler.wire.admin import Get

from .client import Client
from .kinds import RANK, Chosen, not_found
from .selectors import Selector

Item = dict[str, Any]
HELD_BACK_SECONDS = 20.0
"""How long the controller may hold an answer back until there is something new."""
AGAIN_SECONDS = 0.25
"""Between two tries to reach a controller that is gone."""


@dataclass(slots=True)
class Found:
    """What there is of what was asked for."""

    items: list[Item] = field(default_factory=list)
    missing: list[Refused] = field(default_factory=list)
    """An error for each name that is nobody's."""
    revision: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    """The last answer as a whole."""


def name_of(item: Item) -> str:
    """The name under which an object is addressed."""
    return str(item["metadata"]["name"])


def as_list(revision: str, items: list[Item]) -> dict[str, Any]:
    """Several objects as one."""
    return {"apiVersion": API_VERSION, "kind": "List", "revision": revision, "items": items}


def key_of(item: Item) -> tuple[str, str]:
    """Kind and name."""
    return item["kind"], name_of(item)


def fetch(client: Client, chosen: Iterable[Chosen], selector: Selector | None = None) -> Found:
    """Objects in the order in which they were named."""
    found, by_key = Found(), dict[tuple[str, str], Item]()
    for choice in chosen:
        body = client.ask(_request(choice))
        found.revision, found.body = body["revision"], body
        by_key.update({key_of(item): item for item in pick(body["items"], choice, selector)})
        found.missing += _missing(client, choice, body["items"])
    found.items = list(by_key.values())
    return found


def _request(choice: Chosen, seen: str = "", wait_seconds: float = 0.0) -> Get:
    one = choice.names[0] if len(choice.names) == 1 and choice.kind != RANK else None
    return Get(choice.kind, one, seen=seen, wait_seconds=wait_seconds)


def pick(items: list[Item], choice: Chosen, selector: Selector | None) -> list[Item]:
    """Those of the items that are meant, in the order of their names on the command line."""
    if choice.names:
        items = [item for name in choice.names for item in items if name in _names(item)]
    return [item for item in items if selector is None or selector.selects(item["metadata"]["labels"])]


def _names(item: Item) -> tuple[str, ...]:
    """A rank goes by its own name, and by that of its deployment."""
    return (name_of(item), item["deployment"]) if item["kind"] == RANK else (name_of(item),)


def _missing(client: Client, choice: Chosen, items: list[Item]) -> list[Refused]:
    there = {name for item in items for name in _names(item)}
    absent = [name for name in choice.names if name not in there]
    if not absent or choice.kind is None:
        return []
    known = sorted({name for item in client.ask(Get(choice.kind))["items"] for name in _names(item)})
    return [not_found(choice.kind, name, known) for name in absent]


# --- as they change --------------------------------------------------------------------------------


def follow(
    path: Path, choice: Chosen, deadline: float | None = None, tick_seconds: float | None = None
) -> Iterator[list[Item]]:
    """The items now, and again whenever one of them has changed.

    Also, unchanged, every ``tick_seconds``, and from ``deadline`` on (of the monotonic clock) whenever asked.
    It goes on over the end of a controller, with a note on standard error; a first one must be there.
    """
    client, seen, items = Client(path), "", list[Item]()
    try:
        while True:
            held = min(HELD_BACK_SECONDS, tick_seconds or HELD_BACK_SECONDS, _seconds_left(deadline))
            try:
                body = client.ask(_request(choice, seen, held if seen else 0.0), held)
            except Unreachable:
                client.close()
                client = reconnect(path, deadline)
                continue
            # Without a revision the controller has nothing to compare with: that is not an absence.
            changed = body["version"] != seen and bool(body["revision"])
            if changed:
                seen, items = body["version"], body["items"]
            if changed or (seen and (tick_seconds or not _seconds_left(deadline))):
                yield items
            elif not _seconds_left(deadline):
                raise Unreachable("the controller has not read the manifests yet; see: reconciler events")
    finally:
        client.close()


def _seconds_left(deadline: float | None) -> float:
    return math.inf if deadline is None else max(0.0, deadline - time.monotonic())


def reconnect(path: Path, deadline: float | None = None) -> Client:
    """A connection to the next controller, as soon as there is one. Raises ``Unreachable`` at the deadline."""
    click.echo("note: the controller is gone; waiting for it to come back ...", err=True)
    while True:
        try:
            client = Client(path)
        except Unreachable:
            if not _seconds_left(deadline):
                raise
            time.sleep(AGAIN_SECONDS)
        else:
            click.echo("note: the controller is back", err=True)
            return client
