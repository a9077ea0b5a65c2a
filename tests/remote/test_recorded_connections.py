"""The acts of connections to machines in many short lives on virtual time, compared with those that were recorded before."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest
import tenacity

from reconciler.errors import Refused, Unreachable
from reconciler.remote import relay, rpc
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.commands import Completed
from reconciler.remote.nodes import local
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.ssh import channels, connection
from reconciler.remote.ssh.channels import Held
from reconciler.remote.ssh.connection import Connection, ends
from reconciler.remote.ssh.jumps import JumpChain
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.remote.ssh.login_shell import ERR_MARK, OUT_MARK
from reconciler.resources import SshAccess
from reconciler.state import Ends
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.codec import Refused as RefusedMessage
from reconciler.wire.frames import encode
from reconciler.wire.generation import Jump, Machine
from reconciler.wire.node import AGENT_RECEIVES, Changed, Done, Observe, Shutdown
from tests.recorded import compare, digest
from tests.simulation.world.loop import START, VirtualLoop

RECORDED = Path(__file__).parent / "recorded"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGqFkW1GJbuU3nfpHS4tJgZKHfVkU3TLVdEp2GQ3dFdT"


def virtual() -> VirtualLoop:
    return VirtualLoop()  # type: ignore[abstract]


def name(value: object) -> str:
    """A short name of a value that is written the same way in each process."""
    return digest(repr(value), 6)


async def noted(doing: Coroutine[Any, Any, Any], said: list[str], what: str) -> None:
    """Note how something ended."""
    try:
        found = await doing
    except asyncio.CancelledError:
        said.append(f"{what} cancelled")
    except Exception as error:  # noqa: BLE001 - whichever it is, it is noted
        text = str(error).replace(f"[Errno {errno.EHOSTUNREACH}]", "[Errno N]")
        said.append(f"{what} {type(error).__name__} {getattr(error, 'code', '')} {name(text)}")
    else:
        said.append(f"{what} {found if isinstance(found, (str, Completed)) else type(found).__name__}")


# --- SSH connections ---


class Wire:
    """An SSH connection."""

    def __init__(self, number: int, said: list[str]) -> None:
        self.number, self.said = number, said

    def __repr__(self) -> str:
        return f"wire{self.number}"

    def abort(self) -> None:
        self.said.append(f"{self} aborted")

    def set_tunnel(self, tunnel: object) -> None:
        self.said.append(f"{self} over a tunnel {tunnel is not None:d}")

    async def wait_closed(self) -> None:
        """It is closed at once."""

    def get_extra_info(self, what: str) -> tuple[str, int]:
        return ("10.0.0.9", 22)


FAILURES: tuple[Any, ...] = (
    None, None, None, None, asyncssh.ConnectionLost("dropped"), ConnectionResetError("reset"), asyncssh.PermissionDenied("no"),
    asyncssh.HostKeyNotVerifiable("odd"), asyncssh.KeyExchangeFailed("none"), asyncssh.ConfigParseError("bad"), ValueError("bad"),
    asyncssh.DisconnectError(2, "Too many authentication failures"), asyncssh.DisconnectError(2, "bye"), OSError(errno.EHOSTUNREACH, "no route"),
    OSError(1, "odd"), TimeoutError(), TimeoutError("late"), socket.gaierror(8, "not found"),
)  # fmt: skip


def test_every_life_of_an_ssh_connection_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: C901 - one life
    monkeypatch.setattr(
        connection, "wait_random_exponential", lambda *given, **named: tenacity.wait_fixed(0.5)
    )
    lines = []
    for number in range(110):
        rng, loop, said = random.Random(number), virtual(), []  # type: ignore[var-annotated]
        chained = rng.random() < 0.3
        clients: list[Any] = []
        lasting = rng.choice((0.0, 0.0, 3.0, 40.0))

        async def chain(
            host: str, options: Any, chained: bool = chained, rng: random.Random = rng, said: list[str] = said
        ) -> JumpChain:
            hops: Any = ("jump",) if chained else ()
            made = JumpChain((Jump("j", 22, "u", KEY),) if chained else (), hops, host, 22)
            if chained:
                object.__setattr__(
                    made, "connections", (SimpleNamespace(close=lambda: said.append("chain closed")),)
                )
            return made

        async def connect(
            host: str,
            *,
            client_factory: Any,
            tunnel: Any,
            rng: random.Random = rng,
            said: list[str] = said,
            clients: list[Any] = clients,
            lasting: float = lasting,
            **options: Any,
        ) -> Any:
            shown = {key: each for key, each in options.items() if key != "known_hosts"}
            said.append(f"connect {host} {tunnel != ()} {name(shown)}")
            await asyncio.sleep(lasting)
            client, failure = client_factory(), rng.choice(FAILURES)
            if rng.random() < 0.5:
                client.connection_made(SimpleNamespace(get_extra_info=lambda what: ("10.0.0.7", 22)))
            if rng.random() < 0.3:
                client.password_auth_requested()
            if rng.random() < 0.3:
                client.public_key_auth_requested()
            if rng.random() < 0.3:
                assert not client.validate_host_public_key(host, "", 22, asyncssh.import_public_key(KEY))
            if failure is not None:
                raise failure
            clients.append(client)
            return Wire(len(clients), said)

        async def reaches(host: str, port: Any, user: str = "", rng: random.Random = rng) -> bool:
            return rng.random() < 0.5

        async def tried(host: str, options: Any, rng: random.Random = rng) -> list[str]:
            return rng.choice(([], ["one", "two"]))

        monkeypatch.setattr("reconciler.remote.ssh.jumps.connect", chain)
        monkeypatch.setattr(asyncssh, "connect", connect)
        monkeypatch.setattr("reconciler.remote.ssh.obstacles.ssh_reaches", reaches)
        monkeypatch.setattr(connection, "keys_tried", tried)
        last = LastAddresses()
        if rng.random() < 0.5:
            last.keep("ada@far.local", rng.choice(("10.0.0.5", "")))
        to = SshAccess(host="far.local", user="ada", hostKey=KEY, port=rng.choice((22, 22, 2222)))
        there = Connection("far", to, asyncio.Semaphore(1), last)

        def step(
            there: Connection = there,
            rng: random.Random = rng,
            loop: VirtualLoop = loop,
            said: list[str] = said,
            clients: list[Any] = clients,
        ) -> None:
            act = rng.choice(("get", "get", "get", "get", "renew", "keep", "lost"))
            if act == "lost":
                if clients:
                    rng.choice(clients).connection_lost(rng.choice((None, OSError("gone"))))
            else:
                loop.create_task(noted(getattr(there, act)(), said, act))

        now = START
        for _ in range(12):
            loop.call_soon(step)
            now += rng.choice((0.0, 0.2, 1.0, 4.0, 26.0))
            loop.run(now)
        told = f"{len(said)} {name(said)} {there._barred is None:d}"
        lines.append(f"{number} {there} {len(clients)} {told} {last.of('ada@far.local')} {loop.faults}")
        loop.close()
    compare(RECORDED / "ssh-connections.txt", lines)


async def test_a_connection_that_is_closed_ends_with_the_one_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    made = iter(range(9))
    slow = asyncio.Event()
    slow.set()

    async def connect(host: str, **options: Any) -> Any:
        await slow.wait()
        return Wire(next(made), said)

    async def chain(host: str, options: Any) -> JumpChain:
        return JumpChain()

    monkeypatch.setattr("reconciler.remote.ssh.jumps.connect", chain)
    monkeypatch.setattr(asyncssh, "connect", connect)
    there = Connection("far", SshAccess(host="far", user="ada", hostKey=KEY), asyncio.Semaphore(1))
    await there.close()
    first = await there.get()
    assert await there.get() is first
    await there.keep()
    await there.renew()
    assert said == []
    second = await there.get()
    assert second is not first
    await there.close()
    assert sorted(said) == ["wire0 aborted", "wire1 aborted"]
    third = await there.get()
    await there.renew()
    assert said[2:] == [f"{third} aborted"]
    slow.clear()
    waiting = asyncio.create_task(there.get())
    await asyncio.sleep(0)
    await there.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(said) == 3


def test_the_ends_of_a_connection_are_known_as_far_as_they_are_its_own() -> None:
    jump = Jump("j", 22, "u", KEY)
    direct: Any = SimpleNamespace(
        get_extra_info=lambda what: {"sockname": ("10.0.0.1", 5), "peername": ("10.0.0.2", 22)}[what]
    )
    lost: Any = SimpleNamespace(get_extra_info=lambda what: None if what == "peername" else ("10.0.0.1", 5))
    assert (ends(direct, JumpChain()).here, ends(direct, JumpChain()).there) == ("10.0.0.1", "10.0.0.2")
    assert ends(lost, JumpChain()) == Ends()
    over = ends(direct, JumpChain((jump,), (), "far", 2222))
    assert (over.jumps, over.inner, over.there) == ((jump,), ("far", 2222), "")


# --- commands on them ---


class Channel:
    """A channel, which notes what it is told."""

    def __init__(self, said: list[str], broken: bool) -> None:
        self.said, self.broken = said, broken

    def __getattr__(self, act: str) -> Any:
        def note(*given: object) -> None:
            self.said.append(f"{act}{given}")
            if self.broken and act in ("write", "kill"):
                raise OSError("broken")

        return note


def _events(rng: random.Random) -> list[tuple[float, str, Any]]:
    """The events of a command, each with its time."""
    found: list[tuple[float, str, Any]] = []
    at = 0.0
    if rng.random() < 0.85:
        at += rng.choice((0.0, 0.5, 4.0, 6.0))
        found.append((at, "out", b"motd\n" + OUT_MARK + rng.choice((b"/bin/fish\n", b"\n"))))
        if rng.random() < 0.8:
            found.append((at, "err", b"\n" + ERR_MARK))
    for _ in range(rng.randrange(4)):
        at += rng.choice((0.0, 0.5, 3.0))
        found.append((at, rng.choice(("out", "err")), rng.choice((b"text\n", b"x" * 40, b"y" * 90))))
    at += rng.choice((0.0, 1.0, 9.0))
    if rng.random() < 0.8:
        found.append((at, *rng.choice((("status", 0), ("status", 3), ("signal", "TERM"), ("signal", "ODD")))))
    found.append((at, "lost", rng.choice((None, None, OSError("gone")))))
    return found


def test_every_life_of_a_command_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "OUTPUT_BYTES_MAX", 100)
    lines = []
    for number in range(160):
        rng, loop, said = random.Random(number), virtual(), []  # type: ignore[var-annotated]
        events, held = _events(rng), rng.random() < 0.3
        opening = rng.choice((0.0, 0.0, 1.0))
        chan = Channel(said, rng.random() < 0.1)

        def happen(session: Any, what: str, value: Any, said: list[str] = said) -> None:
            if what in ("out", "err"):
                session.data_received(value, None if what == "out" else 1)
            elif what == "lost":
                session.connection_lost(value)
                if isinstance(session, Held):
                    said.append(f"eof {session.eof_received()}")
            else:
                getattr(session, "exit_status_received" if what == "status" else "exit_signal_received")(
                    *((value,) if what == "status" else (value, False, "", ""))
                )

        async def create(
            factory: Any,
            line: str,
            loop: VirtualLoop = loop,
            events: Any = events,
            chan: Any = chan,
            opening: float = opening,
            happen: Any = happen,
            **given: Any,
        ) -> Any:
            assert (given["encoding"], given["request_pty"]) == (None, False)
            await asyncio.sleep(opening)
            session = factory()
            for at, what, value in events:
                loop.call_later(at, happen, session, what, value)
            return chan, session

        wire: Any = SimpleNamespace(create_session=create)
        stdin, seconds = rng.choice((b"", b"", b"input")), rng.choice((2.0, 12.0, 12.0))

        async def holding(wire: Any = wire) -> Completed:
            return await (await channels.hold(wire, ("sleep", "9"))).begun

        tasks: list[Any] = []

        def begin(
            tasks: list[Any] = tasks,
            loop: VirtualLoop = loop,
            said: list[str] = said,
            held: bool = held,
            wire: Any = wire,
            stdin: bytes = stdin,
            seconds: float = seconds,
            holding: Any = holding,
        ) -> None:
            doing = holding() if held else channels.run(wire, ("true",), stdin, seconds)
            tasks.append(loop.create_task(noted(doing, said, "held" if held else "run")))

        loop.call_soon(begin)
        if rng.random() < 0.15:
            loop.call_later(rng.choice((0.0, 0.5, 2.0)), lambda tasks=tasks: tasks[0].cancel())
        loop.run(START + 60.0)
        lines.append(f"{number} {len(said)} {name(said)} {tasks[0].done():d} {len(loop.faults)}")
        loop.close()
    compare(RECORDED / "ssh-commands.txt", lines)


# --- the gateway's channels ---


def test_every_life_of_a_gateways_connection_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "public_key", lambda path: "key")
    lines = []
    for number in range(90):
        rng, loop, said = random.Random(number), virtual(), []  # type: ignore[var-annotated]
        lost: list[Any] = []
        sessions: list[Any] = []

        async def create_session(
            factory: Any,
            command: str,
            rng: random.Random = rng,
            said: list[str] = said,
            sessions: list[Any] = sessions,
            **given: Any,
        ) -> Any:
            said.append(f"session {command!r}")
            await asyncio.sleep(rng.choice((0.0, 0.0, 2.0)))
            failure = rng.choice(
                (None, None, None, asyncssh.ChannelOpenError(1, "no"), OSError("gone"), TimeoutError())
            )
            if failure is not None:
                raise failure
            sessions.append(factory())
            return Channel(said, False), sessions[-1]

        async def reach(
            to: Any,
            key: Path,
            over: Any,
            client: Any = None,
            rng: random.Random = rng,
            said: list[str] = said,
            lost: list[Any] = lost,
            create: Any = create_session,
        ) -> Any:
            said.append(f"reach {to.host} {key} {over}")
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.0)))
            failure = rng.choice(
                (None, None, None, None, asyncssh.PermissionDenied("no"), OSError("gone"), TimeoutError())
            )
            if failure is not None:
                raise failure
            lost.append(client().connection_lost)
            return SimpleNamespace(create_session=create, abort=lambda: said.append("aborted"))

        to = Machine("far", 22, "ada", KEY)
        trunk = relay._Trunk(to, Path("/k/gateway"), 3.0)
        monkeypatch.setattr(trunk, "reach", reach)
        tasks: list[Any] = []

        def step(
            trunk: Any = trunk,
            rng: random.Random = rng,
            loop: VirtualLoop = loop,
            said: list[str] = said,
            lost: list[Any] = lost,
            sessions: list[Any] = sessions,
            tasks: list[Any] = tasks,
        ) -> None:
            act = rng.choice(("open", "open", "open", "cancel", "lost", "ended", "refused", "close"))
            if act == "open":
                protocol: Any = Channel(said, False)
                tasks.append(loop.create_task(noted(trunk.open("r.sock", protocol), said, act)))
            elif act == "cancel" and tasks:
                rng.choice(tasks).cancel()
            elif act == "lost" and lost:
                lost.pop(0)(rng.choice((None, OSError("gone"))))
            elif act in ("ended", "refused") and sessions:
                session = sessions.pop(0)
                session.refused = session.refused or act == "refused"
                trunk._ended(session)
            elif act == "close":
                trunk.close()

        now = START
        for _ in range(14):
            loop.call_soon(step)
            now += rng.choice((0.0, 0.5, 3.0, relay.IDLE_SECONDS - 1, relay.IDLE_SECONDS))
            loop.run(now)
            said.append(f"{trunk._connecting is None} {len(trunk._sessions)} {trunk._marks}")
        lines.append(f"{number} {len(said)} {name(said[: len(said) // 2])} {name(said)} {len(loop.faults)}")
        loop.close()
    assert str(trunk) == "ada@far:22"
    compare(RECORDED / "gateway-connections.txt", lines)


# --- requests and answers ---


class Writer:
    """The writing end of a stream, which notes what it is given."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.said: list[Any] = []
        self.rng = rng
        self.transport: Any = SimpleNamespace(abort=lambda: self.said.append("abort"))

    def write(self, data: bytes) -> None:
        self.said.append(data)

    async def drain(self) -> None:
        """Wait for the reader, who may be slow or gone."""
        chance = 1.0 if self.rng is None else self.rng.random()
        if chance < 0.05:
            raise ConnectionResetError("gone")
        if chance < 0.1:
            await asyncio.sleep(100)

    def close(self) -> None:
        self.said.append("close")

    async def wait_closed(self) -> None:
        chance = 1.0 if self.rng is None else self.rng.random()
        if chance < 0.1:
            raise OSError("gone")
        if chance < 0.2:
            await asyncio.sleep(100)


