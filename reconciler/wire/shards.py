"""Judges the weight files of a folder by their headers and their index.

mlx-lm reads every ``model*.safetensors`` of a folder, and ignores the index (``mlx_lm.utils.load_model``). If two files have the
same tensor, the file that is read last counts, and the file system decides their order. Only a pipeline chooses its files by
the index (``mlx_lm.utils.sharded_load``).
"""

from __future__ import annotations

import dataclasses
import json
import re
import struct
from pathlib import Path
from typing import AbstractSet, Any, Dict, FrozenSet, Mapping, Optional, Tuple

from .weights import SHARDS, is_shard

INDEX = "model.safetensors.index.json"
HEADER_BYTES_MAX = 100_000_000
"""The bound of the safetensors format itself."""
_NUMBERED = re.compile(r"(.*?)(\d+)-of-(\d+)\.safetensors")


@dataclasses.dataclass(frozen=True)
class Shard:
    """A safetensors file, as its header describes it: 8 bytes, a header of that length in JSON, then the tensors.

    Source: the format's description in the README of huggingface/safetensors.
    """

    bytes: int
    """The size that it should have."""
    tensors: FrozenSet[str]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The weight files of a folder together."""

    indexed: bool
    """True if the index says where each of their tensors is."""
    note: str = ""
    """Why the index is not used, where there is one."""


def header_end(start: bytes) -> int:
    """Return where the header of a file ends, from its first 8 bytes; 0 where there are fewer."""
    return 8 + int(struct.unpack("<Q", start[:8])[0]) if len(start) >= 8 else 0


def described(header: bytes, at: int) -> Shard:
    """Return the file of a header, which ends at byte ``at``. Raises ``ValueError`` if the header describes none."""
    try:
        entries = json.loads(header)
        ends = {
            name: int(entry["data_offsets"][1]) for name, entry in entries.items() if name != "__metadata__"
        }
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        raise ValueError("its header cannot be read") from None
    return Shard(at + max(ends.values(), default=0), frozenset(ends))


def read_shard(path: Path) -> Shard:
    """Read the header of a file. Raises ``OSError``, or ``ValueError`` with the name of the file."""
    with path.open("rb") as stream:
        start = stream.read(8)
        end = header_end(start)
        if not 10 <= end <= HEADER_BYTES_MAX:
            empty = " (it is empty)" if not start else ""
            raise ValueError("{} is not a safetensors file{}".format(path.name, empty))
        header = stream.read(end - 8)
    if len(header) < end - 8:
        return Shard(end, frozenset())
    try:
        return described(header, end)
    except ValueError as error:
        raise ValueError("{} is not a safetensors file: {}".format(path.name, error)) from None


def check_size(path: Path, shard: Shard) -> None:
    """Raise ``ValueError`` where a file is shorter than its header says, and ``OSError`` where there is none."""
    size = path.stat().st_size
    if size < shard.bytes:
        raise ValueError("{} is cut short: {} of {} bytes".format(path.name, size, shard.bytes))


def parse_index(content: Any) -> Dict[str, str]:
    """Return the file of each tensor, from an index. Raises ``ValueError`` if the index lacks them."""
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise ValueError("expected weight_map to name a file for each tensor")
    return files


def layout(
    tensors: Mapping[str, AbstractSet[str]], index: Optional[Mapping[str, str]], why: str = ""
) -> Layout:
    """Judge the weight files of a folder, each with its tensors. ``index`` is None where there is none, or where it cannot be
    read; then ``why`` has the reason.

    Raises ``ValueError`` with the first mistake if files are missing, or if two files have the same tensor.
    """
    named = set((index or {}).values())
    missing = sorted(named - tensors.keys())
    if missing and (not tensors or named & tensors.keys()):
        for name in missing:
            if not is_shard(name) or "/" in name or "\0" in name:
                raise ValueError(
                    "{} names {!r}, expected {} in the same folder".format(INDEX, name[:80], SHARDS)
                )
        raise ValueError("{} is missing".format(missing[0][:80]))
    if not tensors:
        raise ValueError("it has no {} files".format(SHARDS))
    _check_once(tensors)
    if index == {tensor: name for name, found in tensors.items() for tensor in found}:
        return Layout(True)
    _check_numbers(tensors)
    if missing:
        why = "it names other files than these"
    elif index is not None:
        why = "it names other tensors than the files have"
    return Layout(False, "{} is not used: {}".format(INDEX, why) if why else "")


def _check_once(tensors: Mapping[str, AbstractSet[str]]) -> None:
    first: Dict[str, str] = {}
    for name in sorted(tensors):
        for tensor in tensors[name]:
            if first.setdefault(tensor, name) != name:
                text = "{} and {} both have the tensor {}: remove the file that does not belong here"
                raise ValueError(text.format(first[tensor], name, tensor[:80]))


def _check_numbers(tensors: Mapping[str, AbstractSet[str]]) -> None:
    numbered: Dict[Tuple[str, str], set[str]] = {}
    for name in sorted(tensors):
        found = _NUMBERED.fullmatch(name)
        if found is not None:
            numbered.setdefault((found.group(1), found.group(3)), set()).add(found.group(2))
    for (before, count), numbers in sorted(numbered.items()):
        for number in range(1, min(int(count), len(numbers) + 1) + 1):
            text = str(number).zfill(len(count))
            if text not in numbers:
                raise ValueError("{}{}-of-{}.safetensors is missing".format(before, text, count))
