"""`patch`: change fields of an object with a merge patch or a JSON patch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import (
    Files,
    How,
    WritingCommand,
    carry_out,
    write_options,
)
from reconciler.cli.core.targets import Key, document_of, labels_of, one_object
from reconciler.cli.core.waiting import finish
from reconciler.errors import Invalid, InvalidManifests

TYPES = ("merge", "json")
FIXED = (("apiVersion",), ("kind",), ("metadata", "name"))


@click.command(cls=WritingCommand)
@click.argument("words", nargs=-1, metavar="NAME | KIND/NAME", shell_complete=complete.objects)
@click.option("-p", "--patch", "text", metavar="PATCH", help="The patch, as JSON or YAML.")
@click.option("--patch-file", metavar="FILE", help="A file with the patch; - is standard input.")
@click.option(
    "--type",
    "type_",
    default="merge",
    show_default=True,
    metavar="merge|json",
    help="merge (RFC 7396): null removes a field, lists are replaced whole; json (RFC 6902): a list of operations.",
)
@write_options
@click.pass_obj
def patch(
    settings: Settings, words: tuple[str, ...], text: str | None, patch_file: str | None, type_: str, how: How
) -> None:
    """Change fields of an object, by a commit that changes nothing else.

    \b
    Examples:
      reconciler patch deployment/tiny -p '{"spec": {"replicas": 2}}'
      reconciler patch node/node-a -p 'metadata: {labels: {pool: null}}'
      reconciler patch md/tiny --type=json -p '[{"op": "replace", "path": "/spec/replicas", "value": 2}]'
    """
    if type_ not in TYPES:
        why = (
            "; lists are replaced whole, so that there is no strategic patch" if type_ == "strategic" else ""
        )
        raise click.UsageError(f'--type: expected {" or ".join(TYPES)}, got "{type_}"{why}')
    if (text is None) == (patch_file is None):
        raise click.UsageError("expected a patch: -p PATCH or --patch-file FILE")
    if text is None:
        text = sys.stdin.read() if patch_file == "-" else Path(patch_file or "").read_text(encoding="utf-8")
    wanted = _parsed(text, patch_file or "-p")

    def decide(files: Files) -> Any:
        from reconciler.source.editing import set_fields
        from reconciler.source.patches import changes, merged, patched

        key = one_object(words, there=labels_of(files))
        before = _plain(files, key)
        after = merged(before, wanted) if type_ == "merge" else patched(before, wanted)
        values = dict(changes(before, after))
        for path in values:
            if path in FIXED or not path:
                raise Invalid(
                    f"{'.'.join(path) or 'the whole object'} cannot be changed; use: reconciler apply -f FILE"
                )
        return set_fields(files, {key: values})

    landed = carry_out(settings, how, decide, "Patch")
    finish(settings, how, landed, {"configured": "patched", "unchanged": "patched (no change)"})


def _parsed(text: str, name: str) -> Any:
    """Return a patch as plain data. Raises ``InvalidManifests`` with the places of mistakes."""
    from reconciler.source.yaml.parser import parse

    tree = parse(name, text)
    if tree.problems:
        raise InvalidManifests(tree.problems)
    if tree.root is None or not isinstance(tree.root.value, dict | list):
        raise click.UsageError("the patch is empty; expected fields, such as: {spec: {replicas: 2}}")
    return tree.root.value


def _plain(files: Files, key: Key) -> Any:
    from reconciler.source.yaml.parser import parse

    root = parse("", document_of(files, key).text).root
    assert root is not None
    return root.value
