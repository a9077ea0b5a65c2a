"""The models that clients may name, what each allows, and the one that need not be named."""

from __future__ import annotations

import orjson
import pytest

from reconciler.gateway.dialects.dialect import Sources
from reconciler.gateway.dialects.openai import chat, completions
from reconciler.gateway.dialects.openai.model_list import all_models, one_model
from reconciler.gateway.errors import ApiError
from reconciler.wire.generation import Route
from tests.gateway.recorded.telling import Models

SOURCES = Sources(lambda: 1.0, lambda: "id", lambda: 7)
LLAMA = Route("llama", ("gpt-4o",), 8192, 1_700_000_000, batch=4)
QWEN = Route("qwen", (), 0, 0)
CHAT = orjson.dumps({"messages": [{"role": "user", "content": "hello"}]})
COMPLETION = orjson.dumps({"model": None, "prompt": "Once"})


def test_a_model_has_its_limits_under_vllms_names() -> None:
    own, alias = orjson.loads(all_models(Models(LLAMA), {}))["data"]
    assert (own["id"], alias["id"]) == ("llama", "gpt-4o")
    for model in (own, alias):
        assert (model["root"], model["max_model_len"], model["max_num_seqs"]) == ("llama", 8192, 4)


def test_a_model_says_what_it_is_for() -> None:
    vectors = Route("bge", (), 512, 0, embeds=True)
    found = {
        each["id"]: each["type"] for each in orjson.loads(all_models(Models(LLAMA, vectors), {}))["data"]
    }
    assert found == {"llama": "llm", "gpt-4o": "llm", "bge": "embeddings"}


def test_a_slash_behind_the_list_asks_for_no_model() -> None:
    assert one_model(Models(LLAMA, QWEN), {"name": ""}) == all_models(Models(LLAMA, QWEN), {})


def test_a_limit_that_is_not_known_yet_is_null() -> None:
    model = orjson.loads(one_model(Models(QWEN), {"name": "qwen"}))
    assert (model["max_model_len"], model["max_num_seqs"]) == (None, None)


def test_a_request_without_a_model_goes_to_the_only_deployment() -> None:
    assert chat.parse(CHAT, SOURCES, Models(LLAMA)).model == "llama"
    assert completions.parse(COMPLETION, SOURCES, Models(LLAMA)).model == "llama"


@pytest.mark.parametrize(
    ("routes", "text"),
    [
        ((LLAMA, QWEN), "the request names no model: there are llama, qwen"),
        ((), "the request names no model: there is none yet"),
    ],
)
def test_a_request_without_a_model_has_to_choose_among_several(routes: tuple[Route, ...], text: str) -> None:
    for parse, body in ((chat.parse, CHAT), (completions.parse, COMPLETION)):
        with pytest.raises(ApiError) as caught:
            parse(body, SOURCES, Models(*routes))
        assert (caught.value.status, caught.value.text, caught.value.param) == (400, text, "model")
