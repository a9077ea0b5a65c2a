"""Tokens of a prompt and the text of tokens, from the rank that would answer."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from reconciler import __version__
from tests.gateway.conftest import HELLO, Cluster
from tests.gateway.dialects.conftest import post

CONTEXT = 128
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


async def answered(cluster: Cluster, path: str, **fields: Any) -> Any:
    status, body = await post(cluster, path, **fields)
    assert status == 200, body
    return body


@pytest.mark.parametrize(
    "conversation",
    [
        {"messages": HELLO},
        {"messages": [{"role": "system", "content": "be brief"}, *HELLO], "tools": [TOOL]},
        {"messages": HELLO, "chat_template_kwargs": {"enable_thinking": False}},
    ],
)
async def test_a_conversation_has_the_tokens_that_its_answer_is_charged_for(
    cluster: Cluster, conversation: dict[str, Any]
) -> None:
    found = await answered(cluster, "/tokenize", model="llama", **conversation)
    reply = await answered(
        cluster, "/v1/chat/completions", max_tokens=1, return_token_ids=True, **conversation
    )
    assert found["tokens"] == reply["prompt_token_ids"]
    assert found["count"] == reply["usage"]["prompt_tokens"] == len(found["tokens"])
    assert (found["max_model_len"], found["token_strs"]) == (CONTEXT, None)


async def test_so_has_a_prompt(cluster: Cluster) -> None:
    found = await answered(cluster, "/tokenize", prompt="reconciler is")
    reply = await answered(cluster, "/v1/completions", prompt="reconciler is", max_tokens=1)
    assert found["count"] == reply["usage"]["prompt_tokens"]


@pytest.mark.parametrize("text", ["reconciler is", "", " two  spaces\n", "élan 🦊 漢字", "<|im_end|>"])
async def test_the_text_of_the_tokens_of_a_text_is_the_text(cluster: Cluster, text: str) -> None:
    found = await answered(
        cluster, "/tokenize", prompt=text, add_special_tokens=False, return_token_strs=True
    )
    assert len(found["token_strs"]) == found["count"]
    assert await answered(cluster, "/detokenize", tokens=found["tokens"]) == {"prompt": text}


async def test_a_conversation_may_be_without_the_beginning_of_the_answer(cluster: Cluster) -> None:
    whole = await answered(cluster, "/tokenize", messages=HELLO)
    without = await answered(cluster, "/tokenize", messages=HELLO, add_generation_prompt=False)
    assert 0 < without["count"] < whole["count"]
    assert whole["tokens"][: without["count"]] == without["tokens"]


async def test_what_is_longer_than_the_context_is_counted_too_but_not_without_end(cluster: Cluster) -> None:
    found = await answered(cluster, "/tokenize", prompt="7 " * CONTEXT)
    assert CONTEXT < found["count"] <= 4 * CONTEXT
    status, body = await post(cluster, "/tokenize", prompt="7 " * 3 * CONTEXT)
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
    assert body["error"]["message"].endswith(f"the most that can be asked about is {4 * CONTEXT}")
    status, body = await post(cluster, "/detokenize", tokens=[5] * (4 * CONTEXT + 1))
    assert (status, body["error"]["param"]) == (400, "tokens")


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"content": "as llama.cpp calls it"}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": HELLO}, "prompt"),
        ("/tokenize", {"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": HELLO, "chat_template": "{{ x }}"}, "chat_template"),
        ("/tokenize", {"messages": HELLO, "continue_final_message": True}, "continue_final_message"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "5"}, "tokens"),
        ("/detokenize", {"tokens": [5, -1]}, "tokens[1]"),
        ("/detokenize", {"tokens": [True]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1_000_000]}, "tokens"),
    ],
)
async def test_what_is_wrong_is_refused_by_its_name(
    cluster: Cluster, path: str, fields: dict[str, Any], param: str
) -> None:
    status, body = await post(cluster, path, **fields)
    assert (status, body["error"]["param"]) == (400, param)


async def test_a_model_that_does_not_exist_is_not_found(cluster: Cluster) -> None:
    status, body = await post(cluster, "/tokenize", model="gone", prompt="a")
    assert (status, body["error"]["code"]) == (404, "model_not_found")


async def test_the_version_is_this_products(cluster: Cluster) -> None:
    async with cluster.http.get(cluster.url("/version")) as answer:
        assert orjson.loads(await answer.read()) == {"version": __version__}
