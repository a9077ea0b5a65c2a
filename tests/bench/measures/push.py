"""How long a push takes with a running controller, the plan printed included, and until it is in force."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from reconciler.cli.core.client import ask
from reconciler.wire.admin import ListEvents
from tests.bench.figures import Figure, alone
from tests.cli.live import API, Live, live, wait_for

PUSHES = 50
CHANGED = 100
"""Objects that change with each push, of many."""
DEPLOYMENT = API + "kind: ModelDeployment\nmetadata: {name: %s}\nspec: {model: tiny, replicas: %d}\n"
IDLE = (
    API
    + "kind: ModelDeployment\nmetadata: {name: d%d}\nspec: {model: tiny, replicas: 0, serving: {maxBatch: %d}}\n"
)


def measure(quick: bool) -> Iterator[Figure]:
    """Of pushes that change one object each, of one that brings many, and of pushes that change many of them."""
    with live() as cluster, tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", cluster.home / "cluster.git", clone], check=True)
        pushes = 3 if quick else PUSHES
        taken = [_pushed(cluster, clone, DEPLOYMENT % ("more", 1 + turn % 2)) for turn in range(pushes)]
        answered = [1000 * answer for answer, _ in taken]
        yield alone("git push of one object, plan printed", "ms", answered, "< 250")
        in_force = [1000 * each for _, each in taken]
        yield alone("from the start of git push until in force, p50", "ms", in_force, "< 250")
        yield alone("from the start of git push until in force, p99", "ms", [max(in_force)], "< 1000")
        objects = 200 if quick else 1000
        yield alone(
            "git push of 1,000 objects until in force",
            "s",
            [_pushed(cluster, clone, _idle(objects, 0))[1]],
            "< 1",
        )
        rates = [
            CHANGED / _pushed(cluster, clone, _idle(objects, turn))[1]
            for turn in range(1, objects // CHANGED)
        ]
        yield alone("objects in force a second, of pushes that change 100 of 1,000", "", rates, "> 100")


def _idle(objects: int, turn: int) -> str:
    """So many deployments without replicas. Each turn changes the next ``CHANGED`` of them."""
    return "---\n".join(IDLE % (index, 1 + (index < turn * CHANGED)) for index in range(objects))


def _pushed(cluster: Live, clone: Path, text: str) -> tuple[float, float]:
    """Seconds until the push has ended, and until its revision is in force."""
    git = ("git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@example.com")
    (clone / "more.yaml").write_text(text)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Change it"], check=True)
    last = ask(cluster.home / "controller.sock", ListEvents(limit=1))["last"]
    started, clock = time.time(), time.monotonic()
    subprocess.run([*git, "push", "--quiet", "origin", "HEAD:main"], check=True, capture_output=True)
    seconds = time.monotonic() - clock

    def applied() -> list[float]:
        events = ask(cluster.home / "controller.sock", ListEvents(last))["items"]
        found = [event["time"] for event in events if event["reason"] == "RevisionApplied"]
        return [datetime.fromisoformat(each).timestamp() - started for each in found]

    wait_for(applied)
    return seconds, applied()[0]
