"""Which connections may stay: as many as there is room for, those with a request first."""

from __future__ import annotations

import asyncio

import pytest

from reconciler.serving.limiter import ConnectionLimiter, ConnectionLimits, End, Stage
from reconciler.serving.listener import end_overdue

LIMITS = ConnectionLimits(in_all=3, of_one=2, leaving=1)


class Client:
    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.ended = False

    def end(self) -> None:
        self.ended = True

    def expire(self, stage: Stage) -> None:
        raise AssertionError("only a server does that")


def admitted(limiter: ConnectionLimiter, *stages: Stage, address: str = "") -> list[Client]:
    """Connections of an address each, or all of one, in these stages."""
    clients = [Client(address or f"10.0.0.{number}") for number in range(len(stages))]
    for client, stage in zip(clients, stages, strict=True):
        assert limiter.admit(client, 0.0)
        limiter.move(client, stage, 0.0)
    return clients


@pytest.mark.parametrize(
    ("stages", "who"),
    [
        ((Stage.UNFINISHED, Stage.UNFINISHED, Stage.UNFINISHED), 0),
        ((Stage.IDLE, Stage.UNFINISHED, Stage.UNFINISHED), 1),
        ((Stage.BUSY, Stage.IDLE, Stage.IDLE), 1),
        ((Stage.BUSY, Stage.BUSY, Stage.IDLE), 2),
    ],
)
def test_the_oldest_without_a_request_makes_room_unfinished_heads_first(
    stages: tuple[Stage, ...], who: int
) -> None:
    limiter = ConnectionLimiter(LIMITS)
    clients = admitted(limiter, *stages)
    assert limiter.admit(Client("10.0.0.9"), 1.0)
    assert [client.ended for client in clients] == [number == who for number in range(3)]
    assert limiter.ended == {End.DISPLACED: 1}


def test_where_all_have_requests_a_further_one_is_refused_until_one_is_answered() -> None:
    limiter = ConnectionLimiter(LIMITS)
    clients = admitted(limiter, Stage.BUSY, Stage.BUSY, Stage.BUSY)
    late = Client("10.0.0.9")
    assert not limiter.admit(late, 1.0)
    limiter.move(late, Stage.LEAVING, 1.0)
    assert limiter.ended == {End.REFUSED: 1}
    limiter.forget(clients[0])
    assert limiter.admit(Client("10.0.0.9"), 2.0)
    assert not any(client.ended for client in clients)


def test_one_address_has_a_part_and_its_own_make_room_for_it() -> None:
    limiter = ConnectionLimiter(LIMITS)
    first, second = admitted(limiter, Stage.IDLE, Stage.IDLE, address="10.0.0.1")
    (other,) = admitted(limiter, Stage.IDLE, address="10.0.0.2")
    assert limiter.admit(Client("10.0.0.1"), 1.0)
    assert [first.ended, second.ended, other.ended] == [True, False, False]


def test_what_is_refused_counts_no_longer_and_few_of_them_stay() -> None:
    limiter = ConnectionLimiter(LIMITS)
    clients = admitted(limiter, Stage.UNFINISHED, Stage.UNFINISHED, Stage.UNFINISHED)
    for client in clients[:2]:
        limiter.move(client, Stage.LEAVING, 1.0)
    assert [client.ended for client in clients] == [True, False, False]
    assert limiter.admit(Client("10.0.0.8"), 1.0)
    assert limiter.admit(Client("10.0.0.9"), 1.0)
    assert [client.ended for client in clients] == [True, False, False]


def test_each_stage_has_its_time_but_for_answers() -> None:
    limiter = ConnectionLimiter(
        ConnectionLimits(9, 9, 9, head_seconds=10, idle_seconds=75, leaving_seconds=1)
    )
    unfinished, busy, idle, leaving = admitted(
        limiter, Stage.UNFINISHED, Stage.BUSY, Stage.IDLE, Stage.LEAVING
    )
    assert limiter.overdue(0.9) == []
    assert limiter.overdue(1.0) == [(leaving, Stage.LEAVING)]
    assert limiter.overdue(10.0) == [(unfinished, Stage.UNFINISHED), (leaving, Stage.LEAVING)]
    assert (idle, Stage.IDLE) in limiter.overdue(75.0)
    assert busy not in [client for client, _ in limiter.overdue(1e9)]
    limiter.move(idle, Stage.UNFINISHED, 70.0)
    assert idle not in [client for client, _ in limiter.overdue(79.0)]


