"""Several ranks: how they meet, and what the end of one means for the others."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import sys
import time
from pathlib import Path

import pytest

from reconciler.planning.context.membership import certificate
from reconciler.wire.launch import ExitCode, JobConfig, Phase
from reconciler.wire.sockets import trusting
from tests.launcher.ranks import SECRET, WAIT_SECONDS, Launchers, Started, config, script
from tests.ports import free_ports

pytestmark = pytest.mark.processes

WAITS = "import time\nprint('up', flush=True)\ntime.sleep(600)"


def gang(launchers: Launchers, *jobs: JobConfig, control: int = 0, **given: object) -> list[Started]:
    """One rank for each job, all on loopback."""
    ports = free_ports(len(jobs) + 1)
    addresses = [f"127.0.0.1:{port}" for port in ports[1:]]
    return [
        launchers.start(config(job, rank, addresses, f"127.0.0.1:{control or ports[0]}", **given))
        for rank, job in enumerate(jobs)
    ]


def test_programs_begin_once_all_are_there(launchers: Launchers) -> None:
    ports = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in ports[1:]]
    body = "import time\nprint(time.time())"
    first = launchers.start(config(script(body), 0, addresses, f"127.0.0.1:{ports[0]}"))
    first.wait_for_phase(Phase.RENDEZVOUS)
    time.sleep(0.3)
    before = time.time()
    second = launchers.start(config(script(body), 1, addresses, f"127.0.0.1:{ports[0]}"))

    assert (first.end(), second.end()) == (0, 0)
    assert float(first.text) > before
    assert float(second.text) > before


FOUND = [
    str(path)
    for minor in range(9, 20)
    for path in [
        *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"),
        *filter(None, [shutil.which(f"python3.{minor}")]),
    ][:1]
]
PYTHONS = sorted({FOUND[0], FOUND[-1]}) if FOUND else [sys.executable]
"""The oldest and the newest Python of the machine: a node's runtime may have any."""


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
def test_launchers_meet_with_any_python(launchers: Launchers, python: str) -> None:
    launchers.python = python
    ranks = gang(launchers, *[script("print('ran')")] * 3)

    assert [rank.end() for rank in ranks] == [0, 0, 0], [rank.text for rank in ranks]


RING = """
import json, os
import mlx.core as mx
group = mx.distributed.init(strict=True, backend="ring")
total = mx.distributed.all_sum(mx.array([1.0 + group.rank()]), group=group)
print(json.dumps([group.rank(), group.size(), total.item()]))
"""


def test_a_script_of_mlx_finds_its_ring(launchers: Launchers) -> None:
    ranks = gang(launchers, script(RING), script(RING))

    assert [rank.end() for rank in ranks] == [0, 0], [rank.text for rank in ranks]
    assert [json.loads(rank.text) for rank in ranks] == [[0, 2, 3.0], [1, 2, 3.0]]


@pytest.mark.parametrize("dies", [0, 1, 2])
@pytest.mark.parametrize("how", ["program fails", "launcher is killed"])
def test_one_rank_fails_and_the_others_end(launchers: Launchers, dies: int, how: str) -> None:
    fails = "import os, time, sys\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nsys.exit(3)"
    bodies = [fails if rank == dies and how == "program fails" else WAITS for rank in range(3)]
    ranks = gang(launchers, *map(script, bodies))
    for rank in ranks:
        rank.wait_for("up")

    if how == "launcher is killed":
        ranks[dies].process.kill()
    else:
        (ranks[dies].work / "go").touch()

    ends = [rank.end() for rank in ranks]
    assert ends.pop(dies) == (3 if how == "program fails" else -signal.SIGKILL)
    assert ends == [ExitCode.PEER_LOST] * 2
    for other in ranks:
        if other is not ranks[dies]:
            assert f"rank {dies} " in other.detail or "rank 0 is gone" in other.detail
            assert not other.program


@pytest.mark.parametrize("first", [0, 1])
def test_one_rank_ends_well_and_the_others_go_on(launchers: Launchers, first: int) -> None:
    bodies = ["print('done')", "import time\ntime.sleep(1)\nprint('later')"]
    ranks = gang(launchers, *(script(bodies[rank != first]) for rank in range(2)))

    assert [rank.end() for rank in ranks] == [0, 0]
    assert [rank.text for rank in ranks] == [f"{('done', 'later')[rank != first]}\n" for rank in range(2)]


def test_the_middle_hears_of_a_failure_after_its_own_end(launchers: Launchers) -> None:
    fails = "import time, sys\ntime.sleep(1)\nsys.exit(3)"
    ranks = gang(launchers, script(""), script(fails), script(WAITS))

    assert [rank.end() for rank in ranks] == [0, 3, ExitCode.PEER_LOST]


