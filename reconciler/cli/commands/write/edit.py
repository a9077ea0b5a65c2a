"""`edit`: change an object's own text in an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    present,
    refuse_watched_folder,
    write_options,
)
from reconciler.cli.core.targets import Key, document_of, labels_of, one_object
from reconciler.cli.core.waiting import finish
from reconciler.errors import Conflict, Invalid, InvalidManifests

EDITORS = ("KUBE_EDITOR", "VISUAL", "EDITOR")
MARK = "#|"
"""Prefix of the lines that are instructions and not part of the object."""


@click.command(cls=WritingCommand)
@click.argument("words", nargs=-1, metavar="NAME | KIND/NAME", shell_complete=complete.objects)
@write_options
@click.pass_obj
def edit(settings: Settings, words: tuple[str, ...], how: How) -> None:
    """Change an object in an editor.

    The editor shows the object's text in the repository, with its comments. The editor is $KUBE_EDITOR,
    $VISUAL, $EDITOR or vi. Text with mistakes is opened again, with the mistakes listed at its top. Changes
    that could not be committed stay in a file whose name is printed.

    \b
    Examples:
      reconciler edit deployment/tiny
      KUBE_EDITOR="code --wait" reconciler edit node node-a
    """
    refuse_watched_folder(settings)
    _, files = present(settings)
    key = one_object(words, there=labels_of(files))
    opened = document_of(files, key).text
    with _draft(key, opened) as draft:
        if not _edited(draft, key, opened, lambda text: _checked(files, key, text)):
            return

        def decide(now: Files) -> Any:
            if key not in labels_of(now) or document_of(now, key).text != opened:
                raise Conflict(
                    f"somebody else has changed {key[0].lower()}/{key[1]} meanwhile; nothing was changed"
                )
            return _checked(now, key, _content(draft))

        landed = carry_out(settings, how, decide, "Edit")
    finish(settings, how, landed, {"configured": "edited"})


@contextmanager
def _draft(key: Key, opened: str) -> Iterator[Path]:
    """Make a file for the editor. It is removed at the end, unless it has changes and an error or Ctrl-C has kept them from
    being committed: then it stays, without the instructions, and its place is printed."""
    descriptor, path = tempfile.mkstemp(prefix=f"reconciler-edit-{key[1]}-", suffix=".yaml")
    os.close(descriptor)
    draft = Path(path)
    try:
        yield draft
    except BaseException:
        text = _content(draft)
        if text.strip() and text != opened:
            draft.write_bytes(text.encode("utf-8", "surrogateescape"))
            click.echo(f"A copy of your changes has been stored to {draft}", err=True)
        else:
            draft.unlink()
        raise
    draft.unlink()


def _edited(draft: Path, key: Key, opened: str, check: Callable[[str], Any]) -> bool:
    """Open the editor until the draft is valid; return False if there is nothing to change."""
    text, refused = opened, ""
    problems: tuple[str, ...] = ()
    while True:
        draft.write_bytes((_header(key, problems) + text).encode("utf-8", "surrogateescape"))
        _open(draft)
        text = _content(draft)
        if not text.strip() or text == opened:
            why = "no changes made" if text.strip() else "saved file was empty"
            click.echo(f"Edit cancelled, {why}.", err=True)
            return False
        if text == refused:
            raise Invalid(
                "Edit cancelled, no valid changes were saved; correct the copy, then: "
                f"reconciler apply -f {shlex.quote(str(draft))}"
            )
        try:
            check(text)
        except Invalid as error:
            found = error.problems if isinstance(error, InvalidManifests) else (error,)
            problems, refused = tuple(str(each).removeprefix(":") for each in found), text
        else:
            return True


def _checked(files: Files, key: Key, text: str) -> Any:
    """Return the edit that gives the object this text. Raises ``Invalid`` with the mistakes."""
    from reconciler.source.editing import put_text
    from reconciler.source.yaml.documents import load

    documents = load({"": text.encode("utf-8", "surrogateescape")}, part=True)
    if [document.key for document in documents] != [key]:
        raise Invalid(f'expected one document, the {key[0]} "{key[1]}"; kind and name cannot change')
    return put_text(files, documents[0])


def _header(key: Key, problems: tuple[str, ...]) -> str:
    """Return the lines above the text; line numbers in ``problems`` are moved by their number."""
    lines = [
        f"{MARK} {key[0].lower()}/{key[1]}. Lines that begin with {MARK} are removed; other comments stay.",
        f"{MARK} To cancel, save an empty file, or save without changes.",
    ]
    if problems:
        lines.append(f"{MARK} It was not saved:")
        total = len(lines) + len(problems)
        lines += [f"{MARK}   {_moved(problem, total)}" for problem in problems]
    return "\n".join(lines) + "\n"


def _moved(problem: str, by: int) -> str:
    line, colon, rest = problem.partition(":")
    return f"line {int(line) + by}:{rest}" if colon and line.isdigit() else problem


def _content(draft: Path) -> str:
    text = draft.read_bytes().decode("utf-8", "surrogateescape")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(MARK))


def _open(draft: Path) -> None:
    """Run the editor. Raises ``Invalid`` if it fails."""
    words = next((os.environ[name] for name in EDITORS if os.environ.get(name, "").strip()), "vi")
    try:
        status = subprocess.run([*shlex.split(words), str(draft)], check=False).returncode
        problem = f"exited with {status}" if status else ""
    except (OSError, ValueError) as error:
        problem = f"cannot be started: {error}"
    if problem:
        raise Invalid(f"the editor {words!r} {problem}")
