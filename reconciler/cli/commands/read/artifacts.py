"""`artifacts`: list, copy and print the files that runs of jobs have left."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.runs import job_named, job_of, run_of
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.parsed import FOLDER, number_option
from reconciler.cli.output.screen import quiet_screen
from reconciler.cli.output.streams import shown
from reconciler.cli.output.table_layout import size, table
from reconciler.errors import Refused, Unreachable, few_names
from reconciler.wire.objects import JobState, Run

DRAFT = ".part-"
"""Beginning of the names of files that are still being fetched."""
PIECE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class _File:
    rank: int
    path: str
    size: int
    place: Path


@click.command()
@click.argument("job", shell_complete=complete.jobs)
@number_option("--run", help="Those of this run; by default the newest that has any.")
@number_option("--rank", least=0, help="Those of this rank only.")
@click.option(
    "--to", "folder", type=FOLDER, metavar="DIR", help="Copy them to DIR/RANK/, or with --rank to DIR."
)
@click.option("--force", is_flag=True, help="With --to, replace files that are there.")
@click.option("--cat", metavar="PATH", help="Print this file.")
@output_option()
@click.pass_obj
def artifacts(
    settings: Settings,
    /,
    job: str,
    run: int | None,
    rank: int | None,
    folder: Path | None,
    force: bool,
    cat: str | None,
    output: str | None,
) -> None:
    """List, copy or print the artifacts of a run.

    They are the files of spec.artifacts, fetched to $RECONCILER_HOME/artifacts/JOB/RUN/RANK/ when the run ended. The newest 10
    runs of each job are kept.

    \b
    Examples:
      reconciler artifacts job/train
      reconciler artifacts job/train --run 3 -o json
      reconciler artifacts job/train --rank 0 --to results
      reconciler artifacts job/train --rank 0 --cat log.txt
    """
    if folder is not None and cat is not None:
        raise click.UsageError("--to and --cat exclude each other")
    name = job_named(job)
    place = settings.home / "artifacts" / name
    number = run if run is not None else max(_runs(place), default=None)
    known = _known(settings, name, run)
    state = None if known is None or isinstance(known, Refused) else known["artifacts"]
    every = sorted(_files(place / str(number)), key=lambda file: (file.rank, file.path)) if number else []
    files = [file for file in every if rank in (None, file.rank)]
    if not files:
        if isinstance(known, Refused) and not every:
            raise known
        raise Refused("NotFound", _nothing(name, number, rank, [file.rank for file in every], known))
    if state is not None and state["text"]:
        click.echo(f"note: not all were fetched: {shown(state['text'])}", err=True)
    if cat is not None:
        _print(_chosen(files, cat))
    elif folder is not None:
        _copy(files, folder, rank is None, force)
    else:
        body = {
            "job": name,
            "run": number,
            "folder": str(place / str(number)),
            "files": [{"rank": file.rank, "path": file.path, "bytes": file.size} for file in files],
        }
        rows = [(str(file.rank), size(file.size), shown(file.path)) for file in files]
        print_body(body, output, (str(place / str(number)), table(("RANK", "SIZE", "PATH"), rows)))


def _runs(place: Path) -> list[int]:
    """Return the numbers of the runs whose artifacts are there."""
    with suppress(FileNotFoundError):
        return [int(each.name) for each in place.iterdir() if each.name.isdecimal()]
    return []


def _files(place: Path) -> Iterator[_File]:
    """Yield the artifacts of a run: regular files, without links, and without those that are not complete."""
    for folder, _, names in os.walk(place):
        parts = Path(folder).relative_to(place).parts
        for name in names if parts and parts[0].isdecimal() else ():
            path = Path(folder) / name
            if name.startswith(DRAFT) or path.is_symlink() or not path.is_file():
                continue
            yield _File(int(parts[0]), "/".join((*parts[1:], name)), path.stat().st_size, path)


def _known(settings: Settings, name: str, number: int | None) -> Run | Refused | None:
    """Return the run as the controller has it, or its refusal if it has none; None if no controller runs."""
    try:
        with Client(settings.socket) as client:
            return run_of(job_of(client, name), number)
    except Unreachable:
        return None
    except Refused as refused:
        return refused


def _nothing(
    name: str, number: int | None, rank: int | None, ranks: list[int], known: Run | Refused | None
) -> str:
    """Return why there are no artifacts, and what to do."""
    if rank is not None and ranks:
        others = ", ".join(map(str, sorted(set(ranks))))
        return (
            f"rank {rank} of run {number} of job/{name} has no artifacts; those of ranks {others} are there"
        )
    of = f"run {number} of job/{name}" if number else f"job/{name}"
    run = None if isinstance(known, Refused) else known
    state = run["artifacts"] if run is not None else None
    if run is not None and run["state"] not in JobState.ENDED:
        return f"run {run['run']} of job/{name} has not ended, and artifacts are fetched then; see: reconciler describe job/{name}"
    if state is not None and state["state"] == "pending":
        return f"the artifacts of {of} are still being fetched; see: reconciler describe job/{name}"
    why = f": {shown(state['text'])}" if state is not None and state["text"] else ""
    return f"{of} has no artifacts here{why}; spec.artifacts names what is fetched, and the newest 10 runs are kept"


def _chosen(files: list[_File], path: str) -> _File:
    """Return the file of a path. Raises ``Refused`` if there is none, and ``UsageError`` if several ranks have it."""
    found = [file for file in files if file.path == path]
    if not found:
        known = few_names([shown(file.path) for file in files])
        raise Refused("NotFound", f"there is no artifact {path}; there are: {known}")
    if len(found) > 1:
        raise click.UsageError(
            f"ranks {', '.join(str(file.rank) for file in found)} have {path}; choose one, such as: --rank {found[0].rank}"
        )
    return found[0]


def _print(file: _File) -> None:
    """Print a file as it is; on a terminal without control characters."""
    with file.place.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            if sys.stdout.isatty():
                click.echo(shown(piece.decode(errors="replace")), nl=False)
            else:
                sys.stdout.buffer.write(piece)


def _copy(files: list[_File], folder: Path, by_rank: bool, force: bool) -> None:
    """Copy files. Raises ``Refused`` if one is there already, before anything is copied, unless ``force``."""
    wanted = [(file, folder / (f"{file.rank}/{file.path}" if by_rank else file.path)) for file in files]
    there = [str(to) for _, to in wanted if os.path.lexists(to)]
    if there and not force:
        raise Refused(
            "Exists", f"{few_names(there)} already there; replace with --force, or choose another folder"
        )
    screen = quiet_screen(timed=True)
    for number, (file, to) in enumerate(wanted):
        screen.show(f"copied {number} of {len(wanted)} files")
        to.parent.mkdir(parents=True, exist_ok=True)
        draft = to.with_name(f".{to.name[:200]}.part")
        shutil.copyfile(file.place, draft, follow_symlinks=False)
        draft.replace(to)
    screen.clear()
    click.echo(f"copied {len(wanted)} files, {size(sum(file.size for file in files))}, to {folder}")