def test_a_rank_that_does_not_come_is_named(launchers: Launchers) -> None:
    port, other, third = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in (other, third)]
    rank = launchers.start(config(script(""), 0, addresses, f"127.0.0.1:{port}", rendezvous_seconds=0.5))

    assert rank.end() == ExitCode.RENDEZVOUS
    assert rank.detail == "rank 1 did not connect within 0.5 s"
    assert not rank.program
    assert rank.text.splitlines()[-1] == f"[launcher] {rank.detail}"


def test_rank_0_does_not_come(launchers: Launchers) -> None:
    port, other, third = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in (other, third)]
    rank = launchers.start(config(script(""), 1, addresses, f"127.0.0.1:{port}", rendezvous_seconds=0.5))

    assert rank.end() == ExitCode.RENDEZVOUS
    assert "rank 0 did not welcome this rank" in rank.detail


def test_a_taken_port_is_told(launchers: Launchers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (rank,) = [
            launchers.start(
                config(script(""), 0, ["127.0.0.1:1", "127.0.0.1:2"], f"127.0.0.1:{taken.getsockname()[1]}")
            )
        ]
        assert rank.end() == ExitCode.PORT_IN_USE


def test_a_rank_that_is_ended_while_it_waits_has_not_succeeded(launchers: Launchers) -> None:
    port, other, third = free_ports(3)
    rank = launchers.start(
        config(script(""), 0, [f"127.0.0.1:{other}", f"127.0.0.1:{third}"], f"127.0.0.1:{port}")
    )
    rank.wait_for_phase(Phase.RENDEZVOUS)

    rank.terminate()

    assert rank.end() == -signal.SIGTERM
    assert not rank.program


def call(port: int) -> socket.socket:
    """Connect as soon as rank 0 listens."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_strangers_are_shown_out_and_disturb_nobody(launchers: Launchers) -> None:
    port, other, third = free_ports(3)
    addresses = [f"127.0.0.1:{other}", f"127.0.0.1:{third}"]
    first = launchers.start(config(script("print('ran')"), 0, addresses, f"127.0.0.1:{port}"))
    first.wait_for_phase(Phase.RENDEZVOUS)
    strangers = []
    for content in [b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01" + b"x" * 40_000, *[b""] * 100]:
        stranger = call(port)
        stranger.sendall(content)
        strangers.append(stranger)
    impostor = launchers.start(
        config(
            script("print('ran')"),
            1,
            addresses,
            f"127.0.0.1:{port}",
            secret=certificate("of others"),
            rendezvous_seconds=2.0,
        )
    )
    assert impostor.end() == ExitCode.RENDEZVOUS
    assert "ran\n" not in impostor.text

    launchers.folder /= "second"
    launchers.folder.mkdir()
    second = launchers.start(config(script("print('ran')"), 1, addresses, f"127.0.0.1:{port}"))

    assert (first.end(), second.end()) == (0, 0)
    assert (first.text, second.text) == ("ran\n", "ran\n")
    for stranger in strangers:
        stranger.close()


def test_a_connection_of_the_group_that_is_not_understood_is_closed_and_disturbs_nobody(
    launchers: Launchers,
) -> None:
    port, other, third = free_ports(3)
    addresses = [f"127.0.0.1:{other}", f"127.0.0.1:{third}"]
    first = launchers.start(config(script(""), 0, addresses, f"127.0.0.1:{port}"))
    first.wait_for_phase(Phase.RENDEZVOUS)
    context = trusting(SECRET, server=False)
    for content in (b"[]", b"{}", b'{"type": "meet", "rank": 7, "epoch": 1}'):
        with context.wrap_socket(call(port)) as sealed:
            sealed.sendall(len(content).to_bytes(4, "big") + content)
            assert ended(sealed)

    second = launchers.start(config(script(""), 1, addresses, f"127.0.0.1:{port}"))

    assert (first.end(), second.end()) == (0, 0), second.text


def ended(connection: socket.socket) -> bool:
    """Wait for the other side's end, in order or not."""
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def test_nobody_without_a_certificate_comes_past_the_handshake(launchers: Launchers) -> None:
    port, other, third = free_ports(3)
    addresses = [f"127.0.0.1:{other}", f"127.0.0.1:{third}"]
    first = launchers.start(config(script(""), 0, addresses, f"127.0.0.1:{port}"))
    first.wait_for_phase(Phase.RENDEZVOUS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    plain = call(port)
    with context.wrap_socket(plain) as sealed:
        assert _answer(sealed) == b""

    assert first.process.poll() is None


def _answer(sealed: ssl.SSLSocket) -> bytes:
    """What rank 0 says to somebody who shows no certificate; empty if it ends the connection."""
    content = json.dumps({"type": "meet", "rank": 1, "epoch": 1}).encode()
    try:
        sealed.sendall(len(content).to_bytes(4, "big") + content)
        return sealed.recv(100)
    except OSError:
        return b""
