"""`validate`: manifests by themselves. Imports nothing that speaks with a controller, for it is run at each commit."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.given import files_option, load_paths
from reconciler.cli.core.kinds import full_name
from reconciler.cli.output.form import output_option
from reconciler.cli.output.problems import FORMATS, print_problems
from reconciler.errors import InvalidManifests


@click.command()
@files_option(required=True)
@click.option(
    "--references/--no-references",
    default=None,
    help="Whether each name of an object must be one of these manifests. By default where any of them is a Node, "
    "so that they are a whole cluster.",
)
@output_option(*FORMATS)
@click.pass_obj
def validate(settings: Settings, paths: tuple[str, ...], references: bool | None, output: str | None) -> int:
    """Check manifests without changing anything. No cluster is needed.

    Exits with 0 if they are valid, with 1 for problems, and with 2 for wrong usage. With -o, problems are data on
    standard output: github writes annotations, as Forgejo reads them too.

    \b
    Examples:
      reconciler validate -f manifests/
      reconciler validate -f manifests/ -o github
      cat llama.yaml | reconciler validate -f -
    """
    try:
        documents = load_paths(paths, complete=True)
        whole = any(document.key[0] == "Node" for document in documents) if references is None else references
        _refuse_dangling(documents if whole else ())
    except InvalidManifests as error:
        if not output:
            raise
        print_problems((), error.problems, output)
        return 1
    if output:
        print_problems([f"{d.key[0]}/{d.key[1]}" for d in documents], (), output)
        return 0
    for document in documents:
        click.echo(f"{full_name(*document.key)} valid")
    return 0


def _refuse_dangling(documents: tuple[Any, ...]) -> None:
    from reconciler.source.yaml.references import dangling

    if problems := dangling(documents):
        raise InvalidManifests(problems)
