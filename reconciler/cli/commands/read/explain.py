"""`explain`, `api-resources`, `api-versions`: describe the kinds and their fields, from the models that check them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from reconciler.cli.core import complete
from reconciler.cli.core.fields import Field, field_at
from reconciler.cli.core.kinds import RANK, kind_named
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.table_layout import table
from reconciler.errors import Refused
from reconciler.resources import API_VERSION, KIND_NAMES, PLURALS, SHORT_NAMES

INDENT = "  "


@click.command()
@click.argument("path", metavar="KIND[.FIELD...]", shell_complete=complete.fields)
@click.option("--recursive", is_flag=True, help="Show the names and types of all fields below.")
@output_option("plaintext")
def explain(path: str, recursive: bool, output: str | None) -> None:
    """Explain a kind or a field. No cluster is needed.

    \b
    Examples:
      reconciler explain modeldeployment
      reconciler explain md.spec.parallelism.nodes
      reconciler explain gateway --recursive
    """
    word, *steps = path.removesuffix(".").split(".")
    kind = kind_named(word)
    if kind == RANK:
        raise Refused(
            "NotFound", "ranks have no manifest, they follow from deployments; see: reconciler explain md"
        )
    field = field_at(kind, steps)
    if output in ("json", "yaml"):
        print_body({"kind": kind, "apiVersion": API_VERSION, **field.as_json()}, output)
        return
    click.echo("\n".join(_page(kind, field, steps, recursive)))


def _page(kind: str, field: Field, steps: list[str], recursive: bool) -> Iterator[str]:
    yield f"KIND:       {kind}"
    yield f"VERSION:    {API_VERSION}"
    if steps:
        yield f"\nFIELD: {'.'.join(steps)} <{field.type}>{' -required-' if field.required else ''}"
    yield "\nDESCRIPTION:"
    yield from _described(field, INDENT * 2)
    inner = list(field.fields())
    if inner:
        yield "\nFIELDS:"
    for one in inner:
        yield from _tree(one, INDENT) if recursive else _entry(one)


def _described(field: Field, indent: str) -> Iterator[str]:
    yield from (f"{indent}{line}" for line in [*field.description.splitlines(), *field.facts()])


def _entry(field: Field) -> Iterator[str]:
    yield f"{INDENT}{field.name}\t<{field.type}>{' -required-' if field.required else ''}".expandtabs(20)
    yield from _described(field, INDENT * 2)
    yield ""


def _tree(field: Field, indent: str) -> Iterator[str]:
    yield f"{indent}{field.name} <{field.type}>{' -required-' if field.required else ''}"
    for inner in field.fields():
        yield from _tree(inner, indent + INDENT)


@click.command("api-resources")
@output_option("name", "wide")
def api_resources(output: str | None) -> None:
    """List the kinds and their short names. No cluster is needed.

    \b
    Example:
      reconciler api-resources
    """
    kinds = [
        {"name": PLURALS[kind], "shortNames": list(SHORT_NAMES[kind][1:]), "kind": kind}
        for kind in KIND_NAMES
    ]
    if output in ("json", "yaml"):
        print_body({"apiVersion": API_VERSION, "resources": kinds}, output)
    elif output == "name":
        click.echo("\n".join(f"{kind['name']}.{API_VERSION.partition('/')[0]}" for kind in kinds))
    else:
        rows = [(str(k["name"]), ",".join(k["shortNames"]), API_VERSION, str(k["kind"])) for k in kinds]
        rows.append(("ranks", "rank", "(read-only)", RANK))
        click.echo(table(("NAME", "SHORTNAMES", "APIVERSION", "KIND"), rows))


@click.command("api-versions")
def api_versions() -> None:
    """List the supported versions of manifests. No cluster is needed.

    \b
    Example:
      reconciler api-versions
    """
    click.echo(API_VERSION)
