"""The parameters that OpenAI's chat and legacy completions have in common. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import orjson

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.errors import invalid, unsupported
from reconciler.wire.generation import Bias, Generate, Sampling

STOPS_MAX = 4
ANSWERS_MAX = 8
"""The most answers to one prompt."""
BIAS_MAX = 100.0
BIASES_MAX = 1024
_SEED_RANGE = 2**63


def parse_object(body: bytes) -> Fields:
    """Return the body's fields. Raises ``ApiError`` (400) unless it is a JSON object."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}", None) from None
    if not isinstance(parsed, dict):
        raise invalid("the body must be a JSON object", None)
    return Fields(parsed)


def parse_answers(fields: Fields) -> int:
    """Return how many answers to give to each prompt."""
    return fields.integer("n", 1, low=1, high=ANSWERS_MAX)


def several(generate: Generate, count: int) -> Sequence[Generate]:
    """Return the request ``count`` times, each with its own seed of 63 bits; the first keeps its seed."""
    sampling = generate.sampling
    return [
        dataclasses.replace(
            generate, sampling=dataclasses.replace(sampling, seed=(sampling.seed + index) % _SEED_RANGE)
        )
        for index in range(count)
    ]


def parse_include_usage(fields: Fields) -> bool:
    """Return whether the stream is to end with a chunk of usage."""
    options = fields.object("stream_options")
    return options is not None and options.flag("include_usage")


def refuse_penalties(fields: Fields) -> None:
    """Raise ``ApiError`` (400) for a penalty other than 0."""
    for name in ("frequency_penalty", "presence_penalty"):
        if fields.number(name, 0.0, low=-2.0, high=2.0):
            raise unsupported(f"a {name} other than 0", name)


def parse_sampling(fields: Fields, drawn_seed: int) -> Sampling:
    """Return how tokens are chosen. ``drawn_seed`` is for a client that gave none; ``several`` keeps seeds in 63 bits."""
    seed = fields.optional_integer("seed", low=-_SEED_RANGE, high=_SEED_RANGE - 1)
    top_p = fields.number("top_p", 1.0, low=0.0, high=1.0)
    temperature = fields.number("temperature", 1.0, low=0.0, high=2.0)
    return Sampling(
        temperature=temperature
        if top_p
        else 0.0,  # with no probability mass only the likeliest token is left
        top_p=top_p or 1.0,
        top_k=max(0, fields.integer("top_k", 0, low=-1)),
        min_p=fields.number("min_p", 0.0, low=0.0, high=1.0),
        seed=drawn_seed if seed is None else seed,
        biases=_biases(fields),
    )


def _biases(fields: Fields) -> tuple[Bias, ...]:
    biases = fields.object("logit_bias")
    if biases is None:
        return ()
    names = biases.names()
    if len(names) > BIASES_MAX:
        raise invalid(f"logit_bias takes at most {BIASES_MAX} tokens, got {len(names)}", "logit_bias")
    for name in names:
        if not (name.isascii() and name.isdecimal() and len(name) < 10):
            raise invalid(f"logit_bias must be by token id, got {name!r:.40}", "logit_bias")
    return tuple(Bias(int(name), biases.number(name, 0.0, low=-BIAS_MAX, high=BIAS_MAX)) for name in names)


def parse_stop(fields: Fields) -> tuple[str, ...]:
    """Return the strings that end an answer; the answer does not contain them."""
    value = fields.value("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise invalid("stop must be a non-empty string or a list of them", "stop")
    if len(stops) > STOPS_MAX:
        raise invalid(f"stop takes at most {STOPS_MAX} strings, got {len(stops)}", "stop")
    return tuple(stops)
