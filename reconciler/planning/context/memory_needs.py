"""Computes the memory that each rank needs on its node: weights, the tokens of the requests that it answers, what is kept of
earlier ones, and the process itself.

The node's runtime says what a rank holds (``ModelReport.shares``). Where the agent does not say so, and for groups
larger than were tried, everything counts as divided evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.resources import ModelDeployment
from reconciler.wire.launch import CACHE_STEP
from reconciler.wire.node import ModelReport, RankShare

from .sharding import Strategy, number, text_config

USUAL_CONTEXT = 8192
"""Tokens of a request for which there is room beside one of a full context, unless the deployment says otherwise."""
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
    prefix_cache: int | None = 0
    """Bytes that each rank may keep of earlier requests; None: as many as one full context takes."""
    kv_cache: int | None = None
    """Bytes on each rank for the requests that are being answered; None: by the context and the batch."""

    embeds: bool = False
    """Whether it is for embeddings, also where its files do not say so."""

    def read_from(self, weights: ModelReport) -> ModelNeeds:
        """Return the needs of what is served: of a model for embeddings a text is at a time in a cache, a long one, and none
        is kept."""
        if not (self.embeds or weights.embeds):
            return self
        return replace(self, batch=1, prefix_cache=0, kv_cache=None)

    @classmethod
    def of_deployment(cls, deployment: ModelDeployment, context: int) -> ModelNeeds:
        """Read it from a deployment's manifest, for a group with this context."""
        serving = deployment.spec.serving
        embeds = serving.embedding is not None
        return cls(
            context,
            serving.max_batch,
            prefix_cache=serving.prefix_cache,
            kv_cache=serving.kv_cache,
            embeds=embeds,
        )


def needs(model: ModelNeeds, weights: ModelReport, strategy: Strategy, ranks: int) -> Needs:
    """Return how many bytes each of ``ranks`` ranks needs."""
    model = model.read_from(weights)
    kept = prefix_cache_bytes(model, weights, strategy, ranks)
    shares = _shares(weights, strategy, ranks)
    if not shares:
        cache = kv_bytes_per_token(weights.config) * model.context * model.batch
        return (
            (_scaled(weights.weights_bytes, model) + cache) // ranks + kept + RANK_OVERHEAD_BYTES,
        ) * ranks
    found = tuple(_of_share(model, weights, share, ranks) + kept for share in shares)
    return _each(found, ranks)


def kv_cache_bytes(model: ModelNeeds, weights: ModelReport, strategy: str, ranks: int) -> Needs:
    """Return how many bytes each of ``ranks`` ranks may use for the requests that are being answered; empty if the node's
    runtime did not say what they take."""
    model = model.read_from(weights)
    shares = _shares(weights, strategy, ranks)
    if any(share.cache is None for share in shares):
        return ()
    return _each(tuple(_running(model, weights, share, ranks) for share in shares), ranks)


def one_context_bytes(model: ModelNeeds, weights: ModelReport, strategy: str, ranks: int) -> int:
    """Return how many bytes a request of a full context takes, on the rank that needs the most; 0 if that is unknown."""
    shares = _shares(weights, strategy, ranks)
    return max((_sequence(model.context + CACHE_STEP, weights, share, ranks) for share in shares), default=0)


def _each(found: Needs, ranks: int) -> Needs:
    return found * (ranks if len(found) == 1 else 1)


def prefix_cache_bytes(model: ModelNeeds, weights: ModelReport, strategy: str, ranks: int) -> int:
    """Return how many bytes each of ``ranks`` ranks may keep of earlier requests: the same on all, for they keep the same
    requests."""
    model = model.read_from(weights)
    if model.prefix_cache is not None:
        return model.prefix_cache
    shares = _shares(weights, strategy, ranks)
    if not shares:
        return kv_bytes_per_token(weights.config) * model.context // ranks
    return max(_sequence(model.context, weights, share, ranks) for share in shares)


def _shares(weights: ModelReport, strategy: str, ranks: int) -> tuple[RankShare, ...]:
    """Return the share of every rank, or of one if they are alike; empty if the runtime did not say so."""
    shares = weights.shares.get(f"{strategy}/{ranks}", ())
    return shares if len(shares) in (1, ranks) else ()


def _of_share(model: ModelNeeds, weights: ModelReport, share: RankShare, ranks: int) -> int:
    running = _running(model, weights, share, ranks)
    return _scaled(share.weights_bytes, model) + running + RANK_OVERHEAD_BYTES


def _running(model: ModelNeeds, weights: ModelReport, share: RankShare, ranks: int) -> int:
    """Return the bytes on a rank for the requests that are being answered."""
    if share.cache is None:  # then rank 0 does not know either when they are used up
        return _sequence(model.context, weights, share, ranks) * model.batch
    full = _sequence(model.context + CACHE_STEP, weights, share, ranks)
    if model.kv_cache is not None:
        return max(model.kv_cache, full)
    usual = _sequence(min(model.context, USUAL_CONTEXT) + CACHE_STEP, weights, share, ranks)
    return full + usual * (model.batch - 1)


def _sequence(tokens: int, weights: ModelReport, share: RankShare, ranks: int) -> int:
    """Return the bytes of so many tokens of one sequence on a rank."""
    if share.cache is None:
        return kv_bytes_per_token(weights.config) * tokens // ranks
    return sum(size * min(tokens, most or tokens) for most, size in share.cache)


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
