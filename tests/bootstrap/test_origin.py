"""A home that was copied is told from its original; one that was moved, or that another path leads to, goes on."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.bootstrap import CONTROLLER, Home, origin
from reconciler.errors import Conflict
from reconciler.services.lock import held

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="r-"))
    yield made
    shutil.rmtree(made)


def made(folder: Path, remote: bool = False) -> Path:
    """A home that has run once; ``remote``: with machines that are reached with SSH."""
    root = folder / "home"
    (root / "cluster.git").mkdir(parents=True)
    if remote:
        (root / "addresses.json").write_text("{}")
    with Home(root).lock():
        pass
    return root


def files_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    found = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def _copied(root: Path) -> Path:
    other = root.with_name("copy")
    subprocess.run(["cp", "-a", root, other], check=True)
    return other


def _copied_by_hand(root: Path) -> Path:
    return Path(shutil.copytree(root, root.with_name("by-hand")))


def _copied_with_hard_links(root: Path) -> Path:
    other = root.with_name("linked")
    subprocess.run(["cp", "-al", root, other], check=True)
    return other


def _copied_into_itself(root: Path) -> Path:
    return Path(shutil.copytree(root, root / "backup", ignore=lambda folder, names: {"backup"}))


def _moved(root: Path) -> Path:
    return root.rename(root.with_name("moved"))


def _moved_to_another_disk(root: Path) -> Path:
    other = _copied(root)
    shutil.rmtree(root)
    return other


def _put_back(root: Path) -> Path:
    other = _moved_to_another_disk(root)
    subprocess.run(["cp", "-a", other, root], check=True)
    shutil.rmtree(other)
    return root


def _replaced(root: Path) -> Path:
    """The original was moved away, and something else is where it was."""
    other = _moved(root)
    root.mkdir()
    return other


def _replaced_by_a_new_cluster(root: Path) -> Path:
    other = _moved(root)
    with Home(root).lock():
        pass
    return other


def _linked(root: Path) -> Path:
    other = root.with_name("link")
    other.symlink_to(root)
    return other


def _linked_folder(root: Path) -> Path:
    other = root.parent.with_name(f"{root.parent.name}-link")
    other.symlink_to(root.parent)
    return other / root.name


def _with_dots(root: Path) -> Path:
    return root / ".." / root.name


COPIES = (_copied, _copied_by_hand, _copied_with_hard_links, _copied_into_itself)
MOVES = (_moved, _moved_to_another_disk, _put_back, _replaced, _replaced_by_a_new_cluster)
PATHS = (_linked, _linked_folder, _with_dots, lambda root: root)
"""Ways to the same folder."""
WAYS = (*COPIES, *MOVES, *PATHS)
MEMBERS = list(
    itertools.product(WAYS, ("this machine", "another machine"), (False, True), ("", "is held"), range(2))
)


def on_another_machine(root: Path) -> None:
    """Have its file say what one says that comes from another machine: its places mean nothing here."""
    known = json.loads((root / origin.NAME).read_text())
    (root / origin.NAME).unlink()  # with hard links the original has the same
    (root / origin.NAME).write_text(
        json.dumps({**known, "machine": "another", "name": "mac-2", "place": "1:1"})
    )


@pytest.mark.parametrize(("way", "machine", "remote", "lock", "again"), MEMBERS)
def test_exactly_what_may_have_an_original_that_lives_is_refused(
    folder: Path, way: Callable[[Path], Path], machine: str, remote: bool, lock: str, again: int
) -> None:
    root = made(folder / "a", remote)
    for _ in range(again):  # it has been elsewhere before
        root = _moved_to_another_disk(root)
        Home(root).check()
        root = root.rename(folder / "a" / "home")
        Home(root).check()
    there = way(root)
    if machine == "another machine":
        on_another_machine(there)
    original = root if way in COPIES else None
    before = files_of(original) if original is not None and way is not _copied_into_itself else {}
    refused = way in COPIES if machine == "this machine" else remote

    def start() -> None:
        Home(there).check()
        with Home(there).lock():
            pass

    with held(root / "up.lock", "up") if lock and root.exists() else held(folder / "x.lock", ""):
        if refused:
            with pytest.raises(Conflict, match="Nothing was started") as error:
                start()
            assert str(there) in str(error.value)
        else:
            start()
            start()
    if before:
        assert {name: files_of(root).get(name) for name in before if not name.endswith(".lock")} == {
            name: found for name, found in before.items() if not name.endswith(".lock")
        }
    if original is not None:  # whatever became of the copy, the original goes on
        Home(original).check()
        with Home(original).lock():
            pass


def test_there_are_at_least_two_hundred_ways() -> None:
    assert len(MEMBERS) >= 200


def test_a_refused_copy_goes_on_once_the_original_is_gone_and_then_is_the_home(folder: Path) -> None:
    root = made(folder)
    copy = _copied(root)
    with pytest.raises(Conflict, match=f"{copy} is a copy of {root}, which is still there"):
        Home(copy).check()
    shutil.rmtree(root)
    Home(copy).check()
    later = _copied_by_hand(copy)
    with pytest.raises(Conflict, match=f"{later} is a copy of {copy}, which is still there"):
        Home(later).check()


def test_a_home_from_another_machine_goes_on_as_soon_as_a_person_says_so(folder: Path) -> None:
    root = made(folder, remote=True)
    on_another_machine(root)
    with pytest.raises(Conflict, match="on mac-2, whose controller may still use the same machines") as error:
        Home(root).check()
    command = str(error.value).partition("any more: ")[2].partition(". ")[0]
    subprocess.run(["/bin/sh", "-c", command], check=True)
    Home(root).check()
    Home(root).check()


def test_a_disk_that_two_machines_share_has_one_home_which_one_of_them_uses(folder: Path) -> None:
    root = made(folder, remote=True)
    known = json.loads((root / origin.NAME).read_text())
    (root / origin.NAME).write_text(json.dumps({**known, "machine": "another", "name": "mac-2"}))
    words = r"is in use on mac-2 \(controller.lock is held there\)"
    with held(root / "controller.lock", "controller"), pytest.raises(Conflict, match=words):
        Home(root).check()
    Home(root).check()


@pytest.mark.parametrize("way", [*COPIES, *MOVES])
def test_the_copy_of_a_home_of_an_older_version_is_known_by_the_command_in_its_lock(
    folder: Path, way: Callable[[Path], Path]
) -> None:
    root = made(folder / "a")
    (root / origin.NAME).unlink()
    command = f"4711\npython reconciler 0.1.0 --home {root} {CONTROLLER}\n"
    (root / "controller.lock").write_text(command)
    there = way(root)
    if way in COPIES:
        with pytest.raises(Conflict, match=f"{there} is a copy of {root}, which is still there"):
            Home(there).check()
    else:
        Home(there).check()
    if root.exists():
        Home(root).check()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"version": 1, "id": 3}', b"null", b'"x"']
)
def test_a_file_that_says_nothing_is_written_again(folder: Path, content: bytes) -> None:
    root = made(folder)
    (root / origin.NAME).write_bytes(content)
    Home(root).check()
    assert json.loads((root / origin.NAME).read_text())["path"] == str(root)


@pytest.mark.second_tier
@pytest.mark.parametrize("service", ["controller", "gateway", "console", "up", "install"])
def test_no_command_starts_anything_of_a_copy(folder: Path, service: str) -> None:
    root = made(folder)
    copy = _copied(root)
    before = files_of(root)
    options = {"install": ["--dry-run"], "up": ["--no-console"], "console": ["--serve"]}.get(service, [])
    command = [sys.executable, "-P", "-m", "reconciler", "--home", str(copy), service, *options]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1
    assert f"{copy} is a copy of {root}, which is still there" in done.stdout + done.stderr
    assert files_of(root) == before
    assert not [path for path in copy.rglob("*") if path.is_socket()]
