"""Three machines over SSH: one group across them, and what becomes of it when they change or go."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.cluster import Cluster
from tests.sshd import make_key

from .network import Host, Network

pytestmark = pytest.mark.timeout(400)
CUT_SECONDS = 60.0
FORMINGS_MAX = 5
PAUSE_SECONDS = 0.3
"""Between two answers, so that other tests have something of the machine."""
LOST_AFTER_SECONDS = 30.0
"""Of a node by default."""


def client(cluster: Cluster) -> openai.OpenAI:
    return openai.OpenAI(base_url=cluster.endpoint(), api_key="unused", max_retries=0, timeout=300)


def ask(cluster: Cluster, tokens: int = 8) -> int:
    """How many tokens an answer has."""
    with client(cluster) as sdk:
        answer = sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hello"}], max_tokens=tokens, temperature=0
        )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def group(cluster: Cluster) -> dict[str, Any]:
    (found,) = cluster.deployments()["tiny"]["groups"]
    return dict(found)


def ranks(cluster: Cluster) -> dict[str, int]:
    return {rank["metadata"]["name"]: rank["pid"] for rank in cluster.ranks()}


def agents(hosts: Network) -> list[list[int]]:
    return [host.agents() for host in hosts.hosts]


@contextmanager
def load(cluster: Cluster) -> Iterator[list[str]]:
    """One answer after the other is streamed meanwhile; what went wrong with them."""
    over, wrong = threading.Event(), list[str]()
    answers, sdk = 0, client(cluster)

    def stream() -> None:
        nonlocal answers
        while not over.is_set():
            try:
                chunks = sdk.chat.completions.create(
                    model="tiny",
                    messages=[{"role": "user", "content": "go on"}],
                    max_tokens=400,
                    temperature=0,
                    stream=True,
                )
                for chunk in chunks:
                    if chunk.choices and chunk.choices[0].finish_reason:
                        answers += 1
            except openai.OpenAIError as error:
                wrong.append(repr(error))
            over.wait(PAUSE_SECONDS)

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        yield wrong
    finally:
        over.set()
        thread.join(300)
        sdk.close()
    assert answers


@contextmanager
def routed(cluster: Cluster) -> Iterator[list[set[int]]]:
    """The epochs that were routed at any moment, in order, each once."""
    over, seen = threading.Event(), list[set[int]]()

    def look() -> None:
        while not over.wait(0.02):
            with suppress(OSError, ValueError, IndexError):
                (route,) = json.loads((cluster.home / "routes.json").read_text())["routes"]
                now = {backend["epoch"] for backend in route["backends"]}
                if not seen or seen[-1] != now:
                    seen.append(now)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(60)


def test_one_group_spans_three_hosts_and_answers_through_the_gateway(
    cluster: Cluster, hosts: Network
) -> None:
    assert group(cluster)["nodes"] == ["host-a", "host-b", "host-c"]
    assert ask(cluster) == 8
    for host in hosts.hosts:
        assert len(host.agents()) == 1
        (config,) = host.root.glob("nodes/*/ranks/*/config.json")
        addresses = json.loads(config.read_text())["addresses"]
        assert [each.rpartition(":")[0] for each in addresses] == [each.address for each in hosts.hosts]
        (line,) = [
            line
            for line in (host.home / ".ssh" / "authorized_keys").read_text().splitlines()
            if "relay" in line
        ]
        assert line.startswith('restrict,command="')
        assert condition(cluster, host, "AgentReady")["reason"] == "NotKeptRunning", "there is no systemd"


@contextmanager
def firewalls(cluster: Cluster, hosts: Network) -> Iterator[None]:
    """Every host has the rules that are printed for it."""
    for host in hosts.hosts:
        rules = cluster.run("node", "firewall", host.name).stdout
        for check in (["-c"], []):
            in_network(host, "nft", *check, "-f", "-", text=rules)
    try:
        yield
    finally:
        for host in hosts.hosts:
            in_network(host, "nft", "delete", "table", "inet", "reconciler")


def in_network(host: Host, *words: str, text: str = "") -> str:
    command = ["nsenter", "--target", str(host.pid), "--net", *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listening(host: Host) -> set[int]:
    """The TCP ports of a host at which ranks listen just now."""
    rows = [line.split() for line in Path(f"/proc/{host.pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"} - {22}


@contextmanager
def stranger(hosts: Network) -> Iterator[tuple[set[tuple[str, int]], set[tuple[str, int]]]]:
    """Somebody at the switch who is no node tries every port of a rank as soon as it opens: those that he has tried, and
    those where he got in."""
    over, tried, reached = threading.Event(), set[tuple[str, int]](), set[tuple[str, int]]()

    def knock() -> None:
        while not over.wait(0.005):
            for host in hosts.hosts:
                for port in listening(host):
                    tried.add((host.name, port))
                    with suppress(OSError), socket.create_connection((host.address, port), 1):
                        reached.add((host.name, port))

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield tried, reached
    finally:
        over.set()
        thread.join(60)


def later(cluster: Cluster, epoch: int) -> bool:
    return bool(group(cluster)["epoch"] > epoch)


def test_with_firewalls_a_group_forms_and_a_stranger_reaches_no_port_of_it(
    cluster: Cluster, hosts: Network
) -> None:
    with firewalls(cluster, hosts), stranger(hosts) as (tried, reached):
        for _ in range(FORMINGS_MAX):  # ports are open for a moment only
            epoch = group(cluster)["epoch"]
            os.kill(next(iter(ranks(cluster).values())), signal.SIGKILL)
            cluster.wait("the next group", partial(later, cluster, epoch))
            cluster.wait_settled()
            if tried:
                break
        assert group(cluster)["nodes"] == [host.name for host in hosts.hosts]
        assert ask(cluster) == 8
        refused = "".join(
            in_network(host, "nft", "list", "table", "inet", "reconciler") for host in hosts.hosts
        )
    assert tried
    assert reached == set()
    assert re.search("counter packets [1-9]", refused), f"refused by nobody at {tried}"


def test_an_agent_is_replaced_under_load_and_no_rank_notices(cluster: Cluster, hosts: Network) -> None:
    before, pids, epoch = agents(hosts), ranks(cluster), group(cluster)["epoch"]
    (controller,) = cluster.controller()
    with load(cluster) as wrong:
        module = cluster.source / "reconciler" / "agent" / "__init__.py"
        module.write_text(f"{module.read_text()}\n# a newer version\n")
        os.kill(controller, signal.SIGKILL)  # `up` starts it again, from what is there now
        cluster.wait(
            "every agent to be replaced",
            lambda: all(
                len(now) == 1 and now != then for now, then in zip(agents(hosts), before, strict=True)
            ),
        )
        cluster.wait_settled()
    assert wrong == []
    assert ranks(cluster) == pids
    assert group(cluster)["epoch"] == epoch


def test_a_short_cut_restarts_nothing(cluster: Cluster, hosts: Network) -> None:
    pids, last, (number,) = ranks(cluster), agents(hosts), {rank["epoch"] for rank in cluster.ranks()}
    hosts.cut(hosts.hosts[2])
    time.sleep(5)
    hosts.cut(hosts.hosts[2], up=True)
    cluster.wait_settled()
    assert ask(cluster) == 8
    assert (ranks(cluster), agents(hosts), group(cluster)["epoch"]) == (pids, last, number)


@pytest.mark.needs("ssh-keygen")
def test_a_changed_host_key_is_refused_and_what_runs_there_is_left_alone(
    cluster: Cluster, hosts: Network
) -> None:
    """Patience, because a machine that refused is asked again after half a minute, which makes it a lost one."""
    host, pids, last = hosts.hosts[0], ranks(cluster), agents(hosts)
    own, other = hosts.folder / "own", hosts.folder / "other"
    for folder in (own, other):
        folder.mkdir()
    make_key(other / "host_key")
    for key in host.folder.glob("host_key*"):
        shutil.copyfile(key, own / key.name)
    manifest = hosts.folder / "cluster" / "manifests" / f"{host.name}.yaml"
    manifest.write_text(f"{manifest.read_text()}  lostAfter: 5m\n")
    cluster.run("apply", "-f", str(manifest))

    host.change_host_key(other)
    logins = host.times_logged("Accepted publickey")
    cluster.wait("a refusal", lambda: condition(cluster, host, "Reachable")["reason"] == "HostKeyChanged")
    message = condition(cluster, host, "Reachable")["message"]
    assert fingerprint(own / "host_key") in message
    assert fingerprint(other / "host_key") in message
    assert json.loads((cluster.home / "routes.json").read_text())["routes"][0]["backends"] == []
    assert agents(hosts) == last
    assert group(cluster)["nodes"] == [each.name for each in hosts.hosts]
    assert host.ranks(), "its ranks go on"
    assert host.times_logged("Accepted publickey") == logins, "nothing was sent"

    host.change_host_key(own)
    cluster.wait("trust", lambda: condition(cluster, host, "Reachable")["status"] == "True")
    cluster.wait_settled()
    assert ask(cluster) == 8
    assert (ranks(cluster), agents(hosts)) == (pids, last)


@pytest.mark.nightly
def test_a_cut_of_a_minute_costs_one_node_until_it_is_back(cluster: Cluster, hosts: Network) -> None:
    lost, names = hosts.hosts[2], [host.name for host in hosts.hosts]
    old = set(ranks(cluster).values())
    with routed(cluster) as epochs:
        with load(cluster) as wrong:
            began = time.monotonic()
            hosts.cut(lost)
            cluster.wait(
                "two nodes to serve",
                lambda: group(cluster)["nodes"] == names[:2] and group(cluster)["ready"],
            )
            assert time.monotonic() - began >= LOST_AFTER_SECONDS, "a node is not given up sooner"
            assert ask(cluster) == 8
            time.sleep(max(0.0, CUT_SECONDS - (time.monotonic() - began)))
            assert condition(cluster, lost, "Quarantined")["reason"] == "NotAnswering"
            assert group(cluster)["nodes"] == names[:2]
            hosts.cut(lost, up=True)
            cluster.wait("trust", lambda: condition(cluster, lost, "Quarantined")["status"] == "False")
        assert wrong == [], "clients get their answers from whoever serves"
        cluster.wait(
            "all three to serve again by themselves",
            lambda: group(cluster)["nodes"] == names and group(cluster)["ready"],
        )
        cluster.wait_settled()
        assert ask(cluster) == 8
    assert all(len(now) < 2 for now in epochs), "no two groups are ever routed"
    assert [epoch for now in epochs for epoch in now] == sorted(epoch for now in epochs for epoch in now)
    assert not old & set(ranks(cluster).values())
    assert sorted(rank["node"] for rank in cluster.ranks()) == names


def test_machines_are_restarted_one_after_the_other_by_whichever_controller_there_is(
    cluster: Cluster, hosts: Network
) -> None:
    """The last: afterwards the group is smaller than it could be."""
    restarted = {host.name: host for host in hosts.hosts[1:]}
    boots = {name: host.boot_id for name, host in restarted.items()}
    pids, away = agents(hosts), list[set[str]]()

    def gone() -> set[str]:
        """Which machines have no agent; noted as it changes."""
        now = {host.name for host in hosts.hosts if not host.agents()}
        if not away or away[-1] != now:
            away.append(now)
        return now

    with routed(cluster) as epochs:
        command = cluster.background("reboot", *restarted)
        cluster.wait("the first to go down", lambda: gone() or any(host.downs for host in hosts.hosts))
        (controller,) = cluster.controller()
        os.kill(controller, signal.SIGKILL)
        cluster.wait("the command to end", lambda: gone() is not None and command.poll() is not None)
        output, error = command.communicate()
        assert command.returncode == 0, error
    expected = ["node/host-b restarted", "node/host-c restarted", "restarted: host-b, host-c"]
    assert [line for line in output.splitlines() if line in expected] == expected
    assert all(len(now) < 2 for now in away), "one after the other"
    first, second = (restarted[name].downs for name in ("host-b", "host-c"))
    assert (len(first), len(second), first < second) == (1, 1, True), "each once"
    assert not any(host.boot_id == boots[name] for name, host in restarted.items())
    assert agents(hosts)[0] == pids[0]
    assert group(cluster)["ready"]
    assert ask(cluster) == 8
    assert all(len(now) < 2 for now in epochs)


def condition(cluster: Cluster, host: Host, kind: str) -> dict[str, Any]:
    item = cluster.json("get", "node", host.name)
    return dict(next(each for each in item["status"]["conditions"] if each["type"] == kind))


def fingerprint(key: Path) -> str:
    """As `ssh-keygen` tells it."""
    done = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]
