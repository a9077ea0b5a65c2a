"""How the ranks of a group find each other before MLX does."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import json
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.runner.group import control_channel, sealed
from reconciler.wire.codec import decode
from reconciler.wire.group import FOLLOWER_RECEIVES, Join, Joined
from reconciler.wire.launch import ExitCode, RankEnd
from tests.runner.ranks import configs, free_addresses


def test_rank_0_accepts_at_every_address_at_which_others_find_it(tmp_path: Path) -> None:
    first, second, third = configs(tmp_path, tmp_path, 3, rendezvous_seconds=20.0)
    third = dataclasses.replace(third, control=free_addresses(1)[0])
    first = dataclasses.replace(first, also_control=(third.control,))
    joins = [Join(rank, 1, "1", "2", "weights") for rank in range(3)]
    found = {}

    def follow(rank: int) -> None:
        peers = control_channel.follow((second, third)[rank - 1], joins[rank])
        found[rank] = peers.connections[0].connection.getpeername()[1]
        peers.connections[0].close()

    threads = [threading.Thread(target=follow, args=(rank,)) for rank in (1, 2)]
    for thread in threads:
        thread.start()
    connections = control_channel.lead(first, joins[0]).connections
    for thread in threads:
        thread.join(30)
    for connection in connections.values():
        connection.close()
    assert sorted(connections) == [1, 2]
    assert {
        rank: int(config.control.rpartition(":")[2]) for rank, config in ((1, second), (2, third))
    } == found


class Clock:
    """A time that only passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(control_channel, "time", made)
    return made


@pytest.mark.parametrize("number", control_channel.NO_ROUTE)
def test_who_has_no_route_to_rank_0_says_so_before_rank_0_only_misses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, number: int
) -> None:
    attempts = []

    def forbidden(address: tuple[str, int], deadline: float) -> socket.socket:
        attempts.append(address)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(control_channel, "_connect", forbidden)
    _, second = configs(tmp_path, tmp_path, 2, rendezvous_seconds=100.0)
    with pytest.raises(RankEnd, match=f"did not welcome .*{os.strerror(number)}") as end:
        control_channel.follow(second, Join(1, 1, "1", "2", "weights"))
    assert end.value.code == ExitCode.NO_ROUTE
    assert len(attempts) > 1, "an interface may be coming up"
    assert clock.now == pytest.approx(control_channel.NO_ROUTE_SECONDS, abs=2 * control_channel.RETRY_SECONDS)


def test_a_route_that_comes_and_goes_is_tried_for_the_whole_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    errors = itertools.cycle((errno.EHOSTUNREACH, errno.ECONNREFUSED))

    def unsteady(address: tuple[str, int], deadline: float) -> socket.socket:
        number = next(errors)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(control_channel, "_connect", unsteady)
    _, second = configs(tmp_path, tmp_path, 2, rendezvous_seconds=100.0)
    with pytest.raises(RankEnd, match="within 100 s"):
        control_channel.follow(second, Join(1, 1, "1", "2", "weights"))


class Stranger:
    """A connection that notes whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def setblocking(self, blocking: bool) -> None:
        """It is let in."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """It is let in."""


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_who_joins_under_a_number_that_no_other_rank_has_is_sent_away(number: int) -> None:
    """A second rank 0 would be counted as the rank that is missing."""
    connections = [Stranger(), Stranger()]
    joins = [Join(rank, 1, "1", "2", "weights") for rank in (number, 1)]
    admitted: list[Any] = [((join, each), each) for join, each in zip(joins, connections, strict=True)]
    door: Any = SimpleNamespace(admitted=lambda deadline: iter(admitted))
    config: Any = SimpleNamespace(size=2, rendezvous_seconds=1.0)
    assert control_channel._wait(door, config) == {1: admitted[1][0]}
    assert [each.closed for each in connections] == [True, False]


def test_rank_0_names_the_ranks_that_did_not_come_in_time() -> None:
    connection = Stranger()
    admitted: list[Any] = [((Join(2, 1, "1", "2", "weights"), connection), connection)]
    door: Any = SimpleNamespace(admitted=lambda deadline: iter(admitted))
    config: Any = SimpleNamespace(size=4, rendezvous_seconds=7.0)
    with pytest.raises(RankEnd, match=r"rank 1, 3 did not connect within 7 s") as end:
        control_channel._wait(door, config)
    assert end.value.code == ExitCode.RENDEZVOUS


def test_of_a_rank_that_comes_twice_the_later_connection_counts() -> None:
    connections = [Stranger(), Stranger(), Stranger()]
    joins = [Join(rank, 1, "1", "2", "weights") for rank in (1, 1, 2)]
    admitted: list[Any] = [((join, each), each) for join, each in zip(joins, connections, strict=True)]
    door: Any = SimpleNamespace(admitted=lambda deadline: iter(admitted))
    config: Any = SimpleNamespace(size=3, rendezvous_seconds=1.0)
    assert control_channel._wait(door, config) == {1: admitted[1][0], 2: admitted[2][0]}
    assert [each.closed for each in connections] == [True, False, False]


class Welcomed:
    """A connection that notes what is sent over it."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def send(self, frame: bytes) -> None:
        self.told.append(decode(json.loads(frame[4:]), FOLLOWER_RECEIVES))


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_the_ports_of_the_ring_are_in_the_order_of_ranks_in_whatever_order_they_join(
    monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    mine, *others = (Join(rank, 1, "1", "2", "weights", 41000 + rank) for rank in range(4))
    joined = {rank: (others[rank - 1], Welcomed()) for rank in order}
    monkeypatch.setattr(control_channel, "_listen", lambda at: contextlib.nullcontext())
    monkeypatch.setattr(control_channel, "Door", lambda *_: Stranger())
    monkeypatch.setattr(control_channel, "_wait", lambda door, config: joined)
    monkeypatch.setattr(sealed, "accepting", lambda secret: None)
    config: Any = SimpleNamespace(control="", also_control=(), secret="")
    ring = (41000, 41001, 41002, 41003)
    assert control_channel.lead(config, mine).ring == ring
    assert [connection.told for _, connection in joined.values()] == [[Joined("", ring)]] * 3
