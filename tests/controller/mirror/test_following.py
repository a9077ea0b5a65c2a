"""The task that follows a remote: real git, a real settings file, and a clock of the system."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.controller.mirror.following import Following
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.mirror.looking import Remote, configure
from reconciler.source.mirror.settings import write_settings
from reconciler.state.reports.status import Event
from tests.source.conftest import NODE, Person
from tests.source.mirror.conftest import judged, made_remote, pushed

pytestmark = pytest.mark.processes


@dataclass
class Seen:
    following: Following
    settings: Path
    events: list[Event] = field(default_factory=list)
    moves: list[float | None] = field(default_factory=list)

    @property
    def looks(self) -> int:
        return self.following.standing.looks if self.following.standing else 0

    async def until(self, true: Callable[[], object]) -> None:
        """Wait for something to hold, at most 20 s."""
        async with asyncio.timeout(20):
            while not true():
                await self.following.news.wait()


@pytest.fixture
def remote(tmp_path: Path) -> Person:
    return made_remote(tmp_path / "remote.git")


@pytest.fixture
async def seen(repo: ClusterRepo, home: Path) -> AsyncIterator[Seen]:
    events: list[Event] = []
    moves: list[float | None] = []
    remote = Remote(repo, judged, lambda: None, os.environ)
    settings = home / "source.yaml"
    following = Following(settings, remote, lambda: 100.0, lambda: 0.5, events.append, moves.append)
    task = asyncio.create_task(following.run())
    yield Seen(following, settings, events, moves)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_remote_that_is_set_while_it_runs_is_followed_and_a_hook_is_answered_at_once(
    seen: Seen, repo: ClusterRepo, remote: Person, tmp_path: Path
) -> None:
    first = pushed(remote, NODE)
    spec = GitRepositorySpec.model_validate({"url": str(tmp_path / "remote.git"), "interval": "1h"})
    write_settings(seen.settings, spec)
    seen.following.look_now()
    await seen.until(lambda: seen.looks == 1)
    assert (repo.head(), repo.mirrored()) == (first, str(tmp_path / "remote.git"))
    second = pushed(remote, NODE + "# more\n")
    seen.following.look_now(12.5)
    await seen.until(lambda: seen.looks == 2)
    assert (repo.head(), seen.moves[-1]) == (second, 12.5)
    pushed(remote, "kind: Nod\n")
    seen.following.look_now()
    await seen.until(seen.following.refusal)
    assert "a.yaml:1:7: kind: unknown kind" in seen.following.refusal()
    assert repo.head() == second
    seen.settings.unlink()
    seen.following.look_now()
    await seen.until(lambda: seen.following.standing is None)
    assert repo.mirrored() == ""


async def test_without_a_remote_nothing_is_read_again(seen: Seen, repo: ClusterRepo) -> None:
    for looks in range(1, 4):
        seen.following.look_now()
        await seen.following.news.wait()
        assert seen.moves == [None], f"look {looks}"
    assert repo.mirrored() == ""


async def test_settings_that_are_wrong_are_told_and_change_nothing(seen: Seen, repo: ClusterRepo) -> None:
    wrong = seen.settings.with_name("wrong.yaml")
    wrong.write_text("kind: GitRepository\n")
    wrong.replace(seen.settings)  # at once: a file in the middle of a write would be told as empty
    seen.following.look_now()
    await seen.until(lambda: seen.following.complaint)
    assert "source.yaml:1:1: apiVersion: required field is missing" in seen.following.complaint
    assert repo.head() is None


@pytest.mark.parametrize("during", ["configure", "look"])
async def test_a_remote_that_is_unset_during_a_round_stays_unset(
    during: str,
    seen: Seen,
    repo: ClusterRepo,
    remote: Person,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pushed(remote, NODE)
    act = getattr(Remote, during)

    def unset_first(self: Remote, spec: GitRepositorySpec | None, *more: object) -> object:
        if seen.settings.exists():
            seen.settings.unlink()
            configure(repo, None)
        return act(self, spec, *more)

    write_settings(seen.settings, GitRepositorySpec(url=str(tmp_path / "remote.git")))
    monkeypatch.setattr(Remote, during, unset_first)
    seen.following.look_now()
    await seen.until(lambda: not seen.settings.exists())
    seen.following.look_now()
    await seen.until(lambda: seen.following.standing is None)
    assert (repo.mirrored(), repo.head()) == ("", None)
