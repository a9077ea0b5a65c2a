"""`wait`: wait until objects meet a condition."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, fail, nearest
from reconciler.cli.core.client import Client
from reconciler.cli.core.durations import DURATION
from reconciler.cli.core.kinds import Chosen, full_name, plural
from reconciler.cli.core.objects import chosen_by, fetch, follow, key_of, only_one, pick
from reconciler.cli.core.selectors import selector_option
from reconciler.cli.output.jsonpath import Path, find, parse_path, written
from reconciler.cli.output.kind_columns import state
from reconciler.cli.output.parsed import Parsed
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.errors import Refused, Unreachable
from reconciler.wire.objects import Item, JobState, condition, conditions_of

WEEK_SECONDS = 7 * 86_400.0
LOOK_SECONDS = 1.0
"""Longest time between two progress messages."""

ELSEWHERE = {"available": "Ready", "healthy": "Ready", "progressing": "Reconciling", "failed": "Stalled"}
"""Conditions of other tools' objects, with the condition that means the same here."""

COMPLETE = "complete"
JOB_GOALS: dict[str, tuple[str, ...]] = {
    COMPLETE: (JobState.SUCCEEDED,),
    "failed": (JobState.FAILED,),
    "ended": JobState.ENDED,
}
"""The goals of jobs, with the states that meet them."""
TIMED_OUT_STATUS = 124
"""Exit status when a job has not ended in time, as of timeout(1): 1 says that it cannot end so any more."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Goal:
    """One `--for`: that an object is gone, that it exists, a condition, or a value."""

    what: str
    path: Path = ()
    value: str | None = None
    states: tuple[str, ...] = ()
    """The states in which a job meets it; empty for all other goals."""

    def met(self, item: Item | None) -> bool:
        """Return whether an object (None: missing) meets the goal with its newest spec."""
        if self.states:
            return _ended(item) in self.states
        if self.what == "delete":
            return item is None
        if item is None or self.what == "create":
            return item is not None
        if self.path:
            return self._has_value(item)
        found = condition(item, _cased(item, self.what))
        observed = found.get("observedGeneration", 0)
        newest: bool = observed >= item["metadata"].get("generation", 0)
        return newest and found["status"].lower() == (self.value or "True").lower()

    def lost(self, item: Item | None) -> str:
        """Return why an object cannot meet the goal any more; empty if it can."""
        if not self.states or self.met(item):
            return ""
        if item is None:
            return "it is gone"
        return condition(item, "Ready")["message"] if _ended(item) else ""

    def _has_value(self, item: Item) -> bool:
        values = [written(value) for value in find(self.path, item) if value is not None]
        return bool(values) and (self.value is None or values == [self.value])


def _ended(item: Item | None) -> str:
    """Return the state of a job whose newest run has ended with its newest spec; empty if it has not."""
    if item is None or item["kind"] != "Job":
        return ""
    newest = item["status"]["observedGeneration"] >= item["metadata"].get("generation", 0)
    state = item["status"].get("state", "")
    return state if newest and state in JobState.ENDED else ""


def _cased(item: Item, name: str) -> str:
    """Return the condition's name in its own case: `ready` means `Ready`, as in kubectl."""
    types = [each["type"] for each in conditions_of(item)]
    return next((type for type in types if type.lower() == name.lower()), name)


def _parse_goal(text: str) -> Goal:
    """Return the goal of `condition=NAME[=VALUE]`, `delete`, `create` or `jsonpath={PATH}[=VALUE]`."""
    if text.lower() in JOB_GOALS:
        return Goal(text.lower(), states=JOB_GOALS[text.lower()])
    kind, _, rest = text.partition("=")
    if kind in ("delete", "create") and not rest:
        return Goal(kind)
    if kind == "condition" and rest:
        name, equals, wanted = rest.partition("=")
        if name and bool(equals) == bool(wanted):
            return Goal(name, value=wanted or None)
    if kind == "jsonpath" and rest:
        return _goal_at(rest)
    if text.capitalize() in ("Ready", "Stalled", "Reconciling"):
        raise ValueError(f'"{text}" is a condition: --for=condition={text.capitalize()}')
    raise ValueError(
        f'cannot wait for "{text}"; expected condition=NAME[=VALUE], delete, create '
        "or jsonpath='{.path}'[=VALUE]"
    )


def _goal_at(text: str) -> Goal:
    end = text.rfind("}") + 1 if text[:1] == "{" and "}" in text else len(text.partition("=")[0])
    path, equals, wanted = text[:end], text[end : end + 1], text[end + 1 :]
    if equals not in ("", "=") or bool(equals) != bool(wanted):
        raise ValueError(f'"{text}": expected =VALUE after the path')
    return Goal(path, parse_path(path), wanted or None)


