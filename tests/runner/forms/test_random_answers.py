"""Answers of two ranks with random weights at temperature 1, held to schemas drawn at random: whatever ends satisfies its
schema. ``make forms`` draws 2,000 of each kind."""

from __future__ import annotations

import asyncio
import collections
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import jsonschema
import pytest

from reconciler.wire.form import Form
from reconciler.wire.generation import Failed
from reconciler.wire.sampling import Sampling
from tests.runner.conftest import write_endless
from tests.runner.ranks import Client, Group, Reply, connected, running

from .random_schemas import Schemas

pytestmark = pytest.mark.second_tier

COUNT = int(os.environ.get("RECONCILER_FORMS", "12"))
TOGETHER = 16
TOKENS_MAX = 400
Ask = Callable[[Client, int], Awaitable[tuple[Reply, Any]]]
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    model = write_endless(tmp_path_factory.mktemp("random"))
    with running(model, 2, context=4096, batch_max=TOGETHER) as found:
        yield found.ready()


NUMBERS = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "number": lambda _, one: isinstance(one, (int, float, Decimal)) and not isinstance(one, bool),
        "integer": lambda _, one: (
            isinstance(one, (int, Decimal)) and not isinstance(one, bool) and one == int(one)
        ),
    }
)
Exact: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, type_checker=NUMBERS
)
"""Takes numbers as they are written: a float next to a bound may be read as the bound."""


def exact(written: str) -> Decimal | float:
    """A number as it is written; one with an exponent beyond all reason as a float, which is infinite or 0."""
    try:
        return Decimal(written)
    except InvalidOperation:
        return float(written)


def check(text: str, schema: Any) -> None:
    Exact(schema, format_checker=CHECKER).validate(json.loads(text, parse_float=exact))


def described(parameters: Any, name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "described", "parameters": parameters},
    }


async def content(client: Client, number: int) -> tuple[Reply, Any]:
    schema = Schemas(number).answer()
    form = Form(schema=json.dumps(schema))
    sampling = Sampling(temperature=1.0, seed=number)
    return await client.ask(
        f"c{number}", "Hello", form=form, sampling=sampling, tokens_max=TOKENS_MAX
    ), schema


async def call(client: Client, number: int) -> tuple[Reply, Any]:
    drawn = Schemas(number)
    tools = tuple(described(drawn.arguments(), f"tool_{index}") for index in range(2))
    form = Form(calls_required=True, callable=("tool_1",) if number % 3 == 0 else ())
    sampling = Sampling(temperature=1.0, seed=number)
    reply = await client.ask(
        f"t{number}",
        "Hello",
        form=form,
        tools=tools,
        sampling=sampling,
        tokens_max=TOKENS_MAX,
        tool_calls_max=1 if number % 2 else None,
    )
    return reply, tools


def judged(reply: Reply) -> str:
    """How it ended; ``refused`` for a 400 that names a path within the schema."""
    if isinstance(reply.last, Failed):
        assert reply.last.code == "invalid_request", reply.last
        assert reply.last.parameter, reply.last
        return "refused"
    return str(reply.last.reason)


async def all_of(path: str, ask: Ask) -> list[tuple[Reply, Any]]:
    async with connected(path) as client:
        places = asyncio.Semaphore(2 * TOGETHER)

        async def one(number: int) -> tuple[Reply, Any]:
            async with places:
                return await ask(client, number)

        return list(await asyncio.gather(*map(one, range(COUNT))))


def test_whatever_content_ends_satisfies_its_schema(group: Group) -> None:
    ends: collections.Counter[str] = collections.Counter()
    for reply, schema in asyncio.run(all_of(group.socket, content)):
        ends[end := judged(reply)] += 1
        if end == "stop":
            check(reply.text, schema)
    print("contents:", dict(ends))
    assert ends["stop"] >= COUNT / 2
    assert ends["refused"] <= COUNT / 4


def test_whatever_call_ends_satisfies_the_schema_of_its_tool(group: Group) -> None:
    ends: collections.Counter[str] = collections.Counter()
    for number, (reply, tools) in enumerate(asyncio.run(all_of(group.socket, call))):
        one_call = number % 2
        end = judged(reply)
        ends[end if one_call else f"{end}, any number of calls"] += 1
        if end == "length":
            continue
        if end != "refused":
            assert end == "tool_calls"
            assert not reply.text.strip()
            assert len(reply.calls) == 1 or not one_call
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        for name, arguments in reply.calls:
            assert number % 3 or name == "tool_1"
            check(arguments, known[name])
    print("calls:", dict(ends))
    # A model with random weights seldom stops calling by itself: of the answers with one call, half must end.
    assert ends["tool_calls"] >= COUNT / 2 / 2
    assert sum(count for end, count in ends.items() if end.startswith("refused")) <= COUNT / 4
