"""Fetches objects from the controller, once or as they change."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, Unreachable, few_names
from reconciler.resources import API_VERSION
from reconciler.wire.admin import Get
from reconciler.wire.answers import A, Asks, Usage
from reconciler.wire.objects import Item, ItemList, ListHead

from .app import closest
from .client import Client
from .kinds import RANK, Chosen, ambiguous, not_found, objects_named
from .selectors import Selector

HELD_BACK_SECONDS = 20.0
"""Longest time that the controller may delay an answer until something changes."""
AGAIN_SECONDS = 0.25
"""Time between two attempts to reach a controller that is gone."""


@dataclass(slots=True)
class Found:
    items: list[Item] = field(default_factory=list)
    missing: list[Refused] = field(default_factory=list)
    """An error for each name that does not exist."""
    revision: str = ""
    body: ItemList | None = None
    """The complete last answer."""


def name_of(item: Item) -> str:
    return item["metadata"]["name"]


def as_list(revision: str, items: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return {"apiVersion": API_VERSION, "kind": "List", "revision": revision, "items": items}


def key_of(item: Item) -> tuple[str, str]:
    return item["kind"], name_of(item)


def chosen_by(path: Path, words: tuple[str, ...]) -> tuple[Chosen, ...]:
    """Return the objects that words name, as ``objects_named``; a first word that is no kind names objects of any.

    Raises ``UsageError`` for a word that is neither, with the nearest of both.
    """
    try:
        return objects_named(words)
    except click.UsageError as error:
        if any("/" in word or "," in word for word in words):
            raise
        try:
            with Client(path) as client:
                found = [*client.ask(Get())["items"], *client.ask(Get("Rank"))["items"]]
        except Unreachable:
            raise error from None
        known = [(name_of(item), str(item["kind"])) for item in found]
        return tuple(choice for word in words for choice in _bearers(word, known, error))


def _bearers(word: str, known: list[tuple[str, str]], error: click.UsageError) -> list[Chosen]:
    found = [Chosen(kind, (name,)) for name, kind in known if name == word]
    if not found:
        close = closest(word, [name for name, _ in known])
        if close is None or "did you mean" in error.message:
            raise error
        raise click.UsageError(f'there is no kind and no object "{word}", did you mean "{close}"?', error.ctx)
    return found


def only_one(chosen: tuple[Chosen, ...], words: tuple[str, ...]) -> tuple[Chosen, ...]:
    """Return ``chosen``. Raises ``UsageError`` if a name alone means objects of several kinds."""
    for word in words:
        kinds = [choice.kind for choice in chosen if choice.names == (word,)]
        if len(set(kinds)) > 1:
            raise click.UsageError(ambiguous(word, [kind for kind in kinds if kind]))
    return chosen


def fetch(client: Client, chosen: Iterable[Chosen], selector: Selector | None = None) -> Found:
    """Return objects in the order in which they were named."""
    found, by_key = Found(), dict[tuple[str, str], Item]()
    for choice in chosen:
        body = client.ask(_request(choice))
        found.revision, found.body = body["revision"], body
        note_unobserved(choice.kind, body)
        by_key.update({key_of(item): item for item in pick(body["items"], choice, selector)})
        found.missing += _missing(client, choice, body["items"])
    found.items = list(by_key.values())
    return found


def note_unobserved(kind: str | None, body: ListHead | Usage) -> None:
    """Say on standard error which nodes' ranks a list cannot have, because nothing was heard from there."""
    if kind == RANK and (names := body.get("unobserved")):
        where = f"not observed yet: {few_names(names)}; what runs there is not listed"
        click.echo(typed(f"note: {where}, see: reconciler get nodes"), err=True)


def _request(choice: Chosen, seen: str = "", wait_seconds: float = 0.0) -> Get[ItemList]:
    one = choice.names[0] if len(choice.names) == 1 and choice.kind != RANK else None
    return Get(choice.kind, one, seen=seen, wait_seconds=wait_seconds)


def pick(items: list[Item], choice: Chosen, selector: Selector | None) -> list[Item]:
    """Return the chosen items, in the order of the names on the command line."""
    if choice.names:
        items = [item for name in choice.names for item in items if name in _names(item)]
    return [item for item in items if selector is None or selector.selects(item["metadata"]["labels"])]


def _names(item: Item) -> tuple[str, ...]:
    """Return the names of an item; a rank also has its deployment's name."""
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
    """Yield the items now, and again whenever one of them has changed.

    Also yields them unchanged every ``tick_seconds``, and from ``deadline`` on (monotonic clock) at once.
    Continues with the next controller if one ends, with a note on standard error; the first one must be running.
    """
    seen, items = "", list[Item]()
    with LastingClient(path, deadline) as client:
        while True:
            held = min(HELD_BACK_SECONDS, tick_seconds or HELD_BACK_SECONDS, _seconds_left(deadline))
            body = client.ask_again(_request(choice, seen, held if seen else 0.0), held)
            if body is None:
                continue
            # Without a revision the controller does not know the objects yet: they are not missing.
            changed = body["version"] != seen and bool(body["revision"])
            if changed:
                seen, items = body["version"], body["items"]
            if changed or (seen and (tick_seconds or not _seconds_left(deadline))):
                yield items
            elif not _seconds_left(deadline):
                raise Unreachable("the controller has not read the manifests yet; see: reconciler events")


def _seconds_left(deadline: float | None) -> float:
    return math.inf if deadline is None else max(0.0, deadline - time.monotonic())


class LastingClient(Client):
    """A connection that goes on to the next controller if one ends, with a note on standard error. The first one must be
    running. ``deadline``: of ``time.monotonic``, for the wait for the next one."""

    def __init__(self, path: Path, deadline: float | None = None) -> None:
        super().__init__(path)
        self.deadline = deadline

    def ask_again(self, message: Asks[A], wait_seconds: float = 0.0) -> A | None:
        """Return the body of the answer; None if the controller has ended, and another one runs now."""
        try:
            return self.ask(message, wait_seconds)
        except Unreachable:
            self.reconnect()
            return None

    def reconnect(self) -> None:
        """Connect to the next controller, once it runs. Raises ``Unreachable`` at the deadline."""
        self.close()
        click.echo("note: the controller has ended; waiting for the next one ...", err=True)
        while True:
            try:
                super().__init__(self._path)
            except Unreachable:
                if not _seconds_left(self.deadline):
                    raise
                time.sleep(AGAIN_SECONDS)
            else:
                click.echo("note: a controller is running again", err=True)
                return
