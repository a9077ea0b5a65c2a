"""What is shown at a forge: a real client, a forge on loopback, real git, and a plan that is made up."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.controller.mirror.following import Following
from reconciler.controller.mirror.reporting import Reporting
from reconciler.controller.mirror.verdict import Verdict
from reconciler.outgoing.forges.client import MARKER, open_forge
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.mirror.looking import Remote
from reconciler.source.mirror.settings import write_settings
from tests.outgoing.forges.double import TOKEN, ForgeDouble, forge_double
from tests.source.conftest import NODE, Person
from tests.source.mirror.conftest import judged, made_remote, pushed

COMMIT = "1f0c2a9b3d" + "0" * 30

pytestmark = pytest.mark.second_tier


@dataclass
class Reported:
    forge: ForgeDouble
    following: Following
    remote: Person
    verdict: Verdict | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    previewed: list[Mapping[str, bytes]] = field(default_factory=list)

    def becomes(self, state: Any, text: str) -> None:
        self.verdict = Verdict(COMMIT, state, text)
        self.news.set()
        self.news = asyncio.Event()

    async def preview(self, files: Mapping[str, bytes]) -> Mapping[str, Any]:
        self.previewed.append(files)
        steps = [{"text": "start the agent of more", "object": None}]
        return {"removes": [], "of": 1, "held": False, "plan": {"steps": steps, "waiting": [], "refused": []}}

    def states(self) -> list[str]:
        return [each["state"] for each in self.forge.statuses]

    def ours(self) -> dict[int, list[str]]:
        return {
            number: [each["body"] for each in found] for number, found in self.forge.comments.items() if found
        }

    async def until(self, true: Any) -> None:
        async with asyncio.timeout(20):
            while not true():  # noqa: ASYNC110 - nothing tells when a forge has been told
                await asyncio.sleep(0.02)


@pytest.fixture
async def reported(repo: ClusterRepo, home: Path, tmp_path: Path) -> AsyncIterator[Reported]:
    person = made_remote(tmp_path / "remote.git")
    pushed(person, NODE)
    remote = Remote(repo, judged, lambda: None, os.environ)
    following = Following(
        home / "source.yaml", remote, lambda: 1.0, lambda: 0.5, lambda event: None, lambda at: None
    )
    with forge_double("forgejo") as double:
        forge = {"type": "forgejo", "url": double.url, "project": "team/cluster", "token": {"env": "T"}}
        spec = GitRepositorySpec.model_validate({"url": str(tmp_path / "remote.git"), "forge": forge})
        write_settings(home / "source.yaml", spec)
        made = Reported(double, following, person)
        reporting = Reporting(
            following,
            lambda spec: open_forge(spec, {"T": TOKEN}),
            lambda: made.verdict,
            lambda: made.news.wait(),
            remote.files,
            made.preview,
        )
        tasks = [asyncio.create_task(each) for each in (following.run(), reporting.run())]
        await made.until(lambda: following.standing is not None and following.standing.last is not None)
        yield made
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


async def test_each_state_of_a_commit_is_shown_once(reported: Reported) -> None:
    reported.becomes("pending", "seen")
    await reported.until(lambda: reported.states() == ["pending"])
    reported.becomes("pending", "in force, and not ready yet")
    reported.becomes("success", "in force, and ready")
    await reported.until(lambda: reported.states() == ["pending", "success"])


async def test_an_open_pull_request_gets_the_plan_and_one_from_a_fork_does_not(reported: Reported) -> None:
    reported.remote.git("checkout", "--quiet", "-b", "more")
    reported.remote.commits(NODE.replace("name: a", "name: more"), "more.yaml")
    reported.remote.git("push", "--quiet", "origin", "more")
    commit = reported.remote.git("rev-parse", "HEAD")[1].strip()
    reported.forge.open_request(2, commit, "more", fork=True)
    reported.forge.open_request(7, commit, "more")
    reported.following.look_now()
    await reported.until(reported.ours)
    assert reported.ours() == {
        7: [f"{MARKER}\n### What {commit[:10]} would do here\n\n**Steps**\n\n- start the agent of more"]
    }
    assert sorted(reported.previewed[0]) == ["a.yaml", "more.yaml"]
    reported.remote.commits("kind: Nod\n", "more.yaml")
    reported.remote.git("push", "--quiet", "origin", "more")
    broken = reported.remote.git("rev-parse", "HEAD")[1].strip()
    reported.forge.requests[1]["head"]["sha"] = broken
    reported.following.look_now()
    await reported.until(lambda: f"What {broken[:10]} would do" in reported.ours()[7][0])
    assert len(reported.ours()[7]) == 1, "changed in place"


async def test_a_forge_that_is_away_costs_nothing_but_the_status(
    reported: Reported, caplog: pytest.LogCaptureFixture
) -> None:
    reported.forge.failing = [403]
    reported.becomes("pending", "seen")
    await reported.until(lambda: "answered with 403" in caplog.text)
    reported.becomes("success", "in force, and ready")
    await reported.until(lambda: reported.states() == ["success"])
    assert TOKEN not in caplog.text
