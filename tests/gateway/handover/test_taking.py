"""What a new gateway says of an old one that hands nothing over, up to the moment in which that has let go."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.gateway.handover.lock import Lock
from reconciler.gateway.handover.messages import SOCKET, Blocking, NotHandedOver, hello
from reconciler.gateway.handover.taking import Taking
from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode
from reconciler.wire.handover import OLD_RECEIVES, Complete, Given, Offer, Yours

WAIT_SECONDS = 30.0


def gives_nothing(side: Blocking) -> None:
    side.receive(WAIT_SECONDS)


def keeps(side: Blocking) -> None:
    """Says all, and does not let go."""
    side.receive(WAIT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as listening, tempfile.TemporaryFile() as lock:
        descriptors = [listening.fileno(), lock.fileno()]
        socket.send_fds(side.sock, [encode(to_wire(Given("p", 0.0)))], descriptors)
    side.send(Complete())
    side.receive(WAIT_SECONDS)


def lets_go(side: Blocking) -> None:
    keeps(side)
    side.send(Yours())


@contextlib.contextmanager
def old_gateway(goes_on: Callable[[Blocking], None]) -> Iterator[Path]:
    """The home of a gateway that says hello, goes on like this, and closes the connection."""
    with tempfile.TemporaryDirectory(prefix="r-") as folder, socket.socket(socket.AF_UNIX) as listening:
        home = Path(folder)
        listening.bind(str(home / SOCKET))
        listening.listen()

        def answer() -> None:
            sock, _ = listening.accept()
            with sock:
                side = Blocking(sock, OLD_RECEIVES)
                side.receive(WAIT_SECONDS)
                side.send(hello("gateway"))
                side.send(Offer("127.0.0.1:1", "127.0.0.1:1"))
                goes_on(side)

        thread = threading.Thread(target=answer)
        thread.start()
        yield home
        thread.join()


def has_no_room(descriptor: int) -> Lock:
    raise OSError("no room")


def take(home: Path) -> None:
    """Take everything over."""
    with contextlib.closing(Taking(home, has_no_room, any_port=False)) as taking, taking.take().sock:
        taking.own()


@pytest.mark.parametrize("old", [gives_nothing, keeps])
def test_a_gateway_that_closes_before_it_has_let_go_hands_nothing_over(
    old: Callable[[Blocking], None],
) -> None:
    with old_gateway(old) as home, pytest.raises(NotHandedOver, match="closed the connection"):
        take(home)


def test_what_fails_after_the_old_one_has_let_go_is_said_as_it_is() -> None:
    with old_gateway(lets_go) as home, pytest.raises(OSError, match="no room"):
        take(home)
