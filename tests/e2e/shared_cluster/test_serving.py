"""What a client of the endpoint sees, through the official SDK."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.e2e.cluster import Cluster

QUESTION: Any = {"role": "user", "content": "What is reconciler?"}

pytestmark = pytest.mark.e2e


def client(cluster: Cluster) -> openai.OpenAI:
    return openai.OpenAI(base_url=cluster.endpoint(), api_key="none", timeout=60, max_retries=0)


def test_models_are_listed(tiny: Cluster) -> None:
    with client(tiny) as sdk:
        assert [model.id for model in sdk.models.list()] == ["tiny"]


def test_a_question_is_answered_in_a_whole_sentence(tiny: Cluster) -> None:
    with client(tiny) as sdk:
        answer = sdk.chat.completions.create(model="tiny", messages=[QUESTION], temperature=0)
    choice = answer.choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content is not None
    assert choice.message.content.endswith(".")
    assert "reconciler" in choice.message.content.lower()
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_says_the_same_and_ends_with_usage(tiny: Cluster) -> None:
    with client(tiny) as sdk:
        complete = sdk.chat.completions.create(model="tiny", messages=[QUESTION], temperature=0)
        stream = sdk.chat.completions.create(
            model="tiny",
            messages=[QUESTION],
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == complete.choices[0].message.content
    assert chunks[-1].usage == complete.usage
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


def test_a_tool_is_called_with_the_argument_of_the_question(tiny: Cluster) -> None:
    tool: Any = {
        "type": "function",
        "function": {
            "name": "reboot_node",
            "description": "Reboot a node",
            "parameters": {
                "type": "object",
                "properties": {"node": {"type": "string"}},
                "required": ["node"],
            },
        },
    }
    with client(tiny) as sdk:
        answer = sdk.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "Please reboot node studio-7."}],
            tools=[tool],
            temperature=0,
        )
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("reboot_node", '{"node": "studio-7"}')


def test_errors_are_the_sdk_s_own(tiny: Cluster) -> None:
    with client(tiny) as sdk:
        with pytest.raises(openai.NotFoundError) as missing:
            sdk.chat.completions.create(model="gpt-9", messages=[QUESTION])
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as malformed:
            sdk.chat.completions.create(model="tiny", messages=[], temperature=9)
        assert malformed.value.type == "invalid_request_error"
        with pytest.raises(openai.BadRequestError) as too_long:
            sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "word " * 5000}])
        assert too_long.value.code == "context_length_exceeded"
