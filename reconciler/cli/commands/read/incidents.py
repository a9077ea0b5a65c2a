"""`incidents`: show faults with the remedies that were tried, their times, and the steps for a person."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.durations import DURATION
from reconciler.cli.core.kinds import object_named
from reconciler.cli.core.objects import LastingClient
from reconciler.cli.output.colour import Cell
from reconciler.cli.output.form import limit_option, output_option, print_body, print_line
from reconciler.cli.output.table_layout import (
    age,
    beside,
    duration,
    fitting,
    fold,
    folded_table,
    lines,
    plain,
    terminal_width,
)
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, few_names
from reconciler.wire import answers
from reconciler.wire.admin import ListIncidents, ShowPlan

WAIT_SECONDS = 20.0
HEADERS = ("ID", "OPENED", "LASTED", "CLASS", "OBJECT", "WHAT HAPPENED")
WIDE_HEADERS = ("ID", "OPENED", "LASTED", "CLASS", "OBJECT", "NOT SERVED", "CAME BACK", "WHAT HAPPENED")
WORD = "incident"
TIME_OF_DAY = slice(11, 19)


@click.command()
@click.argument("what", nargs=-1, metavar="[ID | KIND/NAME]", shell_complete=complete.incidents)
@click.option("--open", "open_", is_flag=True, help="Show open incidents only.")
@click.option(
    "--since", type=DURATION, metavar="24h", help="Show incidents that were open in this last period only."
)
@limit_option("incidents", default=100, most=1000)
@click.option("-w", "--watch", is_flag=True, help="Keep printing changes until Ctrl-C.")
@output_option("name", "wide", instead_of="a table")
@click.pass_obj
def incidents(
    settings: Settings, /, what: tuple[str, ...], watch: bool, output: str | None, **how: Any
) -> None:
    """List incidents and how they were healed, oldest first. With an ID, show every entry of one incident.

    \b
    Examples:
      reconciler incidents
      reconciler incidents --open -o wide
      reconciler incidents deployment/tiny --since 24h
      reconciler incidents -w -o json
    """
    number = identified(what)
    request = _request(what, number, how)
    if watch:
        _watch(settings, request, output)
        return
    items = ask(settings.socket, request)["items"]
    if number is not None:
        print_incident(items, number, output)
    elif output in ("json", "yaml"):
        print_body({"items": items}, output)
    elif items:
        _echo(items, output)
    else:
        click.echo("No incidents found.", err=True)
        if request.open and request.kind is None:
            _say_what_is_refused(settings)


def _say_what_is_refused(settings: Settings) -> None:
    """If deployments cannot be served now, say that no incident does not mean that all is well."""
    refused = ask(settings.socket, ShowPlan(last=True))["refused"]
    names = sorted({each["object"] for each in refused if each["object"].startswith("modeldeployment/")})
    if names:
        text = f"note: no fault is known, but {few_names(names)} cannot be served as things are; see: reconciler doctor"
        click.echo(typed(text), err=True)


def identified(words: tuple[str, ...]) -> int | None:
    """Return the number of an incident if the words name one: `12`, `incident 12` or `incident/12`."""
    parts = [part for word in words for part in word.split("/")]
    if len(parts) == 2 and parts[0].lower() in (WORD, f"{WORD}s"):
        if not parts[1].isdigit():
            raise click.UsageError(
                f'"{parts[1]}" is not the number of an incident; list them with: reconciler incidents'
            )
        return int(parts[1])
    return int(parts[0]) if len(parts) == 1 and parts[0].isdigit() else None


def _request(what: tuple[str, ...], number: int | None, how: dict[str, Any]) -> ListIncidents:
    if number is not None:
        return ListIncidents(id=number)
    kind, name = object_named(what) if what else (None, None)
    since = None if how["since"] is None else time.time() - how["since"]
    return ListIncidents(kind=kind, name=name, open=how["open_"], since=since, limit=how["limit"])


def print_incident(items: Sequence[answers.Incident], number: int, output: str | None) -> None:
    """Print one incident in full. Raises ``Refused`` if no incident has that number."""
    if not items:
        raise Refused("NotFound", f"incident {number} not found; list them with: reconciler incidents")
    if output in ("json", "yaml"):
        print_body(items[0], output)
    elif output == "name":
        _echo(items, output)
    else:
        click.echo(page(items[0]))


def _watch(settings: Settings, request: ListIncidents, output: str | None) -> None:
    """Print the incidents, and each again when it changes, even if the controller restarts meanwhile."""
    shown: dict[int, answers.Incident] = {}
    first, seen = True, ""
    with LastingClient(settings.socket) as client:
        while True:
            wait = WAIT_SECONDS if seen else 0.0
            body = client.ask_again(replace(request, seen=seen, wait_seconds=wait), wait)
            if body is None:
                seen = ""
                continue
            seen = body["version"]
            changed = [
                item
                for item in body["items"]
                if _without_counters(shown.get(item["id"])) != _without_counters(item)
            ]
            shown.update({item["id"]: item for item in changed})
            if output in ("json", "yaml"):
                for item in changed:
                    print_line(item, output)
            elif changed:
                _echo(changed, output, headers=first)
                first = False


def _without_counters(item: answers.Incident | None) -> Mapping[str, Any] | None:
    """Return an incident without the numbers that grow while it is open."""
    return item and {key: value for key, value in item.items() if key not in ("seconds", "unservedSeconds")}


# --- as tables ---------------------------------------------------------------------------------------


def _echo(items: Sequence[answers.Incident], output: str | None, headers: bool = True) -> None:
    if output == "name":
        for item in items:
            click.echo(f"{WORD}/{item['id']}")
        return
    wide = output == "wide"
    text = folded_table(WIDE_HEADERS if wide else HEADERS, [_row(item, wide) for item in items])
    click.echo(text if headers else text.partition("\n")[2])


def _row(item: answers.Incident, wide: bool) -> tuple[str, ...]:
    spent = duration(item["seconds"]) + (" so far" if item["open"] else "")
    lasted = Cell.of(spent, "red") if item["open"] else spent
    begin = (str(item["id"]), age(item["openedAt"]), lasted, item["class"], item["object"])
    more = (_seconds(item["unservedSeconds"]), f"{item['reopened']} times" if item["reopened"] else "-")
    return (*begin, *more, item["summary"]) if wide else (*begin, item["summary"])


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(value)


# --- in full -----------------------------------------------------------------------------------------


def page(item: answers.Incident) -> str:
    """Return everything about an incident, with what to do at the top."""
    width = terminal_width()
    lasted = duration(item["seconds"])
    state = f"open since {_moment(item['openedAt'])}, {lasted} so far"
    if item["closedAt"] is not None:
        state = f"over: from {_moment(item['openedAt'])} to {_moment(item['closedAt'])}, {lasted}"
    facts = [
        ("Incident:", f"{item['id']}, {item['title']} ({item['class']})"),
        ("Object:", f"{item['object']} ({item['subject']})"),
        ("State:", state),
        ("Came back:", f"{item['reopened']} times" if item["reopened"] else ""),
        ("Not served:", _seconds(item["unservedSeconds"]) if item["unservedSeconds"] else ""),
        ("Being tried:", item["doing"] if item["open"] else ""),
        ("What to do:", _next_steps(item)),
    ]
    head = [line for name, text in facts if text for line in beside(f"{name:<13} ", text, width)]
    return "\n".join([*head, "Story:", *(f"  {line}" for line in tale(item, width - 2)), *_more_lines(item)])


def _next_steps(item: answers.Incident) -> str:
    if not item["open"]:
        return "nothing: it is over"
    return item["person"] or "nothing: healing is in progress"


def tale(item: answers.Incident, width: int) -> list[str]:
    """Return the entries of an incident, each with its time of day (UTC) and the time since the first sign."""
    rows = [
        (entry["time"][TIME_OF_DAY], f"+{duration(entry['after'])}", entry["kind"], _entry_line(entry))
        for entry in item["entries"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else [0, 0, 0]
    found: list[str] = []
    for row in rows:
        begin = "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=False))
        found += fold(f"{begin}  {plain(row[3])}", width, " " * (sum(widths) + 6))
    if item["entriesLeftOut"]:
        found.append(f"({item['entriesLeftOut']} entries in the middle are omitted)")
    return found


def _entry_line(entry: answers.IncidentEntry) -> str:
    notes = [entry["class"]] if entry["class"] else []
    if entry["seconds"] is not None:
        notes.append(f"took {duration(entry['seconds'])}")
    if entry["times"] > 1:
        notes.append(f"{entry['times']} times, last at {entry['lastTime'][TIME_OF_DAY]}")
    return f"{entry['text']} [{', '.join(notes)}]" if notes else str(entry["text"])


def _more_lines(item: answers.Incident) -> list[str]:
    kind, _, name = item["object"].partition("/")
    more = [f"reconciler describe {kind} {name}"]
    if kind == "modeldeployment":
        more.append(f"reconciler logs {name} --previous")
    return ["More:", *(f"  {command}" for command in more)]


def _moment(text: str) -> str:
    return f"{text[:10]} {text[TIME_OF_DAY]} UTC"


def section(items: Sequence[answers.Incident], width: int) -> list[str]:
    """Return an object's incidents for `describe`: open ones in full, the others in a line each."""
    found: list[str] = []
    for item in items:
        if item["open"]:
            found += [f"{item['id']}: {item['title']} ({item['class']}), {duration(item['seconds'])} so far"]
            found += [f"  {line}" for line in fold(f"What to do: {_next_steps(item)}", width - 2)]
            found += [f"  {line}" for line in tale(item, width - 2)]
    over = [_row(item, False) for item in items if not item["open"]]
    rows = [(*row[:4], row[-1]) for row in over]
    if rows:
        shown = [(*HEADERS[:4], HEADERS[-1]), *rows]
        found += lines(shown, fitting(shown, width))
    return found
