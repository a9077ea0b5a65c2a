"""The header that says what of a conversation the model does not take, of the gateway and of rank 0 together."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from reconciler.wire.generation import Replaced
from tests.gateway.conftest import Start
from tests.gateway.rank_double import Turn, story

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
INPUT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [BLOCK]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": [IMAGE]}, {"role": "user", "content": "a"}]
    },
    "/v1/responses": {"input": [{"type": "function_call_output", "call_id": "c", "output": [INPUT_IMAGE]}]},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": [RESULT]}]},
}
COUNTS: dict[str, dict[str, Any]] = {
    "/v1/responses/input_tokens": BODIES["/v1/responses"],
    "/v1/messages/count_tokens": BODIES["/v1/messages"],
    "/tokenize": BODIES["/v1/chat/completions"],
}


async def shaping(turn: Turn) -> None:
    turn.accept(Replaced("parallel-calls", 2), Replaced("images", 1), Replaced("no\r\nname", 1))
    turn.say("a", 0)
    turn.finish()


@pytest.mark.parametrize("path", [*BODIES, *COUNTS])
async def test_a_header_names_what_was_replaced(start: Start, path: str) -> None:
    cluster = await start(shaping)
    for stream in (False, True) if path in BODIES else (False,):
        body = orjson.dumps({**(BODIES | COUNTS)[path], "stream": stream})
        async with cluster.http.post(cluster.url(path), data=body) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["x-replaced"] == "images=2, parallel-calls=2"
            await answer.read()


async def test_there_is_none_where_nothing_was_replaced(start: Start) -> None:
    cluster = await start(story(1))
    body = orjson.dumps({"messages": [{"role": "user", "content": "a"}]})
    async with cluster.http.post(cluster.url("/v1/chat/completions"), data=body) as answer:
        assert "x-replaced" not in answer.headers
