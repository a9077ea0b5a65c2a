"""What a client of Anthropic's SDK sees of real ranks."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import anthropic
import pytest

from tests.e2e.cluster import Cluster

pytestmark = pytest.mark.e2e

QUESTION: Any = {"role": "user", "content": "What is reconciler?"}
TOOL: Any = {
    "name": "reboot_node",
    "description": "Reboot a node",
    "input_schema": {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]},
}
GREEDY = {"temperature": 0}


def client(cluster: Cluster) -> anthropic.Anthropic:
    base = cluster.endpoint().removesuffix("/v1")
    return anthropic.Anthropic(base_url=base, api_key="none", timeout=60, max_retries=0)


def test_a_stream_says_the_same_as_a_whole_answer(tiny: Cluster) -> None:
    asked: Any = {"model": "tiny", "max_tokens": 500, "messages": [QUESTION], "extra_body": GREEDY}
    with client(tiny) as sdk:
        whole = sdk.messages.create(**asked)
        with sdk.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
    (text,) = whole.content
    assert text.type == "text"
    assert "reconciler" in text.text.lower()
    assert (whole.stop_reason, streamed.stop_reason) == ("end_turn", "end_turn")
    assert [block.to_dict() for block in streamed.content] == [text.to_dict()]
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_a_stop_sequence_ends_an_answer_and_is_named(tiny: Cluster) -> None:
    with client(tiny) as sdk:
        answer = sdk.messages.create(
            model="tiny",
            max_tokens=500,
            messages=[QUESTION],
            stop_sequences=["zebra", "econciler"],
            extra_body=GREEDY,
        )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "econciler")


def test_a_tool_is_called_and_its_result_is_read(tiny: Cluster) -> None:
    asked: Any = {"role": "user", "content": "Please reboot node studio-7."}
    with client(tiny) as sdk:
        with sdk.messages.stream(
            model="tiny", max_tokens=500, messages=[asked], tools=[TOOL], extra_body=GREEDY
        ) as stream:
            answer = stream.get_final_message()
        assert answer.stop_reason == "tool_use"
        (call,) = [block for block in answer.content if block.type == "tool_use"]
        assert (call.name, call.input) == ("reboot_node", {"node": "studio-7"})
        result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "done"}
        after = sdk.messages.create(
            model="tiny",
            max_tokens=500,
            messages=[asked, answer.to_param(), {"role": "user", "content": [result]}],
            tools=[TOOL],
            extra_body=GREEDY,
        )
    assert after.stop_reason in ("end_turn", "tool_use")
    assert after.usage.input_tokens + (after.usage.cache_read_input_tokens or 0) > answer.usage.input_tokens


def test_an_answer_has_the_form_that_was_asked_for(tiny: Cluster) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    with client(tiny) as sdk:
        typed = sdk.messages.create(
            model="tiny",
            max_tokens=100,
            messages=[QUESTION],
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )
        forced = sdk.messages.create(
            model="tiny",
            max_tokens=200,
            messages=[QUESTION],
            tools=[TOOL],
            tool_choice={"type": "tool", "name": "reboot_node", "disable_parallel_tool_use": True},
            extra_body=GREEDY,
        )
    (text,) = typed.content
    assert text.type == "text"
    assert json.loads(text.text)["city"] in ("Rome", "Oslo")
    assert forced.stop_reason in ("tool_use", "max_tokens")
    assert [block.name for block in forced.content if block.type == "tool_use"] in (["reboot_node"], [])


@pytest.mark.nightly
def test_a_stream_survives_a_killed_rank(tiny: Cluster) -> None:
    asked: Any = {
        "model": "tiny",
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "Count from 1 to 100."}],
        "extra_body": GREEDY,
    }
    with client(tiny) as sdk:
        reference = sdk.messages.create(**asked).content
        with sdk.messages.stream(**asked) as stream:
            killed = False
            for event in stream:
                if event.type == "text" and not killed:
                    os.kill(next(row["pid"] for row in tiny.ranks() if row["rank"] == 1), signal.SIGKILL)
                    killed = True
            answer = stream.get_final_message()
    assert [block.to_dict() for block in answer.content] == [block.to_dict() for block in reference]
    assert answer.stop_reason == "end_turn"
