"""Reads and writes backups: one file with a list of contents and digests, then the contents.

A backup is not trusted: it may be truncated, newer, or made by somebody else. Nothing in it decides where
files are written.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click

from reconciler import __version__
from reconciler.cli.output.parsed import PATH
from reconciler.errors import Conflict, Invalid

VERSION = 1
CONTENTS = "contents.json"
CONTENTS_BYTES_MAX = 64 * 1024
STORE, BUNDLE, SOURCE = "store.db", "cluster.bundle", "source.yaml"
NAMES = (STORE, BUNDLE, SOURCE)
"""Files that may be in a backup; the store always is."""
target_option = click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path(),
    help="File to write, or a folder for one with a name of its own.  [default: this folder]",
)
_KIND = "reconciler backup"
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Contents:
    """The list of contents of a backup. ``files`` are sizes in bytes and SHA-256 by name."""

    at: str
    """UTC, RFC 3339."""
    revision: str | None
    """The head of ``main``; None without a cluster repository."""
    files: dict[str, tuple[int, str]]

    def body(self) -> dict[str, Any]:
        files = {name: {"bytes": size, "sha256": digest} for name, (size, digest) in self.files.items()}
        return {
            "kind": _KIND,
            "version": VERSION,
            "madeBy": __version__,
            "at": self.at,
            "revision": self.revision,
            "files": files,
        }


def new_target(output: Path, name: str, now: datetime) -> Path:
    """Return the file to write: ``output``, or in a folder one with ``name`` and the time. Raises ``Conflict`` if it exists."""
    target = output / f"{name}-{now:%Y%m%dT%H%M%SZ}.tar.gz" if output.is_dir() else output
    if target.exists():
        raise Conflict(f"{target} exists; choose another name")
    return target


def write(target: Path, folder: Path, at: str, revision: str | None) -> Contents:
    """Write the files of ``folder`` into ``target`` (mode 0600), completely or not at all. Raises ``OSError``."""
    paths = [folder / name for name in NAMES if (folder / name).exists()]
    contents = Contents(at, revision, {path.name: (path.stat().st_size, _digest(path)) for path in paths})
    text = json.dumps(contents.body(), indent=1).encode()
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            entry = tarfile.TarInfo(CONTENTS)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
            for path in paths:
                archive.add(path, path.name, filter=_anonymous)
        with Path(draft).open("rb") as written:
            os.fsync(written.fileno())
        Path(draft).replace(target)
    finally:
        Path(draft).unlink(missing_ok=True)
    return contents


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o600
    return entry


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read(source: Path, folder: Path) -> Contents:
    """Extract the files of a backup into ``folder``. Raises ``Invalid``, or ``OSError`` for the disk."""
    with source.open("rb") as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:gz") as archive:
                return _read(source, archive, folder)
        except (tarfile.TarError, EOFError, zlib.error, UnicodeError) as error:
            raise _unusable(source, f"it is damaged or truncated ({error})") from error
        except OSError as error:
            if error.errno is not None:  # an error without a number comes from gzip
                raise
            raise _unusable(source, f"it is damaged or truncated ({error})") from error


def _read(source: Path, archive: tarfile.TarFile, folder: Path) -> Contents:
    first = archive.next()
    if first is None or first.name != CONTENTS or not first.isreg() or first.size > CONTENTS_BYTES_MAX:
        raise _unusable(source, f"it does not begin with {CONTENTS}")
    contents = _contents(source, _opened(archive, first).read())
    needed, free = sum(size for size, _ in contents.files.values()), shutil.disk_usage(folder).free
    if needed > free:
        raise Invalid(
            f"{source} needs {needed} bytes in {folder.parent}, but {free} are free; nothing was changed"
        )
    missing = dict(contents.files)
    for entry in archive:
        if entry is first:
            continue
        size, digest = missing.pop(entry.name, (-1, ""))
        if not entry.isreg() or entry.size != size:
            raise _unusable(source, f"it contains {entry.name!r}, which does not match {CONTENTS}")
        if _copied(_opened(archive, entry), folder / entry.name) != digest:
            raise _unusable(source, f"{entry.name} in it has changed since the backup was made")
    if missing:
        raise _unusable(source, f"{', '.join(missing)} is missing from it")
    return contents


def _opened(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(entry)
    assert stream is not None
    return stream


def _copied(stream: IO[bytes], target: Path) -> str:
    digest = hashlib.sha256()
    with target.open("xb") as file:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _contents(source: Path, text: bytes) -> Contents:
    try:
        body = json.loads(text)
        kind, version = body["kind"], body["version"]
        if kind != _KIND or not isinstance(version, int):
            raise _unusable(source, f"its {CONTENTS} is not that of a backup")
        if version > VERSION:
            raise Invalid(
                f"{source}: written by a newer reconciler ({body.get('madeBy')}, backup version {version}; this one"
                f" reads {VERSION}); restore it with that version; nothing was changed"
            )
        files = {name: (int(of["bytes"]), str(of["sha256"])) for name, of in body["files"].items()}
        if STORE not in files or not files.keys() <= set(NAMES):
            raise _unusable(source, f"it lists {', '.join(map(repr, files))}, expected {', '.join(NAMES)}")
        return Contents(str(body["at"]), body["revision"], files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unusable(source, f"its {CONTENTS} cannot be read ({error!r})") from error


def _unusable(source: Path, why: str) -> Invalid:
    return Invalid(f"{source} is not a usable backup: {why}; nothing was changed")
