"""A rank that nothing ends, on two emulated Macs that the controller may not restart: the other one serves alone, the
doctor has the line to type, and after the restart both serve."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from reconciler.planning.context.deadlines import HUNG_GRACE_SECONDS
from reconciler.sandbox.cluster import FILE
from tests.e2e.cluster import Cluster, cluster

from .macs import answered, incidents, unpacked
from .test_classes import SERVING

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]

FORMED_SECONDS, KILLED_SECONDS, HEALED_SECONDS = 240.0, 90.0, 240.0
SERVED_SECONDS = 60.0
"""After the failed kill."""
SHUTDOWN_SECONDS = "15"


@contextmanager
def two_macs() -> Iterator[Cluster]:
    """One replica on both, or on one where the other cannot be used."""
    with cluster() as made, unpacked(made, "--nodes", "2") as manifests:
        nodes = (manifests / FILE).read_text()
        assert "reboot: true" in nodes
        (manifests / FILE).write_text(nodes.replace("reboot: true", "reboot: false"))
        (manifests / "serving.yaml").write_text(SERVING.replace("nodes: 2", "nodes: {min: 1, max: 2}"))
        made.start("-f", str(manifests), "--any-port")
        yield made


def serving_nodes(made: Cluster) -> list[str]:
    """The nodes of the group that serves, in the order of ranks; none while none does."""
    status = made.json("describe", "deployment", "tiny")["status"]
    return [node for group in status["groups"] for node in group["nodes"]] if status["readyReplicas"] else []


def told(made: Cluster, pattern: str) -> bool:
    return any(re.search(pattern, entry["text"]) for each in incidents(made) for entry in each["entries"])


def findings(made: Cluster) -> list[dict[str, Any]]:
    done = made.run("doctor", "-o", "json", check=False)
    return list(json.loads(done.stdout)["findings"])


def test_the_other_machine_serves_a_person_gets_the_line_and_all_is_well_after_the_restart() -> None:
    with two_macs() as made:
        made.wait("a group of two", lambda: len(serving_nodes(made)) == 2, FORMED_SECONDS)
        other, victim = serving_nodes(made)
        made.run("sandbox", "unkillable", victim, SHUTDOWN_SECONDS)
        client = threading.Thread(target=answered, args=(made, "tiny", 20))
        client.start()
        made.wait("the kill", lambda: told(made, rf"stop rank 1 of tiny/0 on {victim}"), KILLED_SECONDS)
        killed_at = time.monotonic() + HUNG_GRACE_SECONDS
        made.wait("the other machine to serve", lambda: serving_nodes(made) == [other], KILLED_SECONDS)
        answered(made, "tiny", 5)
        served = time.monotonic() - killed_at
        print(f"the other machine answers {served:.1f} s after the failed kill")
        assert served <= SERVED_SECONDS
        client.join(HEALED_SECONDS)
        assert not client.is_alive(), "who had asked before is answered too"

        (finding,) = [each for each in findings(made) if each["class"] == "C18"]
        assert "has not ended within 30 s of SIGKILL" in finding["seen"]
        assert f"on {victim}: sudo shutdown -r now" in finding["steps"]
        assert "UnkillableRank" in made.run("describe", "node", victim).stdout

        made.run("sandbox", "reboot", victim)
        made.wait(
            "both to serve", lambda: sorted(serving_nodes(made)) == sorted([other, victim]), HEALED_SECONDS
        )
        made.wait("the doctor to find nothing", lambda: not findings(made), HEALED_SECONDS, 2.0)
        asked = [
            entry
            for each in incidents(made)
            for entry in each["entries"]
            if entry["kind"] == "person" and "sudo shutdown -r now" in entry["text"]
        ]
        assert [entry.get("times", 1) for entry in asked] == [1], "a person is asked once"
