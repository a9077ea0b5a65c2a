"""What each rank of a group needs of its node's memory: its weights, its cache of a full batch, and itself.

The node's runtime says what a rank holds (``ModelReport.shares``). Of an agent that does not say so, and of groups
larger than were tried, everything is taken to be divided evenly.
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
    """What is to be served of a model, as far as memory is concerned."""

    context: int
    batch: int
    weights_scale: float = 1.0
    """Of weights that are smaller than those there are: what would they need?"""

    @classmethod
    def of_deployment(cls, deployment: ModelDeployment) -> ModelNeeds:
        """What a deployment's manifest says."""
        serving = deployment.spec.serving
        return cls(serving.context, serving.max_batch)


def needs(wish: ModelNeeds, weights: ModelReport, strategy: Strategy, ranks: int) -> Needs:
    """What each rank of so many needs."""
    shares = weights.shares.get(f"{strategy}/{ranks}", ())
    if len(shares) not in (1, ranks):
        cache = kv_bytes_per_token(weights.config) * wish.context * wish.batch
        return ((_scaled(weights.weights_bytes, wish) + cache) // ranks + RANK_OVERHEAD_BYTES,) * ranks
    found = tuple(_of_share(wish, weights, share, ranks) for share in shares)
    return found * (ranks if len(found) == 1 else 1)


def _of_share(wish: ModelNeeds, weights: ModelReport, share: RankShare, ranks: int) -> int:
    if share.cache is None:
        sequence = kv_bytes_per_token(weights.config) * wish.context // ranks
    else:
        sequence = sum(size * min(wish.context, most or wish.context) for most, size in share.cache)
    return _scaled(share.weights_bytes, wish) + sequence * wish.batch + RANK_OVERHEAD_BYTES


def _scaled(size: int, wish: ModelNeeds) -> int:
    return size if wish.weights_scale == 1.0 else int(size * wish.weights_scale)


def kv_bytes_per_token(config: Mapping[str, Any]) -> int:
    """The KV cache of one token: 2 x layers x KV heads x head size x bytes a value."""
    config = text_config(config)
    heads = number(config, "num_attention_heads", 1)
    kv_heads = number(config, "num_key_value_heads", heads)
    head = number(config, "head_dim", number(config, "hidden_size") // max(1, heads))
    value_bytes = 4 if config.get("torch_dtype", config.get("dtype")) == "float32" else 2
    return 2 * number(config, "num_hidden_layers") * kv_heads * head * value_bytes


def bits(config: Mapping[str, Any]) -> int:
    """How many bits a weight has, as far as the config says; 0 where it does not."""
    quantization = config.get("quantization")
    if isinstance(quantization, Mapping):
        return number(quantization, "bits")
    dtype = text_config(config).get("torch_dtype", text_config(config).get("dtype"))
    return {"float32": 32, "float16": 16, "bfloat16": 16}.get(str(dtype), 0)


def gib(size: int) -> str:
    """Bytes for people."""
    return f"{size / 2**30:.1f} GiB"
