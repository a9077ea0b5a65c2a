"""Searches a snapshot: objects, ranks, incidents, events and commits. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers
from reconciler.wire.objects import Object, Rank

SHOWN_MAX = 50
"""Most hits of each sort."""
PLACES = {"ModelDeployment": "/deployments/", "Node": "/nodes/", "Job": "/jobs/"}


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that has every word."""

    name: str
    text: str
    path: str = ""
    """The address of its page; empty if there is none."""
    time: str = ""


@dataclass(frozen=True, slots=True)
class Sort:
    title: str
    hits: tuple[Hit, ...]
    left_out: int


def search(snapshot: Snapshot, query: str) -> tuple[Sort, ...]:
    """Return the hits that have all words of the query, in any order and case; none without a word. The newest come first."""
    words = query.casefold().split()
    if not words:
        return ()
    sorts = {
        "Objects": map(_object, snapshot.objects),
        "Ranks": map(_rank, snapshot.ranks),
        "Incidents": map(_incident, reversed(snapshot.incidents)),
        "Events": map(_event, reversed(snapshot.events)),
        "History": map(_commit, snapshot.commits["items"]),
    }
    return tuple(found for title, hits in sorts.items() if (found := _sort(title, hits, words)).hits)


def _sort(title: str, hits: Iterable[Hit], words: list[str]) -> Sort:
    found = [hit for hit in hits if all(word in f"{hit.name} {hit.text}".casefold() for word in words)]
    return Sort(title, tuple(found[:SHOWN_MAX]), max(0, len(found) - SHOWN_MAX))


def _object(each: Object) -> Hit:
    kind, metadata = str(each["kind"]), each["metadata"]
    place = f"{PLACES[kind]}{quote(metadata['name'], safe='')}" if kind in PLACES else ""
    labels = [f"{key}={value}" for key, value in (metadata.get("labels") or {}).items()]
    said = [f"{has['reason']} {has['message']}" for has in each["status"]["conditions"] if has["message"]]
    return Hit(f"{kind.lower()}/{metadata['name']}", "; ".join([*labels, *said]), place)


def _rank(each: Rank) -> Hit:
    name = each["metadata"]["name"]
    text = " ".join(filter(None, (each["phase"], f"on {each['node']}", each["detail"])))
    return Hit(name, text, f"/logs/{quote(name, safe='')}")


def _incident(each: answers.Incident) -> Hit:
    text = f"{each['class']} {each['title']}: {each['seen']}"
    return Hit(each["object"], text, f"/incidents/{each['id']}", each["openedAt"])


def _event(each: answers.EventEntry) -> Hit:
    about = quote(each["object"], safe="")
    return Hit(each["object"], f"{each['reason']} {each['message']}", f"/events?object={about}", each["time"])


def _commit(each: answers.Commit) -> Hit:
    revision = each["revision"]
    text = f"{each['subject']} ({each['author']})"
    return Hit(revision[:10], text, f"/history/{revision}", each["time"])
