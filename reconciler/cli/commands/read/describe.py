"""`describe`: show an object with its status, its part of the plan, incidents and events."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import click

from reconciler.cli.commands.write.approve import warn_if_held
from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, fail
from reconciler.cli.core.client import Client, ask
from reconciler.cli.core.kinds import RANK
from reconciler.cli.core.objects import as_list, chosen_by, fetch, key_of, name_of
from reconciler.cli.core.runs import rank_of
from reconciler.cli.core.selectors import Selector, selector_option
from reconciler.cli.output.colour import Cell, Colour
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.kind_columns import NONE, labels, took
from reconciler.cli.output.streams import shown
from reconciler.cli.output.table_layout import age, table, terminal_width
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, few_names
from reconciler.wire import answers
from reconciler.wire.admin import ListEvents, ListIncidents, ReadRankLog, ShowPlaces, ShowPlan
from reconciler.wire.launch import JOB_PREFIX, RankId
from reconciler.wire.objects import Condition, FailedRank, Group, Item, Job, JobState, Run, conditions_of

from . import incidents
from .events import event_table

INDENT = 2
EVENTS_SHOWN = 20
INCIDENTS_SHOWN = 5
NODES_SHOWN = 5
"""Most nodes to name for one reason why they are not used."""
LOGS_SHOWN, LOG_LINES_SHOWN = 4, 20
LOG_LINE_CHARACTERS_MAX, LOG_BYTES_MAX = 400, 32 * 1024


@click.command()
@click.argument("what", nargs=-1, required=True, shell_complete=complete.objects)
@selector_option
@output_option()
@click.pass_obj
def describe(
    settings: Settings, what: tuple[str, ...], selector: Selector | None, output: str | None
) -> None:
    """Show objects in detail, with their events and incidents.

    That is the spec, conditions, groups or runs, part of the plan, latest incidents and events. For a deployment, it also
    shows the reasons for the nodes of each replica. For a group that ended and was not replaced, it shows the last
    lines of the rank to blame. An incident has all its entries. A NAME alone shows every object of that name.

    \b
    Examples:
      reconciler describe deployment tiny
      reconciler describe tiny
      reconciler describe node/node-a model/tiny
      reconciler describe nodes -l pool=studios
      reconciler describe job/train
      reconciler describe incident 3
    """
    number = None if what[0].isdigit() else incidents.identified(what)
    if number is not None:
        incidents.print_incident(ask(settings.socket, ListIncidents(id=number))["items"], number, output)
        return
    chosen = chosen_by(settings.socket, what)
    ranks = [choice for choice in chosen if choice.kind == RANK]
    if ranks:
        name = ranks[0].names[0].rsplit(".", 3)[0] if ranks[0].names else "NAME"
        if name.startswith(JOB_PREFIX):
            own = name.removeprefix(JOB_PREFIX)
            raise click.UsageError(f"ranks are described with their job: reconciler describe job/{own}")
        raise click.UsageError(
            f"ranks are described with their deployment: reconciler describe deployment {name}"
        )
    with Client(settings.socket) as client:
        found = fetch(client, chosen, selector)
        plan = client.ask(ShowPlan())
        described = [_with_context(client, item, plan) for item in found.items]
    if output and described:
        single = len(found.items) == 1 and len(chosen) == 1 and len(chosen[0].names) == 1
        bodies = [each.body() for each in described]
        print_body(bodies[0] if single else as_list(found.revision, bodies), output)
    elif described:
        click.echo("\n\n\n".join(map(_page, described)))
    elif not found.missing:
        click.echo("No resources found", err=True)
    warn_if_held(found.body)
    for error in found.missing[:-1]:
        fail(str(error))
    if found.missing:
        raise found.missing[-1]


class _LastLog(FailedRank):
    lines: list[str]
    problem: str
    """Why there are none."""
    command: str
    """The command that prints the whole output."""


@dataclass(frozen=True, slots=True)
class _Described:
    """An object with its part of the plan, its latest incidents and events."""

    item: Item
    plan: answers.Planned
    incidents: list[answers.Incident]
    events: list[answers.EventEntry]
    logs: list[_LastLog]
    places: list[answers.Placement] | None
    """Of a deployment."""

    def body(self) -> dict[str, object]:
        found: dict[str, object] = {
            **self.item,
            "plan": self.plan,
            "incidents": self.incidents,
            "events": self.events,
            "lastLogs": self.logs,
        }
        return found if self.places is None else {**found, "places": self.places}


def _with_context(client: Client, item: Item, plan: answers.Planned) -> _Described:
    kind, name = key_of(item)
    key = f"{kind.lower()}/{name}"
    concerned: answers.Planned = {
        "steps": [entry for entry in plan["steps"] if entry["object"] == key],
        "waiting": [entry for entry in plan["waiting"] if entry["object"] == key],
        "refused": [entry for entry in plan["refused"] if entry["object"] == key],
    }
    events = client.ask(ListEvents(kind=kind, name=name, limit=EVENTS_SHOWN))["items"]
    latest = client.ask(ListIncidents(kind=kind, name=name, limit=INCIDENTS_SHOWN))["items"]
    logs = _last_logs(client, item)
    places = client.ask(ShowPlaces(name))["items"] if kind == "ModelDeployment" else None
    return _Described(item, concerned, latest, events, logs, places)


def _generation(item: Item) -> list[str]:
    generation = item["metadata"].get("generation")
    if generation is None or item["kind"] == "Rank" or item["kind"] == "Operation":
        return []
    return [f"Generation:  {generation} (observed {item['status']['observedGeneration']})"]


def _page(described: _Described) -> str:
    from reconciler.source.yaml.plain import as_yaml

    item, plan = described.item, described.plan
    assert item["kind"] != "Rank"
    groups = item["status"].get("groups") if item["kind"] == "ModelDeployment" else None
    runs = item["status"].get("runs") if item["kind"] == "Job" else None
    shown = ("conditions", "observedGeneration", "groups", "runs")
    status = {key: value for key, value in item["status"].items() if key not in shown}
    lines = [
        f"Name:        {name_of(item)}",
        f"Kind:        {item['kind']}",
        f"Labels:      {labels(item)}",
        *(f"Annotation:  {key}: {text}" for key, text in item["metadata"].get("annotations", {}).items()),
        *_generation(item),
        *_terminating(item),
        "Spec:",
        _indented(as_yaml(item["spec"])),
    ]
    if status:
        lines += ["Status:", _indented(as_yaml(status))]
    if groups is not None:
        lines += ["Groups:", _groups(groups), *_spread(groups)]
    if runs is not None:
        lines += ["Runs:", *_runs(runs)]
    if described.places:
        lines += ["Nodes:", *_places(described.places)]
    rows = [
        (c["type"], Cell.of(c["status"], _shade(c)), c["reason"], typed(c["message"]))
        for c in conditions_of(item)
    ]
    lines += ["Conditions:", _table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows)]
    entries = [step["text"] for step in plan["steps"]]
    entries += [f"{e['text']} (until {e['until']})" if e["until"] else e["text"] for e in plan["waiting"]]
    entries += [refused["text"] for refused in plan["refused"]]
    lines += ["Plan:", *(f"  {typed(text)}" for text in entries or ["nothing to do"])]
    if described.incidents:
        lines += ["Incidents:"]
        lines += [f"  {line}" for line in incidents.section(described.incidents, terminal_width() - INDENT)]
    events = event_table(described.events, terminal_width() - INDENT) if described.events else NONE
    lines += ["Events:", _indented(events), *_logs(described.logs)]
    return "\n".join(lines)


def _shade(found: Condition) -> Colour:
    """Return the colour of a condition: the colour of the object's state, for the three conditions that make it up."""
    true = found["status"] == "True"
    match found["type"]:
        case "Ready":
            return "green" if true else "red"
        case "Stalled":
            return "red" if true else ""
        case "Reconciling":
            return "yellow" if true else ""
        case _:
            return ""


