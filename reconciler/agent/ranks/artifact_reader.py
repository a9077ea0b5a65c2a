"""Lists and reads the artifacts in a working directory, as the user to whom it belongs.

A module without others of the product: the agent sends its source to a Python that the job's user may run, with one
request, and reads one line of JSON. The program of the job may still run, and change everything meanwhile: each folder and
file is opened in the one before it, without following links, and is looked at once it is open.
"""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import json
import os
import stat
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

ENTRIES_MAX = 1_000_000
DEPTH_MAX = 64
PROBLEMS_MAX = 20
OWN_FOLDERS = (".tmp", ".reconciler")
"""Folders that the launcher has made: temporary files, and what variables name."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a path, or a folder above it, matches a pattern. ``*`` and ``?`` do not stand for ``/``."""
    words = path.split("/")
    if words[0] in OWN_FOLDERS:
        return False
    for pattern in patterns:
        wanted = pattern.split("/")
        if len(words) >= len(wanted) and all(map(_fits, words, wanted)):
            return True
    return False


def leads_to(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a folder may have files that match."""
    words = path.split("/")
    return any(all(map(_fits, words, pattern.split("/"))) for pattern in patterns)


def _fits(name: str, wanted: str) -> bool:
    return fnmatch.fnmatchcase(name, wanted.replace("[", "[[]"))  # a bracket stands for itself


class Listing:
    """The artifacts below a folder."""

    def __init__(self, patterns: Sequence[str], files_max: int) -> None:
        self._patterns = patterns
        self._max = files_max
        self._entries = 0
        self.files: List[Tuple[str, int, float]] = []
        self.problems: List[str] = []

    def walk(self, folder: int, above: str = "", depth: int = 0) -> bool:
        """List what is below an open folder, which is closed. Return False if there is too much."""
        try:
            for name in sorted(os.listdir(folder)):
                path = above + name
                self._entries += 1
                if self._entries > ENTRIES_MAX or len(self.files) >= self._max:
                    self._tell("there are more than {} artifacts or {} files".format(self._max, ENTRIES_MAX))
                    return False
                if not self._visit(folder, name, path, depth):
                    return False
        except OSError as error:
            self._tell("{!r} cannot be read: {}".format(above, error.strerror))
        finally:
            os.close(folder)
        return True

    def _visit(self, folder: int, name: str, path: str, depth: int) -> bool:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return True  # it was removed meanwhile
        wanted = matches(path, self._patterns)
        if stat.S_ISDIR(status.st_mode) and (wanted or leads_to(path, self._patterns)):
            if depth >= DEPTH_MAX:
                self._tell("{!r} has more than {} folders above it".format(path, DEPTH_MAX))
                return True
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError as error:
                self._tell("{!r} cannot be read: {}".format(path, error.strerror))
                return True
            return self.walk(inner, path + "/", depth + 1)
        if not wanted or stat.S_ISDIR(status.st_mode):
            return True
        if not stat.S_ISREG(status.st_mode):
            self._tell("{!r} is not a file".format(path))
        elif not path.isprintable():
            self._tell("{!r} is no name that people can read".format(path))
        else:
            self.files.append((path, status.st_size, status.st_mtime))
        return True

    def _tell(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(ascii(problem)[1:-1] if not problem.isprintable() else problem)


def read(work: str, path: str, offset: int, bytes_max: int) -> Optional[Dict[str, Any]]:
    """Return a piece of a file, and the file's size; None for what is no regular file. Raises ``OSError``."""
    *folders, name = path.split("/")
    if any(word in ("", ".", "..") for word in (*folders, name)) or offset < 0:
        return None
    folder = os.open(work, _FOLDER)
    try:
        for word in folders:
            inner = os.open(word, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        return {"data": base64.b64encode(_piece(file, offset, bytes_max)).decode(), "size": status.st_size}
    finally:
        os.close(file)


def _piece(file: int, offset: int, bytes_max: int) -> bytes:
    return b"".join(_chunks(file, offset, bytes_max))


def _chunks(file: int, offset: int, bytes_max: int) -> Iterator[bytes]:
    while bytes_max > 0:
        chunk = os.pread(file, min(bytes_max, 1 << 20), offset)
        if not chunk:
            return
        yield chunk
        offset, bytes_max = offset + len(chunk), bytes_max - len(chunk)


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin.buffer)
    patterns = request["patterns"]
    answer: Any = None
    if "path" in request:
        with contextlib.suppress(OSError, ValueError):
            if matches(request["path"], patterns) and request["path"].isprintable():
                answer = read(request["work"], request["path"], request["offset"], request["bytes_max"])
    else:
        listing = Listing(patterns, request["files_max"])
        with contextlib.suppress(OSError):
            listing.walk(os.open(request["work"], _FOLDER))
        answer = {"files": sorted(listing.files), "problems": listing.problems}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