@click.command()
@click.argument("what", nargs=-1, required=True, shell_complete=complete.objects)
@selector_option
@click.option("--all", "every", is_flag=True, help="Wait for all objects of the kind.")
@click.option(
    "--for",
    "goals",
    type=Parsed("goal", _parse_goal),
    multiple=True,
    metavar="GOAL",
    help="condition=NAME[=VALUE], delete, create or jsonpath={PATH}[=VALUE]; may be repeated, met in order. Of jobs also"
    " complete (the default), failed or ended.",
)
@click.option(
    "--timeout",
    type=DURATION,
    default="30s",
    show_default=True,
    help="Longest time to wait; 0 checks once, a negative value waits a week.",
)
@click.pass_obj
def wait(settings: Settings, /, what: tuple[str, ...], goals: tuple[Goal, ...], **how: Any) -> int:
    """Wait until objects meet a condition.

    A condition counts once it describes the newest spec (observedGeneration).

    For jobs, complete, failed and ended are about the newest run. The exit status is 1 if the run has ended otherwise, and
    124 if it has not ended in time.

    \b
    Examples:
      reconciler wait deployment/tiny --for=condition=Ready --timeout=5m
      reconciler wait nodes --all --for=condition=Ready
      reconciler wait md/tiny --for=jsonpath='{.status.readyReplicas}'=2
      reconciler wait md/old --for=delete
      reconciler wait job/train --timeout=1h
      reconciler wait job/train --for=ended --timeout=-1s
    """
    chosen = only_one(chosen_by(settings.socket, what), what)
    named = all(choice.names for choice in chosen)
    if named == (how["every"] or how["selector"] is not None):
        raise click.UsageError("expected KIND/NAME..., KIND NAME..., KIND --all or KIND -l SELECTOR")
    if not goals:
        if any(choice.kind != "Job" for choice in chosen):
            raise click.UsageError(
                "Missing option '--for', such as --for=condition=Ready; only jobs have a default"
            )
        goals = (_parse_goal(COMPLETE),)
    waited = _WaitState(goals, _targets(settings, chosen, how["selector"], goals))
    deadline = time.monotonic() + (WEEK_SECONDS if how["timeout"] < 0 else how["timeout"])
    try:
        for choice in chosen:
            _follow(settings, choice, waited, deadline)
    except Unreachable as error:
        fail(str(error))
    for (kind, name), why in waited.lost.items():
        fail(f"{plural(kind)}/{name} cannot meet the condition any more: {why}")
    late = [key for key in waited.open() if key not in waited.lost]
    for kind, name in late:
        fail(f"timed out waiting for the condition on {plural(kind)}/{name}")
    if late and all(goal.states for goal in goals):
        return TIMED_OUT_STATUS
    return 1 if waited.open() else 0


def _targets(
    settings: Settings, chosen: tuple[Chosen, ...], selector: Any, goals: tuple[Goal, ...]
) -> list[Key]:
    """Return the objects to wait for. Raises ``Refused`` for a missing one, unless its creation is awaited."""
    first = goals[0]
    with Client(settings.socket) as client:
        found = fetch(client, chosen, selector)
    for item in found.items:
        _check_conditions(item, goals)
    if found.missing and first.what not in ("create", "delete"):
        raise found.missing[0]
    there = [key_of(item) for item in found.items]
    named = [(choice.kind or "", name) for choice in chosen for name in choice.names]
    if not named and not there and first.what != "delete":
        raise Refused("NotFound", "no matching resources found")
    return list(dict.fromkeys(named or there))


def _check_conditions(item: Item, goals: tuple[Goal, ...]) -> None:
    """Raise ``UsageError`` for a condition that objects of this kind never have: it would be awaited in vain."""
    types = [each["type"] for each in conditions_of(item)]
    for goal in goals:
        if goal.states and item["kind"] != "Job":
            raise click.UsageError(
                f"{goal.what} is for jobs; {plural(item['kind'])} have conditions: --for=condition=Ready"
            )
        asks = not goal.path and not goal.states and goal.what not in ("delete", "create")
        if asks and types and goal.what.lower() not in [known.lower() for known in types]:
            meant = ELSEWHERE.get(goal.what.lower(), goal.what.capitalize())
            raise click.UsageError(
                f'{plural(item["kind"])} have no condition "{goal.what}"{nearest(meant, types)}'
            )


class _WaitState:
    """The number of goals that each object has met, in their order."""

    def __init__(self, goals: tuple[Goal, ...], targets: Iterable[Key]) -> None:
        self._goals = goals
        self._reached = dict.fromkeys(targets, 0)
        self.lost: dict[Key, str] = {}
        """Objects that cannot meet their next goal any more, with the reason."""

    def open(self, kind: str | None = None) -> list[Key]:
        """Return the objects with an unmet goal, of one kind or of all."""
        return [
            key for key, met in self._reached.items() if met < len(self._goals) and kind in (None, key[0])
        ]

    def check(self, key: Key, item: Item | None, progress: Screen) -> None:
        """Print each goal that is newly met."""
        while self._reached[key] < len(self._goals) and self._goals[self._reached[key]].met(item):
            self._reached[key] += 1
            progress.clear()
            click.echo(f"{full_name(*key)} condition met")
        if self._reached[key] < len(self._goals) and (why := self._goals[self._reached[key]].lost(item)):
            self.lost[key] = why


def _follow(settings: Settings, choice: Chosen, waited: _WaitState, deadline: float) -> None:
    """Wait until the chosen objects meet their goals, or the deadline passes."""
    progress = quiet_screen(timed=True)
    mine = [key for key in waited.open(choice.kind) if not choice.names or key[1] in choice.names]
    for items in follow(settings.socket, choice, deadline, tick_seconds=LOOK_SECONDS):
        there = {key_of(item): item for item in pick(items, choice, None)}
        for key in mine:
            waited.check(key, there.get(key), progress)
        left = [key for key in mine if key in waited.open() and key not in waited.lost]
        if not left or time.monotonic() >= deadline:
            break
        item = there.get(left[0])
        progress.show(
            f"waiting for {plural(left[0][0])}/{left[0][1]}: {state(item) if item else 'not there'}"
        )
    progress.clear()
