"""Three machines over SSH: one group across them, and what becomes of it when they change or go."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import openai

from tests.e2e.cluster import Cluster

from .network import Host, Network


def client(cluster: Cluster) -> openai.OpenAI:
    return openai.OpenAI(base_url=cluster.endpoint(), api_key="unused", max_retries=0, timeout=60)


def ask(cluster: Cluster, tokens: int = 8) -> int:
    """How many tokens an answer has."""
    answer = client(cluster).chat.completions.create(
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
    answers = 0

    def stream() -> None:
        nonlocal answers
        while not over.is_set():
            try:
                chunks = client(cluster).chat.completions.create(
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
                time.sleep(0.2)

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        yield wrong
    finally:
        over.set()
        thread.join(60)
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
        thread.join(10)


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


def test_an_agent_is_replaced_under_load_and_no_rank_notices(cluster: Cluster, hosts: Network) -> None:
    before, pids = agents(hosts), ranks(cluster)
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
    assert group(cluster)["epoch"] == 1


def test_a_short_cut_restarts_nothing(cluster: Cluster, hosts: Network) -> None:
    pids, last = ranks(cluster), agents(hosts)
    hosts.cut(hosts.hosts[2])
    time.sleep(5)
    hosts.cut(hosts.hosts[2], up=True)
    cluster.wait_settled()
    assert ask(cluster) == 8
    assert (ranks(cluster), agents(hosts)) == (pids, last)


def test_a_long_cut_costs_one_node_until_it_is_back(cluster: Cluster, hosts: Network) -> None:
    lost = hosts.hosts[2]
    old = set(ranks(cluster).values())
    with routed(cluster) as epochs:
        hosts.cut(lost)
        cluster.wait(
            "two nodes to serve",
            lambda: group(cluster)["nodes"] == ["host-a", "host-b"] and group(cluster)["ready"],
        )
        assert ask(cluster) == 8
        assert condition(cluster, lost, "Quarantined")["status"] == "True"
        hosts.cut(lost, up=True)
        cluster.wait(
            "the node to be trusted again",
            lambda: condition(cluster, lost, "Quarantined")["status"] == "False",
        )
        cluster.wait_settled()
        assert [w["reason"] for w in cluster.plan()["waiting"]] == ["QuietMoment"], (
            "ten minutes from now, or at once:"
        )
        cluster.run("rollout", "restart", "deployment/tiny")
        cluster.wait(
            "all three to serve", lambda: len(group(cluster)["nodes"]) == 3 and group(cluster)["ready"]
        )
        cluster.wait_settled()
        assert ask(cluster) == 8
    assert all(len(now) < 2 for now in epochs), "no two groups are ever routed"
    assert [epoch for now in epochs for epoch in now] == sorted(epoch for now in epochs for epoch in now)
    assert not old & set(ranks(cluster).values())
    assert len(ranks(cluster)) == 3


def condition(cluster: Cluster, host: Host, kind: str) -> dict[str, Any]:
    item = cluster.json("get", "node", host.name)
    return dict(next(each for each in item["status"]["conditions"] if each["type"] == kind))
