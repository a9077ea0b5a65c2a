"""Answers that pause where they like: what strict and lenient clients read is what the model said, on every surface."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from reconciler.wire.generation import CallPart
from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import Turn

from .test_silences import QUICK, TOOL, data_of

DRAWN = 60
"""Scripts for each of four surfaces."""
TEXTS = ("w ", "é", "\n\n", ": keep-alive", "data: x\n", '{"a": 1}', "[DONE]", "🙂")
FLAT_TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CLAUDE_TOOL = {"name": "look", "input_schema": {"type": "object"}}


@dataclass(frozen=True)
class Script:
    """Steps of one answer: seconds to wait, or text to say; reasoning before it, and arguments of a call after it."""

    reasoning: tuple[float | str, ...]
    content: tuple[float | str, ...]
    call: tuple[float | str, ...]

    @classmethod
    def draw(cls, seed: int) -> Script:
        pick = random.Random(seed)

        def steps(*texts: str) -> tuple[float | str, ...]:
            choices: tuple[float | str, ...] = (0.05, 0.1, *texts)
            return tuple(pick.choice(choices) for _ in range(pick.randrange(6)))

        arguments = ("", "") if pick.random() < 0.5 else ("{", '"a": 1', "}")
        call: list[float | str] = []
        for part in arguments:
            call += [pick.choice((0.0, 0.07)), part]
        return cls(steps(*TEXTS), steps(*TEXTS), tuple(call) if arguments[0] else ())

    def said(self, steps: tuple[float | str, ...]) -> str:
        return "".join(step for step in steps if isinstance(step, str))


async def tell(turn: Turn) -> None:
    """Tell the script that the text of the request numbers."""
    asked = turn.generate
    script = Script.draw(int(asked.prompt or asked.messages[-1]["content"]))
    turn.accept()
    token = 0
    for reasons, steps in ((True, script.reasoning if asked.messages else ()), (False, script.content)):
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                turn.say("" if reasons else step, token, reasoning=step if reasons else "")
                token += 1
    calls = script.call if asked.tools else ()
    if calls:
        turn.call_part(CallPart(0, "look", "call_1", ""), token)
    for step in calls:
        if isinstance(step, float):
            await asyncio.sleep(step)
        else:
            turn.call_part(CallPart(0, arguments=step), token)
    turn.finish("tool_calls" if calls else "stop")


def of_chat(told: list[Any]) -> tuple[str, str, str]:
    deltas = [choice["delta"] for one in told for choice in one["choices"]]
    calls = [call["function"].get("arguments", "") for d in deltas for call in d.get("tool_calls") or []]
    reasoning = "".join(d.get("reasoning_content") or "" for d in deltas)
    return reasoning, "".join(d.get("content") or "" for d in deltas), "".join(calls)


def of_completions(told: list[Any]) -> tuple[str, str, str]:
    return "", "".join(choice["text"] for one in told for choice in one["choices"]), ""


def of_responses(told: list[Any]) -> tuple[str, str, str]:
    def joined(*kinds: str) -> str:
        return "".join(one["delta"] for one in told if one["type"] in kinds)

    reasoning = joined("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
    return reasoning, joined("response.output_text.delta"), joined("response.function_call_arguments.delta")


def of_messages(told: list[Any]) -> tuple[str, str, str]:
    deltas = [one["delta"] for one in told if one["type"] == "content_block_delta"]
    thinking, text, arguments = (
        "".join(d.get(k, "") for d in deltas) for k in ("thinking", "text", "partial_json")
    )
    return thinking, text, arguments


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("path", "body", "read"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "@"}], "tools": [TOOL]}, of_chat),
        ("completions", {"prompt": "@"}, of_completions),
        ("responses", {"input": "@", "tools": [FLAT_TOOL]}, of_responses),
        (
            "messages",
            {"messages": [{"role": "user", "content": "@"}], "max_tokens": 99, "tools": [CLAUDE_TOOL]},
            of_messages,
        ),
    ],
)
async def test_wherever_an_answer_pauses_its_events_are_json_and_say_the_same(
    start: Start, path: str, body: Any, read: Any
) -> None:
    cluster = await start(tell, timing=QUICK)
    told = await asyncio.gather(*(answer(cluster, path, body, seed) for seed in range(DRAWN)))
    for seed, events in enumerate(told):
        script = Script.draw(seed)
        chat = path != "completions"
        said = (script.reasoning if chat else (), script.content, script.call if chat else ())
        expected = tuple(script.said(steps) for steps in said)
        if path == "messages":  # its blocks are never blanks alone
            expected = tuple(text if text.strip() else "" for text in expected)
        assert read(events) == expected, f"script {seed}"


async def answer(cluster: Cluster, path: str, body: Any, seed: int) -> list[Any]:
    """The events of the answer to one script."""
    asked = {"model": "llama", "stream": True, **orjson.loads(orjson.dumps(body).replace(b"@", b"%d" % seed))}
    async with cluster.http.post(cluster.url(f"/v1/{path}"), json=asked) as response:
        assert response.status == 200, await response.text()
        events = (await response.read()).split(b"\n\n")[:-1]
    return [data_of(event) for event in events if event != b"data: [DONE]"]
