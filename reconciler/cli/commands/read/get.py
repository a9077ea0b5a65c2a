"""`get`: list objects and their state, once or as they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from reconciler.cli.commands.write.approve import warn_if_held
from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, fail
from reconciler.cli.core.client import Client
from reconciler.cli.core.kinds import READ_ONLY, Chosen, full_name
from reconciler.cli.core.objects import Found, as_list, chosen_by, fetch, follow, key_of, name_of, pick
from reconciler.cli.core.selectors import selector_option
from reconciler.cli.output.form import Form, parse_form, print_body, print_line
from reconciler.cli.output.jsonpath import Path, find, parse_path, render, written
from reconciler.cli.output.kind_columns import NONE, headers, row, title
from reconciler.cli.output.parsed import Parsed
from reconciler.cli.output.table_layout import fitting, grown, lines
from reconciler.cli.output.typed import typed
from reconciler.resources import KIND_NAMES
from reconciler.wire.objects import Item

TABLE = Form("table")
FABRIC: Final = "Fabric"


@click.command()
@click.argument("what", nargs=-1, shell_complete=complete.objects)
@selector_option
@click.option("-w", "--watch", is_flag=True, help="Keep printing changes until Ctrl-C.")
@click.option("--watch-only", is_flag=True, help="Print changes from now on only.")
@click.option("--show-labels", is_flag=True, help="Add a column with the labels.")
@click.option(
    "-L",
    "--label-columns",
    multiple=True,
    metavar="KEY,...",
    help="Add a column for each of these labels; may be repeated.",
)
@click.option(
    "--sort-by",
    type=Parsed("jsonpath", parse_path),
    metavar="JSONPATH",
    help="Sort by this path, e.g. .metadata.name.",
)
@click.option("--no-headers", is_flag=True, help="Omit the header.")
@click.option("--ignore-not-found", is_flag=True, help="Exit with 0 if an object does not exist.")
@click.option(
    "-o",
    "--output",
    type=Parsed("form", parse_form),
    default=TABLE,
    metavar="json|yaml|name|wide|dot|svg|jsonpath=TEMPLATE|custom-columns=SPEC",
    help="Print in this format instead of a table.",
)
@click.pass_obj
def get(settings: Settings, /, what: tuple[str, ...], **how: Any) -> int:
    """List objects and their state.

    WHAT is a kind, several kinds separated by commas, or all; KIND NAME...; KIND/NAME...; or a NAME alone. A NAME alone
    shows every object of that name. To list the kinds: reconciler api-resources.

    \b
    Examples:
      reconciler get all
      reconciler get deployments -o wide -w
      reconciler get nodes -l pool=studios -L tier
      reconciler get ranks --sort-by .pid
      reconciler get node/node-a -o yaml
      reconciler get fabric studios                a drawing, with the faults
      reconciler get fabric studios -o svg > studios.svg
      reconciler get modeldeployments -o jsonpath='{range .items[*]}{.metadata.name}{"\\n"}{end}'
      reconciler get models -o custom-columns=NAME:.metadata.name,PATH:.spec.source.path
    """
    chosen = chosen_by(settings.socket, what)
    how["label_columns"] = [key for keys in how["label_columns"] for key in keys.split(",") if key]
    if how["watch"] or how["watch_only"]:
        return _watch(settings, chosen, how)
    with Client(settings.socket) as client:
        found = fetch(client, chosen, how["selector"])
    if how["sort_by"] is not None:
        found.items.sort(key=lambda item: _sort_key(how["sort_by"], item))
    _print(found, _one(chosen, found), how)
    warn_if_held(found.body)
    if how["ignore_not_found"]:
        return 0
    for error in found.missing[:-1]:
        fail(str(error))
    if found.missing:
        raise found.missing[-1]
    return 0


def _one(chosen: tuple[Chosen, ...], found: Found) -> bool:
    """Return whether one object was requested by its own name, rather than several by a common one."""
    names = [name for choice in chosen for name in choice.names]
    return len(names) == 1 and [name_of(item) for item in found.items] == names


def _sort_key(path: Path, item: Item) -> tuple[int, Any]:
    """Return a key that puts missing values first, then numbers by value, then texts."""
    value = next(iter(find(path, item)), None)
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, written(value))


# --- once ------------------------------------------------------------------------------------------


def _print(found: Found, one: bool, how: dict[str, Any]) -> None:
    form: Form = how["output"]
    body: Mapping[str, object] = found.items[0] if one else as_list(found.revision, found.items)
    if not found.items and (found.missing or how["ignore_not_found"]):
        return
    match form.name:
        case "json" | "yaml":
            print_body(body, form.name)
        case "jsonpath":
            text = render(form.template, body)
            click.echo(text, nl=False)
            if found.items and not text:
                text = "note: no object has this; see what there is: reconciler get KIND -o yaml"
                click.echo(typed(text), err=True)
        case _ if not found.items:
            click.echo("No resources found", err=True)
        case "name":
            for item in found.items:
                click.echo(_full(*key_of(item)))
        case "dot" | "svg":
            click.echo(_graph(found.items, form.name), nl=False)
        case "custom-columns":
            _echo_rows([header for header, _ in form.columns], _columns(form, found.items), how)
        case _ if one and (fabric := found.items[0])["kind"] == FABRIC and not how["no_headers"]:
            from .fabric.drawing import show

            show(fabric, form.name == "wide")
        case _:
            _print_tables(found.items, how)


def _graph(items: list[Item], form: str) -> str:
    """Return one Fabric in a graph format. Raises ``UsageError`` for anything else."""
    from .fabric import graph

    if len(items) != 1 or items[0]["kind"] != FABRIC:
        raise click.UsageError(f"{form} works for one Fabric only: reconciler get fabric NAME -o {form}")
    return graph.dot(items[0]) if form == "dot" else graph.svg(items[0])


def _full(kind: str, name: str) -> str:
    """Return the name that `-o name` prints and other commands accept."""
    return f"{kind.lower()}/{name}" if kind in READ_ONLY else full_name(kind, name)


def _columns(form: Form, items: list[Item]) -> list[list[str]]:
    found = ((find(path, item) for _, path in form.columns) for item in items)
    return [[",".join(map(written, values)) if values else NONE for values in row] for row in found]


def _print_tables(items: list[Item], how: dict[str, Any]) -> None:
    """Print a table for each kind that has objects, with titles if there are several."""
    kinds = [kind for kind in (*KIND_NAMES, *READ_ONLY) if any(item["kind"] == kind for item in items)]
    for kind in kinds:
        if kind != kinds[0]:
            click.echo()
        if len(kinds) > 1 and not how["no_headers"]:
            click.echo(title(kind))
        _echo_rows(_headers(kind, how), [_row(item, how) for item in items if item["kind"] == kind], how)


def _echo_rows(above: list[str], rows: list[list[str]], how: dict[str, Any]) -> None:
    widths = fitting([above, *rows])
    for line in lines(rows if how["no_headers"] else [above, *rows], widths):
        click.echo(line)


def _headers(kind: str, how: dict[str, Any]) -> list[str]:
    return headers(kind, how["output"].name == "wide", how["show_labels"], how["label_columns"])


def _row(item: Item, how: dict[str, Any]) -> list[str]:
    return row(item, how["output"].name == "wide", how["show_labels"], how["label_columns"])


# --- as it changes ---------------------------------------------------------------------------------


def _watch(settings: Settings, chosen: tuple[Chosen, ...], how: dict[str, Any]) -> int:
    if len(chosen) != 1:
        raise click.UsageError("--watch takes one kind, objects of one kind, or all")
    choice, selector = chosen[0], how["selector"]
    if choice.names:
        with Client(settings.socket) as client:
            missing = fetch(client, chosen, selector).missing
        if missing and not how["ignore_not_found"]:
            raise missing[0]
    shown = _Changes(how, silent=how["watch_only"])
    for items in follow(settings.socket, choice):
        shown.update(pick(items, choice, selector))
    return 0


class _Changes:
    """Prints objects that differ from their last line; columns grow with their content."""

    def __init__(self, how: dict[str, Any], silent: bool) -> None:
        self._how = how
        self._silent = silent
        self._last: dict[tuple[str, str], Any] = {}
        self._widths: dict[str, list[int]] = {}

    def update(self, items: list[Item]) -> None:
        now = {key_of(item): item for item in items}
        changed = [item for key, item in now.items() if self._last.get(key) != self._seen(item)]
        gone = [key for key in self._last if key not in now]
        self._last = {key: self._seen(item) for key, item in now.items()}
        if not self._silent:
            self._print(changed)
            for kind, name in gone:
                click.echo(f"{_full(kind, name)} deleted")
        self._silent = False

    def _seen(self, item: Item) -> Any:
        """Return the value to compare: an object's complete content, or its row without ages."""
        if not self._tabular:
            return item
        cells = zip(_headers(item["kind"], self._how), _row(item, self._how), strict=True)
        return [cell for header, cell in cells if header != "AGE"]

    @property
    def _tabular(self) -> bool:
        return self._how["output"].name in ("table", "wide")

    def _print(self, items: list[Item]) -> None:
        form: Form = self._how["output"]
        for item in items if not self._tabular else ():
            _PRINTERS[form.name](form, item)
        for kind in (*KIND_NAMES, *READ_ONLY) if self._tabular else ():
            self._print_rows(kind, [_row(item, self._how) for item in items if item["kind"] == kind])

    def _print_rows(self, kind: str, rows: list[list[str]]) -> None:
        if not rows:
            return
        above = _headers(kind, self._how)
        first = kind not in self._widths
        self._widths[kind] = grown([above, *rows], self._widths.get(kind, ()))
        for line in lines(
            [above, *rows] if first and not self._how["no_headers"] else rows, self._widths[kind]
        ):
            click.echo(line)


_PRINTERS: dict[str, Callable[[Form, Item], None]] = {
    "json": lambda form, item: print_line(item, "json"),
    "yaml": lambda form, item: print_line(item, "yaml"),
    "name": lambda form, item: click.echo(_full(*key_of(item))),
    "jsonpath": lambda form, item: click.echo(render(form.template, item), nl=False),
    "custom-columns": lambda form, item: click.echo("   ".join(_columns(form, [item])[0])),
}
