"""Facts of a model's files: what they say about themselves, and whether they are all there.

Everything is examined each time except the contents of files, which are parsed again only if
their size or time of change differs.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Tuple

from reconciler.agent.system.files import read_json
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import RECORD_BYTES_MAX, RECORD_NAME, SHARDS, Record, is_hub_path, is_shard

CONFIG_BYTES_MAX = 1024 * 1024
INDEX_BYTES_MAX = 64 * 1024 * 1024
HEADER_BYTES_MAX = 100 * 1024 * 1024
"""The bound of the safetensors format itself."""
_READ_SUFFIXES = (".json", ".safetensors", ".py", ".jinja", ".model", ".txt", ".tiktoken")
"""Suffixes of configurations, weights, code, chat templates and tokenizer vocabularies."""
_CACHED_MAX = 4096
_INDEX = "model.safetensors.index.json"


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
        except (OSError, ValueError) as error:  # a folder that may not be looked into, a name that cannot be
            return ModelReport(path, str(directory), present=False, problem=_words(error))
        if not present:
            return ModelReport(path, str(directory), present=False)
        config: Mapping[str, Any] = {}
        size = 0
        verified = False
        lacking: Tuple[str, ...] = ()
        try:
            if is_hub_path(path):
                lacking = self._outlined(directory)
                verified = True
            config = self._cached(directory / "config.json", _config)
            names = self._names(directory)
            size = sum((directory / name).stat().st_size for name in names)
            for name in names:
                self._check_complete(directory / name)
            problem = ""
        except (OSError, ValueError) as error:
            problem = _words(error)
        return ModelReport(
            path, str(directory), True, size, config, problem, verified=verified, lacking=lacking
        )

    def _place(self, path: str) -> Path:
        try:
            return self._directory / Path(path).expanduser()
        except RuntimeError:  # ``~name`` where there is no such user: then it is a name like any other
            return self._directory / path

    def _names(self, directory: Path) -> List[str]:
        index = directory / _INDEX
        if index.exists():
            return self._cached(index, _shards)  # type: ignore[no-any-return]
        names = sorted(path.name for path in directory.iterdir() if is_shard(path.name))
        if not names:
            raise ValueError("it has no {} files".format(SHARDS))
        return names

    def _check_complete(self, path: Path) -> None:
        expected = self._cached(path, _expected_size)
        size = path.stat().st_size
        if size < expected:
            raise ValueError("{} is cut short: {} of {} bytes".format(path.name, size, expected))

    def _outlined(self, directory: Path) -> Tuple[str, ...]:
        """Return the files of fetched weights that are present as outlines only. Raises ``ValueError`` if any file has
        changed since it was verified."""
        try:
            return self._read_outlines(directory)
        except ValueError:  # a file came while this looked: it is recorded first, and then there
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
        except OSError:  # a link to nothing, or gone by now
            continue
        digest.update("{!r}\0{}\0{}\0".format(path.name, status.st_size, status.st_mtime_ns).encode())
    return digest.hexdigest()


def _words(error: Exception) -> str:
    """Return what is wrong with a folder, for people."""
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


def _shards(path: Path) -> List[str]:
    files = _object(path, INDEX_BYTES_MAX).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise ValueError("{}: expected weight_map to name a file for each tensor".format(_INDEX))
    names = sorted(set(files.values()))
    for name in names:
        if not is_shard(name) or "/" in name or "\0" in name:
            text = "{} names {!r}, expected {} in the same folder"
            raise ValueError(text.format(_INDEX, name[:80], SHARDS))
    return names


def _object(path: Path, bytes_max: int) -> Mapping[str, Any]:
    try:
        value = read_json(path, bytes_max)
    except ValueError as error:
        raise ValueError("{}: {}".format(path.name, error)) from None
    if not isinstance(value, dict):
        raise ValueError("{}: expected a JSON object".format(path.name))
    return value


def _expected_size(path: Path) -> int:
    """Return the size that a safetensors file should have: 8 bytes, a header of that length, then the tensors.

    Source: the format's description in the README of huggingface/safetensors.
    """
    name = path.name
    with path.open("rb") as stream:
        start = stream.read(8)
        length = int(struct.unpack("<Q", start)[0]) if len(start) == 8 else 0
        if not 2 <= length <= HEADER_BYTES_MAX:
            empty = " (it is empty)" if not start else ""
            raise ValueError("{} is not a safetensors file{}".format(name, empty))
        header = stream.read(length)
    if len(header) < length:
        return 8 + length
    try:
        tensors = json.loads(header)
        ends = [int(entry["data_offsets"][1]) for key, entry in tensors.items() if key != "__metadata__"]
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        raise ValueError("{} is not a safetensors file: its header cannot be read".format(name)) from None
    return 8 + length + max(ends, default=0)
