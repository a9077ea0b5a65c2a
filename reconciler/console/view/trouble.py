"""The faults that are present now, each with its remedy in progress and the steps for a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire.objects import condition

from .acts import Act, act
from .remote import COMMAND, remote_of

HARMLESS = ("Connected", "Untested", "Unknown", "Undeclared")
"""States of a cable that harm no group."""


UNEXAMINED = "ExaminationFailed"
"""The condition of a Model whose weights a node's runtime has failed to examine."""


@dataclass(frozen=True, slots=True)
class Trouble:
    about: str
    text: str
    since: str | None
    title: str = ""
    doing: str = ""
    person: str = ""
    command: str = ""
    link: str = ""
    act: Act | None = None
    """The act that mends it."""


def troubles(snapshot: Snapshot) -> tuple[Trouble, ...]:
    """Return all troubles: those that need a person come first."""
    return tuple(sorted(_troubles(snapshot), key=lambda each: not (each.person or each.command)))


def _troubles(snapshot: Snapshot) -> Iterator[Trouble]:
    held, rejection = snapshot.status.get("held"), snapshot.status.get("rejection")
    if held:
        yield Trouble(
            "revision " + held["revision"][:10],
            held["text"],
            None,
            "held",
            command=held["command"],
            link=f"/history/{held['revision']}",
            act=act("approve", "revision", held["revision"]),
        )
    if rejection:
        yield Trouble("the newest revision", rejection, None, "rejected", command="reconciler validate")
    remote = remote_of(snapshot)
    if remote is not None and remote.state == "bad":
        yield Trouble("the remote repository", remote.problem, remote.away_since, command=COMMAND)
    told = set()
    for incident in reversed(snapshot.incidents):
        if incident["open"]:
            told.add(incident["object"])
            yield Trouble(
                incident["object"],
                incident["seen"],
                incident["openedAt"],
                f"{incident['title']} ({incident['class']})",
                incident["doing"],
                incident["person"],
                link=f"/incidents/{incident['id']}",
            )
    asked = {incident["person"] for incident in snapshot.incidents if incident["open"]}
    yield from (each for each in _cables(snapshot) if each.person not in asked)
    for each in snapshot.objects:
        name = f"{each['kind'].lower()}/{each['metadata']['name']}"
        found = condition(each, "Stalled")
        if found["status"] == "True" and name not in told:
            person = found["person"]
            if each["kind"] == "Node" and person and person in asked:
                continue  # the machine at the other end of a cable: the steps are shown already
            asked.add(person)
            yield Trouble(name, found["seen"], found["lastTransitionTime"], found["reason"], person=person)
        unexamined = condition(each, UNEXAMINED)
        if unexamined["status"] == "True":
            yield Trouble(
                name,
                unexamined["message"],
                unexamined["lastTransitionTime"],
                unexamined["reason"],
                doing="it is examined again by itself",
            )


def _cables(snapshot: Snapshot) -> Iterator[Trouble]:
    """Return the cables that are not as declared: an idle group may continue without one, and then has no incident."""
    for fabric in snapshot.fabrics:
        since = condition(fabric, "Ready")["lastTransitionTime"]
        for link in fabric["status"].get("links", ()):
            if link["state"] not in HARMLESS:
                about, person = f"fabric/{fabric['metadata']['name']}", link.get("person", "")
                yield Trouble(
                    about, link.get("text", ""), since, link["state"], person=person, link="/cabling"
                )
