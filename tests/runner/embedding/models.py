"""Tiny models for embeddings: random weights in the layout of sentence-transformers, or without it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.runner.conftest import change_json

TRANSFORMER, POOLING, NORMALIZE = "Transformer", "Pooling", "Normalize"


def lay_out(
    directory: Path,
    pool: str = "lasttoken",
    modules: Sequence[str] = (TRANSFORMER, POOLING, NORMALIZE),
    **config: Any,
) -> Path:
    """Add to a model what sentence-transformers says of it; ``config`` changes its ``config.json``."""
    paths = ["" if name == TRANSFORMER else f"{at}_{name}" for at, name in enumerate(modules)]
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{name}"}
        for at, (name, path) in enumerate(zip(modules, paths, strict=True))
    ]
    (directory / "modules.json").write_text(json.dumps(listed))
    for name, path in zip(modules, paths, strict=True):
        if name == POOLING:
            (directory / path).mkdir()
            modes = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
            asked = {f"pooling_mode_{mode}": mode == pool for mode in modes}
            written = {"word_embedding_dimension": 32, **asked, "include_prompt": True}
            (directory / path / "config.json").write_text(json.dumps(written))
    change_json(directory / "config.json", **config)
    return directory