HELLO, ODD = encode(to_wire(Hello("agent", SPOKEN))), encode(to_wire(Hello("agent", (99,))))


def test_every_life_of_a_client_is_as_recorded() -> None:
    lines = []
    for number in range(110):
        rng, loop, said = random.Random(number), virtual(), []  # type: ignore[var-annotated]
        reader, writer = asyncio.StreamReader(loop=loop), Writer(rng)
        ends_of: Any = (reader, writer)
        client = AgentConnection(*ends_of)
        first = rng.choice((HELLO,) * 8 + (ODD, b"", encode(to_wire(Observe()))))
        if first or rng.random() < 0.5:
            reader.feed_data(first)
        else:
            reader.feed_eof()

        async def follow(client: AgentConnection = client, said: list[str] = said) -> str:
            async for sequence in client.changes():
                said.append(f"changed {sequence}")  # noqa: PERF401 - as it comes
            return "followed"

        def step(
            client: AgentConnection = client,
            rng: random.Random = rng,
            loop: VirtualLoop = loop,
            said: list[str] = said,
            reader: Any = reader,
        ) -> None:
            act = rng.choice(
                ("ask", "ask", "ask", "answer", "answer", "answer", "answer", "push", "eof", "error", "close")
            )
            asked = rng.randrange(1, 4)
            if act == "ask":
                loop.create_task(noted(client.request(Observe(), timeout=rng.choice((1.0, 5.0))), said, act))
            elif act == "answer":
                answer = rng.choice((Done(5), Done(6), RefusedMessage("No", "never"), Observe()))
                reader.feed_data(encode({**to_wire(answer), "reply": asked}))
            elif act == "push":
                reader.feed_data(
                    rng.choice(
                        (
                            encode(to_wire(Changed(asked))),
                            encode({"type": "odd"}),
                            encode({**to_wire(Done(1)), "reply": "x"}),
                        )
                    )
                )
            elif act == "eof" and rng.random() < 0.4:
                reader.feed_eof()
            elif act == "error" and rng.random() < 0.4:
                reader.set_exception(rng.choice((TimeoutError("lost"), OSError("odd"))))
            elif act == "close" and rng.random() < 0.4:
                loop.create_task(noted(client.close(), said, act))

        loop.call_soon(
            lambda loop=loop, client=client, said=said: loop.create_task(
                noted(client.open("controller", 3.0), said, "open")
            )
        )
        loop.call_soon(
            lambda loop=loop, follow=follow, said=said: loop.create_task(noted(follow(), said, "follow"))
        )
        now = START + 1.0
        loop.run(now)
        for _ in range(12):
            if client._listening is not None:
                loop.call_soon(step)
            now += rng.choice((0.0, 0.5, 1.0, 4.5))
            loop.run(now)
        lines.append(
            f"{number} {len(said)} {name(said)} {client.closed.is_set():d} {client._silent:d} {name([each for each in writer.said if isinstance(each, str)])} {len(client._waiting)} {len(loop.faults)}"
        )
        loop.close()
    compare(RECORDED / "rpc-clients.txt", lines)


