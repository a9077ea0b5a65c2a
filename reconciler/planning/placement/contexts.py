"""Chooses the context of a group: as long as its model was made for, its deployment wants, and memory allows.

``auto`` is decided when a group is formed, and stays with it. Its memory beyond ``LEAST`` has to fit twice, so that it leaves
as much to other groups. The next group of the same spec has at least the same context if that fits, because it continues
answers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.planning.context.memory_needs import ModelNeeds, Needs, guessed, needs, one_context_bytes
from reconciler.planning.context.sharding import Strategy, number, text_config
from reconciler.planning.context.workload import Workload
from reconciler.resources import ModelDeployment, RopeScaling
from reconciler.state import Refusal, RefusedBecause
from reconciler.wire.launch import CONTEXT_MAX, RopeKind
from reconciler.wire.node import ModelReport

LEAST = 4096
"""``auto`` is less only if the model was made for less, and never more if nothing says what the model was made for."""
STEP = 1024
"""A context that memory decides is a multiple of it."""
LENGTHS = (
    "model_max_length",
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
)
"""Fields of configs with the length of a sequence, as vLLM reads them (``config/model.py``). The first one counts: Command R
has it in addition to a smaller one. The tokenizer's ``model_max_length`` says nothing: it is 16384 for DeepSeek R1, which
was made for 163840."""
STRETCHED = ("linear", "dynamic")
"""Kinds of rope scaling whose factor applies to ``max_position_embeddings``; the lengths of others include it."""


@dataclass(frozen=True, slots=True)
class Made:
    """The longest sequence that a model was made for."""

    tokens: int
    said_by: str
    """The source: a field of its ``config.json``, or of the deployment."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts that a group may be given: from ``least`` to ``most`` tokens. A number allows just that."""

    least: int
    most: int

    @classmethod
    def of(cls, deployment: ModelDeployment, weights: ModelReport) -> Contexts:
        wanted = deployment.spec.serving.context
        if isinstance(wanted, int):
            return cls(wanted, wanted)
        made = made_for(weights.config, deployment.spec.serving.rope_scaling)
        most = min(made.tokens if made else LEAST, CONTEXT_MAX)
        return cls(min(most, LEAST), most)

    def largest(self, fits: Callable[[int], bool]) -> int:
        """Return the largest one that fits, in steps. If one fits, all smaller ones do; the least is not tried."""
        if self.most == self.least or fits(self.most):
            return self.most
        low, high = self.least // STEP, math.ceil(self.most / STEP)
        more = bisect_left(range(low + 1, high), True, key=lambda steps: not fits(steps * STEP))
        return max(self.least, (low + more) * STEP)


@dataclass(frozen=True, slots=True)
class Charges:
    """The memory charged to the ranks of a group of one size and split, by its context."""

    deployment: ModelDeployment
    weights: ModelReport
    strategy: Strategy
    size: int
    contexts: Contexts
    kept: int = 0
    """The context of the replica's group before, if it was of the same spec; else 0."""

    @classmethod
    def of(
        cls, deployment: ModelDeployment, weights: ModelReport, strategy: Strategy, size: int, kept: int = 0
    ) -> Charges:
        return cls(deployment, weights, strategy, size, Contexts.of(deployment, weights), kept)

    def at(self, context: int) -> Needs:
        """Return the bytes that each rank is charged."""
        model = ModelNeeds.of_deployment(self.deployment, context)
        return needs(model, self.weights, self.strategy, self.size)

    @property
    def guessed(self) -> bool:
        return guessed(self.weights, self.strategy, self.size)

    def least(self) -> Needs:
        return self.at(self.contexts.least)

    def room_for(self, context: int) -> Needs:
        """Return the bytes that each rank must find, so that a longer context leaves as much to others."""
        each = self.at(context)
        if context <= max(self.contexts.least, self.kept):
            return each
        return tuple(2 * need - low for need, low in zip(each, self.least(), strict=True))

    def allows(self, context: int) -> bool:
        """Return whether the deployment's memory for requests has room for one of a full context."""
        wanted = self.deployment.spec.serving.kv_cache
        model = ModelNeeds.of_deployment(self.deployment, context)
        return wanted is None or wanted >= one_context_bytes(model, self.weights, self.strategy, self.size)

    def enough(self, longest: int) -> Iterator[int]:
        """Yield contexts that are good enough to choose nodes by, the best first; ``longest`` is the most that fits."""
        if self.contexts.least < self.kept <= longest:
            yield self.kept
        if longest // 2 > self.contexts.least:
            yield longest // 2
        yield self.contexts.least


