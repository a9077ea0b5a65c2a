"""Whoever else connects to the ranks of a group neither joins, nor stalls them, nor ends them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.planning.context.membership import certificate
from reconciler.runner.group import control_channel, door, neighbours
from reconciler.runner.group.control_channel import Peers
from reconciler.runner.group.sealed import Sealed, connecting
from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode
from reconciler.wire.group import Join
from reconciler.wire.launch import ExitCode, Phase, RankConfig, RankEnd
from reconciler.wire.sockets import split_address
from tests.runner.ranks import Rank, configs, short_directory
from tests.runner.sealing import call, sealed_call
from tests.scanner import Scanner

OTHER = certificate("of another epoch")
SECONDS = 30.0
ENOUGH = 700
"""Bytes that a rank has sent when it has shown its certificate and said which rank it is."""


def joins(size: int) -> list[Join]:
    return [Join(rank, 1, "1", "2", "weights", 4000 + rank) for rank in range(size)]


def join_bytes(rank: int = 1) -> bytes:
    return encode(to_wire(joins(2)[1] if rank == 1 else dataclasses.replace(joins(2)[1], rank=rank)))


class Recorder:
    """A way to rank 0 that keeps what a rank says, to say it again."""

    def __init__(self, address: str) -> None:
        self.said = b""
        self._rank_0 = address
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._run)]

    def __enter__(self) -> Recorder:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(SECONDS)

    def _run(self) -> None:
        with self._listener:
            caller, _ = self._listener.accept()
        with caller, call(self._rank_0) as rank_0:
            back = threading.Thread(target=self._pass, args=(rank_0, caller, lambda _: None))
            back.start()
            self._pass(caller, rank_0, self._keep)
            back.join(SECONDS)

    def _keep(self, chunk: bytes) -> None:
        self.said += chunk

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket, heard: Callable[[bytes], None]) -> None:
        with contextlib.suppress(OSError):
            while chunk := one.recv(65536):
                heard(chunk)
                other.sendall(chunk)
            other.shutdown(socket.SHUT_WR)


@pytest.fixture
def pair(tmp_path: Path) -> list[RankConfig]:
    return configs(tmp_path, tmp_path, 2, rendezvous_seconds=SECONDS)


@contextlib.contextmanager
def leading(config: RankConfig) -> Iterator[Callable[[], Peers]]:
    """Rank 0 at its door; the function waits until it has let everybody in."""
    found: list[Peers] = []
    thread = threading.Thread(target=lambda: found.append(control_channel.lead(config, joins(2)[0])))
    thread.start()

    def led() -> Peers:
        thread.join(SECONDS)
        return found[0]

    try:
        call(config.control).close()
        yield led
    finally:
        thread.join(SECONDS)
        for peers in found:
            for connection in peers.connections.values():
                connection.close()


def half_a_handshake(address: str) -> socket.socket:
    connection = call(address)
    Sealed(connection, connecting(OTHER), server=False).shake_hands()
    return connection


def another_secret(address: str) -> socket.socket:
    """A rank of another epoch, which does all that a rank does."""
    connection = call(address)
    rank = Sealed(connection, connecting(OTHER), server=False)
    with contextlib.suppress(OSError):
        while not rank.shake_hands():
            rank.take()
        rank.send(join_bytes())
    return connection


def said(content: bytes) -> Callable[[str], socket.socket]:
    def say(address: str) -> socket.socket:
        connection = call(address)
        connection.sendall(content)
        return connection

    return say


STRANGERS = {
    "silent": call,
    "a browser": said(b"GET / HTTP/1.1\r\n\r\n"),
    "too much": said(b"\x16\x03\x01\x3f\xff" + b"x" * 40_000),
    "a join in the open": said(join_bytes()),
    "half a handshake": half_a_handshake,
    "another secret": another_secret,
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_who_has_not_the_secret_does_not_join_and_delays_nobody(
    pair: list[RankConfig], stranger: Callable[[str], socket.socket]
) -> None:
    with leading(pair[0]) as led, stranger(pair[0].control):
        began = time.monotonic()
        peers = control_channel.follow(pair[1], joins(2)[1])
        assert time.monotonic() - began < door.STRANGER_SECONDS
        assert sorted(led().connections) == [1]
        assert peers.ring == (4000, 4001)
        peers.connections[0].close()


def test_a_rank_waits_longer_for_all_others_than_for_the_handshake(
    pair: list[RankConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    next_frame, waits = Sealed.next_frame, []

    def noting(connection: Sealed) -> Any:
        waits.append(connection.connection.gettimeout())
        return next_frame(connection)

    monkeypatch.setattr(Sealed, "next_frame", noting)
    with leading(pair[0]) as led:
        control_channel.follow(pair[1], joins(2)[1]).connections[0].close()
        led()
    (seconds,) = waits
    assert seconds is not None
    assert door.STRANGER_SECONDS < seconds <= SECONDS


def test_a_member_that_says_another_rank_than_there_is_is_not_let_in(pair: list[RankConfig]) -> None:
    with leading(pair[0]) as led:
        stray = sealed_call(pair[0].control, pair[0].secret)
        stray.send(join_bytes(rank=7))
        with pytest.raises(ConnectionError):
            stray.next_frame()
        control_channel.follow(pair[1], joins(2)[1]).connections[0].close()
        assert sorted(led().connections) == [1]
        stray.close()


def test_what_a_rank_has_said_is_worth_nothing_when_another_says_it_again(tmp_path: Path) -> None:
    first, second, third = configs(tmp_path, tmp_path, 3, rendezvous_seconds=SECONDS)

    def follow(config: RankConfig) -> None:
        control_channel.follow(config, joins(3)[config.id.rank]).connections[0].close()

    with leading(first) as led, Recorder(first.control) as between:
        recorded = dataclasses.replace(second, control=between.address)
        followers = [threading.Thread(target=follow, args=(each,)) for each in (recorded, third)]
        followers[0].start()
        while len(between.said) < ENOUGH:
            time.sleep(0.01)
        with call(first.control) as copy:
            copy.sendall(between.said)
            with contextlib.suppress(OSError):
                while copy.recv(65536):
                    pass  # until it is shown out
        followers[1].start()
        assert sorted(led().connections) == [1, 2]
        for connection in led().connections.values():
            connection.close()
        for thread in followers:
            thread.join(SECONDS)


def test_two_hundred_who_say_nothing_keep_no_rank_out(pair: list[RankConfig]) -> None:
    with leading(pair[0]) as led, contextlib.ExitStack() as crowd:
        for _ in range(200):
            crowd.enter_context(call(pair[0].control))
        control_channel.follow(pair[1], joins(2)[1]).connections[0].close()
        assert sorted(led().connections) == [1]


def test_the_oldest_of_those_who_say_nothing_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "STRANGERS_MAX", 2)
    listener = door.listen("127.0.0.1", 0)
    with listener:
        at_it: door.Door[bool] = door.Door([listener], _Speaking)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with call(address) as speaks, call(address) as silent, call(address) as newest:
            speaks.sendall(b"x")
            assert list(at_it.admitted(time.monotonic() + 0.2)) == []
            assert at_it.strangers == 1
            silent.settimeout(SECONDS)
            assert silent.recv(1) == b""
            for other in (speaks, newest):
                other.setblocking(False)
                with pytest.raises(BlockingIOError):
                    other.recv(1)
            at_it.close()


class _Speaking:
    """A guest that never shows anything."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def take(self) -> int:
        return len(self._connection.recv(10))

    def proof(self) -> bool | None:
        return None


