"""`validate`: check manifests without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.given import files_option, read_given, some
from reconciler.cli.core.kinds import full_name
from reconciler.cli.core.nearby import asked
from reconciler.cli.output.form import output_option
from reconciler.cli.output.problems import FORMATS, print_problems
from reconciler.errors import InvalidManifests


@click.command()
@files_option(required=True)
@click.option(
    "--references/--no-references",
    default=None,
    help="Require, or do not, that manifests only name objects among them. By default required if one of them is a "
    "Node, because they are then a whole cluster.",
)
@output_option(*FORMATS)
@click.pass_obj
def validate(settings: Settings, paths: tuple[str, ...], references: bool | None, output: str | None) -> int:
    """Check manifests without changing anything. No cluster is needed.

    Exits with 0 if they are valid, with 1 for problems, and with 2 for wrong usage. With -o, problems are data on
    standard output: github writes annotations, which Forgejo reads too.

    \b
    Examples:
      reconciler validate -f manifests/
      reconciler validate -f manifests/ -o github
      cat llama.yaml | reconciler validate -f -
    """
    try:
        keys = some(_keys(settings, read_given(paths), references), paths)
    except InvalidManifests as error:
        if not output:
            raise
        print_problems((), error.problems, output)
        return 1
    if output:
        print_problems([f"{kind}/{name}" for kind, name in keys], (), output)
        return 0
    for kind, name in keys:
        click.echo(f"{full_name(kind, name)} valid")
    return 0


def _keys(
    settings: Settings, files: Mapping[str, bytes], references: bool | None
) -> Sequence[tuple[str, str]]:
    """Return the kind and name of each object. Raises ``InvalidManifests``."""
    from reconciler.wire.admin import Validate

    answer = asked(settings, partial(Validate, references=references), files)
    if answer is not None:
        return [(kind, name) for kind, name in answer["objects"]]
    from reconciler.source.yaml.references import checked

    return [document.key for document in checked(files, references)]
