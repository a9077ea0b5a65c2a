"""A client that goes away ends its request wherever it is: two real ranks stop working on it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.launch import PIECE_TOKENS_MAX
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.groups import Serving
from tests.gateway.rank_double import eventually
from tests.runner.conftest import write_endless
from tests.runner.ranks import running

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CONTEXT = 16384
BATCH_MAX = 2
LONG: dict[str, Any] = {"prompt": [5] * 16_000, "max_tokens": 5}
"""Nobody waits until it is read."""
READ: dict[str, Any] = {"prompt": [5] * 4_000, "max_tokens": 5}
UNENDING: dict[str, Any] = {"max_tokens": CONTEXT, "ignore_eos": True}
ENDLESS: dict[str, Any] = {"prompt": "a", **UNENDING}

ALIVE = b'"text":"","logprobs":null,"finish_reason":null}]}\n\n'


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    endless = write_endless(tmp_path_factory.mktemp("endless"))
    with running(endless, 2, context=CONTEXT, batch_max=BATCH_MAX) as ranks:
        yield Serving(ranks.ready())


@pytest.fixture
async def cluster(start: Start, group: Serving) -> AsyncIterator[Cluster]:
    """A gateway before the two ranks, which are idle before and after."""
    await eventually(lambda: group.demands() == [0, 0])
    pids = group.pids
    cluster = await start(timing=Timing(shutdown=0.5, headers_after=0.1, keep_alive=0.1))
    cluster.route(group, model="endless", context=CONTEXT)
    yield cluster
    await eventually(lambda: group.demands() == [0, 0])
    assert group.pids == pids


class Asking:
    """One request on a connection of its own, which can be closed under it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def begin(cls, cluster: Cluster, path: str = TEXT, **fields: Any) -> Asking:
        body = orjson.dumps({"model": "endless", **fields})
        reader, writer = await asyncio.open_connection(*cluster.address)
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        return cls(reader, writer)

    async def hear(self, text: bytes) -> None:
        """Until the answer has come so far."""
        async with asyncio.timeout(90):
            await self.reader.readuntil(text)

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_while_it_is_answered(
    cluster: Cluster, group: Serving, path: str, seed: int | None, stream: bool
) -> None:
    question: Any = {"messages": HELLO} if path == CHAT else {"prompt": "a"}
    asking = await Asking.begin(cluster, path, **UNENDING, **question, seed=seed, stream=stream)
    begun = group.steps()[0]
    await eventually(lambda: group.demands() == [1, 1] and group.steps()[0] > begun + 5)
    if stream:
        await asking.hear(b"data: ")
    await asking.leave()
    await eventually(lambda: group.demands() == [0, 0])


@pytest.mark.parametrize("stream", [False, True])
async def test_while_it_is_queued_behind_a_full_batch(cluster: Cluster, group: Serving, stream: bool) -> None:
    running = [await Asking.begin(cluster, **ENDLESS) for _ in range(BATCH_MAX)]
    await eventually(lambda: group.demands() == [BATCH_MAX, BATCH_MAX])
    queued = await Asking.begin(cluster, **ENDLESS, stream=stream)
    await eventually(lambda: group.demands()[0] == BATCH_MAX + 1)
    await queued.leave()
    await eventually(lambda: group.demands()[0] == BATCH_MAX)
    for asking in running:
        await asking.leave()


@pytest.mark.parametrize("stream", [False, True])
async def test_while_its_prompt_is_read(cluster: Cluster, group: Serving, stream: bool) -> None:
    begun = group.steps()
    asking = await Asking.begin(cluster, **LONG, stream=stream)
    await eventually(lambda: group.steps()[0] > begun[0] + 1)
    await asking.leave()
    await eventually(lambda: group.demands() == [0, 0])
    whole = len(LONG["prompt"]) // PIECE_TOKENS_MAX
    assert all(now - was < whole for now, was in zip(group.steps(), begun, strict=True))


async def test_one_of_several_prompts_that_are_read_together(cluster: Cluster, group: Serving) -> None:
    before = [len(rank.reports) for rank in group.group.ranks]

    def together() -> bool:
        """Whether both ranks have worked on the two at a time, also if they have done so before anybody looked."""
        ranks = zip(group.group.ranks, before, strict=True)
        return all(any(report.demand == 2 for report in rank.reports[begun:]) for rank, begun in ranks)

    stays = await Asking.begin(cluster, **READ, stream=True)
    leaves = await Asking.begin(cluster, **LONG)
    await eventually(together)
    await leaves.leave()
    await eventually(lambda: max(group.demands()) <= 1)
    await stays.hear(b"[DONE]")
    await stays.leave()


async def test_with_all_of_its_choices(cluster: Cluster, group: Serving) -> None:
    asking = await Asking.begin(cluster, **{**ENDLESS, "prompt": ["a", "b"]}, n=2, stream=True)
    await eventually(lambda: group.demands()[0] == 4)
    await asking.leave()
    await eventually(lambda: group.demands() == [0, 0])


async def test_a_prompt_too_long_is_refused_while_the_batch_is_full(cluster: Cluster, group: Serving) -> None:
    running = [await Asking.begin(cluster, **ENDLESS) for _ in range(BATCH_MAX)]
    await eventually(lambda: group.demands() == [BATCH_MAX, BATCH_MAX])
    asking = await Asking.begin(cluster, prompt=[5] * CONTEXT)
    await asking.hear(b"context_length_exceeded")
    assert group.demands()[0] == BATCH_MAX
    for each in (*running, asking):
        await each.leave()


async def test_signs_of_life_come_while_a_prompt_waits_and_is_read(cluster: Cluster, group: Serving) -> None:
    running = [await Asking.begin(cluster, **ENDLESS) for _ in range(BATCH_MAX)]
    await eventually(lambda: group.demands() == [BATCH_MAX, BATCH_MAX])
    asking = await Asking.begin(cluster, **READ, stream=True)
    await asking.hear(b"HTTP/1.1 200")
    await asking.hear(ALIVE)
    follower = group.group.ranks[1]
    begun = len(follower.reports)
    for each in running:
        await each.leave()
    await eventually(lambda: any(report.step_tokens > BATCH_MAX for report in follower.reports[begun:]))
    follower.process.send_signal(signal.SIGSTOP)  # so that it is read for as long as this takes
    loop = asyncio.get_running_loop()
    stopped_at = loop.time()
    while loop.time() < stopped_at + 0.25:  # beyond those that were sent before
        await asking.hear(ALIVE)
    follower.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(90):
        stream = await asking.reader.readuntil(b"[DONE]\n\n")
    await asking.leave()
    events = [part.split(b"\r\n")[-1] for part in stream.split(b"\n\n")]
    assert all(event.startswith(b"data: ") for event in events if event)
