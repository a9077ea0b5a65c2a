"""As much as a parameter may have is taken, and one more is refused with its name."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import orjson
import pytest

from reconciler.gateway.dialects import fields, forms
from reconciler.gateway.dialects.anthropic import request as anthropic
from reconciler.gateway.dialects.openai import completions, embeddings, parameters
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.dialects.responses import request as responses
from reconciler.gateway.errors import ApiError
from reconciler.wire.generation import Delta
from reconciler.wire.question import Vector
from tests.gateway.conftest import HELLO

Parse = Callable[[bytes, int], object]
BODIES: Mapping[Parse, Mapping[str, Any]] = {
    parse_chat: {"model": "m", "messages": HELLO},
    completions.parse_completion: {"model": "m", "prompt": "hello"},
    responses.parse_response: {"model": "m", "input": "hello"},
    anthropic.parse_request: {"model": "m", "messages": HELLO, "max_tokens": 9},
}
"""The least that each dialect takes."""
MOST = 3
"""In place of each bound, which is far above what a test should write."""


def take(parse: Parse, **more: Any) -> None:
    parse(orjson.dumps({**BODIES[parse], **more}), 42)


def refusal(parse: Parse, **more: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        take(parse, **more)
    assert caught.value.status == 400
    return caught.value


def texts(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


BOUNDS: list[tuple[ModuleType, str, Parse, str, Callable[[int], Any]]] = [
    (parameters, "STOPS_MAX", parse_chat, "stop", texts),
    (parameters, "STOP_TOKENS_MAX", parse_chat, "stop_token_ids", lambda n: list(range(n))),
    (parameters, "BIASES_MAX", parse_chat, "logit_bias", lambda n: {str(each): 1 for each in range(n)}),
    (completions, "PROMPTS_MAX", completions.parse_completion, "prompt", texts),
    (completions, "TOKENS_MAX", completions.parse_completion, "prompt", lambda n: [5] * n),
    (forms, "CHOICES_MAX", parse_chat, "guided_choice", texts),
    (forms, "REGEX_CHARACTERS_MAX", parse_chat, "guided_regex", lambda n: "a" * n),
    (forms, "SCHEMA_BYTES_MAX", parse_chat, "guided_json", lambda n: {}),
    (responses, "_METADATA_MAX", responses.parse_response, "metadata", lambda n: dict.fromkeys(texts(n), "x")),
    (anthropic, "STOPS_MAX", anthropic.parse_request, "stop_sequences", texts),
    (anthropic, "STOP_CHARACTERS_MAX", anthropic.parse_request, "stop_sequences", lambda n: ["a", "b" * n]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "bound", "parse", "name", "made"), BOUNDS, ids=[each[1] for each in BOUNDS]
)
def test_as_much_as_the_bound_is_taken_and_one_more_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    bound: str,
    parse: Parse,
    name: str,
    made: Callable[[int], Any],
) -> None:
    if bound == "SCHEMA_BYTES_MAX":
        length = len(orjson.dumps(made(0)))
        monkeypatch.setattr(module, bound, length)
        take(parse, **{name: made(0)})
        monkeypatch.setattr(module, bound, length - 1)
        assert "bytes" in refusal(parse, **{name: made(0)}).text
        return
    monkeypatch.setattr(module, bound, MOST)
    take(parse, **{name: made(MOST)})
    refusal(parse, **{name: made(MOST + 1)})


@pytest.mark.parametrize("name", ["stop_token_ids", "prompt"])
def test_token_ids_are_those_that_fit_the_wire(name: str) -> None:
    parse = parse_chat if name == "stop_token_ids" else completions.parse_completion
    take(parse, **{name: [0, parameters.TOKEN_IDS - 1]})
    for token in (-1, parameters.TOKEN_IDS):
        assert (refusal(parse, **{name: [5, token]}).param or "").startswith(name)


@pytest.mark.parametrize(
    ("token", "taken"),
    [("0", True), ("9" * 9, True), ("1" * 10, False), ("-1", False), ("٣", False), ("", False)],
)
def test_biases_are_by_the_decimal_number_of_a_token(token: str, taken: bool) -> None:
    biases = {token: 1}
    if taken:
        take(parse_chat, logit_bias=biases)
    else:
        assert refusal(parse_chat, logit_bias=biases).param == "logit_bias"


@pytest.mark.parametrize("name", ["stop", "stop_sequences", "guided_choice", "guided_regex"])
def test_an_empty_text_is_none(name: str) -> None:
    parse = anthropic.parse_request if name == "stop_sequences" else parse_chat
    wrong: list[Any] = (
        [""] if name == "guided_regex" else [[""], ["a", ""], ["a", 5], "" if name == "stop" else 5]
    )
    for each in wrong:
        refusal(parse, **{name: each})


@pytest.mark.parametrize(
    "depth", [fields.DEPTH_MAX - 2, fields.DEPTH_MAX - 1, fields.DEPTH_MAX, fields.DEPTH_MAX + 1]
)
def test_so_many_levels_may_values_be_nested_and_no_more(depth: int) -> None:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    assert fields.too_deep(value) is (depth >= fields.DEPTH_MAX)


@pytest.mark.parametrize("again", [False, True])
def test_vectors_as_lists_have_a_bound_and_one_that_comes_again_counts_once(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(embeddings, "NUMBERS_MAX", 6)
    numbers = base64.b64encode(struct.pack("<3f", 1.0, 2.0, 3.0)).decode()

    def vectors(*places: int) -> list[Any]:
        return [(0, Delta("r", (), vectors=tuple(Vector(place, numbers) for place in places)))]

    reply = embeddings.EmbeddingsReply("m", in_base64=False)
    reply.add(vectors(0, 1))
    if again:
        reply.add(vectors(0, 1))
        body = orjson.loads(reply.body())
        assert [each["embedding"] for each in body["data"]] == [[1.0, 2.0, 3.0]] * 2
        assert body["usage"] == {"prompt_tokens": 0, "total_tokens": 0}, "its end has not come"
    else:
        with pytest.raises(ApiError, match="more than 6 numbers"):
            reply.add(vectors(2))
    text = embeddings.EmbeddingsReply("m", in_base64=True)
    text.add(vectors(0, 1, 2))
    assert [each["embedding"] for each in orjson.loads(text.body())["data"]] == [numbers] * 3
