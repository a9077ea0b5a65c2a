"""`facts`: record the facts that plans depend on, and make plans from such a record."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.output.parsed import PATH
from reconciler.errors import Invalid
from reconciler.wire import answers
from reconciler.wire.admin import ShowFacts

BYTES_MAX = 16 * 2**20
"""A larger file does not hold facts: a node has a few kilobytes."""


@click.group()
def facts() -> None:
    """Record a cluster's facts in a file, to plan changes elsewhere.

    \b
    Example:
      reconciler facts export -o .reconciler/facts.json
    """


@facts.command()
@click.option("-o", "--output", type=PATH, help="File to write.  [default: standard output]")
@click.pass_obj
def export(settings: Settings, output: Path | None) -> None:
    """Write what plans depend on: machines, cables, weights, groups.

    The file is made to be committed, for example as .reconciler/facts.json of the cluster repository. It contains no
    secret, host name, user's name or public address, nor anything about clients. Record again when machines or weights
    have changed.

    \b
    Examples:
      reconciler facts export -o .reconciler/facts.json
      reconciler plan -f . --facts .reconciler/facts.json
    """
    body = ask(settings.socket, ShowFacts())
    text = json.dumps(body["facts"], indent=1, ensure_ascii=False) + "\n"
    if not body["settled"]:
        click.echo("note: the cluster is not settled; export again when reconciler plan is empty", err=True)
    if output is None:
        click.echo(text, nl=False)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")
    nodes = len(body["facts"]["nodes"])
    click.echo(f"{output}: facts of {nodes} node{'s' * (nodes != 1)}, at {body['facts']['revision'][:10]}")


def foreseen(files: Mapping[str, bytes], path: Path) -> answers.ForeseenWithFacts:
    """Return the plan of the recorded cluster for ``files``: the body of the answer to ``Preview``, and in ``facts`` the
    revision and the time of the record.

    Raises ``InvalidManifests``, and ``Invalid`` for a file that has no facts.
    """
    from reconciler.controller.admin import bodies, preview
    from reconciler.facts.recorded import of_file

    found, now = of_file(_read(path), str(path)), time.time()
    wished = preview.wished_by(files)
    verdict = found.judge(wished, now)
    desired = found.desired(found.judge(replace(wished, approved=True), now))
    plan = found.plan(desired)
    too_large = tuple(islice(found.too_large(desired), preview.TOO_LARGE_SHOWN))
    body = preview.foreseen(verdict, plan, found.memory.groups, found.costs(desired, plan), too_large)
    return {**body, "facts": {"recordedAt": bodies.iso(found.at), "revision": found.revision}}


def _read(path: Path) -> Any:
    if path.stat().st_size > BYTES_MAX:
        raise Invalid(f"{path} is larger than {BYTES_MAX // 2**20} MiB, and has no recorded facts")
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise Invalid(
            f"{path} is not JSON ({error}); write it with: reconciler facts export -o FILE"
        ) from None
