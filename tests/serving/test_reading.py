"""A client reads as long as fewer bytes wait for it, however slowly; one that does not is told of, and given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from reconciler.serving.limiter import ConnectionLimits
from reconciler.serving.reading import Reading, told_of_client

LIMITS = ConnectionLimits(1, 1, 1, unread_seconds=1.0, unread_end_seconds=60.0)


class Clock:
    """The part of an event loop that a ``Reading`` uses; time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: dict[Clock.Handle, tuple[float, Callable[[], None]]] = {}

    class Handle:
        def __init__(self, clock: Clock) -> None:
            self.clock = clock

        def cancel(self) -> None:
            self.clock.due.pop(self, None)

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Handle:
        handle = self.Handle(self)
        self.due[handle] = (self.now + seconds, call)
        return handle

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [(at, handle) for handle, (at, _) in self.due.items() if at <= until]:
            at, handle = min(due, key=lambda each: each[0])
            self.now = at
            self.due.pop(handle)[1]()
        self.now = until


class Client:
    """What waits for a client, and what is said of it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waiting = 70_000
        self.told: list[bool] = []
        self.ended_at: float | None = None
        loop = cast(asyncio.AbstractEventLoop, self.clock)
        self.reading = Reading(loop, lambda: self.waiting, self.end, LIMITS)
        self.reading.tell = self.told.append

    def end(self) -> None:
        self.ended_at = self.clock.now


@pytest.fixture
def client() -> Client:
    return Client()


def test_after_a_second_without_reading_it_is_told_and_when_the_client_reads_again(client: Client) -> None:
    client.reading.pause()
    client.clock.advance(0.9)
    assert client.told == []
    client.clock.advance(0.1)
    assert client.told == [True]
    client.clock.advance(5)
    client.waiting = 60_000
    client.clock.advance(1)
    assert client.told == [True, False]
    client.clock.advance(1)
    client.reading.resume()
    assert client.told == [True, False, True, False]
    assert client.clock.due == {}


def test_after_a_minute_without_reading_the_connection_is_ended_once(client: Client) -> None:
    client.reading.pause()
    client.clock.advance(200)
    assert client.ended_at == 60.0
    assert client.clock.due == {}


def test_one_that_reads_slowly_is_never_ended(client: Client) -> None:
    client.reading.pause()
    for _ in range(10):
        client.clock.advance(50)
        client.waiting -= 1
    assert client.ended_at is None


def test_one_that_is_sent_more_is_not_taken_for_one_that_reads(client: Client) -> None:
    client.reading.pause()
    for _ in range(10):
        client.clock.advance(10)
        client.waiting += 1000
    assert client.ended_at == 60.0


def test_nobody_is_told_after_the_request(client: Client) -> None:
    heard: list[bool] = []
    scope: dict[str, Any] = {"type": "http", "state": {"reading": client.reading}}
    with told_of_client(scope, heard.append, lambda: heard.append(False)):
        client.reading.pause()
        client.clock.advance(1)
    client.reading.resume()
    client.reading.gone()
    assert heard == [True]


def test_who_left_before_the_answer_began_is_known_at_once(client: Client) -> None:
    heard: list[str] = []
    scope: dict[str, Any] = {"type": "http", "state": {"reading": client.reading}}
    client.reading.gone()
    with told_of_client(scope, lambda unread: None, lambda: heard.append("gone")):
        assert heard == ["gone"]
