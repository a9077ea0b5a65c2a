"""Weights of models for embeddings, which may lack what mlx-lm expects of a model that generates.

Those that sentence-transformers wrote have the names of the inner model (``layers.0…`` for ``model.layers.0…``), and no head:
so does Qwen3-Embedding (QwenLM/Qwen3-Embedding, issue 1). Written against mlx-lm 0.32.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from mlx_lm import utils

from reconciler.runner.model.loading import instead

INNER, HEAD = "model.", "lm_head."


def classes(config: dict[str, Any]) -> tuple[Any, Any]:
    """Return what mlx-lm builds a model of, so that it takes such weights."""
    model_class, arguments = utils._get_classes(config)

    def sanitize(self: Any, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        named = _named(weights)
        cleaned: Mapping[str, Any] = (
            model_class.sanitize(self, named) if hasattr(model_class, "sanitize") else named
        )
        if not any(name.startswith(HEAD) for name in cleaned):
            self.pop(HEAD.rstrip("."), None)  # vectors are made without it
        return cleaned

    return type(model_class.__name__, (model_class,), {"sanitize": sanitize}), arguments


def _named(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return weights with the names that mlx-lm's models have."""
    if any(name.startswith(INNER) for name in weights):
        return dict(weights)
    return {name if name.startswith(HEAD) else INNER + name: weight for name, weight in weights.items()}


@contextmanager
def expected() -> Iterator[None]:
    """Have mlx-lm load such weights for a while."""
    with instead(load_model=partial(utils.load_model, get_model_classes=classes)):
        yield
