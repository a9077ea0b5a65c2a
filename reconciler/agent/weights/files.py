"""Facts about a model's files: their contents, and whether the files are complete.

Everything is examined each time, except that contents are parsed again only if the size or time of change of their file
differs.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from reconciler.agent.system.files import read_json
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.guarded_folders import absent_volume, barred
from reconciler.wire.node import ModelReport
from reconciler.wire.shards import INDEX, check_size, layout, parse_index, read_shard
from reconciler.wire.weights import RECORD_BYTES_MAX, RECORD_NAME, Record, is_hub_path, is_shard

CONFIG_BYTES_MAX = 1024 * 1024
INDEX_BYTES_MAX = 64 * 1024 * 1024
_READ_SUFFIXES = (".json", ".safetensors", ".py", ".jinja", ".model", ".txt", ".tiktoken")
"""Suffixes of configurations, weights, code, chat templates and tokenizer vocabularies."""
_CACHED_MAX = 4096


class Weights:
    """Reports on models below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cache: Dict[Path, Tuple[Tuple[int, int], Any]] = {}

    def report(self, path: str) -> ModelReport:
        """Return the state of the model at ``path``: relative to the node's models, absolute, or below ``~``."""
        directory = self._place(path)
        try:
            present = directory.is_dir()
        except (OSError, ValueError) as error:  # a folder without permission, or an impossible name
            return ModelReport(
                path, str(directory), present=False, problem=_words(error), barred=barred(error)
            )
        if not present:
            volume = absent_volume(directory)
            problem = "{} is not mounted".format(volume) if volume else ""
            return ModelReport(path, str(directory), present=False, problem=problem, absent_volume=volume)
        config: Mapping[str, Any] = {}
        size, note = 0, ""
        verified = refused = False
        lacking: Tuple[str, ...] = ()
        try:
            if is_hub_path(path):
                lacking = self._outlined(directory)
                verified = True
            config = self._cached(directory / "config.json", _config)
            size, note = self._layout(directory)
            problem = ""
        except (OSError, ValueError) as error:
            problem, refused = _words(error), barred(error)
        return ModelReport(
            path,
            str(directory),
            True,
            size,
            config,
            problem,
            verified=verified,
            lacking=lacking,
            note=note,
            barred=refused,
        )

    def _place(self, path: str) -> Path:
        try:
            return self._directory / Path(path).expanduser()
        except RuntimeError:  # ``~name`` without such a user: then it is a name like any other
            return self._directory / path

    def _layout(self, directory: Path) -> Tuple[int, str]:
        """Return the bytes of all weight files, and a note about them, for people. Raises ``ValueError`` or ``OSError``."""
        index = self._cached(directory / INDEX, _index) if (directory / INDEX).exists() else (None, "")
        paths = sorted(path for path in directory.iterdir() if is_shard(path.name))
        shards = {path.name: self._cached(path, read_shard) for path in paths}
        for path in paths:
            check_size(path, shards[path.name])
        found = layout({name: shard.tensors for name, shard in shards.items()}, *index)
        return sum(path.stat().st_size for path in paths), found.note

    def _outlined(self, directory: Path) -> Tuple[str, ...]:
        """Return the files of fetched weights that are present as outlines only. Raises ``ValueError`` if any file has
        changed since it was verified."""
        try:
            return self._read_outlines(directory)
        except ValueError:  # a file came meanwhile: its record comes first, then the file
            return self._read_outlines(directory)

    def _read_outlines(self, directory: Path) -> Tuple[str, ...]:
        record: Record = self._cached(directory / RECORD_NAME, _record)
        found = []
        for wanted in record.files:
            status = (directory / wanted.name).stat()
            known = (wanted.name, status.st_size, status.st_mtime_ns)
            if record.outlined(*known):
                found.append(wanted.name)
            elif not record.holds(*known):
                raise ValueError("{} has changed since it was verified".format(wanted.name))
        return tuple(sorted(found))

    def _cached(self, path: Path, read: Callable[[Path], Any]) -> Any:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its writer
            raise ValueError("{} is not a file".format(path.name))
        mark = (status.st_mtime_ns, status.st_size)
        known = self._cache.get(path)
        if known is not None and known[0] == mark:
            return known[1]
        if len(self._cache) >= _CACHED_MAX:
            self._cache.clear()
        value = read(path)
        self._cache[path] = (mark, value)
        return value


def mark(directory: Path) -> str:
    """Return a mark that changes with every file that a runtime may read, by names, sizes and times. Raises
    ``OSError``.

    Other files, such as a download's own records or a training log, may change at any time.
    """
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if path.suffix not in _READ_SUFFIXES or path.name.startswith("."):
            continue
        try:
            status = path.stat()
        except OSError:  # a broken link, or gone by now
            continue
        digest.update("{!r}\0{}\0{}\0".format(path.name, status.st_size, status.st_mtime_ns).encode())
    return digest.hexdigest()


def _words(error: Exception) -> str:
    """Return the fault of a folder, for people."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    name = Path(os.fsdecode(error.filename)).name
    if isinstance(error, FileNotFoundError):
        return "{} is missing".format(name)
    return "{} cannot be read: {}".format(name, error.strerror)


def _config(path: Path) -> Mapping[str, Any]:
    return _object(path, CONFIG_BYTES_MAX)


def _record(path: Path) -> Record:
    try:
        return from_wire(Record, _object(path, RECORD_BYTES_MAX))
    except WireError as error:
        raise ValueError("{}: {}".format(path.name, error)) from None


def _index(path: Path) -> Tuple[Optional[Mapping[str, str]], str]:
    """Return an index, or why it cannot be read: ranks do without it."""
    try:
        return parse_index(_object(path, INDEX_BYTES_MAX)), ""
    except ValueError as error:
        return None, str(error)


def _object(path: Path, bytes_max: int) -> Mapping[str, Any]:
    try:
        value = read_json(path, bytes_max)
    except ValueError as error:
        raise ValueError("{}: {}".format(path.name, error)) from None
    if not isinstance(value, dict):
        raise ValueError("{}: expected a JSON object".format(path.name))
    return value
