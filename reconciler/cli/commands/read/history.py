"""`history`: list the commits of manifests and operations, and show the changes of one."""

from __future__ import annotations

from collections.abc import Iterator

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.output.colour import Cell, Colour, painted
from reconciler.cli.output.form import limit_option, output_option, print_body
from reconciler.cli.output.table_layout import age, folded_table, plain
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, few_names
from reconciler.wire import answers
from reconciler.wire.admin import ListCommits, ShowCommit

HEADERS = ("REVISION", "AGE", "STATE", "AUTHOR", "OBJECTS", "CHANGE")
OBJECTS_SHOWN = 2
COLOURS: dict[str, Colour] = {"InForce": "green", "Held": "yellow", "Suspended": "yellow", "Rejected": "red"}
MARKS: dict[str, Colour] = {"+": "green", "-": "red"}


@click.command()
@click.argument("revision", required=False)
@limit_option("commits", default=50, most=500)
@output_option()
@click.pass_obj
def history(settings: Settings, /, revision: str | None, limit: int, output: str | None) -> None:
    """List the commits of manifests and operations, newest first, with the state of each.

    With REVISION, or its beginning, show what that commit changed, and the commands that take it back. The history of
    one object: reconciler rollout history KIND/NAME.

    \b
    Examples:
      reconciler history
      reconciler history --limit 10 -o json
      reconciler history 5d0f0a9c2f
    """
    if revision is not None:
        commit = ask(settings.socket, ShowCommit(revision))
        print_body(commit, output, _shown(commit))
        return
    body = ask(settings.socket, ListCommits(limit))
    if body["problem"]:
        raise Refused("NoHistory", body["problem"])
    if output:
        print_body(body, output)
    elif body["items"]:
        click.echo(folded_table(HEADERS, [_row(item) for item in body["items"]]))
    else:
        click.echo(typed("There are no commits yet; make one with: reconciler apply -f FILE"), err=True)


def _row(item: answers.Commit) -> tuple[str, ...]:
    state = Cell.of(item["state"], COLOURS.get(item["state"], ""))
    names = [each["object"] for each in item["objects"]] + ["more"] * item["objectsLeftOut"]
    objects = few_names(names, OBJECTS_SHOWN) if names else "-"
    return item["revision"][:10], age(item["time"]), state, item["author"], objects, item["subject"]


def _shown(body: answers.ShownCommit) -> Iterator[str]:
    """Yield a commit as lines: as git shows one, then what has become of it and what undoes it."""
    yield f"commit {body['revision']} of {body['branch']}"
    yield plain(f"Author: {body['author']} <{body['email']}>")
    yield f"Date:   {body['time']}"
    yield painted(f"State:  {body['state']}", Cell.of("", COLOURS.get(body["state"], "")))
    yield ""
    yield from (f"    {plain(line)}" for line in body["message"].split("\n"))
    for file in body["files"]:
        yield ""
        yield plain(f"{file['action']} {file['path']}")
        yield from (painted(plain_line(line), Cell.of("", MARKS.get(line[:1], ""))) for line in file["lines"])
        if file["leftOut"]:
            yield "(too large to be shown)" if file["leftOut"] < 0 else f"({file['leftOut']} more lines)"
    if body["undo"]:
        yield ""
        yield "To take it back:"
        yield from (f"  {command}" for command in body["undo"])


def plain_line(line: str) -> str:
    """Return a line of a diff unchanged, but without the characters that a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)
