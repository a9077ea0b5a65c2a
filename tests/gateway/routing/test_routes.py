"""The routes file: what is in force after each change of it, and how long nobody gives up waiting for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from reconciler.gateway.routing import routes as module
from reconciler.gateway.routing.routes import RoutesFile, parse_routes
from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, to_wire
from reconciler.wire.generation import Routes

from .conftest import route

ROUTES = Routes(SPOKEN[-1], 1, "127.0.0.1:1", 60.0, (route(),), 5)


class Clock:
    """A loop whose time the test sets."""

    def __init__(self, now: list[float]) -> None:
        self._now = now

    def time(self) -> float:
        return self._now[0]


def write(path: Path, text: bytes) -> None:
    """Replace the file, as the controller does."""
    beside = path.with_suffix(".new")
    beside.write_bytes(text)
    beside.replace(path)


def written(routes: Routes) -> bytes:
    return orjson.dumps(to_wire(routes))


@pytest.fixture
def file(tmp_path: Path) -> RoutesFile:
    return RoutesFile(tmp_path / "routes.json")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "routes.json"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", ""),
        (b"{}", ""),
        (written(replace(ROUTES, version=99)), "version 99; this gateway reads"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_leaves_the_last_one_in_force(
    file: RoutesFile, path: Path, caplog: pytest.LogCaptureFixture, text: bytes, words: str
) -> None:
    with pytest.raises(WireError, match=words or None):
        parse_routes(text)
    write(path, written(ROUTES))
    assert file.refresh()
    write(path, text)
    assert not file.refresh()
    assert file.current == ROUTES
    told = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert len(told) == 1
    assert "the last valid one stays in force" in told[0]
    assert not file.refresh()
    assert len(caplog.records) == 1, "it is told once"
    write(path, written(replace(ROUTES, hold_seconds=9.0)))
    assert file.refresh()
    assert file.current.hold_seconds == 9.0


def test_nothing_is_in_force_before_there_is_a_file_and_the_last_one_when_there_is_none_any_more(
    file: RoutesFile, path: Path
) -> None:
    assert not file.refresh()
    assert (file.current.routes, file.names(), file.find("llama"), file.ring) == ((), {}, None, None)
    write(path, written(ROUTES))
    assert file.refresh()
    assert not file.refresh(), "it has not changed"
    path.unlink()
    assert not file.refresh()
    assert file.find("llama") == route()
    assert file.models() == {"llama": route()}


@pytest.mark.parametrize(("token", "taken"), [(4, False), (5, True), (6, True)])
def test_routes_of_a_controller_that_was_replaced_are_not_taken(
    file: RoutesFile, path: Path, caplog: pytest.LogCaptureFixture, token: int, taken: bool
) -> None:
    write(path, written(ROUTES))
    assert file.refresh()
    other = replace(ROUTES, token=token, routes=(route(model="qwen"),))
    write(path, written(other))
    assert file.refresh() is taken
    assert file.current == (other if taken else ROUTES)
    assert set(file.names()) == {"qwen" if taken else "llama"}
    told = ["its token is 4, the newest is 5" in record.getMessage() for record in caplog.records]
    assert told == ([] if taken else [True])


@pytest.mark.parametrize("auth", ["none", "keys"])
@pytest.mark.parametrize("keep_alive", ["comment", "event"])
def test_keys_are_asked_for_and_pauses_are_told_as_the_routes_say(
    file: RoutesFile, auth: str, keep_alive: str
) -> None:
    assert file.take(replace(ROUTES, auth=auth, keep_alive=keep_alive))
    assert (file.ring is None) == (auth == "none")
    assert file.comments is (keep_alive == "comment")


def test_a_name_goes_before_an_alias_and_the_first_alias_before_others(file: RoutesFile) -> None:
    one = route(model="one", aliases=("two", "gpt", "one"))
    two, three = route(model="two", aliases=("gpt", "other")), route(model="three")
    assert file.take(replace(ROUTES, routes=(one, two, three)))
    assert file.names() == {"one": one, "two": two, "three": three, "gpt": one, "other": two}
    assert list(file.names())[:3] == ["one", "two", "three"]
    assert file.models() == {"one": one, "two": two, "three": three}


async def test_a_gateway_waits_for_its_first_routes(file: RoutesFile, path: Path) -> None:
    waiting = asyncio.create_task(file.wait(asyncio.Event()))
    await asyncio.sleep(0)
    assert not waiting.done()
    write(path, written(ROUTES))
    async with asyncio.timeout(60):
        assert await waiting is True
    assert file.current == ROUTES


@pytest.mark.parametrize("before", [True, False])
async def test_it_waits_no_longer_than_it_is_to_run(file: RoutesFile, before: bool) -> None:
    stop = asyncio.Event()
    if before:
        stop.set()
    waiting = asyncio.create_task(file.wait(stop))
    await asyncio.sleep(0)
    stop.set()
    async with asyncio.timeout(60):
        assert await waiting is False


async def test_it_reminds_people_of_what_it_waits_for_now_and_then(
    file: RoutesFile, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.0)
    caplog.set_level("INFO", module.__name__)
    now = [100.0]
    refresh, times = file.refresh, iter([0.0, 29.0, 31.0, 45.0, 59.0, 61.0])

    def look() -> bool:
        seconds = next(times, None)
        if seconds is None:
            return True
        now[0] = 100.0 + seconds
        told.append(len(caplog.records))
        return refresh()

    told: list[int] = []
    monkeypatch.setattr(file, "refresh", look)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: Clock(now))
    assert await file.wait(asyncio.Event()) is True
    assert told == [0, 0, 0, 1, 1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for {path}, which the controller writes"
    ] * 2
