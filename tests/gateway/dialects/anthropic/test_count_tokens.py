"""The tokens of a request before it is sent: those that its answer is charged for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest

from tests.gateway.conftest import HELLO, Cluster

CONTEXT = 256
WEATHER: Any = {
    "name": "weather",
    "description": "of a city",
    "input_schema": {"type": "object", "properties": {}},
}


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=cluster.url(""), api_key="unused", max_retries=0) as client:
        yield client


CALLED: Any = [
    *HELLO,
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"},
                                      {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}]},
]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        {"messages": HELLO},
        {"messages": HELLO, "system": [{"type": "text", "text": "be brief"}]},
        {"messages": CALLED, "tools": [WEATHER], "thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"messages": HELLO, "tools": [WEATHER, {"type": "web_search_20250305", "name": "web_search"}]},
        {"messages": HELLO, "tools": [WEATHER], "tool_choice": {"type": "none"}},
    ],
)
async def test_it_is_what_an_answer_is_charged_for(
    client: anthropic.AsyncAnthropic, body: dict[str, Any]
) -> None:
    counted = await client.messages.count_tokens(model="llama", **body)
    answered = await client.messages.create(model="llama", max_tokens=1, **body)
    usage = answered.usage
    read = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert counted.input_tokens == usage.input_tokens + read > 0


async def test_what_is_longer_than_the_context_is_counted_too(client: anthropic.AsyncAnthropic) -> None:
    long: Any = [{"role": "user", "content": "7 " * CONTEXT}]
    counted = await client.messages.count_tokens(model="llama", messages=long)
    assert counted.input_tokens > CONTEXT
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        await client.messages.create(model="llama", max_tokens=1, messages=long)


async def test_its_errors_are_anthropics(client: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="messages: messages must be a list"):
        await client.messages.count_tokens(model="llama", messages=[])
    with pytest.raises(anthropic.NotFoundError):
        await client.messages.count_tokens(model="gone", messages=HELLO)


async def test_a_base_url_with_v1_is_answered_with_the_right_one(cluster: Cluster) -> None:
    wrong = anthropic.AsyncAnthropic(base_url=cluster.url("/v1"), api_key="unused", max_retries=0)
    async with wrong:
        with pytest.raises(anthropic.NotFoundError, match="the base URL of clients is") as caught:
            await wrong.messages.count_tokens(model="llama", messages=HELLO)
    assert str(caught.value.body).count(cluster.url("")) == 1
