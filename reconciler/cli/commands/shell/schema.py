"""`schema`: the JSON Schemas of the kinds, for editors and for checks without this command."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.core import complete
from reconciler.cli.core.kinds import RANK, kind_named
from reconciler.cli.core.shipped import ANY_KIND, schema_of
from reconciler.cli.output.parsed import FOLDER
from reconciler.errors import Refused


@click.command()
@click.argument("kind", required=False, shell_complete=complete.fields)
@click.option(
    "--write",
    "folder",
    type=FOLDER,
    help="Write the schemas of all kinds into this folder instead, one file for each.",
)
def schema(kind: str | None, folder: Path | None) -> None:
    """Print the JSON Schema of a kind, or write all of them for an editor.

    Without KIND, prints the schema that accepts every kind. A cluster repository has it from its first commit on, as
    `schemas/manifest.json`. Manifests name it in their first line, and editors with a YAML language server complete and
    check their fields. After an upgrade, write it again in a clone and commit it.

    \b
    Examples:
      reconciler schema modeldeployment
      reconciler schema > schemas/manifest.json         in a clone, after an upgrade
      reconciler schema --write schemas
    """
    if folder is not None:
        if kind is not None:
            raise click.UsageError("--write writes the schemas of all kinds; omit KIND")
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(ANY_KIND.parent.glob("*.json")):
            (folder / path.name).write_bytes(path.read_bytes())
            click.echo(str(folder / path.name))
        return
    path = ANY_KIND if kind is None else schema_of(_named(kind))
    click.echo(path.read_text(encoding="utf-8"), nl=False)


def _named(word: str) -> str:
    kind = kind_named(word)
    if kind == RANK:
        raise Refused(
            "NotFound", "ranks have no manifest, they follow from deployments; see: reconciler schema md"
        )
    return kind
