"""The sources of the controller's loop: reading, and knowing when to read again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.errors import Invalid, InvalidManifests
from reconciler.source.files import read_directory, read_paths
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.sources import DirectorySource, GitSource, Source
from reconciler.source.yaml.pieces import FILE_BYTES_MAX
from tests.source.conftest import AUTHOR, NODE

BOUND_SECONDS = 60.0


async def next_of(changes: AsyncIterator[None]) -> None:
    await asyncio.wait_for(anext(changes), BOUND_SECONDS)


async def waiting(changes: AsyncIterator[None]) -> asyncio.Task[None]:
    """A task that waits for the next change, already listening."""
    task = asyncio.create_task(next_of(changes))
    await asyncio.sleep(0.5)
    return task


async def test_the_cluster_repo_is_empty_then_what_was_committed_last(repo: ClusterRepo) -> None:
    source: Source = GitSource(repo)
    empty = await source.read()
    assert (empty.id, empty.documents) == ("empty", ())
    revision = repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    read = await source.read()
    assert read.id == revision
    assert [document.key for document in read.documents] == [("Node", "a")]
    assert source.describe() == f"git {repo.path}"


async def test_an_unchanged_state_is_not_read_again(repo: ClusterRepo, home: Path) -> None:
    repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    (home / "a.yaml").write_text(NODE)
    for source in (GitSource(repo), DirectorySource(home)):
        assert await source.read() is await source.read()


async def test_problems_come_again_at_every_read_until_they_are_repaired(home: Path) -> None:
    (home / "a.yaml").write_text("kind: Nod\n")
    source = DirectorySource(home)
    for _ in range(2):
        with pytest.raises(InvalidManifests, match=r"a\.yaml:1:7: kind: unknown kind"):
            await source.read()
    (home / "a.yaml").write_text(NODE)
    assert len((await source.read()).documents) == 1


async def test_a_commit_is_noticed_without_the_hook(repo: ClusterRepo) -> None:
    changes = GitSource(repo, poll_seconds=0.05).changes()
    task = await waiting(changes)
    repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    await task


async def test_a_directory_has_an_id_of_its_contents(home: Path) -> None:
    source = DirectorySource(home)
    ids = []
    for text in (NODE, NODE + "# more\n", NODE):
        (home / "a.yaml").write_text(text)
        ids.append((await source.read()).id)
    assert ids[0] == ids[2] != ids[1]
    assert ids[0].startswith("dir-")
    assert len(ids[0]) == len("dir-") + 12
    (home / "a.yaml").rename(home / "b.yaml")
    assert (await source.read()).id != ids[0]


async def test_changes_of_a_directory_are_noticed_wherever_they_are(home: Path) -> None:
    (home / "deep").mkdir()
    changes = DirectorySource(home, poll_seconds=10 * BOUND_SECONDS).changes()
    task = await waiting(changes)
    while not task.done():  # once more where the watch has begun after it
        (home / "deep" / "a.yaml").write_text(NODE)
        await asyncio.wait([task], timeout=2.0)
    await task
    task = await waiting(changes)
    (home / "deep" / "a.yaml").unlink()
    await task


async def test_a_change_before_the_watch_has_begun_is_noticed_soon(home: Path) -> None:
    """A controller has read the folder, and watches it a moment later."""
    changes = DirectorySource(home, poll_seconds=10 * BOUND_SECONDS).changes()
    (home / "a.yaml").write_text(NODE)
    await next_of(changes)


async def test_a_directory_that_is_replaced_is_still_watched(home: Path) -> None:
    folder = home / "manifests"
    folder.mkdir()
    changes = DirectorySource(folder, poll_seconds=1.0).changes()
    task = await waiting(changes)
    folder.rename(home / "old")
    await task
    task = await waiting(changes)
    folder.mkdir()
    await task
    task = await waiting(changes)
    (folder / "a.yaml").write_text(NODE)
    await task


async def test_without_any_change_a_directory_is_worth_a_look_now_and_then(home: Path) -> None:
    changes = DirectorySource(home, poll_seconds=0.2).changes()
    await next_of(changes)
    await next_of(changes)


async def test_waiting_for_changes_can_be_cancelled(home: Path) -> None:
    task = await waiting(DirectorySource(home).changes())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, BOUND_SECONDS)


async def test_a_directory_that_is_not_there_is_named(home: Path) -> None:
    with pytest.raises(Invalid, match="never does not exist"):
        await DirectorySource(home / "never").read()


def test_a_directory_is_read_without_what_is_hidden_or_elsewhere(home: Path) -> None:
    inside, outside = home / "in", home / "out"
    for path in (inside / "b.yaml", inside / "a" / "c.yml", inside / "x.txt", inside / ".git" / "d.yaml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    outside.mkdir()
    (outside / "secret.yaml").write_text("secret")
    (inside / "link.yaml").symlink_to(outside / "secret.yaml")
    (inside / "folder").symlink_to(outside)
    (inside / "same.yaml").symlink_to(inside / "b.yaml")
    (inside / "broken.yaml").symlink_to(inside / "nothing.yaml")
    os.mkfifo(inside / "pipe.yaml")
    assert read_directory(inside) == {"a/c.yml": b"c.yml", "b.yaml": b"b.yaml", "same.yaml": b"b.yaml"}


def test_a_file_that_is_too_large_is_not_even_read(home: Path) -> None:
    with (home / "a.yaml").open("wb") as file:
        file.truncate(100 * FILE_BYTES_MAX)
    with pytest.raises(InvalidManifests, match=r"a\.yaml:1:1: the file has 104857600 bytes"):
        read_directory(home)


def test_paths_of_a_command_line_keep_their_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "m").mkdir()
    (home / "m" / "a.yaml").write_text("a")
    (home / "b.yaml").write_text("b")
    read = read_paths(["m/", "./b.yaml", "-"], lambda: b"c")
    assert read == {"m/a.yaml": b"a", "b.yaml": b"b", "<stdin>": b"c"}
    assert read_paths(["."], bytes) == {"b.yaml": b"b", "m/a.yaml": b"a"}
    with pytest.raises(Invalid, match=r"never\.yaml does not exist"):
        read_paths(["never.yaml"], bytes)
