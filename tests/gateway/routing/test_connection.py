"""One connection to one rank 0: when it is opened, whom it tells what, and when it is silent."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.gateway.events import Event
from reconciler.gateway.routing import connection as module
from reconciler.gateway.routing.connection import RankConnection
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, WireError, to_wire
from reconciler.wire.frames import FRAME_BYTES_MAX, encode
from reconciler.wire.generation import Backend, Generate
from tests.gateway.rank_double import RankDouble, Turn, eventually, story

ASKED = Generate("a.0", ({"role": "user", "content": "hello"},))
TIMING = Timing(reconnect_first=100.0, reconnect_max=300.0)


class Listening:
    """A request that notes what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lost = 0

    def on_events(self, events: Sequence[Event], now: float) -> None:
        self.events += [type(event).__name__ for event in events]

    def on_lost(self) -> None:
        self.lost += 1


class Way:
    """Leads to the socket of a rank, unless it is closed."""

    def __init__(self) -> None:
        self.closed = False
        self.taken = 0
        self.protocols: list[asyncio.Protocol] = []

    async def __call__(self, backend: Backend, protocol: asyncio.Protocol) -> None:
        self.taken += 1
        if self.closed:
            raise ConnectionRefusedError
        self.protocols.append(protocol)
        await asyncio.get_running_loop().create_unix_connection(lambda: protocol, backend.socket)


async def says_nothing(turn: Turn) -> None:
    await turn.hang()


class Link:
    """A connection to a rank, the way that it takes, and how often those who wait were told to look again."""

    def __init__(self, rank: RankDouble, timing: Timing = TIMING) -> None:
        self.rank = rank
        self.way = Way()
        self.told = 0
        backend = Backend(0, 1, str(rank.path), "node-a", None)
        self.connection = RankConnection(backend, timing, self.way, self._tell)

    def _tell(self) -> None:
        self.told += 1

    async def open(self) -> None:
        self.connection.open(now())
        await eventually(lambda: self.connection.ready)

    async def fails(self) -> tuple[float, float]:
        """Try in vain; the time before that and after it."""
        before, taken = now(), self.way.taken
        self.connection.open(1e9)
        await eventually(lambda: not self.connection.opening)
        assert self.way.taken == taken + 1
        return before, now()

    def tries_at(self, at: float) -> bool:
        """Whether it would try to connect at that time."""
        self.connection.open(at)
        tries = self.connection.opening
        self.connection.close()
        return tries


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[Link]:
    rank = await RankDouble(tmp_path / "r.sock", says_nothing).start()
    made = Link(rank)
    yield made
    made.connection.close()
    await rank.stop()


async def test_a_rank_that_cannot_be_reached_is_tried_again_after_pauses_that_double(link: Link) -> None:
    link.way.closed = True
    for pause in (100.0, 200.0, 300.0, 300.0):
        before, after = await link.fails()
        assert not link.connection.ready
        assert not link.tries_at(before + pause - 1)
        assert link.tries_at(after + pause)
    assert link.told == 4, "those who wait look each time: there may be another rank"


async def test_a_rank_that_cannot_be_reached_is_no_fault_of_the_gateway(link: Link) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    link.way.closed = True
    await link.fails()
    gc.collect()
    assert faults == []


async def test_new_routes_or_a_connection_begin_the_pauses_anew(link: Link) -> None:
    link.way.closed = True
    await link.fails()
    await link.fails()
    link.connection.reset()
    assert link.tries_at(now())
    _, after = await link.fails()
    assert link.tries_at(after + 100)
    await link.fails()
    link.way.closed = False
    link.connection.open(1e9)
    await eventually(lambda: link.connection.ready)
    await link.rank.stop()
    await eventually(lambda: not link.connection.ready)
    link.way.closed = True
    _, after = await link.fails()
    assert link.tries_at(after + 100)


async def test_it_is_opened_once(link: Link) -> None:
    link.connection.open(now())
    link.connection.open(now())
    await eventually(lambda: link.connection.ready)
    link.connection.open(now())
    assert link.way.taken == 1
    assert not link.connection.opening