def test_every_life_of_a_served_connection_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "REQUESTS_MAX", 2)
    lines = []
    for number in range(110):
        rng, loop, said = random.Random(number), virtual(), []  # type: ignore[var-annotated]
        reader, writer = asyncio.StreamReader(loop=loop), Writer(rng)

        async def dispatch(message: Any, rng: random.Random = rng, said: list[str] = said) -> Any:
            said.append(f"asked {type(message).__name__}")
            await asyncio.sleep(rng.choice((0.0, 1.0, 3.0)))
            failure = rng.choice(
                (
                    None,
                    None,
                    None,
                    Refused("No", "never"),
                    Unreachable("gone"),
                    rng.choice((None, None, None, KeyError("odd"))),
                )
            )
            if failure is not None:
                raise failure
            return Done(7)

        frames = (
            encode({**to_wire(Observe()), "call": 1}), encode({**to_wire(Shutdown(1)), "call": 2}), encode(to_wire(Observe())), encode({"type": "odd", "call": 3}),
            encode({**to_wire(Observe()), "call": "x"}), b"\xff" * 9,
        )  # fmt: skip
        reader.feed_data(rng.choice((HELLO,) * 8 + (ODD,)))
        given: Any = (reader, writer, AGENT_RECEIVES, dispatch)
        loop.call_soon(
            lambda loop=loop, given=given, said=said: loop.create_task(
                noted(rpc.serve(*given), said, "served")
            )
        )
        now, over = START, False
        for _ in range(10):
            if reader.exception() is None and not over:
                chance = rng.random()
                if chance < 0.8:
                    loop.call_soon(
                        reader.feed_data,
                        frames[min(rng.randrange(14), 5) if rng.random() < 0.1 else rng.randrange(5)],
                    )
                elif chance < 0.87:
                    over = True
                    loop.call_soon(reader.feed_eof)
                elif chance < 0.9:
                    loop.call_soon(reader.set_exception, OSError("odd"))
            now += rng.choice((0.0, 0.5, 2.0, 40.0))
            loop.run(now)
        if reader.exception() is None and not over:
            loop.call_soon(reader.feed_eof)
        loop.run(now + 1000.0)
        lines.append(
            f"{number} {len(said)} {name(said)} {len(writer.said)} {name(writer.said)} {len(loop.faults)}"
        )
        loop.close()
    compare(RECORDED / "rpc-servers.txt", lines)


