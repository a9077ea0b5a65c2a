"""Fifty different streams, in the middle of which ranks are killed: each says what it says undisturbed.

Every second one is held to a form, and satisfies it; with ``RECONCILER_HELD_EVERY=1`` all are.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any

import jsonschema
import openai
import pytest

from tests.e2e.answers import Answer, stream
from tests.e2e.cluster import ROOT, Cluster

pytestmark = pytest.mark.e2e

STREAMS = 50
EACH = STREAMS // 5
MIDDLE = 25
"""Of the streams, so many at least are in the middle of their answers when a rank is killed."""
KILLS = ((1, STREAMS), (0, EACH))
"""Ranks, each with how many streams have said something, or ended, with its group by then: when the second is killed, others
are being read again, or wait."""
SECONDS_MAX = 120
HELD_EVERY = int(os.environ.get("RECONCILER_HELD_EVERY", "2"))
WORDS = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[ a-z]{4}$"},
    "minItems": 12,
    "maxItems": 12,
}
HELD: dict[str, Any] = {
    "type": "object",
    "properties": {"words": WORDS, 'said "so"': {"enum": ["\u00e9\\n", "no"]}},
    "required": ["words", 'said "so"'],
}
"""What takes as many tokens as the others do."""
SYSTEM = " ".join(f"Rule {number}: look at node {number % 7} before you answer." for number in range(20))
QUESTIONS = (
    "What is a node?", "What is an epoch?", "Who are you?", "What is a rank?", "Hello", "Thank you",
    "What is the gateway?", "What is a replica?", "What does the agent do?", "What is JACCL?",
)  # fmt: skip
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "reboot_node",
        "description": "Reboot a node",
        "parameters": {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]},
    },
}
PENALTIES: tuple[dict[str, Any], ...] = (
    {"extra_body": {"repetition_penalty": 1.3}},
    {"frequency_penalty": 1.0},
    {"presence_penalty": 1.5},
    {"frequency_penalty": 0.5, "presence_penalty": 0.5, "extra_body": {"repetition_penalty": 1.2}},
)


def bodies() -> Iterator[dict[str, Any]]:
    """Ten each: with a system prompt in common; with a tool to call; penalized; drawn; drawn and penalized."""
    for number, question in enumerate(QUESTIONS):
        told = {"role": "system", "content": SYSTEM}
        count = {"role": "user", "content": f"Count from {number} to 100."}
        story = {"role": "user", "content": "Tell me a story."}
        penalty = PENALTIES[number % len(PENALTIES)]
        drawn = {"temperature": 1.8, "seed": number}
        reboot = {"role": "user", "content": f"Please reboot node studio-{number}."}
        five = (
            asked([told, {"role": "user", "content": question}]),
            asked([reboot], tools=[TOOL]),
            asked([count], **penalty),
            asked([story], **drawn),
            asked([told, story], **drawn, **penalty),
        )
        yield from (held(body) if at % HELD_EVERY == 0 else body for at, body in enumerate(five, number))


def held(body: dict[str, Any]) -> dict[str, Any]:
    """The same request for an answer that has a form, and ends with it."""
    more = {name: value for name, value in body["extra_body"].items() if name != "min_tokens"}
    made = {**body, "extra_body": more, "max_tokens": 400}
    if "tools" in body:
        function = {**TOOL["function"], "parameters": HELD}
        return {
            **made,
            "tools": [{**TOOL, "function": function}],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        }
    return {
        **made,
        "response_format": {"type": "json_schema", "json_schema": {"name": "held", "schema": HELD}},
    }


def check_form(body: dict[str, Any], answer: Answer) -> None:
    """Check that an answer has the form that its request asks for, if it asks for one."""
    if "response_format" in body:
        assert (answer.finish, answer.calls) == ("stop", [])
        jsonschema.validate(json.loads(answer.text), HELD)
    elif "tool_choice" in body:
        assert (answer.finish, answer.text) == ("tool_calls", "")
        ((name, arguments),) = answer.calls
        assert name == "reboot_node"
        jsonschema.validate(json.loads(arguments), HELD)


def asked(messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A request for 70 to 80 tokens, greedy unless it says otherwise."""
    more = {"min_tokens": 70, **fields.pop("extra_body", {})}
    return {
        "model": "tiny",
        "messages": messages,
        "temperature": 0,
        "max_tokens": 80,
        **fields,
        "extra_body": more,
    }


