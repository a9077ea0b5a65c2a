"""Parses the output of git. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from reconciler.errors import Invalid
from reconciler.resources.job_files import FILES_BYTES_MAX
from reconciler.resources.registry import RUN
from reconciler.source.yaml.beside import linked, missing, too_large
from reconciler.source.yaml.pieces import Absent, counts
from reconciler.source.yaml.syntax_errors import clip


def _listed(listing: bytes) -> Iterator[tuple[bytes, str, bytes, str]]:
    """Yield mode, object name, size and path of each file, from ``ls-tree -r -z -l``."""
    for entry in filter(None, listing.split(b"\0")):
        description, _, path = entry.partition(b"\t")
        mode, _, sha, size = description.split()
        yield mode, sha.decode(), size, path.decode("utf-8", "surrogateescape")


def yaml_blobs(listing: bytes) -> dict[str, tuple[str, int]]:
    """Return object name and size by path, from ``ls-tree -r -z -l``. Raises ``Invalid`` if an object is missing."""
    blobs = {}
    for mode, sha, size, path in _listed(listing):
        if mode in (b"100644", b"100755") and counts(path):
            if not size.isdigit():
                raise Invalid(f"the contents of {clip(path)} are missing (object {sha})")
            blobs[path] = (sha, int(size))
    return dict(sorted(blobs.items()))


def chosen(listing: bytes, paths: Collection[str]) -> tuple[dict[str, str], dict[str, Absent]]:
    """Return, for some paths, the object names of their files, or why they cannot be taken; from ``ls-tree -r -z -l``."""
    blobs: dict[str, str] = {}
    absent: dict[str, Absent] = {}
    names = []
    for mode, sha, size, path in _listed(listing):
        names.append(path)
        if path not in paths:
            continue
        if mode in LINKS:
            absent[path] = linked(path)
        elif not size.isdigit():
            raise Invalid(f"the contents of {clip(path)} are missing (object {sha})")
        elif int(size) > FILES_BYTES_MAX:
            absent[path] = too_large(path, int(size))
        else:
            blobs[path] = sha
    lost = (path for path in paths if path not in blobs and path not in absent)
    return blobs, {**absent, **{path: missing(path, names) for path in lost}}


def contents_of(output: bytes) -> list[bytes]:
    """Return the contents in the output of ``cat-file --batch``: a line with the size, the bytes, a line break.

    Raises ``Invalid`` if an object is missing.
    """
    contents, at = [], 0
    while at < len(output):
        end_of_line = output.index(b"\n", at)
        words = output[at:end_of_line].split(b" ")
        if not words[-1].isdigit():
            raise Invalid(f"object {words[0].decode()} is {words[-1].decode()}")
        size = int(words[-1])
        contents.append(output[end_of_line + 1 : end_of_line + 1 + size])
        at = end_of_line + 1 + size + 1
    return contents


LINKS = (b"120000", b"160000")
"""Modes of symbolic links and submodules."""
ALLOW_REMOVAL, ALLOW_JOB = "Allow-Removal", "Allow-Job"
"""Trailers of a commit that name an object to remove although it serves, and a job to run."""
LOG_FORMAT = f"%x1e%P%x1f%(trailers:key={ALLOW_REMOVAL},key={ALLOW_JOB},separator=%x1f)"
"""The fields that ``changes_of`` reads of each commit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that a commit adds or changes."""

    path: str
    blob: str
    """The object name of the contents; empty for a submodule, and if the commit removes the file."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a few commits."""

    parents: frozenset[str]
    """All parents of all commits."""
    entries: tuple[Entry, ...]
    words: tuple[str, ...]
    """The values of ``Allow-Removal``, and ``run/NAME`` for those of ``Allow-Job``."""


def changes_of(log: bytes) -> Changes:
    """Return the changes and messages of commits, from ``log --raw -z`` with ``LOG_FORMAT``."""
    parents: set[str] = set()
    entries: list[Entry] = []
    words: list[str] = []
    tokens = iter(log.decode("utf-8", "surrogateescape").split("\0"))
    for token in tokens:
        if token.lstrip("\n").startswith("\x1e"):
            first, *said = token.strip("\n").removeprefix("\x1e").split("\x1f")
            parents.update(first.split())
            words += [word for trailer in said for word in _words(trailer)]
        elif token.lstrip("\n").startswith(":"):
            entries.append(_entry(token.strip(), tokens))
    return Changes(frozenset(parents), tuple(entries), tuple(words))


def _words(trailer: str) -> Iterator[str]:
    """Yield the names of a trailer. None stands for all objects: that is said to a push, and not for ever."""
    key, _, value = trailer.partition(":")
    for word in value.replace(",", " ").split():
        if "*" not in word:
            yield f"{RUN}{word.removeprefix('job/')}" if key.lower() == ALLOW_JOB.lower() else word


def _entry(description: str, tokens: Iterator[str]) -> Entry:
    _, mode, _, blob, _ = description.split(" ")
    kept = blob.strip("0") and mode.encode() not in LINKS
    return Entry(next(tokens), blob if kept else "")


def sizes_in(listing: bytes, more_than: int) -> dict[str, int]:
    """Return the sizes of files that exceed a number of bytes, by path, from ``ls-tree -r -z -l``."""
    sizes = {path: int(size) for _, _, size, path in _listed(listing) if size.isdigit()}
    return {path: size for path, size in sizes.items() if size > more_than}


def links_in(listing: bytes) -> set[str]:
    """Return the paths of symbolic links and submodules, from ``ls-tree -r -z -l``."""
    return {path for mode, _, _, path in _listed(listing) if mode in LINKS}


def hook_words(stderr: str) -> str:
    """Return the output of a remote hook, without git's ``remote: `` before every line."""
    lines = [
        line.removeprefix("remote:").strip(" ") for line in stderr.splitlines() if line.startswith("remote:")
    ]
    return "\n".join(line for line in lines if line) or stderr.strip() or "git push failed"
