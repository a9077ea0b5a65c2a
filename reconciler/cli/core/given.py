"""The manifests that a command is given with `-f`. Needs no controller and no repository."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from reconciler.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])


def files_option(required: bool) -> Callable[[F], F]:
    """Add `-f`, passed as ``paths``, and `-R`."""

    def decorate(command: F) -> F:
        option = click.option(
            "-f",
            "--filename",
            "paths",
            multiple=True,
            required=required,
            help="A file, a folder with YAML files, or - for standard input; may be repeated.",
        )
        recursive = click.option(
            "-R",
            "--recursive",
            is_flag=True,
            expose_value=False,
            help="Accepted for kubectl's sake: folders are always read recursively.",
        )
        return option(recursive(command))

    return decorate


def load_paths(paths: tuple[str, ...], complete: bool = False) -> tuple[Any, ...]:
    """Return the manifests of files and folders. Raises ``InvalidManifests`` with every mistake.

    ``complete``: they may be the complete set, and count as complete if any of them is a Node.
    """
    from reconciler.source.files import read_paths
    from reconciler.source.yaml.documents import load

    files = read_paths(paths, lambda: sys.stdin.buffer.read())
    documents = load(files, part=True)
    if complete and any(document.key[0] == "Node" for document in documents):
        documents = load(files)
    if not documents:
        raise Invalid(f"no manifests in {', '.join(paths)}")
    return documents