def test_who_listens_in_the_place_of_rank_0_learns_nothing_and_is_not_followed(
    pair: list[RankConfig],
) -> None:
    impostor = dataclasses.replace(pair[0], secret=OTHER)
    host, port = split_address(impostor.control)
    heard = []

    def listen() -> None:
        with socket.create_server((host, port)) as listener:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))

    thread = threading.Thread(target=listen)
    thread.start()
    with pytest.raises(RankEnd, match="did not welcome this rank"):
        control_channel.follow(dataclasses.replace(pair[1], rendezvous_seconds=1.0), joins(2)[1])
    thread.join(SECONDS)
    assert heard
    assert pair[1].secret.encode() not in heard[0]


# --- the ring --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5])
def test_neighbours_meet_past_strangers_at_every_door(tmp_path: Path, size: int) -> None:
    ranked = configs(tmp_path, tmp_path, size, rendezvous_seconds=SECONDS)
    found: dict[int, tuple[socket.socket, socket.socket]] = {}
    with contextlib.ExitStack() as held:
        doors = [held.enter_context(neighbours.listening(each)) for each in ranked]
        ports = tuple(each.getsockname()[1] for each in doors)
        for port in ports:
            address = f"127.0.0.1:{port}"
            for stranger in (call, said(b"x" * 200), said(b"x" * neighbours.NONCE_BYTES), half_a_handshake):
                held.enter_context(stranger(address))

        def meet(rank: int) -> None:
            found[rank] = neighbours.meet(ranked[rank], doors[rank], ports)

        threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        for rank, (_, right) in found.items():
            left, _ = found[(rank + 1) % size]
            assert left.getpeername() == right.getsockname()
        for pair in found.values():
            for connection in pair:
                connection.close()
    assert len(found) == size


