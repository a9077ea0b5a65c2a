"""The chat: the models to talk to, and the groups that answer, or the reason why none does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers
from reconciler.wire.objects import Group, ModelDeployment

from .overview import Served, serving
from .state import doing, state_of

T = TypeVar("T")

SETTINGS = ("system", "temperature", "max_tokens", "thinking", "tools")
"""Settings in addition to the message, by the names of the form."""
RECENT_SECONDS = 600.0
"""Time for which a chat still shows an incident that is over."""
_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    state: str
    """As ``Served.state``."""
    ready: bool
    current: bool


@dataclass(frozen=True, slots=True)
class Reason:
    text: str
    until: str | None
    """The time at which it is tried again at the latest; None without a deadline."""


@dataclass(frozen=True, slots=True)
class Chat:
    line: Served
    groups: tuple[Group, ...]
    """The groups that answer."""
    reasons: tuple[Reason, ...]
    """Reasons why it is not served as declared; empty while it is."""
    incidents: tuple[answers.Incident, ...]
    """Its open incidents, and the last one if it was open in the last ``RECENT_SECONDS``; newest first."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a conversation, as a page without scripts shows it."""

    by: str
    """``person``, ``tool`` or ``model``."""
    text: str
    thinking: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments of each tool that it calls."""
    groups: str
    """The groups that worked on it; empty if not known."""


def said(message: Mapping[str, Any]) -> Said:
    """Return a message as it is shown. It comes from a browser: a field of a wrong type counts as empty."""
    calls = [_of(call, "function", dict) for call in _of(message, "tool_calls", list)]
    groups = _of(message, "groups", list)
    return Said(
        {"user": "person", "tool": "tool"}.get(_of(message, "role", str), "model"),
        _of(message, "content", str),
        _of(message, "reasoning_content", str),
        tuple((_of(call, "name", str), _of(call, "arguments", str)) for call in calls),
        ", continued by ".join(
            f"epoch {_of(each, 'epoch', int)} on {joined([str(node) for node in _of(each, 'nodes', list)])}"
            for each in groups
        ),
    )


def _of(value: Any, name: str, kind: type[T]) -> T:
    """Return a field of a JSON object; an empty value if it has none of this type."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, kind) else kind()


def models(snapshot: Snapshot, name: str) -> tuple[Model, ...]:
    """Return all models. ``name``: the chosen one."""
    return tuple(
        Model(each["metadata"]["name"], state_of(each), _ready(each), each["metadata"]["name"] == name)
        for each in snapshot.deployments
    )


def chosen(snapshot: Snapshot, name: str) -> str:
    """Return the name of the model to show: the given one, else the first that is served, else the first; empty if none."""
    deployments = snapshot.deployments
    served = sorted(deployments, key=lambda each: not _ready(each))
    return name or next((each["metadata"]["name"] for each in served), "")


def chat(snapshot: Snapshot, name: str) -> Chat | None:
    """Return the chat with a model; None if there is none of this name."""
    each = snapshot.deployment(name)
    if each is None:
        return None
    return Chat(
        line=serving(snapshot, each),
        groups=tuple(group for group in each["status"].get("groups", ()) if group["ready"]),
        reasons=tuple(_reasons(snapshot, each)),
        incidents=tuple(_incidents(snapshot, f"modeldeployment/{name}")),
    )


def joined(nodes: Sequence[str]) -> str:
    """Return names in short form: ``studio-1..4`` for four in a row."""
    numbered = [_NUMBERED.fullmatch(node) for node in nodes]
    if len(nodes) > 2 and all(numbered):
        stems = {found[1] for found in numbered if found}
        numbers = [int(found[2]) for found in numbered if found]
        if len(stems) == 1 and numbers == list(range(numbers[0], numbers[0] + len(nodes))):
            return f"{nodes[0]}..{numbers[-1]}"
    return ", ".join(nodes)


def _ready(each: ModelDeployment) -> bool:
    return bool(each["status"].get("readyReplicas"))


def _reasons(snapshot: Snapshot, each: ModelDeployment) -> Iterator[Reason]:
    if state_of(each) == "ready":
        return
    of, plan = f"modeldeployment/{each['metadata']['name']}", snapshot.plan
    planned = [Reason(entry["text"], None) for entry in plan["refused"] if entry["object"] == of]
    planned += [Reason(entry["text"], entry["until"]) for entry in plan["waiting"] if entry["object"] == of]
    yield from planned
    if not planned and (text := doing(each)):
        yield Reason(text, None)


def _incidents(snapshot: Snapshot, of: str) -> Iterator[answers.Incident]:
    newest_first = (each for each in reversed(snapshot.incidents) if each["object"] == of)
    for place, each in enumerate(newest_first):
        if each["open"] or (not place and _age(snapshot, each["closedAt"]) < RECENT_SECONDS):
            yield each


def _age(snapshot: Snapshot, at: str | None) -> float:
    return snapshot.at - datetime.fromisoformat(at).timestamp() if at else 0.0
