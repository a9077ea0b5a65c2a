"""`model`: verify the weights of a Model, and update it to another revision."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import Files, How, WritingCommand, carry_out, write_options
from reconciler.cli.core.targets import document_of
from reconciler.cli.core.waiting import finish, timeout_option, wait_until
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import Screen
from reconciler.cli.output.table_layout import size, table
from reconciler.errors import Invalid, Refused
from reconciler.source.operating.change import titled
from reconciler.wire import answers
from reconciler.wire.admin import Verify

MODEL = "Model"
HELD_BACK_SECONDS = 1.0


@click.group(cls=SuggestingGroup)
def model() -> None:
    """Verify the weights of a Model, or update it to another revision.

    \b
    Examples:
      reconciler model verify llama
      reconciler model update llama --revision 0b5b1f4f9b7c4a5e8d3f6a7c9e1d2b3a4f5c6d7e
    """


@model.command()
@click.argument("name", shell_complete=complete.models)
@timeout_option("0")
@output_option()
@click.pass_obj
def verify(settings: Settings, name: str, timeout: float, output: str | None) -> None:
    """Read every file of the weights on every node, and compare it with the hub's list.

    Only damaged or missing files are fetched again, and serving continues. Exits with 1 if weights are still
    incomplete in the end.

    \b
    Examples:
      reconciler model verify llama
      reconciler model verify llama -o json
    """
    answer: answers.Verification | None = None

    def awaited(client: Client) -> str:
        nonlocal answer
        run = (answer or client.ask(Verify(name)))["run"]
        answer = client.ask(Verify(name, run, HELD_BACK_SECONDS), HELD_BACK_SECONDS)
        return "" if answer["done"] else _progress(answer["nodes"])

    wait_until(settings, awaited, timeout, Screen())
    assert answer is not None
    print_body(answer, output, [table(("NODE", "FILE", "SIZE", "STATE"), _rows(answer["nodes"]))])
    failed = [entry for entry in answer["nodes"] if entry.get("problem")]
    if failed:
        texts = "; ".join(f"{entry['node']}: {entry['text']} ({entry['problem']})" for entry in failed)
        raise Refused("NotVerified", texts)


def _progress(nodes: list[answers.VerifiedNode]) -> str:
    return "; ".join(
        f"{entry['node']} is {entry['phase']}, {size(entry['doneBytes'])} of {size(entry['totalBytes'])}"
        for entry in nodes
        if entry.get("phase") not in (None, "done", "failed")
    )


def _rows(nodes: list[answers.VerifiedNode]) -> list[tuple[str, str, str, str]]:
    rows = []
    for entry in nodes:
        if "beside" in entry:
            rows.append((entry["node"], "-", "-", f"the same folder as {entry['beside']}"))
        files = entry.get("files", ())
        rows += [(entry["node"], file["name"], size(file["size"]), file["state"]) for file in files]
    return rows


@model.command(cls=WritingCommand)
@click.argument("name", shell_complete=complete.models)
@click.option("--revision", required=True, metavar="COMMIT", help="Commit as 40 hexadecimal digits.")
@write_options
@click.pass_obj
def update(settings: Settings, name: str, how: How, revision: str) -> None:
    """Update a Model to another revision of its repository.

    The update is a commit. The old group serves until the new weights are verified on the nodes of the next group,
    which then replaces it. If the new group does not come up, the old weights are served again, and the Model's
    status says so.

    \b
    Examples:
      reconciler model update llama --revision 0b5b1f4f9b7c4a5e8d3f6a7c9e1d2b3a4f5c6d7e
      reconciler model update llama --revision 0b5b1f4f9b7c4a5e8d3f6a7c9e1d2b3a4f5c6d7e --dry-run
    """

    def decide(files: Files) -> Any:
        from reconciler.resources import uncommitted
        from reconciler.source.editing import set_fields

        wish: Any = document_of(files, (MODEL, name)).manifest
        hub = wish.spec.source.huggingface
        if hub is None:
            text = f"model/{name} has its weights at a path; change the files there, or spec.source.path"
            raise Refused("NoRevision", text)
        problem = uncommitted(hub.repo, revision)
        if problem:
            raise Invalid(problem)
        return set_fields(files, {(MODEL, name): {("spec", "source", "huggingface", "revision"): revision}})

    landed = carry_out(
        settings, how, decide, lambda results: f"{titled('Update', results)} to {revision[:10]}"
    )
    finish(settings, how, landed, {"configured": "updated"})