def test_what_is_closed_makes_room_for_another_of_its_address() -> None:
    limiter = ConnectionLimiter(LIMITS)
    first, second = admitted(limiter, Stage.BUSY, Stage.BUSY, address="10.0.0.1")
    limiter.forget(first)
    assert limiter.admit(Client("10.0.0.1"), 1.0)
    assert (second.ended, limiter.ended) == (False, {})


def test_nothing_is_kept_of_addresses_without_a_connection() -> None:
    limiter = ConnectionLimiter(LIMITS)
    closed, refused = admitted(limiter, Stage.BUSY, Stage.UNFINISHED)
    limiter.forget(closed)
    limiter.move(refused, Stage.LEAVING, 1.0)
    assert not limiter._of_address


def test_the_stage_of_a_connection_is_known_until_it_is_closed() -> None:
    limiter = ConnectionLimiter(LIMITS)
    (client,) = admitted(limiter, Stage.BUSY)
    assert limiter.stage(client) is Stage.BUSY
    assert limiter.count(Stage.BUSY) == 1
    limiter.move(client, Stage.IDLE, 1.0)
    assert limiter.stage(client) is Stage.IDLE
    assert [limiter.count(stage) for stage in (Stage.BUSY, Stage.IDLE)] == [0, 1]


def test_a_client_has_so_many_seconds_for_each_thing() -> None:
    limits = ConnectionLimits.of(1024)
    assert (limits.head_seconds, limits.idle_seconds, limits.leaving_seconds) == (10, 75, 1)
    assert (limits.unread_seconds, limits.unread_end_seconds) == (5, 60)


def test_a_stage_that_is_told_again_began_when_it_was_entered() -> None:
    limiter = ConnectionLimiter(ConnectionLimits(9, 9, 9, head_seconds=10))
    (client,) = admitted(limiter, Stage.UNFINISHED)
    limiter.move(client, Stage.UNFINISHED, 9.0)
    assert limiter.overdue(10.0) == [(client, Stage.UNFINISHED)]


def test_one_that_is_refused_twice_counts_off_its_address_once() -> None:
    limiter = ConnectionLimiter(LIMITS)
    admitted(limiter, Stage.BUSY, Stage.BUSY, address="10.0.0.1")
    late = Client("10.0.0.1")
    assert not limiter.admit(late, 1.0)
    for _ in range(2):
        limiter.move(late, Stage.LEAVING, 1.0)
    assert not limiter.admit(Client("10.0.0.1"), 2.0)


def test_what_is_closed_is_forgotten_once() -> None:
    limiter = ConnectionLimiter(LIMITS)
    (client,) = admitted(limiter, Stage.UNFINISHED)
    limiter.forget(client)
    limiter.forget(client)
    limiter.move(client, Stage.BUSY, 1.0)
    assert limiter.stage(client) is None
    assert [limiter.count(stage) for stage in Stage] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("descriptors", "in_all", "of_one", "leaving"),
    [(64, 16, 14, 16), (256, 192, 168, 16), (4096, 3584, 3136, 128), (20_000, 17_952, 15_708, 512)],
)
def test_a_part_of_the_descriptors_is_kept_for_groups(
    descriptors: int, in_all: int, of_one: int, leaving: int
) -> None:
    limits = ConnectionLimits.of(descriptors)
    assert (limits.in_all, limits.of_one, limits.leaving) == (in_all, of_one, leaving)


class Served(Client):
    """A connection that notes when it was closed, and what had happened until then."""

    def __init__(self, limiter: ConnectionLimiter, turns: list[int], address: str) -> None:
        super().__init__(address)
        self.limiter = limiter
        self.turns = turns
        self.expired_at = -1

    def expire(self, stage: Stage) -> None:
        self.expired_at = self.turns[0]
        self.limiter.forget(self)


async def test_thousands_of_overdue_connections_are_ended_while_requests_go_on() -> None:
    turns = [0]
    limiter = ConnectionLimiter(ConnectionLimits(in_all=2000, of_one=2000, leaving=1))
    clients = [Served(limiter, turns, f"10.0.0.{number}") for number in range(1000)]
    for client in clients:
        limiter.admit(client, float("-inf"))

    async def requests() -> None:
        while True:
            turns[0] += 1
            limiter.move(clients[-1], Stage.BUSY, 0.0)
            await asyncio.sleep(0)

    others = asyncio.create_task(requests())
    await end_overdue(limiter)
    others.cancel()
    assert [client.expired_at for client in clients[:-1]] == sorted(c.expired_at for c in clients[:-1])
    assert turns[0] >= 10, "others had their turn in between"
    assert clients[-1].expired_at == -1, "one that has begun a request meanwhile stays"
