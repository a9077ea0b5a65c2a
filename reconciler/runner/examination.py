"""Finds out how the installed mlx-lm can serve a model, before any rank of it is started.

A standby process answers with one JSON object: ``problem`` if the model cannot be served at all,
``code`` if that would need Python code from its folder, ``tools``, ``reuse``, ``reread``, ``embeds``, ``rope``,
``unsplittable``, ``ranks_tried`` and ``shares`` as in ``wire.node.ModelReport``. No code from the folder is ever run, and no tensor is
read: mlx-lm builds the model lazily, and MLX's own ``shard`` and ``pipeline`` are tried on it with a group that exists
only by its size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlx_lm.utils import load_config, load_model, load_tokenizer

from reconciler.wire.launch import RankEnd

from .embedding.layout import ALONE, pooling_of
from .embedding.weights import classes
from .model.adapter import FOREIGN_ERRORS, Tokenizer
from .model.caches import NAMES, NOT, reusable
from .model.loading import check_batching, first_line, stage, unsplittable
from .model.memory import Size, share
from .model.positions import kinds
from .requests.prompt import tools_problem

SIZES = range(2, 9)
"""Sizes of groups that are tried. In a larger group, not every Mac could be cabled to every other."""
PROBLEM_CHARACTERS_MAX = 160
TRUST = "trust_remote_code"
STRATEGIES = ("tensor", "pipeline")
NOTHING_KEPT = "a model for embeddings keeps nothing of one text for the next"
HEADLESS = "Missing 1 parameters"
"""The beginning of mlx-lm's error for weights that lack nothing but one tensor, as a head."""


def examine(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = {}
    try:
        config = load_config(folder)
        if config.get("model_file") is not None:
            return {"code": f"config.json names its own model_file {str(config['model_file'])[:80]!r}"}
        embeds = pooling_of(folder, config) is not None
        model = _model(folder, embeds)
        check_batching(model, config.get("model_type"))
    except RankEnd as end:
        return {"problem": _shortened(end.sentence)}
    except FOREIGN_ERRORS as error:
        return {"problem": _model_problem(config, error)}
    try:
        wrapped = load_tokenizer(folder, {TRUST: False}, eos_token_ids=config.get("eos_token_id"))
    except FOREIGN_ERRORS as error:
        if TRUST in str(error):
            return {"code": "its tokenizer is Python code of its own"}
        return {"problem": _shortened(f"its tokenizer cannot be loaded: {first_line(error)}")}
    why = dict.fromkeys(STRATEGIES, ALONE) if embeds else unsplittable(model, config, folder)
    whole = share(model)
    reuse, reread = (NOT, NOTHING_KEPT) if embeds else reusable(model, whole.get("cache"))
    shares = {"tensor/1": [whole]}
    for strategy in STRATEGIES:
        for size in SIZES if strategy not in why else ():
            try:
                shares[f"{strategy}/{size}"] = _split(folder, strategy, size)
            except FOREIGN_ERRORS as error:
                why[f"{strategy}/{size}"] = _refusal(error)
    return {
        "tools": _tools_problem(wrapped),
        "reuse": NAMES[reuse],
        "reread": reread,
        "embeds": embeds,
        "rope": kinds(folder, config, model),
        "unsplittable": why,
        "ranks_tried": SIZES[-1],
        "shares": shares,
    }


def _model(folder: Path, embeds: bool) -> Any:
    """Return the model without reading a tensor; also one without a head, of which only a deployment says that it is for
    embeddings."""
    try:
        return load_model(
            folder, lazy=True, strict=True, **({"get_model_classes": classes} if embeds else {})
        )[0]
    except ValueError as error:
        if embeds or not str(error).startswith(HEADLESS):
            raise
        return load_model(folder, lazy=True, strict=True, get_model_classes=classes)[0]


def _tools_problem(wrapped: Any) -> str:
    """Return why ranks refuse requests with tools; empty if they do not."""
    try:
        return _shortened(tools_problem(Tokenizer(wrapped)))
    except FOREIGN_ERRORS as error:
        return _shortened(f"its tokenizer cannot be read: {first_line(error)}")


def _split(folder: Path, strategy: str, ranks: int) -> list[dict[str, Any]]:
    """Return each rank's share of the model; one share if all are equal. Raises MLX's error if it cannot be split."""
    found = []
    for rank in range(ranks):
        if strategy == "tensor":
            model, _ = load_model(folder, lazy=True, strict=True)
            model.shard(Size(ranks, rank))
            found.append(share(model))
        else:
            model, files = stage(folder, Size(ranks, rank))
            found.append({**share(model), "files": files})
    return found[:1] if all(each == found[0] for each in found) else found


def _refusal(error: BaseException) -> str:
    """Return MLX's refusal: expected ones are sentences, unexpected ones are not."""
    text = first_line(error).rstrip(".")
    return _shortened(text if isinstance(error, ValueError) else f"mlx-lm fails to split it: {text}")


def _model_problem(config: dict[str, Any], error: BaseException) -> str:
    kind = config.get("model_type")
    if kind is None and isinstance(error, LookupError):
        return "config.json names no model_type"
    if isinstance(error, ValueError) and "not supported" in str(error):
        return _shortened(f"the installed mlx-lm does not know the architecture {str(kind)[:60]!r}")
    return _shortened(f"mlx-lm cannot build it as {str(kind)[:60]!r}: {first_line(error)}")


def _shortened(text: str) -> str:
    return text if len(text) <= PROBLEM_CHARACTERS_MAX else text[: PROBLEM_CHARACTERS_MAX - 1] + "…"
