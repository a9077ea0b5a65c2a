"""Reads from a model's files whether it is for embeddings, and how it turns a text into a vector.

Models of sentence-transformers have this in ``modules.json``, with one folder for each module
(sentence_transformers/models/Pooling.py). If a conversion has left it out, only a declaration in the manifest helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.runner.model.files import ModelFiles, invalid_weights, read_json
from reconciler.wire.question import Pool, Pooling

MODULES = "modules.json"
ALONE = "a model for embeddings runs on one node"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLS = {
    "pooling_mode_lasttoken": Pool.LAST,
    "pooling_mode_mean_tokens": Pool.MEAN,
    "pooling_mode_cls_token": Pool.FIRST,
}


def pooling_of(directory: Path, config: Mapping[str, Any], declared: Pooling | None = None) -> Pooling | None:
    """Return how vectors are made; None for a model that generates text. ``config`` is its ``config.json``.

    Raises ``RankEnd(WEIGHTS)`` for a model for embeddings whose vectors mlx-lm would compute wrongly.
    """
    modules = _modules(directory)
    if declared is None and not modules:
        return None
    for kind in modules:
        if kind not in _KNOWN_MODULES:
            raise invalid_weights(
                f"{directory} makes vectors with a module {kind[:60]!r}, which is not known here"
            )
    if _looks_ahead(config):
        raise invalid_weights(
            f"{directory} is an encoder, in which each token sees those after it too: mlx-lm computes it otherwise"
        )
    if declared is not None:
        return declared
    pool = _pool(directory / modules["Pooling"]) if "Pooling" in modules else Pool.MEAN
    return Pooling(pool, normalize="Normalize" in modules)


def end_token(files: ModelFiles, pooling: Pooling) -> int | None:
    """Return the token that a text must end with if the last token's vector is taken, as in Qwen3-Embedding and
    E5-Mistral.

    None for other pools, and in the layout of sentence-transformers, in which the tokenizer alone decides.
    """
    if pooling.pool != Pool.LAST or (files.directory / MODULES).exists():
        return None
    ends = files.config.get("eos_token_id")
    first = ends[0] if isinstance(ends, list) and ends else ends
    return first if isinstance(first, int) else None


def hidden_size(config: Mapping[str, Any]) -> int | None:
    """Return how many numbers a hidden state has; None if ``config.json`` does not say."""
    nested = config.get("text_config")
    size = config.get("hidden_size", nested.get("hidden_size") if isinstance(nested, dict) else None)
    return size if isinstance(size, int) else None


def _modules(directory: Path) -> Mapping[str, str]:
    """Return the folder of each kind of module; empty without ``modules.json``."""
    path = directory / MODULES
    if not path.exists():
        return {}
    listed = read_json(path)
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise invalid_weights(f"{path} is no list of modules")
    return {str(entry.get("type")).rpartition(".")[2]: str(entry.get("path") or "") for entry in listed}


def _pool(folder: Path) -> str:
    config = read_json(folder / "config.json")
    asked = {name for name, on in config.items() if name.startswith("pooling_mode_") and on is True}
    if len(asked) == 1 and asked <= set(_POOLS):
        return _POOLS[asked.pop()]
    named = config.get("pooling_mode")
    pool = {"lasttoken": Pool.LAST}.get(named, named) if isinstance(named, str) else None
    if not asked and pool in Pool.ALL:
        return str(pool)
    raise invalid_weights(
        f"{folder} makes vectors by {', '.join(sorted(asked)) or repr(named)}: known are {', '.join(Pool.ALL)}"
    )


def _looks_ahead(config: Mapping[str, Any]) -> bool:
    """Return whether attention is not causal: Gemma's and Qwen's names for it."""
    nested = config.get("text_config")
    both = (config, nested if isinstance(nested, dict) else {})
    return any(each.get("is_causal") is False or each.get("use_bidirectional_attention") for each in both)