async def together(cluster: Cluster, kills: Sequence[tuple[int, int]] = ()) -> tuple[list[Answer], list[int]]:
    """All fifty at once, of which every third reports log-probabilities, while ranks are killed. Return also how many were in
    their middle at each kill."""
    requests = [
        {**body, **({"logprobs": True, "top_logprobs": 2} if number % 3 == 0 else {})}
        for number, body in enumerate(bodies())
    ]
    said = [asyncio.Event() for _ in requests]
    going = []
    async with openai.AsyncOpenAI(
        base_url=cluster.endpoint(), api_key="none", timeout=SECONDS_MAX, max_retries=0
    ) as sdk:
        streams = [
            asyncio.create_task(stream(sdk, body, event.set))
            for body, event in zip(requests, said, strict=True)
        ]
        epoch = 0
        for rank, count in kills:
            epoch, pid = await asyncio.to_thread(ready, cluster, rank, epoch)
            for event in said:
                event.clear()
            async with asyncio.timeout(SECONDS_MAX):
                await first(count, map(has_said_something, streams, said))
            going.append(sum(not task.done() for task in streams))
            os.kill(pid, signal.SIGKILL)
        return list(await asyncio.gather(*streams)), going


async def first(count: int, all: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when so many of them have."""
    tasks = [asyncio.create_task(one) for one in all]
    for task in itertools.islice(asyncio.as_completed(tasks), count):
        await task
    for task in tasks:
        task.cancel()


async def has_said_something(task: asyncio.Task[Answer], event: asyncio.Event) -> None:
    """Return when it has, or has ended."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def ready(cluster: Cluster, rank: int, after: int) -> tuple[int, int]:
    """Epoch and pid of a rank of a group later than an epoch, once it is there."""

    def rows() -> list[tuple[int, int]]:
        found = [row for row in cluster.ranks() if row["rank"] == rank and row["phase"] == "ready"]
        return [(row["epoch"], row["pid"]) for row in found if row["epoch"] > after]

    cluster.wait("another group", rows, pause=0.05)
    return rows()[0]


@pytest.fixture(scope="module")
def roomy(shared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The shared cluster, whose group decodes all of them together."""
    shared.wait_settled()
    edited = tmp_path_factory.mktemp("streams") / "tiny.yaml"
    manifest = (ROOT / "manifests" / "tiny.yaml").read_text()
    edited.write_text(manifest.replace("maxBatch: 16", "maxBatch: 64"))
    shared.run("apply", "-f", str(edited))
    shared.run("rollout", "status", "deployment/tiny")
    shared.wait_settled()
    yield shared
    shared.run("apply", "-f", str(ROOT / "manifests"))
    shared.run("rollout", "status", "deployment/tiny")


@pytest.fixture(scope="module")
def undisturbed(roomy: Cluster) -> list[Answer]:
    answers, _ = asyncio.run(together(roomy))
    assert [answer.error for answer in answers] == [""] * STREAMS
    for body, answer in zip(bodies(), answers, strict=True):
        check_form(body, answer)
    assert sum(bool(answer.calls) for answer in answers) >= EACH
    assert len({str(answer.said) for answer in answers}) >= STREAMS - EACH
    assert sum(answer.cached_tokens > 0 for answer in answers) >= EACH
    return answers


def test_fifty_streams_say_the_same_although_ranks_are_killed_in_their_middle(
    roomy: Cluster, undisturbed: list[Answer]
) -> None:
    """One that does not speak to clients, and then the one of the next group that does."""
    before = roomy.metrics()["reconciler_requests_continued_total"]
    answers, going = asyncio.run(together(roomy, KILLS))
    print("in the middle of their answers:", going)
    assert min(going) >= MIDDLE
    assert roomy.metrics()["reconciler_requests_continued_total"] - before >= MIDDLE
    roomy.wait_settled()
    for answer, expected in zip(answers, undisturbed, strict=True):
        assert (answer.error, answer.said, answer.used) == ("", expected.said, expected.used)
        assert [token for token, _ in answer.logprobs] == [token for token, _ in expected.logprobs]
        assert [logprob for _, logprob in answer.logprobs] == pytest.approx(
            [logprob for _, logprob in expected.logprobs], abs=1e-3
        )
    hits = [answer.cached_tokens for answer in answers if answer.prompt_tokens > 300]
    assert sum(cached > 0 for cached in hits) > len(hits) // 2, (
        "they share a system prompt in the next group too"
    )
