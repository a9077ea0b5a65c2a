"""Lists the ways to split a model over ranks, by the report of the nodes' runtime and by the model's shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reconciler.wire.node import ModelReport

Strategy = Literal["tensor", "pipeline"]
STRATEGIES: tuple[Strategy, ...] = ("tensor", "pipeline")
"""In the order in which ``auto`` prefers them."""


@dataclass(frozen=True, slots=True)
class Split:
    """A strategy that works, and why it was chosen."""

    strategy: Strategy
    why: str


@dataclass(frozen=True, slots=True)
class Unsplit:
    """The reason why a model cannot be split as the manifest asks."""

    text: str
    lasting: bool
    """True if no number of ranks helps."""


def split(wanted: str, weights: ModelReport, ranks: int) -> Split | Unsplit:
    """Choose how a group of ``ranks`` ranks is split. ``auto`` prefers tensor, then pipeline."""
    if ranks == 1:
        return Split("tensor", "one rank has all of the model")
    if wanted != "auto":
        (strategy,) = (s for s in STRATEGIES if s == wanted)
        return obstacle(strategy, weights, ranks) or Split(strategy, "spec.parallelism.strategy")
    by_tensor = obstacle("tensor", weights, ranks)
    if by_tensor is None:
        return Split("tensor", "auto: the model can be split by tensor")
    as_pipeline = obstacle("pipeline", weights, ranks)
    if as_pipeline is None:
        return Split("pipeline", f"auto: not by tensor, {by_tensor.text}")
    lasting = by_tensor.lasting and as_pipeline.lasting
    return Unsplit("; ".join(dict.fromkeys((by_tensor.text, as_pipeline.text))), lasting)


def splits(wanted: str, weights: ModelReport, ranks: int) -> tuple[Split, ...] | Unsplit:
    """List every way to split a group of ``ranks`` ranks, the preferred one first. The other may need less memory."""
    first = split(wanted, weights, ranks)
    if isinstance(first, Unsplit) or wanted != "auto" or ranks == 1 or first.strategy == "pipeline":
        return first if isinstance(first, Unsplit) else (first,)
    if obstacle("pipeline", weights, ranks) is not None:
        return (first,)
    return first, Split("pipeline", "auto: split by tensor, its ranks need more memory than there is")


def obstacle(strategy: Strategy, weights: ModelReport, ranks: int) -> Unsplit | None:
    """Say why a model cannot be split by a strategy over ``ranks`` ranks; None if nothing is known against it."""
    never = weights.unsplittable.get(strategy)
    if never:
        return Unsplit(never, lasting=True)
    config = text_config(weights.config)
    tried = weights.unsplittable.get(f"{strategy}/{ranks}", "")
    if strategy == "pipeline":
        text = _too_few_layers(config, ranks)
    else:
        unsure = tried or ranks > weights.ranks_tried  # the shape says it more clearly
        text = _heads(config, ranks) or (_groups(config, ranks) if unsure else "")
    text = text or tried
    return Unsplit(text, lasting=False) if text else None


def alternatives(wanted: str, weights: ModelReport, sizes: Iterable[int]) -> str:
    """Say what would work instead, for people: other numbers of nodes, or another strategy; empty if nothing does."""
    sizes = tuple(sizes)
    found = []
    fitting = [size for size in sizes if isinstance(split(wanted, weights, size), Split)]
    if fitting:
        found.append(f"nodes: {_listed(fitting)}")
    for other in STRATEGIES:
        more = [size for size in sizes if size not in fitting and obstacle(other, weights, size) is None]
        if wanted not in ("auto", other) and more:
            found.append(f"strategy: {other} with {_listed(more)} nodes")
    return " or ".join(found)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the config of the text model, which multimodal models keep one level deeper."""
    nested = config.get("text_config")
    return {**nested, **config} if isinstance(nested, Mapping) else config


def number(config: Mapping[str, Any], field: str, default: int = 0) -> int:
    """Read a whole number from a config, which may hold anything."""
    value = config.get(field)
    return value if type(value) is int and value >= 0 else default


def _heads(config: Mapping[str, Any], ranks: int) -> str:
    """Check that heads and KV heads divide: mlx-lm's ``shard`` does not (models/qwen3.py)."""
    for field, words in (("num_attention_heads", "heads"), ("num_key_value_heads", "KV heads")):
        heads = number(config, field)
        if heads % ranks:
            return f"its {heads} {words} do not divide by {ranks}"
    return ""


def _groups(config: Mapping[str, Any], ranks: int) -> str:
    """Check that no quantization group of a matrix would be split."""
    quantization = config.get("quantization")
    group = number(quantization, "group_size") if isinstance(quantization, Mapping) else 0
    for field in ("intermediate_size", "moe_intermediate_size"):
        width = number(config, field)
        if group and width % (group * ranks):
            return f"its {field} of {width} is no multiple of {ranks} quantization groups of {group}"
    return ""


def _too_few_layers(config: Mapping[str, Any], ranks: int) -> str:
    layers = number(config, "num_hidden_layers")
    return f"its {layers} layers are fewer than {ranks} stages" if 0 < layers < ranks else ""


def _listed(sizes: list[int]) -> str:
    return " or ".join(
        [", ".join(map(str, sizes[:-1])), str(sizes[-1])] if len(sizes) > 1 else map(str, sizes)
    )
