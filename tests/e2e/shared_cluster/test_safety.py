"""What is wrong, or would remove much, changes nothing that runs; what is removed leaves in order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import openai
import pytest

from reconciler.cli.core.client import ask
from reconciler.source.git.process import run_git
from reconciler.wire.admin import Look, ShowStatus
from tests.e2e.cluster import Cluster
from tests.source.yaml.broken import BROKEN

from .test_git import clone, git

pytestmark = pytest.mark.e2e

__all__ = ["clone"]

LONG = "Count from 1 to 100."
PAUSE_SECONDS = 0.3
"""Between two answers, so that other tests have something of the machine."""


@dataclass
class Stream:
    """A client that asks the same again and again, and keeps what it got."""

    cluster: Cluster
    pause: float
    texts: list[str] = field(default_factory=list)
    finishes: list[str | None] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    enough: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with openai.OpenAI(
            base_url=self.cluster.endpoint(), api_key="none", timeout=120, max_retries=0
        ) as sdk:
            while not self.enough.wait(self.pause):
                try:
                    self._ask(sdk)
                except openai.APIError as error:
                    self.errors.append(str(error))
                    return

    def _ask(self, sdk: openai.OpenAI) -> None:
        text, finish = "", None
        chunks = sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": LONG}], temperature=0, stream=True
        )
        for chunk in chunks:
            text += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
            self.begun.set()
        self.texts.append(text)
        self.finishes.append(finish)


@contextmanager
def streaming(cluster: Cluster, pause: float = PAUSE_SECONDS) -> Iterator[Stream]:
    """A stream that runs all the while; every answer of it is whole in the end."""
    stream = Stream(cluster, pause)
    thread = threading.Thread(target=stream.run)
    thread.start()
    try:
        assert stream.begun.wait(60)
        yield stream
    finally:
        stream.enough.set()
        thread.join(120)
    assert stream.errors == []
    assert set(stream.finishes) == {"stop"}
    assert len(set(stream.texts)) == 1
    assert len(stream.texts[0]) > 200


def pids(cluster: Cluster) -> list[tuple[int, int, int]]:
    return sorted((row["epoch"], row["rank"], row["pid"]) for row in cluster.ranks())


def push(cluster: Cluster, clone: Path) -> None:
    """And wait until it is in force: the hook does not wait for that."""
    last = cluster.last_event()
    git(clone, "push", "-q")
    cluster.wait(
        "the revision",
        lambda: any(e["reason"] == "RevisionApplied" and e["id"] > last for e in cluster.events()),
    )


def past_the_hook(cluster: Cluster, clone: Path) -> None:
    """Into the repository as somebody with a shell there could: no hook sees it, nobody is told but us."""
    repo = cluster.home / "cluster.git"
    run_git((f"--git-dir={repo}", "fetch", "--quiet", "--force", str(clone), "main:main"))
    ask(cluster.home / "controller.sock", Look("source"))


def noted(cluster: Cluster, expected: str) -> bool:
    rejection = ask(cluster.home / "controller.sock", ShowStatus())["rejection"]
    return rejection is not None and expected in rejection


def test_one_broken_commit_after_the_other_disturbs_nothing_that_runs(tiny: Cluster, clone: Path) -> None:
    before, generation = pids(tiny), tiny.json("get", "deployment", "tiny")["metadata"]["generation"]
    last, file = tiny.last_event(), clone / "x.yaml"
    with streaming(tiny):
        for name, (content, expected) in BROKEN.items():
            file.write_bytes(content)
            git(clone, "add", "--all")
            git(clone, "commit", "-qm", f"Break it: {name}")
            past_the_hook(tiny, clone)
            tiny.wait(name, partial(noted, tiny, expected))
        assert expected in tiny.run("get", "nodes").stderr
        assert pids(tiny) == before
        refused = tiny.plan()["refused"]
        assert [(r["object"], r["reason"]) for r in refused] == [("cluster/main", "RevisionRejected")]
    events = [event for event in tiny.events() if event["id"] > last and event["object"] == "cluster/main"]
    assert [event["reason"] for event in events] == ["RevisionRejected"] * len(BROKEN)
    for event, (_, expected) in zip(events, BROKEN.values(), strict=True):
        assert expected in event["message"]

    file.unlink()
    served = next(path for path in clone.rglob("*.yaml") if "kind: ModelDeployment" in path.read_text())
    served.write_text(served.read_text().replace("    maxBatch: 16", "    maxBatch: 16\n    aliases: [good]"))
    git(clone, "add", "--all")
    git(clone, "commit", "-qm", "Repair it, and add an alias")
    git(clone, "push", "-q")
    tiny.wait("the alias", lambda: "good" in tiny.run("get", "deployments", "-o", "json").stdout)
    served.write_text(served.read_text().replace("\n    aliases: [good]", ""))
    git(clone, "commit", "-qam", "Remove the alias")
    push(tiny, clone)
    tiny.wait_settled()
    assert pids(tiny) == before
    assert tiny.json("get", "deployment", "tiny")["metadata"]["generation"] == generation + 2


def test_an_emptied_repository_is_held_over_a_restart_and_released_by_a_revert(
    tiny: Cluster, clone: Path
) -> None:
    before = pids(tiny)
    with streaming(tiny):
        git(clone, "rm", "-qr", ".")
        git(clone, "commit", "-qm", "Remove everything")
        refused = git(clone, "push", check=False)
        assert (refused.returncode, "Allow-Removal" in refused.stderr) == (1, True), "it removes what serves"
        git(clone, "push", "-q", "-o", "allow-removal")
        revision = git(clone, "rev-parse", "HEAD").stdout.strip()
        command = f"reconciler approve {revision[:10]}"
        tiny.wait("the hold", lambda: command in tiny.run("get", "all").stderr)
        (controller,) = tiny.controller()
        os.kill(controller, signal.SIGKILL)
        tiny.wait("another controller", lambda: tiny.controller() not in ([], [controller]))
        tiny.wait("the hold again", lambda: command in tiny.run("get", "all").stderr)
        assert command in tiny.run("plan").stdout
        assert command in tiny.run("describe", "node/node-a").stderr
        wrong = tiny.run("approve", "0000000000", check=False)
        assert (wrong.returncode, command in wrong.stderr) == (1, True)
        assert len(tiny.json("get", "all")["items"]) == 5
        git(clone, "revert", "--no-edit", "HEAD")
        git(clone, "push", "-q")
        tiny.wait("its release", lambda: "held" not in tiny.run("get", "all").stderr)
    tiny.wait_settled()
    assert pids(tiny) == before


def leaves(shown: str) -> bool:
    """Whether the only deployment is about to leave, or has left."""
    return "Terminating" in shown or not shown.strip()


def refuses(cluster: Cluster) -> bool:
    """Whether the endpoint knows the model no more: the gateway reads of it a moment after all others."""
    with openai.OpenAI(base_url=cluster.endpoint(), api_key="none", timeout=60, max_retries=0) as sdk:
        try:
            sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hello"}])
        except openai.NotFoundError:
            return True
        except openai.APIStatusError:
            return False
    return False


def test_what_is_removed_gets_no_new_requests_finishes_what_it_has_and_then_leaves(
    tiny: Cluster, clone: Path
) -> None:
    before, last = pids(tiny), tiny.last_event()
    served = next(path for path in clone.rglob("*.yaml") if "kind: ModelDeployment" in path.read_text())
    git(clone, "rm", "-q", str(served.relative_to(clone)))
    git(clone, "commit", "-qm", "Remove the model and its deployment\n\nAllow-Removal: tiny")
    git(clone, "push", "-q")
    revision = git(clone, "rev-parse", "HEAD").stdout.strip()
    tiny.wait("the hold", lambda: "approve" in tiny.run("get", "all").stderr)
    with streaming(tiny, pause=0.0) as stream:
        answered = len(stream.finishes)
        stream.enough.set()
        answer = tiny.json("approve", revision[:7])
        assert answer == {
            "revision": revision,
            "removes": ["model/tiny", "modeldeployment/tiny"],
            "runs": [],
            "again": False,
        }
        tiny.wait("the drain, if not more", lambda: leaves(tiny.ask("get", "deployments", "--no-headers")))
        left = pids(tiny)
        tiny.wait("no new request to be taken", lambda: refuses(tiny))
    assert left == before or len(stream.finishes) > answered, "it finishes what it has"
    tiny.wait("them to leave", lambda: len(tiny.json("get", "all")["items"]) == 3)
    assert tiny.ranks() == []
    events = [(event["object"], event["reason"]) for event in tiny.events() if event["id"] > last]
    assert events.index(("modeldeployment/tiny", "ReplicaReleased")) < events.index(
        ("modeldeployment/tiny", "Removed")
    )
    assert ("model/tiny", "Removed") in events
    assert ("cluster/main", "RevisionApproved") in events
    git(clone, "revert", "--no-edit", "HEAD")
    push(tiny, clone)
    tiny.wait_settled()
    assert {epoch for epoch, _, _ in pids(tiny)} == {before[0][0] + 1}
