"""`rehearse`: try a change on emulated Macs, break something, and show what happened."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from reconciler.cli.core.shipped import SHIPPED
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import quiet_screen
from reconciler.errors import Invalid

TINY = SHIPPED / "models" / "tiny"
"""The model that stands in for every other one."""
GIT_SECONDS = 60.0


@click.command()
@click.option(
    "-f",
    "--filename",
    "folder",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder with the changed manifests, the complete set.",
)
@click.option(
    "--base",
    default="HEAD",
    show_default=True,
    help="Manifests before the change: a folder, or a revision of the git repository that has the folder.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="CLASS[,CLASS...]",
    help="Further faults to cause, by the classes of docs/faults.md: C5,C12.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0.1, 120),
    default=10.0,
    show_default=True,
    help="Time limit; steps that are not done by then have failed.",
)
@click.option(
    "--model",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=TINY,
    help="Weights that stand in for all models.  [default: the tiny model]",
)
@output_option("table", "markdown")
def rehearse(folder: Path, base: str, faults: tuple[str, ...], minutes: float, model: Path, output: str | None) -> int:  # fmt: skip
    """Try a change of manifests on emulated Macs, break something, and show what happened.

    Starts emulated Macs, a controller, a gateway and real ranks here, from the manifests before the change. Pushes the
    change while a client sends requests; then kills a rank, and pulls a declared cable. Ends and removes everything
    afterwards. The tiny model stands in for every model, so the result says nothing about the memory of yours; see
    docs/rehearse.md. Exits with 1 if the change was not served, or did not heal.

    \b
    Examples:
      reconciler rehearse -f .
      reconciler rehearse -f . --base origin/main -o markdown
      reconciler rehearse -f . --fault C5,C12 --minutes 15
    """
    from . import report
    from .course import Course
    from .faults import chosen, named
    from .home import put_models, rehearsal_home
    from .stand_ins import stand_ins

    classes = named(faults)
    before, after = _documents(files_of_base(folder, base)), _documents(_files(folder))
    if not after:
        raise Invalid(f"there are no manifests in {folder}")
    deadline, progress = time.monotonic() + minutes * 60, quiet_screen(timed=True)
    with _interruptible(), rehearsal_home() as home:
        progress.show("starting emulated Macs")
        everything = stand_ins(_union(before or after, after), {})
        put_models(home.models, model, everything.models)
        accesses = home.start_machines(everything.text)
        old, new = stand_ins(before or after, accesses), stand_ins(after, accesses)
        put_models(home.models, model, {**old.models, **new.models})
        home.start(old.text)
        course = Course(home, old, new, deadline, progress.show)
        passed = course.run(lambda deployments, fabrics: chosen(classes, deployments, fabrics))
        progress.show("ending everything")
    progress.clear()
    result = report.Report(passed, course.steps, list(dict.fromkeys(old.notes + new.notes)), course.pushed)
    if output in ("json", "yaml"):
        print_body(result.plain(), output)
    else:
        click.echo(report.markdown(result) if output == "markdown" else report.table(result))
    return 0 if passed else 1


def _files(folder: Path) -> dict[str, bytes]:
    from reconciler.source.files import read_directory

    return read_directory(folder)


def _documents(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the manifests as plain data. Raises ``InvalidManifests``."""
    from reconciler.source.yaml.documents import load

    manifests = (document.manifest for document in load(files))
    return [each.body(defaults=False) for each in manifests]


def files_of_base(folder: Path, base: str) -> dict[str, bytes]:
    """Return the manifests of the folder ``base``, or the manifests of ``folder`` at a revision; none if it was not there.

    Raises ``Invalid`` if ``base`` is neither.
    """
    from reconciler.source.git.repository import ClusterRepo

    if Path(base).is_dir():
        return _files(Path(base))
    revision = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    if revision is None:
        hint = "; a shallow clone lacks it: git fetch --unshallow"
        raise Invalid(f"--base {base} is neither a folder nor a revision of the repository of {folder}{hint}")
    commit = revision.decode().strip()
    git_dir, below = (
        (_git(folder, "rev-parse", word) or b"").decode().rstrip("\n")
        for word in ("--absolute-git-dir", "--show-prefix")
    )
    if _git(folder, "cat-file", "-e", f"{commit}:{below.rstrip('/')}") is None:
        return {}
    files = ClusterRepo(Path(git_dir)).read(commit, folder=below.rstrip("/"))
    return {name.removeprefix(below): content for name, content in files.items()}


def _git(folder: Path, *words: str) -> bytes | None:
    """Return git's output; None if it fails. Raises ``Invalid`` if there is no git."""
    try:
        done = subprocess.run(
            ("git", "-C", str(folder), *words), capture_output=True, timeout=GIT_SECONDS, check=False
        )
    except FileNotFoundError:
        raise Invalid("git is not installed; give the manifests before the change with --base DIR") from None
    return None if done.returncode else done.stdout


def _union(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all objects of both, in their later form: machines and cables that come or go are emulated too."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in (*before, *after)}
    return [each for (kind, _), each in found.items() if kind in ("Node", "Fabric", "Model")]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end a rehearsal in order, as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
