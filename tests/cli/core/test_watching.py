"""`get -w` of a real controller: what changes is printed as it changes, over the controller's own end."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

import pytest

from reconciler.cli.core.client import Client
from reconciler.wire.admin import Get
from tests.cli.live import MANIFESTS, Live, live, manifest, running, wait_for

pytestmark = pytest.mark.processes


@pytest.fixture
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


def replicas(count: int) -> str:
    return manifest("tiny").replace("model: tiny}", f"model: tiny, replicas: {count}}}")


@pytest.mark.second_tier
def test_a_watch_prints_rows_as_they_change_and_goes_on_over_a_restart(cluster: Live) -> None:
    with running(cluster, "get", "modeldeployments", "-w") as watch:
        watch.wait_for(lambda lines: any("0/1" in line and "Stalled" in line for line in lines))
        assert watch.out[0].split()[:3] == ["NAME", "MODEL", "READY"]

        cluster.apply(replicas(2))
        watch.wait_for(lambda lines: any(line.startswith("tiny ") and "0/2" in line for line in lines))

        cluster.kill()
        wait_for(lambda: watch.err[:1] == ["note: the controller has ended; waiting for the next one ..."])
        printed = len(watch.out)
        cluster.start()
        wait_for(lambda: watch.err[1:] == ["note: a controller is running again"])
        cluster.apply(replicas(3))
        watch.wait_for(lambda lines: any("0/3" in line for line in lines))
        # A controller that has just come back has read nothing yet: that is no deletion.
        assert not [line for line in watch.out[printed:] if "deleted" in line or "Unknown" in line]
        assert watch.end() == 130


def test_an_answer_is_held_back_until_something_has_changed(cluster: Live) -> None:
    seen = ""
    with Client(cluster.home / "controller.sock") as client:

        def held_back() -> bool:
            """Whether nothing has happened meanwhile: a controller that has just begun finds something out at times."""
            nonlocal seen
            started, before = time.monotonic(), seen
            body = client.ask(Get(seen=seen, wait_seconds=0.3), 0.3)
            seen = str(body["version"])
            if seen != before:
                return False
            assert body["items"] == []
            assert time.monotonic() - started >= 0.3
            return True

        wait_for(held_back)
        cluster.apply(replicas(2))
        assert len(client.ask(Get(seen=seen, wait_seconds=20.0), 20.0)["items"]) == len(MANIFESTS)


@pytest.mark.second_tier
def test_a_watch_only_is_silent_about_what_is_there_already(cluster: Live) -> None:
    arguments, counts = ("get", "md/tiny", "-o", "json"), itertools.count(2)

    def changed(lines: list[str]) -> bool:
        """One change after the other, until the first that comes after the watch has begun."""
        cluster.apply(replicas(next(counts)))
        return any(json.loads(line)["spec"]["replicas"] > 1 for line in lines)

    with running(cluster, *arguments, "-w") as beside:
        beside.wait_for(lambda lines: lines)
        assert json.loads(beside.out[0])["spec"]["replicas"] == 1
    there = json.loads(cluster.run(*arguments).stdout)
    with running(cluster, *arguments, "--watch-only") as watch:
        watch.wait_for(changed)
        assert json.loads(watch.out[0]) != there
        assert watch.end() == 130
