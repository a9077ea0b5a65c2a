"""Ranks measure how fast they compute and reach each other, between two steps, and go on as before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from reconciler.runner.decode import measure
from reconciler.runner.decode.measure import BYTES_MAX, Gauge
from reconciler.wire.generation import Delta, Failed, Finished, Generate
from reconciler.wire.group import Gauging
from reconciler.wire.measuring import Measure, Measured
from tests.runner.ranks import GREEDY, Group, connected, running

SMALL: dict[str, Any] = {"rounds": 4, "small_bytes": 256, "large_bytes": 65536}


def question(name: str, tokens: int) -> Generate:
    return Generate(name, (), prompt="Hello", tokens_max=tokens, sampling=GREEDY)


async def test_all_ranks_and_the_link_of_a_pair_are_measured_and_it_answers_as_before(pair: Group) -> None:
    async with connected(pair.socket) as client:
        client.send(question("before", 8))
        before = await client.reply("before")
        client.send(Measure("pace", **SMALL))
        found = await client.next("pace")
        assert isinstance(found, Measured)
        assert len(found.ranks) == 2
        assert all(rank.compute_seconds > 0 and rank.memory_bytes > 0 for rank in found.ranks)
        assert (found.small_bytes, found.large_bytes) == (256, 65536)
        assert min(found.small_seconds, found.large_seconds) > 0
        assert [link.ranks for link in found.links] == [(0, 1)]
        assert all(link.small_seconds > 0 and link.large_seconds > 0 for link in found.links)
        client.send(question("after", 8))
        assert (await client.reply("after")).tokens == before.tokens


async def test_of_a_ring_of_four_every_neighbour_is_measured(endless: Path) -> None:
    with running(endless, 4) as group:
        async with connected(group.ready().socket) as client:
            client.send(Measure("pace", **SMALL))
            found = await client.next("pace")
            assert isinstance(found, Measured)
            assert [link.ranks for link in found.links] == [(0, 1), (1, 2), (2, 3), (0, 3)]
            assert all(link.small_seconds > 0 for link in found.links)
            client.send(question("after", 8))
            assert isinstance((await client.reply("after")).last, Finished)


async def test_while_answers_are_produced_it_is_refused_unless_that_is_wanted(pair: Group) -> None:
    async with connected(pair.socket) as client:
        client.send(question("long", 200))
        while not isinstance(await client.next("long"), Delta):
            pass
        with pair.ranks[1].standing_still():
            client.send(Measure("refused", **SMALL))
            client.send(Measure("loaded", under_load=True, **SMALL))
        refused = await client.next("refused")
        assert isinstance(refused, Failed)
        assert refused.code == "busy"
        assert isinstance(await client.next("loaded"), Measured)
        rest = await client.reply("long")
        assert isinstance(rest.last, Finished)


async def test_who_asks_and_leaves_harms_nobody(pair: Group) -> None:
    async with connected(pair.socket) as client:
        client.send(Measure("unheard", **SMALL))
    async with connected(pair.socket) as client:
        client.send(Measure("heard", **SMALL))
        assert isinstance(await asyncio.wait_for(client.next("heard"), 60), Measured)


def test_a_rank_alone_measures_itself() -> None:
    gauge = Gauge(None)
    paces = gauge.measure(Gauging(1, 1, 10 * BYTES_MAX), lambda: None)
    assert len(paces.ranks) == 1
    assert (paces.links, paces.small_seconds) == ((), 0.0)
    measured = paces.as_measured("pace", Gauging(1, 1, 10 * BYTES_MAX))
    assert (measured.small_bytes, measured.large_bytes) == (4, BYTES_MAX)


@pytest.mark.parametrize(
    ("rank", "turn"),
    [(0, []), (1, [("send", 3), ("receive", 3)]), (2, []), (3, [("receive", 1), ("send", 1)])],
)
def test_of_a_pair_one_sends_first_and_the_other_sends_it_back(
    monkeypatch: pytest.MonkeyPatch, rank: int, turn: list[tuple[str, int]]
) -> None:
    done: list[tuple[str, int]] = []

    def noted(name: str) -> Any:
        return lambda values, other, group: done.append((name, other)) or values  # type: ignore[func-returns-value]

    wires = SimpleNamespace(
        send=noted("send"), recv_like=noted("receive"), all_sum=lambda values, group: values
    )
    monkeypatch.setattr(measure, "mx", SimpleNamespace(ones=mx.ones, eval=mx.eval, distributed=wires))
    gauge = Gauge(SimpleNamespace(rank=lambda: rank, size=lambda: 4))
    seconds = gauge._echo((1, 3), 256, 2)
    assert done == turn * 3, "the first one is not counted"
    assert (seconds > 0) is bool(turn)


@pytest.mark.parametrize("size", [4, 256, 65536])
def test_what_is_measured_is_of_the_size_that_is_told(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def noted(values: Any, *_: Any, group: Any) -> Any:
        sizes.append(values.nbytes)
        return values

    for name in ("all_sum", "send", "recv_like"):
        monkeypatch.setattr(mx.distributed, name, noted)
    gauge = Gauge(SimpleNamespace(rank=lambda: 0, size=lambda: 2))
    gauge._sum(size, 2, lambda: None)
    assert set(sizes) == {size}
    monkeypatch.setattr(gauge, "_barrier", lambda: None)
    gauge._echo((0, 1), size, 2)
    assert set(sizes) == {size}
