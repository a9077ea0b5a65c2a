"""Whether what a process stands on is still in its place."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from reconciler.wire.file_identity import FileIdentity, wait_until_removed, wait_until_replaced


def test_a_file_is_lost_when_it_is_deleted_moved_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("a+") as file:
        held = FileIdentity.held(str(path), file.fileno())
        assert not held.replaced
        path.rename(tmp_path / "elsewhere")
        assert held.replaced
        path.write_text("another's")
        assert held.replaced
        (tmp_path / "elsewhere").replace(path)
        assert not held.replaced
        path.unlink()
        assert held.replaced


def test_a_new_file_in_the_same_place_is_told_apart_while_the_old_one_is_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(20):  # file systems give a freed inode to the next file
        with path.open("a+") as file:
            held = FileIdentity.held(str(path), file.fileno())
            path.unlink()
            path.touch()
            assert held.replaced


def test_a_socket_is_lost_when_another_is_bound_in_its_place() -> None:
    folder = tempfile.TemporaryDirectory(prefix="r-")  # a short name: sockets have short paths
    path = Path(folder.name) / "a.sock"
    with folder, socket.socket(socket.AF_UNIX) as old, socket.socket(socket.AF_UNIX) as new:
        old.bind(str(path))
        own = FileIdentity.at(str(path))
        assert not own.replaced
        path.unlink()
        assert own.replaced
        new.bind(str(path))
        assert own.replaced


def test_what_cannot_be_looked_at_is_not_lost(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "lock").touch()
    held = FileIdentity.at(str(folder / "lock"))
    looped = FileIdentity(str(tmp_path / "loop" / "lock"), held.device, held.inode)
    (tmp_path / "loop").symlink_to("loop")
    assert not looped.replaced
    assert FileIdentity(str(folder / "lock" / "below"), 0, 0).replaced


async def test_waiting_ends_with_the_first_that_is_lost(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    (tmp_path / "there").touch()
    here, there = FileIdentity.at(str(tmp_path / "here")), FileIdentity.at(str(tmp_path / "there"))
    (tmp_path / "there").unlink()
    assert await wait_until_replaced(here, there) == there


async def test_a_directory_is_held_while_it_is_watched(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await wait_until_removed(tmp_path / "missing")
    folder = tmp_path / "folder"
    folder.mkdir()
    place = folder.stat()
    assert descriptors_of(place) == 0
    watching = asyncio.create_task(wait_until_removed(folder))
    await asyncio.sleep(0)
    assert descriptors_of(place) == 1
    folder.rmdir()
    await watching
    assert descriptors_of(place) == 0


def descriptors_of(place: os.stat_result) -> int:
    """How many descriptors of this process lead to a place."""
    found = 0
    for path in list(Path("/dev/fd").iterdir()):
        with suppress(OSError):  # the one that lists is closed by now
            found += os.path.samestat(os.fstat(int(path.name)), place)
    return found
