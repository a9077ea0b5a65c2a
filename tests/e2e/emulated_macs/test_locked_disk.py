"""A disk that waits for its password after a restart, while the controller restarts as well: names under `.local` are not
found then, and the line to type has the address at which the machine answered last."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncssh
import pytest

from reconciler.sandbox.cluster import FILE
from reconciler.sandbox.places import PASSWORD, USER
from tests.e2e.cluster import Cluster, cluster

from .macs import unpacked
from .test_classes import SERVING

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]

SERVED_SECONDS, NAMED_SECONDS = 240.0, 120.0
NAME = re.compile(r"(  name: (studio-\d)\n(?:.*\n)*?    host: )127\.0\.0\.1")


@contextmanager
def two_macs() -> Iterator[Cluster]:
    """Found by their names, by a controller that believes that it runs on a Mac."""
    with cluster() as made, unpacked(made, "--nodes", "2") as manifests:
        nodes, count = NAME.subn(r"\1\2.local", (manifests / FILE).read_text())
        assert count == 2
        (manifests / FILE).write_text(nodes)
        (manifests / "serving.yaml").write_text(SERVING)
        made.start("-f", str(manifests), "--any-port")
        yield made


def steps(made: Cluster, name: str) -> str:
    """What the doctor asks a person to do about a machine that does not answer; empty for nothing."""
    body = json.loads(made.run("doctor", "-o", "json", check=False).stdout)
    found = [each for each in body["findings"] if each["class"] == "C0" and name in each["seen"]]
    return str(found[0]["steps"]) if found else ""


def port(made: Cluster, name: str) -> int:
    machines = made.json("sandbox", "status")["machines"]
    return next(int(each["ssh_port"]) for each in machines if each["name"] == name)


async def type_password(number: int) -> None:
    """As `ssh` does, which is let in by nothing else and gets no session."""
    with suppress(asyncssh.Error, OSError):
        await asyncssh.connect(
            "127.0.0.1", number, username=USER, password=PASSWORD, known_hosts=None, client_keys=None
        )


def test_the_line_to_type_has_the_last_address_also_after_a_restart_of_the_controller() -> None:
    with two_macs() as made:
        made.wait("a group of two", lambda: serves(made), SERVED_SECONDS)
        made.run("sandbox", "lock", "studio-2")
        number, unlocks = port(made, "studio-2"), f"ssh -p {port(made, 'studio-2')} {USER}@"
        lines = f"{unlocks}studio-2.local and type the password of that user; where that name is not found: {unlocks}127.0.0.1"
        made.wait("the line to type", lambda: lines in steps(made, "studio-2"), NAMED_SECONDS, 2.0)

        (before,) = made.controller()
        os.kill(before, signal.SIGKILL)
        made.wait("another controller", lambda: made.controller() not in ([], [before]))
        made.wait("the line to type again", lambda: lines in steps(made, "studio-2"), NAMED_SECONDS, 2.0)

        asyncio.run(type_password(number))
        made.wait("both to serve", lambda: serves(made), SERVED_SECONDS)
        made.wait("nothing to be typed", lambda: "ssh" not in steps(made, "studio-2"), NAMED_SECONDS, 2.0)


def serves(made: Cluster) -> Any:
    return made.deployments()["tiny"]["readyReplicas"] == 1
