"""YAML files of the file system, as ``load`` takes them: name to contents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reconciler.errors import Invalid, InvalidManifests, Problem

from .yaml.pieces import DOCUMENTS_MAX, FILE_BYTES_MAX, too_large

STANDARD_INPUT = "<stdin>"


def read_directory(folder: Path, prefix: str = "") -> dict[str, bytes]:
    """Every ``*.yaml`` and ``*.yml`` below ``folder`` by its path within it, sorted; ``prefix`` goes first.

    Hidden files and folders are left out, links to folders are not followed, and links to files only where
    they stay within ``folder``. Raises ``Invalid`` where the folder cannot be read, ``InvalidManifests``
    where files are too large or too many.
    """
    if not folder.is_dir():
        raise Invalid(f"{folder} is not there, or is no folder")
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(_yaml_paths(folder)):
        name = prefix + path.relative_to(folder).as_posix()
        if len(files) >= DOCUMENTS_MAX:
            problems.append(Problem(name, 1, 1, "", f"more than {DOCUMENTS_MAX} files"))
            break
        content = _read(path, name, problems)
        if content is not None:
            files[name] = content
    if problems:
        raise InvalidManifests(tuple(problems))
    return files


def read_paths(paths: Sequence[str], standard_input: Callable[[], bytes]) -> dict[str, bytes]:
    """Files and folders as named on a command line, ``-`` being standard input; names are as typed.

    Raises as ``read_directory`` does, and ``Invalid`` for a path that is not there.
    """
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for typed in paths:
        path = Path(typed)
        if typed.startswith(("http://", "https://")):
            raise Invalid(f"{typed}: manifests are not read from URLs; look at it first: curl -fsSLO {typed}")
        if typed == "-":
            files[STANDARD_INPUT] = standard_input()
        elif path.is_dir():
            files |= read_directory(path, "" if typed == "." else f"{path.as_posix().rstrip('/')}/")
        elif path.is_file():
            content = _read(path, path.as_posix(), problems)
            files |= {path.as_posix(): content} if content is not None else {}
        else:
            raise Invalid(f"{typed} is not there")
    if problems:
        raise InvalidManifests(tuple(problems))
    return files


def _yaml_paths(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            if name.startswith(".") or not name.endswith((".yaml", ".yml")) or not path.is_file():
                continue
            if not path.is_symlink() or path.resolve().is_relative_to(root):
                yield path


def _read(path: Path, name: str, problems: list[Problem]) -> bytes | None:
    """The contents, or None for a file that is gone again or that ``problems`` now names."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > FILE_BYTES_MAX:
                problems.append(too_large(name, size))
                return None
            return file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(Problem(name, 1, 1, "", f"cannot be read: {error.strerror}"))
        return None