# --- a node on this machine ---


def test_every_start_of_an_agent_here_is_as_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = []
    node = LocalNode("a", tmp_path, Path("/m"), Path("/r"), Path("/rp"), Path("/ap"), Path("/b.pyz"), 4.0)
    ends = (
        Completed(0, "", ""),
        Completed(75, "", "w"),
        Completed(77, "", " fenced\n"),
        Completed(1, "", "words"),
        Completed(-9, "", ""),
        TimeoutError(),
        OSError(errno.ENOENT, "none"),
    )
    for log in ("", "one\n" + "x" * 3000 + "\nlast\n"):
        (tmp_path / "agent.log").write_text(log)
        for end in ends:
            loop, said, asked = virtual(), [], []  # type: ignore[var-annotated]

            async def start(
                *command: str,
                timeout: float,  # noqa: ASYNC109 - as run_locally
                end: Completed | OSError = end,
                asked: list[Any] = asked,
            ) -> Completed:
                asked.append([*command, f"{timeout:g}"])
                if isinstance(end, OSError):
                    raise end
                return end

            monkeypatch.setattr(local, "run_locally", start)
            loop.call_soon(
                lambda loop=loop, said=said: loop.create_task(noted(node.start_agent(5), said, "start"))
            )
            loop.run(START + 60.0)
            lines.append(
                f"{end!r} {name([each.replace(str(tmp_path), 'HOME') for each in said]) if not log else said[0].split()[1]} {name([[word.replace(str(tmp_path), 'HOME') for word in command] for command in asked])}"
            )
            loop.close()
    compare(RECORDED / "local-starts.txt", lines)
    told = node._failure("late").splitlines()
    assert (told[0], told[1], told[-1]) == (
        "the agent of a did not start: late",
        f"{tmp_path / 'agent.log'} ends:",
        "last",
    )
    assert len(told[2]) < local._TAIL_BYTES
