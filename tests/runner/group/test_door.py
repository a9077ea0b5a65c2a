"""Who stands at a rank's door: members come in, and nobody else stays for long or says much."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from reconciler.runner.group import door
from reconciler.runner.group.door import STRANGER_BYTES_MAX, STRANGERS_MAX, Door, listen
from reconciler.wire.codec import WireError

SECONDS = 15.0


class Guest:
    """Shows membership by a line; ``no`` shows that it has none."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._said = b""

    def take(self) -> int:
        chunk = self._connection.recv(65536)
        if not chunk:
            raise ConnectionResetError("gone")
        self._said += chunk
        return len(chunk)

    def proof(self) -> bytes | None:
        if self._said.startswith(b"no"):
            raise WireError("not a member")
        return self._said if self._said.endswith(b"\n") else None


class House:
    """A door with one listener, and those who knock."""

    def __init__(self) -> None:
        self.listener = listen("127.0.0.1", 0)
        self.door: Door[bytes] = Door([self.listener], Guest)
        self.knocking: list[socket.socket] = []

    def knock(self, said: bytes = b"") -> socket.socket:
        made = socket.create_connection(self.listener.getsockname())
        made.settimeout(SECONDS)
        made.sendall(said)
        self.knocking.append(made)
        return made

    def admit(self, until: Callable[[], object] = lambda: False, seconds: float = SECONDS) -> list[bytes]:
        """Who is admitted until something holds."""
        found = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            for proof, connection in self.door.admitted(min(deadline, time.monotonic() + 0.02)):
                found.append(proof)
                connection.close()
        return found

    def close(self) -> None:
        self.door.close()
        for each in (*self.knocking, self.listener):
            each.close()


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.close()


def left(connection: socket.socket) -> bool:
    """Whether it was shown out."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_who_shows_membership_comes_in_whatever_others_do(house: House) -> None:
    house.knock()
    stranger = house.knock(b"no\n")
    half = house.knock(b"a mem")
    members = [b"one\n", b"two\n"]
    for member in members:
        house.knock(member)
    found = house.admit(lambda: house.door.strangers, seconds=SECONDS)
    assert left(stranger)
    half.sendall(b"ber\n")
    house.knock(b"three\n")
    found += house.admit(lambda: not house.door._standing, seconds=0.3)
    assert sorted(found) == sorted([*members, b"a member\n", b"three\n"])
    assert house.door.strangers == 1


def test_who_goes_before_it_has_said_who_it_is_is_forgotten(house: House) -> None:
    house.knock(b"a mem").close()
    assert house.admit(lambda: house.door.strangers) == []
    assert house.door._standing == {}


def test_who_talks_on_without_a_proof_is_shown_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "STRANGER_SECONDS", 600.0)
    talker = house.knock(b"x" * STRANGER_BYTES_MAX)
    house.admit(seconds=0.1)
    assert house.door.strangers == 0, "so much may be said"
    talker.sendall(b"x")
    house.admit(lambda: house.door.strangers)
    assert left(talker)
    assert house.door._standing == {}


def test_who_is_silent_too_long_is_shown_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "STRANGER_SECONDS", 0.0)
    silent = house.knock()
    house.admit(lambda: house.door.strangers)
    assert left(silent)


def test_where_too_many_stand_the_oldest_that_said_nothing_leaves(house: House) -> None:
    talker = house.knock(b"a mem")
    silent = house.knock()
    house.admit(lambda: len(house.door._standing) == 2)
    for _ in range(STRANGERS_MAX - 1):
        house.knock()
    house.admit(lambda: house.door.strangers)
    assert left(silent)
    assert len(house.door._standing) == STRANGERS_MAX
    talker.sendall(b"ber\n")
    assert house.admit(lambda: len(house.door._standing) < STRANGERS_MAX) == [b"a member\n"]


def test_who_comes_after_one_that_has_ended_listens_at_its_port_at_once() -> None:
    with listen("127.0.0.1", 0) as first:
        address = first.getsockname()
        with socket.create_connection(address) as caller:
            first.accept()[0].close()  # the side that closes first keeps the port for a while
            assert caller.recv(1) == b""
    with listen(*address) as second:
        assert second.getsockname() == address


def test_whoever_still_stands_there_leaves_with_the_door(house: House) -> None:
    standing = [house.knock(), house.knock(b"a mem")]
    house.admit(lambda: len(house.door._standing) == 2)
    house.door.close()
    assert house.door.strangers == 2
    assert [left(each) for each in standing] == [True, True]
    house.door = Door([house.listener], Guest)


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])
