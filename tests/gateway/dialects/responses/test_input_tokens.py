"""The tokens of a request before it is sent: those that its answer is charged for."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.gateway.conftest import Cluster

CONTEXT = 256
TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
CALLED: Any = [
    {"role": "user", "content": "look"},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "nothing"},
]


@pytest.mark.parametrize(
    "body",
    [{"input": "hello"}, {"input": CALLED, "tools": [TOOL], "instructions": "be brief"},
     {"input": "hello", "text": {"format": {"type": "json_object"}}}],
)  # fmt: skip
async def test_it_is_what_an_answer_is_charged_for(cluster: Cluster, body: dict[str, Any]) -> None:
    counted = await cluster.client.responses.input_tokens.count(model="llama", **body)
    answered = await cluster.client.responses.create(model="llama", max_output_tokens=1, **body)
    assert answered.usage is not None
    assert counted.input_tokens == answered.usage.input_tokens > 0
    assert counted.object == "response.input_tokens"


async def test_what_is_wrong_is_refused_by_its_name(cluster: Cluster) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.responses.input_tokens.count(model="llama", input=[])
    assert caught.value.param == "input"