@asynccontextmanager
async def strange(link: Link, hello: float, *, closes: bool) -> AsyncIterator[RankConnection]:
    """The connection to a process that never greets, and closes the connection at once or reads nothing of it."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not closes:
            await gone.wait()
        writer.close()

    path = link.rank.path.with_name("strange.sock")
    async with await asyncio.start_unix_server(serve, str(path)):
        backend = Backend(0, 1, str(path), "node-a", None)
        made = RankConnection(backend, replace(TIMING, hello=hello), link.way, lambda: None)
        made.open(now())
        yield made
        made.close()
        gone.set()


async def test_a_rank_that_does_not_greet_in_time_is_not_used(link: Link) -> None:
    async with strange(link, 0.05, closes=False) as mute:
        await eventually(lambda: not mute.opening)
        assert not mute.ready


async def test_a_rank_that_closes_the_connection_before_it_greets_has_failed_at_once(link: Link) -> None:
    async with strange(link, 1e6, closes=True) as closing:
        await eventually(lambda: not closing.opening)
        assert not closing.ready


async def test_what_is_closed_while_it_is_opened_stays_closed_until_it_is_opened_again(link: Link) -> None:
    async with strange(link, 1e6, closes=False) as mute:
        await eventually(lambda: bool(link.way.protocols))
        mute.close()
        assert not mute.opening
        mute.open(1e9)
        await eventually(lambda: len(link.way.protocols) == 2)
        assert mute.opening, "the end of the first attempt is not that of the second"


async def test_it_is_silent_once_no_event_of_any_request_has_come_for_so_long(link: Link) -> None:
    await link.open()
    assert not link.connection.silent(1e9, 10.0), "nobody asks it anything"
    link.connection.submit(ASKED, Listening())
    link.connection.last_event_at = 50.0
    assert not link.connection.silent(60.0, 10.0)
    assert link.connection.silent(60.1, 10.0)


async def test_a_further_request_is_no_sign_of_life(link: Link) -> None:
    await link.open()
    link.connection.last_event_at = -1.0
    link.connection.submit(ASKED, Listening())
    assert link.connection.last_event_at >= 0.0, "until then it had nothing to say"
    link.connection.last_event_at = 50.0
    link.connection.submit(replace(ASKED, request="b.0"), Listening())
    assert link.connection.last_event_at == 50.0


async def test_each_request_gets_its_own_events_and_all_are_told_of_the_end(link: Link) -> None:
    link.rank.script = story(2)
    await link.open()
    told, hung = Listening(), Listening()
    link.connection.submit(ASKED, told)
    await eventually(lambda: told.events == ["Accepted", "Delta", "Delta", "Finished"])
    link.connection.leave(ASKED.request, cancel=False)
    link.rank.script = says_nothing
    link.connection.submit(replace(ASKED, request="b.0"), hung)
    assert link.connection.in_flight == 1
    await link.rank.stop()
    await eventually(lambda: hung.lost == 1)
    assert told.lost == 0
    assert (link.connection.in_flight, link.connection.ready) == (0, False)


@pytest.mark.parametrize("requests", [0, 1, 2])
async def test_the_log_tells_how_many_requests_were_lost_with_a_connection_and_nothing_of_an_idle_one(
    link: Link, caplog: pytest.LogCaptureFixture, requests: int
) -> None:
    await link.open()
    asked = [Listening() for _ in range(requests)]
    for number, each in enumerate(asked):
        link.connection.submit(replace(ASKED, request=f"{number}.0"), each)
    await link.rank.stop()
    await eventually(lambda: not link.connection.ready)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    socket = link.connection.backend.socket
    assert told == ([f"lost {socket} on node-a with {requests} requests"] if requests else [])
    assert [each.lost for each in asked] == [1] * requests


async def test_a_request_that_fits_no_frame_or_finds_no_connection_is_refused_and_not_kept(
    link: Link,
) -> None:
    with pytest.raises(WireError, match="not connected"):
        link.connection.submit(ASKED, Listening())
    await link.open()
    large = replace(ASKED, messages=({"role": "user", "content": "a" * FRAME_BYTES_MAX},))
    with pytest.raises(WireError):
        link.connection.submit(large, Listening())
    assert link.connection.in_flight == 0


async def test_only_a_request_that_it_has_is_cancelled_and_only_where_that_is_asked_for(link: Link) -> None:
    await link.open()
    for name in ("a.0", "b.0", "c.0"):
        link.connection.submit(replace(ASKED, request=name), Listening())
    await eventually(lambda: len(link.rank.asked) == 3)
    link.connection.leave("a.0", cancel=False)
    link.connection.leave("unknown", cancel=True)
    link.connection.leave("b.0", cancel=True)
    await eventually(lambda: bool(link.rank.cancelled))
    assert link.rank.cancelled == ["b.0"]
    assert link.connection.in_flight == 1


async def test_a_withdrawn_one_is_closed_after_its_last_request(link: Link) -> None:
    await link.open()
    for name in ("a.0", "b.0"):
        link.connection.submit(replace(ASKED, request=name), Listening())
    link.connection.withdraw()
    link.connection.leave("a.0", cancel=False)
    assert link.connection.ready
    link.connection.leave("b.0", cancel=False)
    assert not link.connection.ready
    await eventually(lambda: link.rank.left)


async def test_a_rank_that_reads_nothing_gets_no_new_request_until_it_reads_on(link: Link) -> None:
    await link.open()
    (protocol,) = link.way.protocols
    protocol.pause_writing()
    assert not link.connection.ready
    told = link.told
    protocol.resume_writing()
    assert link.connection.ready
    assert link.told == told + 1


@pytest.mark.parametrize(("megabytes", "ready"), [(2, True), (6, False)])
async def test_what_a_rank_has_not_read_of_four_megabytes_keeps_new_requests_away(
    link: Link, megabytes: int, ready: bool
) -> None:
    await link.open()
    for number in range(megabytes):
        large = ({"role": "user", "content": "a" * 2**20},)
        link.connection.submit(replace(ASKED, request=f"{number}", messages=large), Listening())
    assert link.connection.ready is ready


async def test_a_rank_that_breaks_the_protocol_loses_its_requests(link: Link) -> None:
    async def breaks_it(turn: Turn) -> None:
        turn.send(turn.generate)
        await turn.hang()

    link.rank.script = breaks_it
    await link.open()
    asked = Listening()
    link.connection.submit(ASKED, asked)
    await eventually(lambda: asked.lost == 1)
    assert not link.connection.ready


async def test_one_that_drains_is_not_used_until_new_routes_name_it(link: Link) -> None:
    await link.open()
    link.connection.draining = True
    assert not link.connection.ready
    link.connection.reset()
    assert link.connection.ready


@pytest.mark.parametrize(
    ("versions", "spoken"), [(SPOKEN, True), ((*SPOKEN, 99), True), ((99,), False), ((), False)], ids=str
)
async def test_a_rank_that_speaks_no_common_version_is_not_used(
    versions: tuple[int, ...], spoken: bool
) -> None:
    ended: list[object] = []
    greeted = module._Connection(lambda _: None, ended.append, lambda: None)
    greeted.data_received(encode(to_wire(Hello("rank", versions))))
    assert (ended == []) is spoken
    assert greeted.hello.done()
    assert (greeted.hello.exception() is None) is spoken
