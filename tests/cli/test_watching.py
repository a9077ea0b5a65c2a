"""`get -w` of a real controller: what changes is printed as it changes, over the controller's own end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from reconciler.cli.client import Client
from reconciler.wire.admin import Get

from .live import MANIFESTS, Live, live, manifest, running, wait_for


@pytest.fixture
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


def replicas(count: int) -> str:
    return manifest("tiny").replace("model: tiny}", f"model: tiny, replicas: {count}}}")


def test_a_watch_prints_rows_as_they_change_and_goes_on_over_a_restart(cluster: Live) -> None:
    with running(cluster, "get", "modeldeployments", "-w") as watch:
        watch.wait_for(lambda lines: any("0/1" in line and "Stalled" in line for line in lines))
        assert watch.out[0].split()[:3] == ["NAME", "MODEL", "READY"]

        cluster.apply(replicas(2))
        watch.wait_for(lambda lines: lines[-1].startswith("tiny ") and "0/2" in lines[-1])

        cluster.kill()
        wait_for(lambda: watch.err[:1] == ["note: the controller is gone; waiting for it to come back ..."])
        printed = len(watch.out)
        cluster.start()
        wait_for(lambda: watch.err[1:] == ["note: the controller is back"])
        cluster.apply(replicas(3))
        watch.wait_for(lambda lines: "0/3" in lines[-1])
        # A controller that has just come back has read nothing yet: that is no deletion.
        assert not [line for line in watch.out[printed:] if "deleted" in line or "Unknown" in line]
        assert watch.end() == 130


def settled(cluster: Live) -> str:
    """The version of a cluster in which nothing happens any more."""
    seen = ""

    def quiet() -> bool:
        nonlocal seen
        with Client(cluster.home / "controller.sock") as client:
            before, seen = seen, str(client.ask(Get(seen=seen, wait_seconds=1.0), 1.0)["version"])
        return seen == before

    wait_for(quiet)
    return seen


def test_an_answer_is_held_back_until_something_has_changed(cluster: Live) -> None:
    seen = settled(cluster)
    with Client(cluster.home / "controller.sock") as client:
        asked = time.monotonic()
        body = client.ask(Get(seen=seen, wait_seconds=0.3), 0.3)
        assert (body["version"], body["items"]) == (seen, [])
        assert time.monotonic() - asked >= 0.3
        cluster.apply(replicas(2))
        assert len(client.ask(Get(seen=seen, wait_seconds=20.0), 20.0)["items"]) == len(MANIFESTS)


def test_a_watch_only_is_silent_about_what_is_there_already(cluster: Live) -> None:
    settled(cluster)
    arguments = ("get", "md/tiny", "-o", "json")
    with running(cluster, *arguments, "--watch-only") as watch, running(cluster, *arguments, "-w") as beside:
        beside.wait_for(lambda lines: lines)
        time.sleep(0.5)  # for the other one to begin as well
        cluster.apply(replicas(2))
        watch.wait_for(lambda lines: any(json.loads(line)["spec"]["replicas"] == 2 for line in lines))
        assert json.loads(watch.out[0]) != json.loads(beside.out[0])
        assert json.loads(beside.out[0])["spec"]["replicas"] == 1
        assert watch.end() == 130
