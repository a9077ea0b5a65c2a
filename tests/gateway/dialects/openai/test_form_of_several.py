"""Several answers to one prompt, each in the form that was asked for: from two ranks of the tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import orjson
import pytest

from reconciler.gateway.routing.timeouts import Timing
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.groups import TINY, Serving
from tests.runner.ranks import running

pytestmark = pytest.mark.second_tier
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"type": "string", "pattern": "^[a-z]{8}$"}, "sure": {"type": "boolean"}},
    "required": ["kind", "sure"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}
BODY = {"model": "llama", "messages": HELLO, "response_format": FORMAT, "n": 3, "max_tokens": 64, "seed": 7}


@pytest.fixture(scope="module")
def group() -> Iterator[Serving]:
    with running(TINY, 2, context=512) as ranks:
        yield Serving(ranks.ready())


@pytest.fixture
async def cluster(start: Start, group: Serving) -> Cluster:
    cluster = await start(timing=Timing(shutdown=0.5, hello=60.0, retry_same_backend=0.05))
    cluster.route(group, context=512, batch=4)
    return cluster


def check(texts: list[str]) -> None:
    assert len(texts) == 3
    for text in texts:
        jsonschema.validate(orjson.loads(text), SCHEMA)
    assert len(set(texts)) > 1, "each is drawn by itself"


async def test_each_of_several_answers_has_the_form(cluster: Cluster) -> None:
    status, _, answer = await cluster.post({**BODY, "temperature": 2.0})
    assert status == 200
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop"] * 3
    check([choice["message"]["content"] for choice in answer["choices"]])


async def test_so_does_each_of_several_streams_at_once(cluster: Cluster) -> None:
    texts: dict[int, str] = {}
    lines = await cluster.events(**{**BODY, "temperature": 2.0})
    for line in lines[:-1]:
        event: Any = orjson.loads(line.removeprefix("data: "))
        for choice in event["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + (choice["delta"].get("content") or "")
    check([texts[index] for index in range(3)])