@pytest.mark.parametrize("said", [b"", b"x" * 40], ids=["nothing", "a part"])
def test_a_neighbour_that_closes_the_connection_before_it_has_answered_is_not_met(
    tmp_path: Path, said: bytes
) -> None:
    last = configs(tmp_path, tmp_path, 2, rendezvous_seconds=0.5)[1]

    def answer(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    connection.recv(neighbours.NONCE_BYTES)
                    connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener, neighbours.listening(last) as own:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        ports = (listener.getsockname()[1], own.getsockname()[1])
        with pytest.raises(RankEnd, match=r"did not accept this rank .* the connection was closed"):
            neighbours.meet(last, own, ports)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(SECONDS)


def test_a_neighbour_of_another_epoch_is_not_met(tmp_path: Path) -> None:
    first, second = configs(tmp_path, tmp_path, 2, rendezvous_seconds=1.0)
    second = dataclasses.replace(second, secret=OTHER)
    ends = []
    with neighbours.listening(first) as one, neighbours.listening(second) as other:
        ports = (one.getsockname()[1], other.getsockname()[1])

        def meet(config: RankConfig, listener: socket.socket) -> None:
            try:
                neighbours.meet(config, listener, ports)
            except RankEnd as end:
                ends.append(end.code)

        threads = [threading.Thread(target=meet, args=each) for each in ((first, one), (second, other))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert ends == [ExitCode.RENDEZVOUS] * 2


# --- whole groups ----------------------------------------------------------------------------------


@pytest.mark.needs("linux")
def test_a_group_forms_while_a_scanner_takes_every_port_that_opens(endless: Path) -> None:
    with short_directory() as directory:
        ranked = configs(endless, directory, 2)
        ranks: list[Rank] = []
        with Scanner(lambda: [rank.process.pid for rank in ranks]) as scanner:
            try:
                for config in ranked:  # rank 0 holds its door open until rank 1 comes
                    ranks.append(Rank(config, directory))
                    deadline = time.monotonic() + SECONDS
                    while not scanner.connected:
                        assert time.monotonic() < deadline, "no port was found"
                        time.sleep(0.02)
                for rank in ranks:
                    rank.wait_for(Phase.READY)
            finally:
                for rank in ranks:
                    rank.end()
        logs = "".join(rank.log.read_text() for rank in ranks)
        assert re.search(r"[1-9]\d* connections of strangers were shown out", logs)
