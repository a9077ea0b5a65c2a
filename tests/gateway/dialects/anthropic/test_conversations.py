"""Anthropic's SDK takes every event of many made-up answers, and what it makes of a stream is the whole answer."""

from __future__ import annotations

import asyncio
import dataclasses
from random import Random
from typing import Any

import orjson
from anthropic import AsyncAnthropic
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.gateway.conftest import Start
from tests.gateway.dialects.tales import told
from tests.gateway.rank_double import Turn

CONVERSATIONS = 200
TOGETHER = 20
EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
STOPS = ("END", "\n\n")


async def tell(turn: Turn) -> None:
    """The answer whose number the client says, one event or a few at a time."""
    rng = Random(turn.generate.messages[-1]["content"])
    tale = told(rng, stops=turn.generate.stop)
    for event in tale.events:
        turn.send(dataclasses.replace(event, request=turn.generate.request))
        if rng.random() < 0.5:
            await asyncio.sleep(0)


def body_of(number: int) -> dict[str, Any]:
    """A request with some of what clients send."""
    rng = Random(number)
    body: dict[str, Any] = {
        "model": "llama",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": str(number)}],
    }
    extras: list[dict[str, Any]] = [
        {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"stop_sequences": list(STOPS)},
        {"tools": [{"name": "look", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"}},
        {"metadata": {"user_id": "u"}, "service_tier": "auto"},
    ]
    for extra in rng.sample(extras, rng.randint(0, 3)):
        body |= extra
    return body


def plain(message: Message) -> dict[str, Any]:
    """A message without what no two answers have in common: its id, and ids that were drawn for calls."""
    found = message.model_dump(exclude={"id"}, exclude_none=True)
    for block in found["content"]:
        if block.get("id", "").startswith("toolu_"):
            del block["id"]
    return found


async def test_the_sdk_takes_every_event_and_makes_the_whole_answer_of_a_stream(start: Start) -> None:
    cluster = await start(tell)
    seen: set[str] = set()

    async def check(sdk: AsyncAnthropic, number: int) -> None:
        body = body_of(number)
        whole = await sdk.messages.create(**body)
        snapshot: Any = None
        fragments: dict[int, bytes] = {}
        async with sdk.messages.with_streaming_response.create(**body, stream=True) as answer:
            text = (await answer.read()).decode()
        for part in text.split("\n\n")[:-1]:
            name, data = part.split("\n")
            event = EVENT.validate_json(data.removeprefix("data: "))
            assert name == f"event: {event.type}"
            seen.add(event.type if event.type != "content_block_delta" else event.delta.type)
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=fragments)
        streamed = plain(Message.model_validate(snapshot.model_dump(warnings=False)))
        broken = {index for index, text in fragments.items() if not is_object(text)}
        streamed["content"] = [
            block for index, block in enumerate(streamed["content"]) if index not in broken
        ]
        assert streamed == plain(whole), number

    async with AsyncAnthropic(base_url=cluster.url(""), api_key="unused", max_retries=0) as sdk:
        for first in range(0, CONVERSATIONS, TOGETHER):
            numbers = range(first, first + TOGETHER)
            await asyncio.gather(*[check(sdk, number) for number in numbers])
    assert len(seen) == 9


def is_object(text: bytes) -> bool:
    """Whether fragments are a complete call; a stream cannot take back one that turned out to be none."""
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