def made_for(config: Mapping[str, Any], wanted: RopeScaling | None = None) -> Made | None:
    """Return the length that a model was made for, with positions scaled as its deployment wants; None if nothing says it."""
    if wanted is not None:
        return Made(wanted.tokens, "serving.ropeScaling")
    config = text_config(config)
    field = next((name for name in LENGTHS if number(config, name)), None)
    if field is None:
        return None
    tokens, scaling = number(config, field), _scaling(config)
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor")
    if not isinstance(factor, int | float) or not 1 <= factor < CONTEXT_MAX:
        return Made(tokens, field)
    original = number(scaling, "original_max_position_embeddings")
    stretched = int(original * factor) if kind == "yarn" else 0
    if kind in STRETCHED and not str(config.get("model_type")).startswith("gemma3"):  # its length includes it
        stretched = int(tokens * factor)
    return Made(stretched, f"rope_scaling: {kind}") if stretched > tokens else Made(tokens, field)


def _scaling(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how positions are scaled, in either spelling; of several kinds of layers, in those that see everything."""
    for name in ("rope_scaling", "rope_parameters"):
        found = config.get(name)
        if isinstance(found, Mapping):
            inner = found.get("full_attention")
            return inner if isinstance(inner, Mapping) else found
    return {}


def too_long(workload: Workload, weights: ModelReport) -> Refusal | None:
    """Refuse a context that the model was not made for."""
    serving = workload.deployment.spec.serving
    wanted, made = serving.context, made_for(weights.config, serving.rope_scaling)
    if not isinstance(wanted, int) or made is None or wanted <= made.tokens:
        return None
    where, change = f"serving.ropeScaling allows: {made.tokens}", "lower it, or raise the factor"
    if serving.rope_scaling is None:
        where = f"model {workload.model.metadata.name} was made for: {made.tokens}, by {made.said_by} in its config.json"
        change = f"lower it, or leave it out{_scaling_that_allows(wanted, made, weights)}"
    return workload.refuse(
        RefusedBecause.CONTEXT_TOO_LONG, f"context: {wanted} is more than {where}; {change}"
    )


def _scaling_that_allows(wanted: int, made: Made, weights: ModelReport) -> str:
    """Say which scaling of positions would let the model take it; empty if it has one, or cannot have this one."""
    scaling = _scaling(text_config(weights.config))
    scaled = scaling.get("rope_type", scaling.get("type", "default")) != "default"
    if scaled or RopeKind.YARN not in weights.rope:
        return ""
    factor = math.ceil(wanted / made.tokens)
    return f", or, if its authors say that it can take it, set ropeScaling: {{type: yarn, factor: {factor}, originalContext: {made.tokens}}}"


def unscalable(workload: Workload, weights: ModelReport) -> Refusal | None:
    """Refuse a scaling that mlx-lm cannot do for this model, or that begins at a length that it was not made for."""
    wanted = workload.deployment.spec.serving.rope_scaling
    if wanted is None:
        return None
    name, made = workload.model.metadata.name, made_for(weights.config)
    if wanted.type not in weights.rope:
        can = f"it can by {' or '.join(weights.rope)}" if weights.rope else "nor by any other kind"
        kind = str(weights.config.get("model_type"))[:60]
        text = f"mlx-lm cannot scale the positions of model {name} ({kind}) by {wanted.type}, {can}; change or remove serving.ropeScaling"
    elif made is not None and wanted.original_context > made.tokens:
        text = f"originalContext: {wanted.original_context} is more than model {name} was made for: {made.tokens}, by {made.said_by} in its config.json; lower it"
    else:
        return None
    return workload.refuse(RefusedBecause.ROPE_SCALING, text)


def explained(deployment: ModelDeployment, weights: ModelReport | None, context: int) -> str:
    """Say why a group has this context, for people; empty if its manifest says it, or nothing is known."""
    if not context or isinstance(deployment.spec.serving.context, int) or weights is None:
        return ""
    scaling = deployment.spec.serving.rope_scaling
    made = made_for(weights.config, scaling)
    if made is None:
        return f"a context of {context}, because the model's config.json does not say what it was made for"
    if context == min(made.tokens, CONTEXT_MAX):
        return f"a context of {context}, by {made.said_by} of the {'deployment' if scaling else 'model'}"
    most = "that serving.ropeScaling allows" if scaling else "that the model was made for"
    return f"a context of {context}, for which there was room, of {made.tokens} {most}"
