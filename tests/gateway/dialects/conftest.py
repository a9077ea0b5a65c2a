"""Ranks behind a gateway: a real one, and doubles that refuse."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.gateway.conftest import Cluster, Start
from tests.gateway.groups import TINY, Serving
from tests.gateway.rank_double import Script, Turn
from tests.runner.ranks import running


def failing(code: str, text: str) -> Script:
    """A rank that refuses everything."""

    async def fail(turn: Turn) -> None:
        turn.fail(code, text)

    return fail


TOO_LONG = failing("context_length_exceeded", "5000 tokens, the context has 4096")
FULL = failing("overloaded", "the queue is full")


@pytest.fixture(scope="module")
def group(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """One rank of the tiny model, with the ``CONTEXT`` of the module."""
    with running(TINY, 1, context=request.module.CONTEXT) as ranks:
        yield Serving(ranks.ready())


@pytest.fixture
async def cluster(start: Start, group: Serving, request: pytest.FixtureRequest) -> Cluster:
    cluster = await start()
    cluster.route(group, context=request.module.CONTEXT)
    return cluster


async def post(cluster: Cluster, path: str, **fields: Any) -> tuple[int, Any]:
    """Status and object of an answer to these fields."""
    body = io.BytesIO(orjson.dumps(fields))
    async with cluster.http.post(cluster.url(path), data=body) as answer:
        return answer.status, orjson.loads(await answer.read())
