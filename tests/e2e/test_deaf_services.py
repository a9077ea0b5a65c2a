"""A controller, gateway or console that lives and answers nobody is found by `up`, and no rank is disturbed."""

from __future__ import annotations

import itertools
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.bootstrap import CONSOLE, CONTROLLER, GATEWAY, Home
from reconciler.cli.commands.cluster.up import question
from reconciler.services.hearing import Said
from reconciler.services.lock import holder

from .cluster import Cluster, quickstart

pytestmark = [pytest.mark.e2e, pytest.mark.needs("linux")]


@pytest.fixture(scope="module")
def home() -> Iterator[Cluster]:
    with quickstart(console=True) as made:
        yield made


def pid_of(made: Cluster, service: str) -> int:
    running = holder(Home(made.home).lock_of(service))
    return running.pid if running is not None else 0


def take_descriptors(pid: int, left: int) -> None:
    """Leave a process few descriptors for anything new."""
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    free = (number for number in itertools.count() if number not in taken)
    limit = next(itertools.islice(free, left, None))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def serves(made: Cluster, service: str) -> bool:
    pid = pid_of(made, service)
    return bool(pid) and question(made.home, service)(pid) is Said.ANSWER


def once_it_serves(home: Cluster, service: str) -> tuple[int, list[int], int]:
    """The pid of a service, those of all ranks, and the last event."""
    home.wait(f"the {service}", lambda: serves(home, service))
    return pid_of(home, service), [rank["pid"] for rank in home.ranks()], home.last_event()


@pytest.mark.parametrize("service", [GATEWAY, CONTROLLER, CONSOLE])
def test_a_service_that_is_stopped_is_continued(home: Cluster, service: str) -> None:
    pid, ranks, since = once_it_serves(home, service)

    stop(pid)

    home.wait("an answer", lambda: serves(home, service))
    home.wait("the event", lambda: told(home, since, service) == ["ServiceContinued"])
    assert pid_of(home, service) == pid
    home.wait_settled()
    assert [rank["pid"] for rank in home.ranks()] == ranks


@pytest.mark.parametrize(("service", "left"), [(GATEWAY, 0), (CONTROLLER, 0), (CONTROLLER, 4), (CONSOLE, 0)])
def test_a_service_without_descriptors_is_replaced(home: Cluster, service: str, left: int) -> None:
    pid, ranks, since = once_it_serves(home, service)

    take_descriptors(pid, left)

    home.wait("another process", lambda: pid_of(home, service) not in (0, pid) and serves(home, service))
    home.wait("the event", lambda: "ServiceReplaced" in told(home, since, service))
    home.wait_settled()
    assert [rank["pid"] for rank in home.ranks()] == ranks
    findings = home.json("doctor")["findings"]
    assert any(f"the {service} (pid {pid}) has given no answer" in finding["seen"] for finding in findings)


def told(made: Cluster, since: int, service: str) -> list[str]:
    """Reasons of the events of what was done to a service."""
    found = [
        event for event in made.events() if event["id"] > since and f"the {service} " in event["message"]
    ]
    return [event["reason"] for event in found if event["reason"].startswith("Service")]
