"""The address that clients connect to."""

from __future__ import annotations

import socket

import pytest

from reconciler.errors import Conflict, Invalid
from reconciler.listening import PORTS_TRIED, SEND_BUFFER_BYTES, address_of, bind, parse_listen
from tests.ports import free_port


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8400", ("127.0.0.1", 8400)),
        ("localhost:8400", ("127.0.0.1", 8400)),
        ("[::1]:8400", ("::1", 8400)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
    ],
)
def test_a_loopback_address_may_be_written_in_three_ways(listen: str, address: tuple[str, int]) -> None:
    assert parse_listen(listen, keys=False) == address


@pytest.mark.parametrize(
    ("listen", "why"),
    [
        ("10.0.0.1:8400", "no authentication"),
        ("127.0.0.1:0", "from 1 to 65535"),
        ("127.0.0.1:65536", "from 1 to 65535"),
        ("8400", "expected .address:port."),
        ("here:8400", "expected .address:port."),
    ],
)
def test_any_other_address_is_refused(listen: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        bind(listen, keys=False, any_port=True)


def test_clients_connect_at_once_and_nobody_else_gets_the_port() -> None:
    listen = f"127.0.0.1:{free_port()}"
    with bind(listen, keys=False, any_port=False) as listening:
        assert address_of(listening) == listen
        assert not listening.getblocking()
        with socket.create_connection(("127.0.0.1", listening.getsockname()[1]), timeout=10):
            accepted, _ = listening.accept()
            with accepted:
                # Linux doubles what is asked for.
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * SEND_BUFFER_BYTES
        with pytest.raises(Conflict, match=f"{listen} is taken by another process"):
            bind(listen, keys=False, any_port=False)
        with bind(listen, keys=False, any_port=True) as beside:
            port = int(listen.rpartition(":")[2])
            assert port < beside.getsockname()[1] < port + PORTS_TRIED


def test_the_search_for_a_free_port_ends_with_the_last_one() -> None:
    last = "127.0.0.1:65535"
    with bind(last, keys=False, any_port=True), pytest.raises(Conflict, match=f"{last} is taken"):
        bind(last, keys=False, any_port=True)


def test_an_address_of_ipv6_is_written_with_brackets() -> None:
    with socket.socket(socket.AF_INET6) as unbound:
        assert address_of(unbound) == "[::]:0"
