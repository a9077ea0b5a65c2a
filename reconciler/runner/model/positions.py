"""Scaling of rotary positions beyond what a model was trained on, as ``mlx_lm.models.rope_utils`` does it.

Written against mlx-lm 0.32.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import load_model

from reconciler.wire.launch import RopeKind, RopeScaling

from .adapter import FOREIGN_ERRORS

NESTED = "text_config"
PROBE_FACTOR, PROBE_LENGTH = 3.0, 4096
"""No model has this factor, so that a model that uses it differs from itself."""


def scaled(config: Mapping[str, Any], scaling: RopeScaling) -> dict[str, Any]:
    """Return what of a model's ``config.json`` to replace: ``model_config`` of ``mlx_lm.utils.load_model``.

    Other fields of the scaling that the config has stay, such as the ``mscale`` of DeepSeek's or the ``rope_theta`` that
    newer configs have there.
    """
    nested = config.get(NESTED)
    text = nested if isinstance(nested, Mapping) else config
    change = {
        "type": scaling.kind,  # some architectures read this name, others the next one
        "rope_type": scaling.kind,
        "factor": float(scaling.factor),
        "original_max_position_embeddings": scaling.original,
    }
    names = [name for name in ("rope_parameters", "rope_scaling") if text.get(name)] or ["rope_scaling"]
    changed = {name: {**(text.get(name) or {}), **change} for name in names}
    return {NESTED: {**nested, **changed}} if isinstance(nested, Mapping) else changed


def kinds(folder: Path, config: Mapping[str, Any], model: Any) -> list[str]:
    """Return the kinds of scaling that change the positions of ``model``, built from ``folder`` without reading its
    tensors."""
    usual = list(_positions(model))
    found = []
    for kind in RopeKind.ALL if usual else ():
        with suppress(*FOREIGN_ERRORS):
            change = scaled(config, RopeScaling(kind, PROBE_FACTOR, PROBE_LENGTH))
            other, _ = load_model(folder, lazy=True, strict=True, model_config=change)
            if list(_positions(other)) != usual:
                found.append(kind)
    return found


def _positions(model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the type and the values of each module that turns vectors by their positions."""
    for _, module in model.named_modules():
        name = type(module).__name__
        if "rope" in name.lower() or "rotary" in name.lower():
            values = {**module, **vars(module)}
            yield name, {key: _plain(value) for key, value in values.items() if not key.startswith("__")}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, mx.array) else repr(value)
