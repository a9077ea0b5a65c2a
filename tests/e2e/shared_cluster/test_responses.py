"""Responses of two real ranks: a loop over a tool, and an answer that outlives rank 0."""

from __future__ import annotations

import os
import signal
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.e2e.cluster import Cluster

pytestmark = pytest.mark.e2e

REBOOT: Any = {
    "type": "function",
    "name": "reboot_node",
    "description": "Reboot a node",
    "parameters": {
        "type": "object",
        "properties": {"node": {"type": "string"}},
        "required": ["node"],
        "additionalProperties": False,
    },
    "strict": False,
}
LONG = "Count from 1 to 100."


def client(cluster: Cluster) -> openai.OpenAI:
    return openai.OpenAI(base_url=cluster.endpoint(), api_key="none", timeout=120, max_retries=0)


def streamed(sdk: openai.OpenAI, **body: Any) -> Response:
    """The response that the SDK assembles from a stream."""
    with sdk.responses.stream(model="tiny", temperature=0, **body) as stream:
        return stream.get_final_response()


def test_a_tool_is_called_and_its_result_answered(tiny: Cluster) -> None:
    conversation: list[Any] = [{"role": "user", "content": "Please reboot node studio-7."}]
    with client(tiny) as sdk:
        first = streamed(sdk, input=conversation, tools=[REBOOT, {"type": "web_search"}])
        (call,) = first.output
        assert call.type == "function_call"
        assert (call.name, call.arguments) == ("reboot_node", '{"node": "studio-7"}')
        conversation += [
            call.model_dump(exclude_none=True, include={"type", "call_id", "name", "arguments"}),
            {"type": "function_call_output", "call_id": call.call_id, "output": "studio-7 is back"},
        ]
        second = streamed(sdk, input=conversation, tools=[REBOOT])
        again = sdk.responses.create(model="tiny", temperature=0, input=conversation, tools=[REBOOT])
    assert second.status == "completed"
    assert second.output_text == again.output_text != ""
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens > 0, "the first turn was read again"


def test_an_answer_goes_on_after_rank_0_is_killed(tiny: Cluster) -> None:
    victim = next(row["pid"] for row in tiny.ranks() if row["rank"] == 0)
    with client(tiny) as sdk:
        undisturbed = streamed(sdk, input=LONG)
        with sdk.responses.stream(model="tiny", temperature=0, input=LONG) as stream:
            for event in stream:
                if event.type == "response.output_text.delta" and victim is not None:
                    os.kill(victim, signal.SIGKILL)
                    victim = None
            disturbed = stream.get_final_response()
    assert len(undisturbed.output_text) > 200
    assert (disturbed.status, disturbed.output_text) == ("completed", undisturbed.output_text)
    assert disturbed.usage is not None
    assert undisturbed.usage is not None
    assert disturbed.usage.output_tokens == undisturbed.usage.output_tokens
