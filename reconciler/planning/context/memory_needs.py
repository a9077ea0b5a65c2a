"""Computes the memory that each rank needs on its node: weights, the requests that it answers, the
prefix cache, and the process itself.

The node's runtime reports the share of each rank (``ModelReport.shares``). Without that, and for more ranks than it has
tried, weights count as divided evenly, and the cache is a guess (``guessed_cache``) that messages call a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.resources import ModelDeployment
from reconciler.wire.launch import CACHE_STEP, PIECE_TOKENS_MAX
from reconciler.wire.node import ModelReport

from . import guessed_cache
from .guessed_cache import Cache
from .sharding import Strategy, number, text_config

USUAL_CONTEXT = 8192
"""Tokens of each request that has room next to one of a full context, unless the deployment says otherwise."""
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
    """A factor for the size of the weights, to ask how much smaller ones need."""
    prefix_cache: int | None = 0
    """Bytes that each rank may keep of earlier requests; None: as many as one full context takes."""
    kv_cache: int | None = None
    """Bytes on each rank for the requests that are being answered; None: by the context and the batch."""

    embeds: bool = False
    """True for a model for embeddings, even if its files do not say so."""

    def read_from(self, weights: ModelReport) -> ModelNeeds:
        """Return the needs with these weights: a model for embeddings has one text at a time in a cache, and keeps none."""
        if not (self.embeds or weights.embeds):
            return self
        return replace(self, batch=1, prefix_cache=0, kv_cache=None)

    @classmethod
    def of_deployment(cls, deployment: ModelDeployment, context: int) -> ModelNeeds:
        """Read them from a deployment's manifest, for a group with this context."""
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
    found = tuple(
        _scaled(share.weights_bytes, model) + _running(model, share) + _piece(model, share) + kept
        for share in _shares(weights, strategy, ranks)
    )
    return _each(tuple(each + RANK_OVERHEAD_BYTES for each in found), ranks)


def weights_alone(weights: ModelReport, strategy: Strategy, ranks: int) -> Needs:
    """Return how many bytes each of ``ranks`` ranks needs before it answers anything."""
    shares = _shares(weights, strategy, ranks)
    return _each(tuple(share.weights_bytes + RANK_OVERHEAD_BYTES for share in shares), ranks)


def kv_cache_bytes(model: ModelNeeds, weights: ModelReport, strategy: str, ranks: int) -> Needs:
    """Return how many bytes each of ``ranks`` ranks may use for the requests that are being answered. Empty if the model's
    code cannot say how much a request takes: then rank 0 does not know either when the bytes are used up."""
    model = model.read_from(weights)
    shares = _shares(weights, strategy, ranks)
    if any(share.untold for share in shares):
        return ()
    return _each(tuple(_running(model, share) for share in shares), ranks)


def one_context_bytes(model: ModelNeeds, weights: ModelReport, strategy: str, ranks: int) -> int:
    """Return how many bytes a request of a full context takes, on the rank that needs the most; 0 if that is a guess."""
    if guessed(weights, strategy, ranks):
        return 0
    return max(share.sequence(model.context + CACHE_STEP) for share in _shares(weights, strategy, ranks))


def _each(found: Needs, ranks: int) -> Needs:
    return found * (ranks if len(found) == 1 else 1)


def prefix_cache_bytes(model: ModelNeeds, weights: ModelReport, strategy: str, ranks: int) -> int:
    """Return how many bytes each of ``ranks`` ranks may keep of earlier requests: the same on all, because they keep the
    same requests."""
    model = model.read_from(weights)
    if model.prefix_cache is not None:
        return model.prefix_cache
    return max(share.sequence(model.context) for share in _shares(weights, strategy, ranks))


@dataclass(frozen=True, slots=True)
class _Share:
    """The bytes of one rank, as reported, else as guessed."""

    weights_bytes: int
    cache: Cache
    guessed: bool = False
    untold: bool = False
    """True if the model's code was asked how much it keeps, and could not tell."""

    def sequence(self, tokens: int) -> int:
        """Return the bytes of this many tokens of one sequence."""
        return sum(size * min(tokens, most or tokens) for most, size in self.cache)


def guessed(weights: ModelReport, strategy: str, ranks: int) -> bool:
    """Return whether the needs of ranks are a guess, because no runtime has said what the model's code keeps."""
    return any(share.guessed for share in _shares(weights, strategy, ranks))


def _shares(weights: ModelReport, strategy: str, ranks: int) -> tuple[_Share, ...]:
    """Return the share of every rank, or of one if they are alike. If the runtime has not reported it, all is
    divided evenly, and the cache is a guess."""
    told = weights.shares.get(f"{strategy}/{ranks}", ())
    if len(told) not in (1, ranks):
        cache = guessed_cache.guessed(weights.config, strategy, ranks)
        return (_Share(weights.weights_bytes // ranks, cache, guessed=True),)
    return tuple(
        _Share(share.weights_bytes, share.cache)
        if share.cache is not None
        else _Share(
            share.weights_bytes,
            guessed_cache.guessed(weights.config, strategy, ranks),
            guessed=True,
            untold=True,
        )
        for share in told
    )


def _running(model: ModelNeeds, share: _Share) -> int:
    """Return the bytes on a rank for the requests that are being answered. A deployment's own number replaces a guess."""
    if share.guessed and model.kv_cache is not None:
        return model.kv_cache
    full = share.sequence(model.context + CACHE_STEP)
    if share.untold:
        return full * model.batch
    if model.kv_cache is not None:
        return max(model.kv_cache, full)
    return full + share.sequence(min(model.context, USUAL_CONTEXT) + CACHE_STEP) * (model.batch - 1)


def _piece(model: ModelNeeds, share: _Share) -> int:
    """Return the bytes of the last piece of a prompt, which a rank keeps in addition to the windows of its layers
    (``RotatingKVCache._update_concat`` of mlx-lm)."""
    windows = ((most, size) for most, size in share.cache if most > 1)
    return sum(size * max(0, min(model.context - most, PIECE_TOKENS_MAX)) for most, size in windows)


def _scaled(size: int, model: ModelNeeds) -> int:
    return size if model.weights_scale == 1.0 else int(size * model.weights_scale)


def bits(config: Mapping[str, Any]) -> int:
    """Return how many bits a weight has by the config; 0 if it does not say."""
    quantization = config.get("quantization")
    if isinstance(quantization, Mapping):
        return number(quantization, "bits")
    dtype = text_config(config).get("torch_dtype", text_config(config).get("dtype"))
    return {"float32": 32, "float16": 16, "bfloat16": 16}.get(str(dtype), 0)


def gib(size: int, guess: bool = False) -> str:
    """Write a number of bytes for people, and whether it is a guess."""
    return f"{size / 2**30:.1f} GiB{' (guessed)' if guess else ''}"
