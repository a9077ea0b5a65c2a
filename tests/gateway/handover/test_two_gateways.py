"""One gateway takes over from another under clients that ask all the time: nobody is refused, nothing is cut, all is counted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
from pathlib import Path

import aiohttp
import pytest

from reconciler.gateway.handover.channel import SOCKET, Channel
from reconciler.services.lock import NOT_HANDED_OVER
from reconciler.wire.codec import Hello, message, to_wire
from reconciler.wire.frames import encode
from reconciler.wire.handover import NEW, NEW_RECEIVES, OLD, SPOKEN, Given, Used
from tests.gateway.keys.test_accounting import tell
from tests.gateway.rank_double import eventually, story
from tests.ports import free_port

from .gateways import USED, WORDS, Tale, gateways
from .load import SECRET, check_switches, key

pytestmark = pytest.mark.second_tier


async def test_nobody_is_refused_nothing_is_cut_and_all_is_counted() -> None:
    await check_switches()


async def test_a_long_answer_is_finished_by_who_began_it_across_two_switches() -> None:
    tale = Tale()
    async with gateways(tale, keys=(key(tokens_per_day=10**9),)) as made:
        first = await made.serving()
        async with aiohttp.ClientSession() as http:
            asking = asyncio.create_task(made.ask(http, secret=SECRET, stream=True))
            await eventually(lambda: bool(made.ranks[0].asked))
            for _ in range(2):
                await made.serving("--take-over")
            assert not asking.done()
            tale.go_on.set()
            status, body = await asking
            assert (status, body.count(b'"content":"w')) == (200, WORDS)
            assert body.endswith(b"data: [DONE]\n\n")
            assert len(made.ranks[0].asked) == 1
            assert first.returncode is None, "its client may ask once more on its connection"
            async with http.get(made.url("/v1/models"), headers={"x-api-key": SECRET}) as answer:
                assert answer.status == 200
                assert answer.headers["connection"] == "close"
        for each in made.started[:2]:
            assert await each.wait() == 0
        await eventually(lambda: made.used() == {"agent": USED})


async def test_use_of_the_old_gateway_counts_for_the_limits_at_the_new_one() -> None:
    tale = Tale()
    async with gateways(tale, keys=(key(tokens_per_day=USED + WORDS),)) as made:
        await made.serving()
        async with aiohttp.ClientSession() as http, aiohttp.ClientSession() as new:
            asking = asyncio.create_task(made.ask(http, secret=SECRET, max_tokens=WORDS))
            await eventually(lambda: bool(made.ranks[0].asked))
            await made.serving("--take-over")
            await eventually(lambda: made.used() == {"agent": 3 + WORDS // 2})
            assert (await made.ask(new, secret=SECRET, max_tokens=WORDS + WORDS // 2))[0] == 429
            tale.go_on.set()
            assert (await asking)[0] == 200
            await eventually(lambda: made.used() == {"agent": USED})
            assert (await made.ask(new, secret=SECRET, max_tokens=WORDS))[0] == 429
            assert (await made.ask(new, secret=SECRET, max_tokens=WORDS - 20))[0] == 200


async def test_the_last_minute_counts_at_the_new_gateway() -> None:
    async with gateways(tell, keys=(key(requests_per_minute=2),)) as made:
        await made.serving()
        async with aiohttp.ClientSession() as http, aiohttp.ClientSession() as new:
            assert (await made.ask(http, "3 3 stop", SECRET))[0] == 200
            await made.serving("--take-over")
            assert (await made.ask(new, "3 3 stop", SECRET))[0] == 200
            assert (await made.ask(new, "3 3 stop", SECRET))[0] == 429


async def test_who_asks_for_everything_and_then_dies_changes_nothing() -> None:
    async with gateways(tell, keys=(key(tokens_per_day=10**9),)) as made:
        only = await made.serving()
        async with aiohttp.ClientSession() as http:
            for _ in range(3):
                channel = await connected(made.home)
                await channel.greet(NEW, OLD, first=True)
                given = await channel.receive(Given)
                assert given.listen == made.listen
                assert {(await channel.receive(Used)).usage.name for _ in range(given.keys)} <= {"agent"}
                assert len(channel.descriptors) == 2
                async with aiohttp.ClientSession() as late:
                    assert (await made.ask(late, "7 5 stop", SECRET))[0] == 200, "it goes on accepting"
                channel.close()
                assert (await made.ask(http, "7 5 stop", SECRET))[0] == 200
        assert made.owner() == only.pid
        await eventually(lambda: made.used() == {"agent": 6 * 12})
        assert "no gateway has taken over" in made.log
        await made.serving("--take-over")


async def connected(home: Path) -> Channel:
    """A connection to the gateway of a home."""
    channel = Channel(socket.socket(socket.AF_UNIX), NEW_RECEIVES)
    await asyncio.get_running_loop().sock_connect(channel.sock, str(home / SOCKET))
    return channel


async def test_of_a_gateway_that_is_killed_while_it_finishes_counts_what_it_has_said() -> None:
    async with gateways(story(10_000, pause=0.02), keys=(key(),)) as made:
        first = await made.serving()
        async with aiohttp.ClientSession() as http:
            asking = asyncio.create_task(made.ask(http, secret=SECRET, stream=True))
            await eventually(lambda: bool(made.ranks[0].asked))
            await made.serving("--take-over")
            await eventually(lambda: made.used().get("agent", 0) > 100)
            first.kill()
            with contextlib.suppress(aiohttp.ClientError):
                await asking
            assert made.used()["agent"] <= 3 + 10_000
            async with http.get(made.url("/v1/models"), headers={"x-api-key": SECRET}) as answer:
                assert answer.status == 200


async def test_a_gateway_that_is_killed_after_it_took_over_cuts_no_answer_of_the_one_before() -> None:
    tale = Tale()
    async with gateways(tale, keys=(key(tokens_per_day=10**9),)) as made:
        first = await made.serving()
        async with aiohttp.ClientSession() as http:
            asking = asyncio.create_task(made.ask(http, secret=SECRET, stream=True))
            await eventually(lambda: bool(made.ranks[0].asked))
            second = await made.serving("--take-over")
            await eventually(lambda: made.used() == {"agent": 3 + WORDS // 2})
            second.kill()
            await second.wait()
            await made.serving("--take-over")
            tale.go_on.set()
            status, body = await asking
            assert (status, body[-14:]) == (200, b"data: [DONE]\n\n")
        assert await first.wait() == 0
        assert made.used() == {"agent": 3 + WORDS // 2}, "what is used after the death nobody is told"


async def test_a_stop_ends_the_gateway_before_as_well() -> None:
    async with gateways(story(10_000, pause=0.05)) as made:
        first = await made.serving()
        async with aiohttp.ClientSession() as http:
            asking = asyncio.create_task(made.ask(http, stream=True))
            await eventually(lambda: bool(made.ranks[0].asked))
            second = await made.serving("--take-over")
            second.send_signal(signal.SIGTERM)
            _, body = await asking
            assert b"shutting_down" in body
            assert await first.wait() == 0
            assert await second.wait() == 0


async def test_an_address_that_has_changed_is_moved_to_after_the_switch() -> None:
    async with gateways(tell) as made:
        first = await made.serving()
        os.kill(first.pid, signal.SIGSTOP)  # it does not see the new routes before it is asked
        before, made.listen = made.listen, f"127.0.0.1:{free_port()}"
        made.route()
        after = await made.start("--take-over")
        await asyncio.sleep(0.1)
        os.kill(first.pid, signal.SIGCONT)
        await made.serves(after)
        await eventually(lambda: made.state()["listen"] == made.listen)
        async with aiohttp.ClientSession() as http:
            assert (await made.ask(http, "3 3 stop"))[0] == 200
            await first.wait()
            made.listen = before
            with pytest.raises(aiohttp.ClientConnectorError):
                await made.ask(http, "3 3 stop")


async def test_a_port_that_is_not_that_of_the_routes_is_kept_only_where_any_will_do() -> None:
    async with gateways(tell) as made:
        with socket.create_server(("127.0.0.1", int(made.listen.rpartition(":")[2]))):
            first = await made.serving("--any-port")
        taken = made.state()["listen"]
        assert taken != made.listen
        strict = await made.start("--take-over")
        assert await strict.wait() == NOT_HANDED_OVER
        assert made.owner() == first.pid
        await made.serving("--any-port", "--take-over")
        assert made.state()["listen"] == taken


async def test_a_gateway_that_cannot_hand_over_is_told_from_one_that_fails() -> None:
    async with gateways(tell) as made:
        first = await made.serving()
        (made.home / "gateway.sock").unlink()
        second = await made.start("--take-over")
        assert await second.wait() == NOT_HANDED_OVER
        assert "hands nothing over" in made.log
        assert made.owner() == first.pid


async def test_a_gateway_that_answers_nobody_is_not_waited_for() -> None:
    async with gateways(tell) as made:
        first = await made.serving()
        os.kill(first.pid, signal.SIGSTOP)
        second = await made.start("--take-over")
        assert await second.wait() == NOT_HANDED_OVER


async def test_other_versions_of_the_conversation_are_refused_before_anything_is_said() -> None:
    async with gateways(tell) as made:
        only = await made.serving()
        channel = await connected(made.home)
        await channel.send(Hello(NEW, (1, 99)))
        assert (await channel.receive(Hello)).versions == SPOKEN
        with pytest.raises(ConnectionResetError):
            await channel.receive(Given)
        channel.close()
        assert stat.S_IMODE((made.home / SOCKET).stat().st_mode) == 0o600
        assert made.owner() == only.pid


async def test_an_older_gateway_that_runs_is_told_from_one_that_fails() -> None:
    async with gateways(tell) as made:
        only = await made.serving()
        (made.home / SOCKET).unlink()

        async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for message in (Hello(OLD, (1,)), Offer()):
                writer.write(encode(to_wire(message)))
            await reader.read()
            writer.close()

        async with await asyncio.start_unix_server(answers, str(made.home / SOCKET)):
            second = await made.start("--take-over")
            assert await second.wait() == NOT_HANDED_OVER
        assert "hands nothing over: no common protocol version" in made.log
        assert made.owner() == only.pid


@message("offer")
class Offer:
    """The next word of a gateway that speaks the first version."""

    listen: str = ""