def _groups(groups: list[Group]) -> str:
    headers = ("REPLICA", "EPOCH", "PHASE", "READY", "SINCE", "CONTEXT", "NODES")
    rows = [
        (
            str(group["replica"]),
            str(group["epoch"]),
            group["phase"],
            "True" if group["ready"] else "False",
            age(group["since"]),
            str(group.get("context", NONE)),
            ", ".join(group["nodes"]),
        )
        for group in groups
    ]
    return _table(headers, rows) if rows else f"  {NONE}"


def _runs(runs: list[Run]) -> list[str]:
    """Return a table of runs, newest first, and one of the newest run's attempts."""
    if not runs:
        return [f"  {NONE}"]
    headers = ("RUN", "STATE", "REASON", "ATTEMPTS", "EXIT", "STARTED", "DURATION", "ARTIFACTS", "TEXT")
    rows = [
        (
            str(run["run"]),
            run["state"],
            run["reason"] if run["reason"] != run["state"] else "-",
            str(len(run["attempts"]) + run["attemptsLeftOut"]),
            run["exit"] or "-",
            age(run["startedAt"]),
            took(run),
            _artifacts(run),
            typed(run["text"]),
        )
        for run in reversed(runs)
    ]
    return [_table(headers, rows), *_attempts(runs[-1])]


def _artifacts(run: Run) -> str:
    found = run["artifacts"]
    return f"{found['files']} ({found['state']})" if found["files"] else found["state"]


