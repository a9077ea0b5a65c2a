"""Working directories are removed, and nothing else ever is."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.ranks import directory, working
from reconciler.wire.launch import RankId
from reconciler.wire.paths import WORK

pytestmark = pytest.mark.processes

USER = "nobody" if os.geteuid() == 0 else ""
OWNER = pwd.getpwnam(USER).pw_uid if USER else os.geteuid()


class Places:
    """Places of jobs, and a file of their user in the folder in which the tools that remove begin: elsewhere it is ``/``."""

    def __init__(self, folder: Path) -> None:
        self.ranks = folder / "ranks"
        self.root = folder / "jobs"
        self.begin = folder / "begin"
        for each in (self.ranks, self.root, self.begin):
            each.mkdir(0o711)
        self.other = self.begin / "file"
        self.other.touch()
        for each in (self.begin, self.other):
            os.chown(each, OWNER, -1)

    def place(self, rank: str = "ranks/job_bench.0.1.0", name: str = "place") -> Path:
        """The place of a job whose user has not made a working directory in it."""
        place = self.root / name
        place.mkdir(0o711)
        (place / working.OWNER_FILE).write_text(
            json.dumps({"directory": str(self.ranks.parent / rank), "user": USER})
        )
        return place

    def work(self) -> Path:
        """A working directory with a file in it."""
        work = self.place() / WORK
        work.mkdir(0o700)
        (work / "file").touch()
        for each in (work / "file", work):
            os.chown(each, OWNER, -1)
        return work

    def remove(self) -> None:
        """Remove the places of ranks that are gone, and wait for it."""
        with finished():
            working.remove_places(self.ranks, lambda directory: False)


@contextlib.contextmanager
def finished() -> Iterator[None]:
    """Wait for what was begun in the background."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join()


@contextlib.contextmanager
def as_owner() -> Iterator[None]:
    """Be a user without rights meanwhile."""
    before = os.geteuid()
    os.seteuid(OWNER)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o711)
    made = Places(folder)
    monkeypatch.setattr(working, "jobs_root", lambda uid: str(made.root))
    run = subprocess.run

    def begun(command: Any, **given: Any) -> Any:
        return run(command, **{**given, "cwd": made.begin})

    monkeypatch.setattr(subprocess, "run", begun)
    yield made
    shutil.rmtree(folder)


def test_a_place_without_a_working_directory_is_removed_and_nothing_else(places: Places) -> None:
    place = places.place()

    places.remove()

    assert not place.exists()
    assert places.other.exists()


def test_only_places_of_this_agents_ranks_that_are_not_needed_are_removed(places: Places) -> None:
    gone = places.place("ranks/job_bench.0.1.0", "gone")
    kept = [
        places.place("ranks/job_bench.0.2.0", "running"),
        places.place("other/ranks/job_bench.0.1.0", "other agent"),
        places.place("ranks/old/job_bench.0.1.0", "deeper"),
        places.place("ranks", "no rank"),
        places.place("ranks/job_bench.0.1.0", "unreadable"),
    ]
    (kept[-1] / working.OWNER_FILE).write_text("[]")

    with finished():
        working.remove_places(places.ranks, lambda directory: directory.name == "job_bench.0.2.0")

    assert not gone.exists()
    assert sorted(places.root.iterdir()) == sorted(kept)


def test_a_working_directory_that_its_own_mode_closes_is_removed_and_nothing_else(places: Places) -> None:
    work = places.work()
    work.chmod(0)

    places.remove()

    assert not work.parent.exists()
    assert places.other.exists()


def test_a_working_directory_that_could_not_be_removed_is_removed_the_next_time(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = places.work()
    with monkeypatch.context() as failing:
        failing.setattr(working, "started_as", lambda user: (["/no/such/program"], {}))
        places.remove()
    assert work.exists()

    places.remove()

    assert not work.parent.exists()


def test_a_closed_working_directory_of_the_agents_own_user_is_removed(places: Places) -> None:
    id = RankId("job_bench", 0, 1, 0)
    work = places.ranks / str(id) / WORK
    work.mkdir(parents=True)
    for each in (work, work.parent, places.ranks):
        os.chown(each, OWNER, -1)
    work.chmod(0o500)

    with finished(), as_owner():
        directory.move_work(places.ranks, id)

    assert list(places.ranks.iterdir()) == [work.parent]
    assert list(work.parent.iterdir()) == []


@pytest.mark.parametrize("removing", [directory.move_work, directory.remove])
def test_a_link_in_the_place_of_a_working_directory_is_not_followed(
    places: Places, removing: Callable[[Path, RankId], None]
) -> None:
    id = RankId("job_bench", 0, 1, 0)
    work = places.ranks / str(id) / WORK
    work.parent.mkdir()
    work.symlink_to(places.begin)
    places.begin.chmod(0o750)
    for each in (work.parent, places.ranks):
        os.chown(each, OWNER, -1)

    with finished(), as_owner():
        removing(places.ranks, id)

    assert list(places.begin.iterdir()) == [places.other]
    assert places.begin.stat().st_mode & 0o777 == 0o750
    assert [each.name for each in places.ranks.iterdir()] == (
        [] if removing is directory.remove else [str(id)]
    )
