"""The address that clients connect to."""

from __future__ import annotations

import plistlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import Conflict, Invalid
from reconciler.serving.addresses import (
    LOOPBACK_NAMES,
    PORTS_TRIED,
    SEND_BUFFER_BYTES,
    address_of,
    bind,
    host_in,
    is_local,
    own_names,
    parse_listen,
)
from tests.machine_names import CONTAINER_NAMES
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


# --- names of this machine ---


@given(
    host=st.sampled_from(
        [
            "localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
            socket.gethostname(),
            *LOOPBACK_NAMES,
            *CONTAINER_NAMES,
        ]
    ),
    port=st.sampled_from(["", ":1", ":8400", ":65535"]),
    scheme=st.sampled_from(["", "http://", "https://"]),
    shape=st.sampled_from([str, str.upper, str.title]),
    dot=st.booleans(),
    elsewhere=st.sampled_from([".evil.example", "evil.example", ".internal.example", "-x.local"]),
)
@settings(max_examples=400, deadline=None)
def test_a_local_name_is_known_in_every_form_and_none_that_it_is_a_part_of(
    host: str, port: str, scheme: str, shape: Callable[[str], str], dot: bool, elsewhere: str
) -> None:
    bare = f"[{host}]" if ":" in host else shape(host) + "." * dot
    assert is_local(host_in(f"{scheme}{bare}{port}"))
    for other in (f"{host}{elsewhere}", f"evil.example.{host}x", f"x{host}"):
        assert not is_local(host_in(f"{scheme}{shape(other)}{port}")), other


@pytest.mark.parametrize(
    "authority", ["", ".", "[", ":8400", "http://", "::", "@", "localhost@evil.example", "10.0.0.1"]
)
def test_what_names_no_machine_or_another_is_not_local(authority: str) -> None:
    assert not is_local(host_in(authority))


def test_a_machine_has_its_host_name_and_that_of_multicast_dns() -> None:
    assert own_names("Studio", "linux") == {"studio", "studio.local"}
    assert own_names("Studio.lan", "linux") == {"studio", "studio.lan", "studio.local"}
    assert own_names("Studio.local", "darwin", Path("/nowhere")) == {"studio", "studio.local"}
    assert own_names("", "linux") == frozenset()


def test_a_mac_has_the_names_that_its_owner_gave_it_and_none_that_its_network_did(tmp_path: Path) -> None:
    names = tmp_path / "preferences.plist"
    names.write_bytes(
        plistlib.dumps({"System": {"Network": {"HostNames": {"LocalHostName": "Adas-Mac"}}, "System": {}}})
    )
    given = own_names("dhcp-7.evil.example", "darwin", names)
    assert given == {"dhcp-7", "dhcp-7.local", "adas-mac", "adas-mac.local"}
    names.write_bytes(
        plistlib.dumps({"System": {"Network": {"HostNames": {}}, "System": {"HostName": "Mac.Example.com"}}})
    )
    assert "mac.example.com" in own_names("mac.example.com", "darwin", names)
    for broken in (b"", b"no plist", plistlib.dumps([1]), plistlib.dumps({"System": 5})):
        path = tmp_path / f"broken-{len(broken)}.plist"
        path.write_bytes(broken)
        assert own_names("mac", "darwin", path) == {"mac", "mac.local"}
