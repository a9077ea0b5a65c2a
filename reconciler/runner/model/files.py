"""Checks the files of a model before anything expensive is done with them.

``mlx_lm`` loads shards leniently: a missing tensor stays random there, and a missing file shows up as a
model that talks nonsense. What the files say about themselves is enough to find that out first.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.runner.process.ending import RankEnd
from reconciler.wire.launch import ExitCode

HEADER_BYTES_MAX = 100_000_000
"""The bound of the safetensors format on its header."""


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """A model's directory that holds what its own files say it should."""

    directory: Path
    config: Mapping[str, Any]
    bytes: int
    digest: str
    """Digest of ``config.json`` and the names and sizes of the weight files."""


def inspect(model_path: str) -> ModelFiles:
    """Look at a model's directory. Raises ``RankEnd(WEIGHTS)`` with the first thing that is wrong."""
    directory = Path(model_path)
    if not directory.is_dir():
        raise invalid_weights(f"there is no directory {directory}")
    text = _read(directory / "config.json")
    config = _object(directory / "config.json", text)
    files = sorted(directory.glob("model*.safetensors"))
    if not files:
        raise invalid_weights(f"{directory} has no model*.safetensors")
    _check_index(directory, {file.name for file in files})
    digest = hashlib.sha256(text)
    total = 0
    for file in files:
        size = file.stat().st_size
        _check_length(file, size)
        digest.update(f"\0{file.name}\0{size}".encode())
        total += size
    return ModelFiles(directory, config, total, digest.hexdigest())


def check_division(files: ModelFiles, size: int) -> None:
    """Check that the attention heads divide evenly among the ranks of a tensor-sharded group."""
    nested = files.config.get("text_config")
    config = {**(nested if isinstance(nested, dict) else {}), **files.config}
    for key, what in (
        ("num_attention_heads", "attention heads"),
        ("num_key_value_heads", "key-value heads"),
    ):
        heads = config.get(key)
        if isinstance(heads, int) and heads % size:
            raise invalid_weights(
                f"cannot shard {heads} {what} across {size} ranks: {heads} % {size} is not 0"
            )


def read_json(path: Path) -> Any:
    """Return what a file of the model holds. Raises ``RankEnd(WEIGHTS)`` if it cannot be read."""
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise invalid_weights(f"{path} is not JSON: {error}") from None


def invalid_weights(sentence: str) -> RankEnd:
    """Return the end of a rank whose weights cannot be served."""
    return RankEnd(ExitCode.WEIGHTS, sentence)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise invalid_weights(f"cannot read {path}: {error.strerror}") from None


def _object(path: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid_weights(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise invalid_weights(f"{path} does not hold a JSON object")
    return content


def _check_index(directory: Path, present: set[str]) -> None:
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return
    weight_map = _object(index, _read(index)).get("weight_map", {})
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise invalid_weights(f"{index} has a weight_map that does not name a file for each tensor")
    missing = sorted(set(weight_map.values()) - present)
    if missing:
        raise invalid_weights(
            f"{directory} lacks {len(missing)} of its weight files, the first is {missing[0]}"
        )


def _check_length(file: Path, size: int) -> None:
    """Check a file's length: 8 bytes of header length, a JSON header, and the tensors that it describes."""
    with file.open("rb") as opened:
        start = opened.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else HEADER_BYTES_MAX + 1
        if length > HEADER_BYTES_MAX or length + 8 > size:
            raise invalid_weights(f"{file} is damaged or incomplete: its header is not there")
        header = _object(file, opened.read(length))
    try:
        ends = [int(t["data_offsets"][1]) for name, t in header.items() if name != "__metadata__"]
    except (TypeError, LookupError, ValueError):
        raise invalid_weights(f"{file} is damaged: its header does not say where each tensor is") from None
    expected = 8 + length + max(ends, default=0)
    if size < expected:
        raise invalid_weights(f"{file} is incomplete: it has {size} of {expected} bytes")
