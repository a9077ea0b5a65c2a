"""`doctor`: show what is wrong with machines and groups, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.targets import check_there
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.cli.output.table_layout import beside, fold, page_width
from reconciler.cli.output.typed import typed
from reconciler.wire import answers
from reconciler.wire.admin import Doctor

NODE = "Node"
HELD_BACK_SECONDS = 1.0
ROUNDS_MAX = 120
"""Well above the controller's own time limit for asking machines."""
INDENT = 5
LABEL = 8
TIME_OF_DAY = slice(11, 16)


@click.command()
@click.argument("nodes", nargs=-1, metavar="[NODE...]", shell_complete=complete.nodes)
@output_option()
@click.pass_obj
def doctor(settings: Settings, nodes: tuple[str, ...], output: str | None) -> int:
    """Show what is wrong with machines and groups, what it means, and what to do.

    The machines are asked again first. Findings are sorted so that a cause precedes its effects, each with its
    class (C0 to C19); those about the state directory come first and have none. Unknown facts are listed at
    the end, never as fine. Exits with 1 if there is a finding.

    \b
    Examples:
      reconciler doctor
      reconciler doctor studio-1 studio-2
      reconciler doctor -o json
    """
    screen = quiet_screen()
    with Client(settings.socket) as client:
        if nodes:
            check_there(client, NODE, nodes)
        body = examined(client, screen, nodes)
    screen.clear()
    shown = {name: value for name, value in body.items() if name not in ("run", "asking")}
    print_body(shown, output, _page(body))
    return 1 if body["findings"] else 0


def examined(
    client: Client,
    screen: Screen,
    nodes: tuple[str, ...] = (),
    rounds: int = ROUNDS_MAX,
    held_back_seconds: float = HELD_BACK_SECONDS,
) -> answers.DoctorAnswer:
    """Return the controller's result; meanwhile show which machines it is asking."""
    body = client.ask(Doctor(nodes))
    for _ in range(rounds):
        body = client.ask(Doctor(nodes, body["run"], held_back_seconds), held_back_seconds)
        if not body["asking"]:
            break
        screen.show(f"asking {', '.join(body['asking'])} ...")
    return body


# --- the page ----------------------------------------------------------------------------------------


def _page(body: answers.DoctorAnswer) -> Iterator[str]:
    width = page_width()
    for finding in body["findings"]:
        yield from _finding(finding, width)
        yield ""
    if body["healed"]:
        yield "Healed within the last hour:"
        for incident in body["healed"]:
            text = f"{incident['openedAt'][TIME_OF_DAY]} UTC  {incident['class']:<4} {incident['summary']}"
            yield from _indented(f"{text} (reconciler incidents {incident['id']})", width)
        yield ""
    if body["notKnown"]:
        yield "Unknown, so neither fine nor wrong:"
        yield from _unknown_lines(body["notKnown"], width)
        yield ""
    yield _sum(body)


def _finding(finding: answers.Finding, width: int) -> Iterator[str]:
    objects = ", ".join(finding["objects"])
    yield from fold(f"{finding['class'] or '-':<4} {finding['title']}: {objects}", width, " " * INDENT)
    steps = typed(f": {finding['steps']}").removeprefix(": ")  # a step may be a command and nothing else
    for label, text in (("seen", finding["seen"]), ("means", finding["means"]), ("to do", steps)):
        yield from beside(f"{'':{INDENT}}{label:<{LABEL}}", text, width)


def _unknown_lines(unknown: Sequence[answers.NotKnown], width: int) -> Iterator[str]:
    """Yield lines about what is unknown, those of one machine with the same reason together."""
    ordered = sorted(unknown, key=lambda each: (each["node"], each["why"]))
    for (node, why), group in groupby(ordered, key=lambda each: (each["node"], each["why"])):
        what = ", ".join(each["what"] for each in group)
        yield from _indented(f"{node}: {what}: {why}", width)


def _indented(text: str, width: int) -> Iterator[str]:
    for number, line in enumerate(fold(text, width - INDENT)):
        yield f"{'':{2 if number == 0 else INDENT}}{line}"


def _sum(body: answers.DoctorAnswer) -> str:
    found, looked = len(body["findings"]), len(body["nodes"])
    persons = sum(1 for each in body["findings"] if each["person"])
    nodes = f"{looked} node{'' if looked == 1 else 's'}"
    if not found:
        count = len(body["notKnown"])
        things = "1 fact is" if count == 1 else f"{count} facts are"
        return f"no findings on {nodes}" + (f"; {things} unknown" if count else "")
    needed = f", {persons} for a person" if persons else ", none for a person"
    return f"{found} finding{'' if found == 1 else 's'} on {nodes}{needed}"