def _attempts(run: Run) -> list[str]:
    """Return the attempts of a run with their ranks, newest first; nothing if there are none."""
    rows = [
        (
            str(attempt["number"]),
            attempt["end"] or "Running",
            attempt["transport"] or "-",
            str(rank["rank"]),
            rank["node"],
            rank["exit"] or rank["phase"],
            age(attempt["startedAt"]),
            typed(rank["text"] or attempt["text"]),
        )
        for attempt in reversed(run["attempts"])
        for rank in attempt["ranks"]
    ]
    headers = ("ATTEMPT", "END", "TRANSPORT", "RANK", "NODE", "EXIT", "STARTED", "TEXT")
    title = f"Attempts of run {run['run']}:"
    return [title, _table(headers, rows)] if rows else []


def _spread(groups: list[Group]) -> list[str]:
    """Return each group's split and transport, with the reasons, and how its results are known to be right, folded to the
    terminal."""
    lines = [
        f"{group['replica']}: {field} {typed(text)}"
        for group in groups
        for field, text in (
            ("strategy", group.get("strategy")),
            ("transport", group.get("transport")),
            ("results", group.get("results")),
        )
        if text
    ]
    return _folded(lines)


def _folded(lines: list[str]) -> list[str]:
    fold = textwrap.TextWrapper(terminal_width(), initial_indent="  ", subsequent_indent="    ")
    return [fold.fill(line) for line in lines]


def _places(places: list[answers.Placement]) -> list[str]:
    """Return the reasons for each replica's nodes; nodes that are unused for the same reason share a line."""
    lines = []
    for place in places:
        if place["text"]:
            lines.append(f"{place['replica']}: {place['text']}")
        used = [(rank, s) for s in place["nodes"] if (rank := s["rank"]) is not None]
        used.sort(key=lambda entry: entry[0])
        lines += [f"{place['replica']}: rank {rank} on {s['node']}: {s['text']}" for rank, s in used]
        others: dict[str, list[str]] = {}
        for seat in place["nodes"]:
            if seat["rank"] is None:
                others.setdefault(seat["text"], []).append(seat["node"])
        lines += [
            f"{place['replica']}: not {few_names(names, NODES_SHOWN)}: {text}"
            for text, names in others.items()
        ]
    return _folded(lines)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _indented(table(headers, rows, terminal_width() - INDENT))


def _terminating(item: Item) -> list[str]:
    since = item["metadata"].get("deletionTimestamp")
    return [f"Terminating: since {since}"] if since else []


def _indented(text: str) -> str:
    return "\n".join(f"{' ' * INDENT}{line}" for line in text.rstrip("\n").splitlines())


# --- the last lines of ranks to blame ---------------------------------------------------------------


def _last_logs(client: Client, item: Item) -> list[_LastLog]:
    """Return the last lines of each such rank, if its node still has them."""
    if item["kind"] == "Job":
        return _last_log_of_job(client, item)
    groups = item["status"].get("groups") or [] if item["kind"] == "ModelDeployment" else []
    failed = [group["failed"] for group in groups if "failed" in group][:LOGS_SHOWN]
    return [_last_lines(client, each, f"reconciler logs {each['rank']}") for each in failed]


def _last_log_of_job(client: Client, job: Job) -> list[_LastLog]:
    """Return the last lines of the rank whose exit is that of the newest run, if it has failed."""
    name, runs = job["metadata"]["name"], job["status"].get("runs", [])
    run = runs[-1] if runs else None
    if run is None or run["state"] == JobState.SUCCEEDED or run["exit"] is None:
        return []
    attempt = run["attempts"][-1]
    rank = next((each for each in attempt["ranks"] if each["exit"] == run["exit"]), None)
    if rank is None:
        return []
    id, number = rank_of(name, run, attempt, rank["rank"]), attempt["number"]
    command = f"reconciler logs job/{name} --run {run['run']} --attempt {number} --rank {rank['rank']}"
    return [_last_lines(client, {"rank": str(id), "node": rank["node"], "text": attempt["text"]}, command)]


def _last_lines(client: Client, failed: FailedRank, command: str) -> _LastLog:
    found: _LastLog = {**failed, "lines": [], "problem": "", "command": command}
    try:
        text = client.ask(ReadRankLog(RankId.parse(failed["rank"]), LOG_BYTES_MAX))["text"]
    except Refused as refused:
        return {**found, "problem": str(refused)}
    lines = [line.rstrip("\r") for line in text.rstrip("\n").split("\n")][-LOG_LINES_SHOWN:]
    return {**found, "lines": [line[:LOG_LINE_CHARACTERS_MAX] for line in lines if text]}


def _logs(logs: list[_LastLog]) -> list[str]:
    found = []
    for log in logs:
        found += [f"Last log of {log['rank']} on {log['node']}: {log['text']}"]
        found += [f"  {shown(line)}" for line in log["lines"]] or [f"  {log['problem'] or '<no output>'}"]
        found += [f"  (full log: {log['command']})"]
    return found
