"""The manifests that a command is given with `-f`. Needs no controller and no repository."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from reconciler.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])
Found = TypeVar("Found", bound=Sequence[Any])


def files_option(required: bool) -> Callable[[F], F]:
    """Add `-f`, passed as ``paths``, and `-R`."""

    files = click.option(
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
    return lambda command: files(recursive(command))


def read_given(paths: tuple[str, ...]) -> dict[str, bytes]:
    """Return the contents of files and folders, by their names as typed. Raises ``InvalidManifests`` for unreadable ones."""
    from reconciler.source.files import read_paths

    return read_paths(paths, lambda: sys.stdin.buffer.read())


def load_paths(paths: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the manifests of files and folders. Raises ``InvalidManifests`` with every mistake."""
    return load_given(read_given(paths), paths)


def load_given(files: Mapping[str, bytes], paths: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the manifests in the result of ``read_given``. Raises ``InvalidManifests``."""
    from reconciler.source.yaml.documents import load

    return some(load(files, part=True), paths)


def some(found: Found, paths: tuple[str, ...]) -> Found:
    """Return ``found``. Raises ``Invalid`` if it is empty."""
    if not found:
        raise Invalid(f"no manifests in {', '.join(paths)}")
    return found
