"""Computes the memory that each rank needs on its node: weights, the cache of a full batch, and the process itself.

The node's runtime says what a rank holds (``ModelReport.shares``). Where the agent does not say so, and for groups
larger than were tried, everything counts as divided evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.resources import ModelDeployment
from reconciler.wire.node import ModelReport, RankShare

from .sharding import Strategy, number, text_config

RANK_OVERHEAD_BYTES = 512 * 2**20
"""Python, MLX and the activations of one rank."""

Needs = tuple[int, ...]
"""Bytes for each rank, in the order of ranks."""


@dataclass(frozen=True, slots=True)
class ModelNeeds:
    """The properties of a model that determine its memory."""

    context: int
    batch: int
    weights_scale: float = 1.0
    """A factor for the size of the weights: how much would smaller ones need?"""

    @classmethod
    def of_deployment(cls, deployment: ModelDeployment) -> ModelNeeds:
        """Read it from a deployment's manifest."""
        serving = deployment.spec.serving
        return cls(serving.context, serving.max_batch)


def needs(model: ModelNeeds, weights: ModelReport, strategy: Strategy, ranks: int) -> Needs:
    """Return how many bytes each of ``ranks`` ranks needs."""
    shares = weights.shares.get(f"{strategy}/{ranks}", ())
    if len(shares) not in (1, ranks):
        cache = kv_bytes_per_token(weights.config) * model.context * model.batch
        return ((_scaled(weights.weights_bytes, model) + cache) // ranks + RANK_OVERHEAD_BYTES,) * ranks
    found = tuple(_of_share(model, weights, share, ranks) for share in shares)
    return found * (ranks if len(found) == 1 else 1)


def _of_share(model: ModelNeeds, weights: ModelReport, share: RankShare, ranks: int) -> int:
    if share.cache is None:
        sequence = kv_bytes_per_token(weights.config) * model.context // ranks
    else:
        sequence = sum(size * min(model.context, most or model.context) for most, size in share.cache)
    return _scaled(share.weights_bytes, model) + sequence * model.batch + RANK_OVERHEAD_BYTES


def _scaled(size: int, model: ModelNeeds) -> int:
    return size if model.weights_scale == 1.0 else int(size * model.weights_scale)


def kv_bytes_per_token(config: Mapping[str, Any]) -> int:
    """Return the KV cache of one token: 2 x layers x KV heads x head size x bytes of a value."""
    config = text_config(config)
    heads = number(config, "num_attention_heads", 1)
    kv_heads = number(config, "num_key_value_heads", heads)
    head = number(config, "head_dim", number(config, "hidden_size") // max(1, heads))
    value_bytes = 4 if config.get("torch_dtype", config.get("dtype")) == "float32" else 2
    return 2 * number(config, "num_hidden_layers") * kv_heads * head * value_bytes


def bits(config: Mapping[str, Any]) -> int:
    """Return how many bits a weight has, as far as the config says; 0 where it does not."""
    quantization = config.get("quantization")
    if isinstance(quantization, Mapping):
        return number(quantization, "bits")
    dtype = text_config(config).get("torch_dtype", text_config(config).get("dtype"))
    return {"float32": 32, "float16": 16, "bfloat16": 16}.get(str(dtype), 0)


def gib(size: int) -> str:
    """Write a number of bytes for people."""
    return f"{size / 2**30:.1f} GiB"
