"""Checks the files of a model before anything expensive is done with them.

``mlx_lm`` loads shards leniently: a missing tensor stays random there, and a missing file shows up as a
model that talks nonsense. The files' own indexes and headers show both before loading.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.sampling import SamplingDefaults
from reconciler.wire.shards import INDEX, Layout, check_size, layout, parse_index, read_shard
from reconciler.wire.weights import SHARDS

SAMPLING = "generation_config.json"
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "temperature": lambda value: 0 <= value <= 2,
    "top_p": lambda value: 0 <= value <= 1,
    "top_k": lambda value: isinstance(value, int) and -1 <= value < 2**63,
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 0.01 <= value <= 100,
}
"""Valid values, as in a request. A ``top_k`` of -1 is off, as 0 is."""

log = logging.getLogger("reconciler.runner")


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
    path = directory / "config.json"
    text = _read(path)
    config = _parsed(path, text)
    if not isinstance(config, dict):
        raise invalid_weights(f"{path} does not hold a JSON object")
    read_layout(directory)
    files = sorted(directory.glob(SHARDS))
    digest = hashlib.sha256(text)
    total = 0
    for file in files:
        size = file.stat().st_size
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
    return _parsed(path, _read(path))


def _parsed(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
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


def read_layout(directory: Path) -> Layout:
    """Judge the weight files of a directory. Raises ``RankEnd(WEIGHTS)`` with the first thing that is wrong."""
    paths = sorted(directory.glob(SHARDS))
    try:
        shards = {path.name: read_shard(path) for path in paths}
        for path in paths:
            check_size(path, shards[path.name])
        index, why = _index(directory / INDEX)
        return layout({name: shard.tensors for name, shard in shards.items()}, index, why)
    except OSError as error:
        raise invalid_weights(f"cannot read {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise invalid_weights(f"{directory}: {error}") from None


def _index(path: Path) -> tuple[Mapping[str, str] | None, str]:
    """Return an index, None where there is none; or why it cannot be read: ranks do without it."""
    try:
        return parse_index(json.loads(path.read_bytes())), ""
    except FileNotFoundError:
        return None, ""
    except (ValueError, RecursionError) as error:
        return None, str(error)


def read_sampling(directory: Path) -> SamplingDefaults:
    """Return a model's own defaults, as ``transformers`` and vLLM read them. An invalid value is left out, and named in the
    log."""
    try:
        content = json.loads((directory / SAMPLING).read_bytes())
    except FileNotFoundError:
        return SamplingDefaults()
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s cannot be read, so the model has no defaults of its own: %s", SAMPLING, error)
        return SamplingDefaults()
    defaults, odd = sampling_of(content if isinstance(content, dict) else {})
    for name in odd:
        log.warning("%s: %s is %.80r, which is left out", SAMPLING, name, content[name])
    return defaults


def sampling_of(content: Mapping[str, Any]) -> tuple[SamplingDefaults, tuple[str, ...]]:
    """Return the defaults in a file's content, and the names of invalid values."""
    given = {name: content[name] for name in _FIELDS if content.get(name) is not None}
    odd = tuple(name for name, value in given.items() if not (_is_number(value) and _FIELDS[name](value)))
    known = {name: value for name, value in given.items() if name not in odd}
    if "top_k" in known:
        known["top_k"] = max(0, known["top_k"])
    return SamplingDefaults(**known), odd


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
