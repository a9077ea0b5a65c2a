"""Reads YAML files from the file system, for ``load``: contents by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from reconciler.errors import Invalid, InvalidManifests, Problem
from reconciler.resources.job_files import FILES_BYTES_MAX

from .yaml.beside import linked, missing, wanted
from .yaml.beside import too_large as too_large_beside
from .yaml.objects import of_others
from .yaml.pieces import DOCUMENTS_MAX, ENDINGS, FILE_BYTES_MAX, Absent, Beside, too_large

STANDARD_INPUT = "<stdin>"
NAMES_MAX = 10_000
"""Most names of a folder to look for the one that somebody meant."""


def read_directory(folder: Path, prefix: str = "") -> dict[str, bytes]:
    """Return every ``*.yaml``, ``*.yml`` and ``*.json`` below ``folder``, sorted by ``prefix`` and the path within the folder;
    and the files that Jobs name, each as ``beside.Beside`` by its path within ``folder``.

    Skips hidden files and folders, links to folders, and links to files outside ``folder``. Raises ``Invalid`` if
    the folder cannot be read, ``InvalidManifests`` if files are too large or too many.
    """
    files = _manifests(folder, prefix)
    if paths := wanted(files) - files.keys():
        known = [each.relative_to(folder).as_posix() for each in islice(folder.rglob("*"), NAMES_MAX)]
        files |= {path: _beside(folder, path) or missing(path, known) for path in sorted(paths)}
    return files


def _manifests(folder: Path, prefix: str = "") -> dict[str, bytes]:
    if not folder.is_dir():
        raise Invalid(f"{folder} does not exist or is not a folder")
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(_yaml_paths(folder)):
        name = prefix + path.relative_to(folder).as_posix()
        if len(files) >= DOCUMENTS_MAX:
            problems.append(Problem(name, 1, 1, "", f"more than {DOCUMENTS_MAX} files"))
            break
        if path.suffix == ".json" and path.stat().st_size > FILE_BYTES_MAX:
            continue  # no manifest, but a file of another tool
        content = _read(path, name, problems)
        if content is not None and not of_others(name, content):
            files[name] = content
    if problems:
        raise InvalidManifests(tuple(problems))
    return files


def read_paths(paths: Sequence[str], standard_input: Callable[[], bytes]) -> dict[str, bytes]:
    """Return the files and folders of a command line, by their names as typed; ``-`` is standard input.

    The files that Jobs name are read from these folders, else from the working directory. One that is in neither is left
    out: it may be in the cluster repository. Raises like ``read_directory``, and ``Invalid`` for a missing path.
    """
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for typed in paths:
        path = Path(typed)
        if typed.startswith(("http://", "https://")):
            raise Invalid(
                f"{typed}: manifests are not read from URLs; download it first: curl -fsSLO {typed}"
            )
        if typed == "-":
            files[STANDARD_INPUT] = standard_input()
        elif path.is_dir():
            files |= _manifests(path, "" if typed == "." else f"{path.as_posix().rstrip('/')}/")
        elif path.is_file():
            content = _read(path, path.as_posix(), problems)
            files |= {path.as_posix(): content} if content is not None else {}
        else:
            raise Invalid(f"{typed} does not exist")
    if problems:
        raise InvalidManifests(tuple(problems))
    roots = [*(Path(typed) for typed in paths if Path(typed).is_dir()), Path()]
    for name in sorted(wanted(files) - files.keys()):
        hidden = any(part.startswith(".") for part in name.split("/"))  # nobody expects that these are read
        read = None if hidden else next(filter(None, (_beside(root, name) for root in roots)), None)
        files |= {} if read is None else {name: read}
    return files


def _beside(folder: Path, path: str) -> Beside | None:
    """Return a file that a Job names, or why it cannot be taken; None if there is none."""
    where = folder / path
    try:
        if where.resolve() != folder.resolve() / path:
            return linked(path)
        if not where.is_file():
            return None
        with where.open("rb") as file:
            content = file.read(FILES_BYTES_MAX + 1)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        return Absent(f'"{path}" cannot be read: {error.strerror}')
    return too_large_beside(path, size) if len(content) > FILES_BYTES_MAX else Beside(content)


def _yaml_paths(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            if name.startswith(".") or not name.endswith(ENDINGS) or not path.is_file():
                continue
            if not path.is_symlink() or path.resolve().is_relative_to(root):
                yield path


def _read(path: Path, name: str, problems: list[Problem]) -> bytes | None:
    """Return the contents, or None for a file that is gone or that was added to ``problems``."""
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
