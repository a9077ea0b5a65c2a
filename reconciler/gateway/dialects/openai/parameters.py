"""The parameters that OpenAI's chat and legacy completions have in common. Pure."""

from __future__ import annotations

import codecs
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import orjson

from reconciler.gateway.dialects.fields import INTEGER_MAX, Fields
from reconciler.gateway.dialects.known_parameters import refuse_unsupported_inside
from reconciler.gateway.errors import invalid
from reconciler.wire.generation import Generate
from reconciler.wire.sampling import (
    BY_MODEL,
    COUNT_MAX,
    OPEN,
    PATTERN_MAX,
    Bias,
    Ending,
    Repetition,
    Sampling,
)

STOPS_MAX = 4
ANSWERS_MAX = 8
"""The most answers to one prompt."""
BIAS_MAX = 100.0
BIASES_MAX = 1024
STOP_TOKENS_MAX = 1024
PENALTY_MAX = 2.0
REPETITION_MIN, REPETITION_MAX = 0.01, 100.0
LIKELIEST_MAX = 20
"""The most tokens whose log-probabilities come with each token of an answer."""
TOKEN_IDS = 2**31
"""No vocabulary is that large. Only the rank knows which ids its model has."""
_SEED_RANGE = 2**63
_OF_SAMPLING = frozenset(
    [
        "seed",
        "top_p",
        "temperature",
        "top_k",
        "min_p",
        "logit_bias",
        "repetition_penalty",
        "repeat_penalty",
        "frequency_penalty",
        "presence_penalty",
    ]
)
_OF_ENDING = frozenset(("min_tokens", "ignore_eos", "stop_token_ids"))
_OTHER_NAMES = {"repetition_penalty": "repeat_penalty"}
"""llama.cpp's names of what has another one here too."""
_OPEN = frozenset((*OPEN, *_OTHER_NAMES.values()))


def parse_object(body: bytes) -> Fields:
    """Return the body's fields. Raises ``ApiError`` (400) unless it is a JSON object."""
    body = body.removeprefix(codecs.BOM_UTF8)
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        parsed = _with_halves(body, error)
    if not isinstance(parsed, dict):
        raise invalid("the body must be a JSON object", None)
    return Fields(parsed)


def _with_halves(body: bytes, error: orjson.JSONDecodeError) -> Any:
    """Return the value of JSON with escaped halves of surrogate pairs (RFC 8259, 8.2), each as a question mark. A
    client that cuts a text in the middle of an emoji sends such a half with every later request. Raises ``ApiError``
    (400) with ``error`` for other faults.
    """
    try:
        text = body.decode()
        if "surrogate" in str(error):
            whole = json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
            return orjson.loads(whole)
    except UnicodeDecodeError as flaw:
        raise invalid(f"the body is not JSON: it is not UTF-8 at byte {flaw.start}", None) from None
    except (ValueError, RecursionError):
        pass
    raise invalid(f"the body is not JSON: {error}", None)


def parse_model(fields: Fields) -> str:
    """Return the name of the model; empty if the client names none."""
    return fields.text("model") if fields.value("model") is not None else ""


def parse_answers(fields: Fields) -> int:
    """Return the number of answers to each prompt."""
    return fields.integer("n", 1, low=1, high=ANSWERS_MAX)


def several(generate: Generate, count: int) -> Sequence[Generate]:
    """Return the request ``count`` times, each with its own seed of 63 bits; the first keeps its seed."""
    sampling = generate.sampling
    if count == 1 and 0 <= sampling.seed < _SEED_RANGE:
        return [generate]
    return [
        dataclasses.replace(
            generate, sampling=dataclasses.replace(sampling, seed=(sampling.seed + index) % _SEED_RANGE)
        )
        for index in range(count)
    ]


def parse_include_usage(fields: Fields) -> bool:
    """Return whether the stream must end with a chunk of usage."""
    options = fields.object("stream_options")
    if options is None:
        return False
    refuse_unsupported_inside(options, "stream_options")
    return options.flag("include_usage")


