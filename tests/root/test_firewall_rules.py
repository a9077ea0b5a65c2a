"""The rules for nftables, loaded on a machine between its cable, its network and a stranger there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.hardening import nftables
from reconciler.hardening.policy import CablePort, Policy

pytestmark = pytest.mark.needs("nft", "ip")

_SECONDS = 30.0
RING, CHOSEN_BY_KERNEL, OTHER, SSH, OTHER_SSH = 25_000, 40_000, 8080, 22, 2222
PORTS = (RING, CHOSEN_BY_KERNEL, OTHER, SSH, OTHER_SSH)
POLICY = Policy(
    node="studio-1",
    system="Linux",
    user="cluster",
    machines=("10.9.0.1", "10.9.0.2"),
    cables=(CablePort("cable0", "10.77.0.1", "10.77.0.2", "studio-1/3 - studio-2/3"),),
    ports=(SSH, OTHER_SSH),
    unknown=(),
)
_LISTEN = """
import socket, sys, time
held = []
for port in map(int, sys.argv[1:]):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    listener.listen(50)
    held.append(listener)
print("listening", flush=True)
time.sleep(100000)
"""
_CONNECT = """
import socket, sys
found = []
for port in map(int, sys.argv[3:]):
    try:
        with socket.create_connection((sys.argv[1], port), 3, source_address=(sys.argv[2], 0) if sys.argv[2] else None):
            found.append(str(port))
    except (ConnectionRefusedError, TimeoutError):
        pass
print(" ".join(found))
"""


class Machine:
    """A network namespace that ends with its process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "100000"], start_new_session=True)
        deadline = time.monotonic() + _SECONDS
        while Path(f"/proc/{self.process.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *words: str, text: str = "") -> str:
        command = ["nsenter", "--target", str(self.process.pid), "--net", *words]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listen(self) -> None:
        words = ["nsenter", "--target", str(self.process.pid), "--net", sys.executable, "-c", _LISTEN]
        listener = subprocess.Popen(
            [*words, *map(str, PORTS)], stdout=subprocess.PIPE, start_new_session=True
        )
        self.listener = listener
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"listening\n"

    def reaches(self, address: str, source: str = "", ports: tuple[int, ...] = PORTS) -> set[int]:
        """The ports there at which somebody answers."""
        told = self.run(sys.executable, "-c", _CONNECT, address, source, *map(str, ports))
        return {int(word) for word in told.split()}

    def end(self) -> None:
        for process in (self.process, getattr(self, "listener", None)):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                process.wait(_SECONDS)
                if process.stdout is not None:
                    process.stdout.close()


class Place:
    """The machine with the rules, one that belongs to the cluster, and a stranger; all three at one network, and a cable
    from the machine to the other one."""

    def __init__(self) -> None:
        self.switch, self.own, self.other, self.stranger = Machine(), Machine(), Machine(), Machine()
        self.switch.run("ip", "link", "add", "br0", "type", "bridge")
        self.switch.run("ip", "link", "set", "br0", "up")
        for number, each in enumerate((self.own, self.other, self.stranger), 1):
            each.run(
                "ip",
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"p{number}",
                "netns",
                str(self.switch.process.pid),
            )
            self.switch.run("ip", "link", "set", f"p{number}", "master", "br0", "up")
            each.run("ip", "addr", "add", f"10.9.0.{number}/24", "dev", "eth0")
            each.run("ip", "-6", "addr", "add", f"fd00::{number}/64", "dev", "eth0", "nodad")
            each.run("ip", "link", "set", "eth0", "up")
        self.own.run(
            "ip",
            "link",
            "add",
            "cable0",
            "type",
            "veth",
            "peer",
            "name",
            "cable0",
            "netns",
            str(self.other.process.pid),
        )
        for number, each in enumerate((self.own, self.other), 1):
            each.run("ip", "addr", "add", f"10.77.0.{number}/30", "dev", "cable0")
            each.run("ip", "link", "set", "cable0", "up")
        self.own.listen()
        self.stranger.listen()

    def load(self, policy: Policy = POLICY) -> None:
        for check in (("-c",), ()):
            self.own.run("nft", *check, "-f", "-", text=nftables.rules(policy))

    def end(self) -> None:
        for each in (self.own, self.other, self.stranger, self.switch):
            each.end()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.end()


@pytest.fixture
def closed(place: Place) -> Iterator[Place]:
    place.load()
    yield place
    place.own.run("nft", "delete", "table", "inet", nftables.TABLE)


def test_without_rules_everybody_reaches_everything(place: Place) -> None:
    for each in (place.other, place.stranger):
        assert each.reaches("10.9.0.1") == set(PORTS)


def test_a_stranger_reaches_what_is_for_everybody_and_no_port_of_a_group(closed: Place) -> None:
    assert closed.stranger.reaches("10.9.0.1") == {OTHER, SSH, OTHER_SSH}
    assert closed.stranger.reaches("fd00::1") == {OTHER, SSH, OTHER_SSH}


def test_the_other_machine_of_the_cluster_reaches_it_over_network_and_cable(closed: Place) -> None:
    assert closed.other.reaches("10.9.0.1") == set(PORTS)
    assert closed.other.reaches("10.77.0.1") == set(PORTS)


def test_whoever_is_on_the_cable_with_another_address_reaches_what_is_for_everybody(closed: Place) -> None:
    closed.other.run("ip", "addr", "add", "10.77.0.9/28", "dev", "cable0")
    closed.own.run("ip", "route", "add", "10.77.0.9/32", "dev", "cable0")
    try:
        assert closed.other.reaches("10.77.0.1", source="10.77.0.9") == {SSH, OTHER_SSH}
    finally:
        closed.own.run("ip", "route", "del", "10.77.0.9/32", "dev", "cable0")
        closed.other.run("ip", "addr", "del", "10.77.0.9/28", "dev", "cable0")


def test_an_address_of_the_cable_opens_nothing_from_the_network(closed: Place) -> None:
    closed.stranger.run("ip", "addr", "add", "10.77.0.2/30", "dev", "eth0")
    closed.own.run("ip", "link", "set", "cable0", "down")  # or the answer would go to the cable anyway
    closed.own.run("ip", "addr", "add", "10.77.0.1/30", "dev", "eth0")
    try:
        assert closed.stranger.reaches("10.77.0.1", source="10.77.0.2") == {OTHER, SSH, OTHER_SSH}
    finally:
        closed.own.run("ip", "addr", "del", "10.77.0.1/30", "dev", "eth0")
        closed.stranger.run("ip", "addr", "del", "10.77.0.2/30", "dev", "eth0")
        closed.own.run("ip", "link", "set", "cable0", "up")


def test_its_own_connections_get_their_answers(closed: Place) -> None:
    assert closed.own.reaches("10.9.0.3") == set(PORTS)
    assert closed.own.reaches("127.0.0.1") == set(PORTS)


def test_loaded_again_the_rules_replace_those_before_and_deleted_they_are_gone(closed: Place) -> None:
    closed.load(replace(POLICY, machines=(*POLICY.machines, "10.9.0.3")))
    assert closed.stranger.reaches("10.9.0.1") == set(PORTS)
    closed.load()
    assert closed.stranger.reaches("10.9.0.1", ports=(RING,)) == set()
    closed.own.run("nft", "delete", "table", "inet", nftables.TABLE)
    assert closed.stranger.reaches("10.9.0.1") == set(PORTS)
    closed.load()
