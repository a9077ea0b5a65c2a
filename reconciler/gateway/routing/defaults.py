"""Defaults for fields that a client leaves out: first those of the deployment, then those of the model. Pure.

The request keeps the defaults of its first group, so that another group continues the answer in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from reconciler.wire.generation import REASONING_SWITCHES, Accepted, Generate, Route
from reconciler.wire.sampling import SamplingDefaults, known_of

ASKS_FOR_REASONING = ("reasoning_effort", *REASONING_SWITCHES)
"""The template variables with which a request decides whether the model reasons."""

_UNSAID = SamplingDefaults()


def with_defaults(generate: Generate, route: Route) -> Generate:
    """Return the request with its deployment's defaults for fields that the client leaves out."""
    known = known_of(route.sampling, generate.unset) if route.sampling != _UNSAID else {}
    sampling, unset = generate.sampling, generate.unset
    template = _template(generate.template, route.thinking)
    stall = route.max_stall_seconds
    repetition = route.repetition if generate.repetition is None else generate.repetition
    if (
        not known
        and template is generate.template
        and stall == generate.max_stall_seconds
        and repetition is generate.repetition
    ):
        return generate
    if known:
        sampling = dataclasses.replace(sampling, **known)
        unset = tuple(name for name in unset if name not in known)
    return dataclasses.replace(
        generate,
        sampling=sampling,
        unset=unset,
        template=template,
        max_stall_seconds=stall,
        repetition=repetition,
    )


def settled(generate: Generate, accepted: Accepted) -> Generate:
    """Return the request with the values that rank 0 has taken from the model's defaults."""
    if accepted.sampling is None:
        return generate
    return dataclasses.replace(generate, sampling=accepted.sampling, unset=())


def _template(given: Mapping[str, Any], thinks: bool | None) -> Mapping[str, Any]:
    if thinks is None or any(name in given for name in ASKS_FOR_REASONING):
        return given
    return {**given, **dict.fromkeys(REASONING_SWITCHES, thinks)}