def parse_sampling(fields: Fields, drawn_seed: int) -> Sampling:
    """Return the sampling of tokens. ``drawn_seed`` is for a client that gave none; ``several`` keeps seeds in 63
    bits."""
    if fields.lacks(_OF_SAMPLING):
        return Sampling(seed=drawn_seed)
    seed = fields.optional_integer("seed", low=-_SEED_RANGE, high=_SEED_RANGE - 1)
    top_p = fields.number("top_p", 1.0, low=0.0, high=1.0)
    temperature = fields.number("temperature", 1.0, low=0.0, high=2.0)
    return Sampling(
        temperature=temperature
        if top_p
        else 0.0,  # without probability mass, only the likeliest token is left
        top_p=top_p or 1.0,
        top_k=max(0, fields.integer("top_k", 0, low=-1)),
        min_p=fields.number("min_p", 0.0, low=0.0, high=1.0),
        seed=drawn_seed if seed is None else seed,
        biases=_biases(fields),
        repetition_penalty=_repetition_penalty(fields),
        frequency_penalty=fields.number("frequency_penalty", 0.0, low=-PENALTY_MAX, high=PENALTY_MAX),
        presence_penalty=fields.number("presence_penalty", 0.0, low=-PENALTY_MAX, high=PENALTY_MAX),
    )


def _repetition_penalty(fields: Fields) -> float:
    """Return the penalty; mlx_lm.server's clients write 0 for none."""
    name = _named(fields, "repetition_penalty")
    if fields.value(name) == 0:
        return 1.0
    return fields.number(name, 1.0, low=REPETITION_MIN, high=REPETITION_MAX)


def parse_ending(fields: Fields, tokens_max: int | None) -> Ending:
    """Return the conditions that end an answer of at most ``tokens_max`` tokens."""
    if fields.lacks(_OF_ENDING):
        return BY_MODEL
    high = INTEGER_MAX if tokens_max is None else tokens_max
    return Ending(
        tokens_min=fields.integer("min_tokens", 0, low=0, high=high),
        ignore_end=fields.flag("ignore_eos"),
        stop_tokens=_token_ids(fields, "stop_token_ids"),
    )


def parse_repetition(fields: Fields) -> Repetition | None:
    """Return the limit on repetition at which an answer ends; None if the request does not give one."""
    wanted = fields.object("repetition_detection")
    if wanted is None:
        return None
    most = wanted.integer("max_pattern_size", 0, low=0, high=PATTERN_MAX)
    least = wanted.integer("min_pattern_size", 0, low=0, high=most)
    return Repetition(
        most, max(1, least), wanted.integer("min_count", 0, low=2 if most else 0, high=COUNT_MAX)
    )


def _token_ids(fields: Fields, name: str) -> tuple[int, ...]:
    value = fields.value(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(
        type(token) is int and 0 <= token < TOKEN_IDS for token in value
    ):
        raise invalid(f"{name} must be a list of token ids", fields.path(name))
    if len(value) > STOP_TOKENS_MAX:
        raise invalid(f"{name} takes at most {STOP_TOKENS_MAX} tokens, got {len(value)}", fields.path(name))
    return tuple(value)


def parse_texts(fields: Fields, name: str, most: int, noun: str) -> list[Any]:
    """Return a field that is a string, a list of token ids, or a list of either, as such a list of one or more entries,
    which are unchecked. ``noun`` is the name of several entries."""
    value = fields.value(name)
    if isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int):
        value = [value]
    if not isinstance(value, list) or not value:
        text = f"{name} must be a string, a list of token ids, or a list of either, and not empty"
        raise invalid(text, name)
    if len(value) > most:
        raise invalid(f"{name} takes at most {most} {noun}, got {len(value)}", name)
    return value


def parse_unset(fields: Fields) -> tuple[str, ...]:
    """Return the fields of ``Sampling`` that deployment and model decide. A ``top_p`` of 0 decides the temperature."""
    if fields.lacks(_OPEN):
        return OPEN
    given = {name for name in OPEN if fields.value(_named(fields, name)) is not None}
    if fields.value("top_p") == 0:
        given.add("temperature")
    return tuple(name for name in OPEN if name not in given)


def _named(fields: Fields, name: str) -> str:
    """Return the name by which a request has a parameter; its first name wins."""
    return name if fields.value(name) is not None else _OTHER_NAMES.get(name, name)


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


def parse_session(fields: Fields) -> str:
    """Return the client's name for requests that begin alike: OpenAI's, or else vLLM's."""
    return fields.optional_text("prompt_cache_key") or fields.optional_text("session_id") or ""
