"""`backup` and `restore`: what comes back is what was there, and what is no backup changes nothing."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.bootstrap import Home, swap
from reconciler.source.git.repository import OPERATIONS, ClusterRepo
from reconciler.state import Attempt, DeploymentName, GroupRecord, NodeName, ReplicaId, WorkloadId
from reconciler.store import Store
from tests.cli.conftest import Cli, Result

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[4]
TINY = ReplicaId(DeploymentName("tiny"), 0)
GROUP = GroupRecord(TINY, 3, (NodeName("node-a"),), 21_003, "s3cret-of-the-group", "print", 5.0)
ATTEMPT = Attempt(3, 5.0, "NewReplica", None, "it has no group yet", "1/1")


def fill(cli: Cli, home: Path) -> str:
    """A cluster with one commit, and a store with a group; the commit."""
    assert cli("apply", "-f", str(ROOT / "manifests")).code == 0
    store = Store(home / "store.db")
    store.allocate(GROUP, ATTEMPT)
    store.close()
    return head(home)


def head(home: Path) -> str:
    found = ClusterRepo(home / "cluster.git").head()
    assert found is not None
    return found


def groups(home: Path) -> dict[WorkloadId, GroupRecord]:
    store = Store(home / "store.db")
    try:
        return store.groups()
    finally:
        store.close()


def made(result: Result) -> Path:
    assert (result.code, result.err) == (0, "")
    return Path(result.out.strip())


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_what_was_there_at_the_backup_is_there_after_the_restore(cli: Cli, home: Path) -> None:
    before = fill(cli, home)
    file = made(cli("backup"))
    assert cli("delete", "gateway", "main").code == 0
    store = Store(home / "store.db")
    store.allocate(replace(GROUP, epoch=9), ATTEMPT)
    store.renew(above=40)
    store.keep_agent(NodeName("later"))
    store.close()

    restored = cli("restore", "--force", str(file))

    assert restored.code == 0, restored.err
    assert restored.out.splitlines()[0].startswith(f"restored {file}, made ")
    assert head(home) == before
    assert groups(home) == {TINY: replace(GROUP, secret="")}
    assert groups(home / swap.ASIDE)[TINY].epoch == 9
    assert head(home / swap.ASIDE) != before
    assert cli("diff", "-f", str(ROOT / "manifests")).code == 0
    assert cli("apply", "-f", str(ROOT / "manifests" / "gateway.yaml")).code == 0


def test_operations_are_in_a_backup_too(cli: Cli, home: Path) -> None:
    fill(cli, home)
    assert cli("cordon", "node-a", "--reason", "the fan is loud").code == 0
    repo = ClusterRepo(home / "cluster.git")
    cordoned = repo.head(OPERATIONS)
    file = made(cli("backup"))
    assert cli("uncordon", "node-a").code == 0
    assert repo.head(OPERATIONS) != cordoned
    assert cli("restore", "--force", str(file)).code == 0
    assert repo.head(OPERATIONS) == cordoned


def test_the_settings_of_a_remote_are_in_a_backup_too(cli: Cli, home: Path, tmp_path: Path) -> None:
    fill(cli, home)
    settings = b"apiVersion: reconciler/v1alpha1\nkind: GitRepository\nspec: {url: 'https://git.example.com/cluster'}\n"
    Home(home).source.write_bytes(settings)
    backup = made(cli("backup", "-o", str(tmp_path)))
    Home(home).source.unlink()
    assert cli("restore", "--force", str(backup)).code == 0
    assert Home(home).source.read_bytes() == settings


@pytest.mark.parametrize("mirror", ["", "https://git.example.com/cluster"])
def test_the_folder_that_counts_is_in_a_backup_too(mirror: str, cli: Cli, home: Path) -> None:
    fill(cli, home)
    repo = ClusterRepo(home / "cluster.git")
    repo.configure(mirror, "clusters/a")
    file = made(cli("backup"))
    repo.configure("", "")
    assert cli("restore", "--force", str(file)).code == 0
    assert (repo.mirrored(), repo.folder()) == (mirror, "clusters/a")


def test_epochs_tokens_and_ports_go_on_from_what_was_replaced(cli: Cli, home: Path) -> None:
    fill(cli, home)
    file = made(cli("backup"))
    store = Store(home / "store.db")
    store.allocate(replace(GROUP, epoch=9, port=24_000), ATTEMPT)
    store.renew(above=40)
    assert store.token == 41
    store.close()
    (home / "nodes" / "node-x").mkdir(parents=True)
    (home / "nodes" / "node-x" / "agent.lock").touch()
    assert cli("restore", "--force", str(file)).code == 0
    store = Store(home / "store.db")
    assert store.last_epochs() == {TINY: 9}
    assert store.token > 41
    assert store.agents.all().keys() == {"node-x"}, "whoever may have an agent has to be asked"
    store.close()


def test_a_store_that_cannot_be_read_is_replaced_too(cli: Cli, home: Path) -> None:
    fill(cli, home)
    file = made(cli("backup"))
    (home / "store.db").write_bytes(b"no database " * 1000)
    assert cli("restore", "--force", str(file)).code == 0
    assert groups(home)[TINY].epoch == 3
    assert (home / swap.ASIDE / "store.db").read_bytes().startswith(b"no database")


def test_a_backup_goes_where_it_is_told_and_is_for_its_owner_alone(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    fill(cli, home)
    named = made(cli("backup", "-o", str(tmp_path / "mine.tar.gz")))
    assert named == tmp_path / "mine.tar.gz"
    (tmp_path / "folder").mkdir()
    placed = made(cli("backup", "-o", str(tmp_path / "folder")))
    assert placed.parent == tmp_path / "folder"
    for file in (named, placed):
        assert file.stat().st_mode & 0o777 == 0o600
    again = cli("backup", "-o", str(named))
    assert (again.code, again.err) == (1, f"error: {named} exists; choose another name\n")
    assert not [*home.rglob(".backup-*"), *tmp_path.rglob(".backup-*")]


def test_no_secret_of_a_group_is_in_a_backup(cli: Cli, home: Path) -> None:
    fill(cli, home)
    written = [path.read_bytes() for path in home.glob("store.db*")]
    assert any(GROUP.secret.encode() in content for content in written)
    found = contents(made(cli("backup")))
    assert not any(GROUP.secret.encode() in content for content in found.values())


def test_an_empty_home_takes_a_backup_and_a_used_one_does_not(cli: Cli, home: Path, tmp_path: Path) -> None:
    before = fill(cli, home)
    file = made(cli("backup"))
    refused = cli("restore", str(file))
    assert refused.code == 1
    assert (
        f"there is a cluster in {home}; to replace it and keep it aside: reconciler restore --force"
        in refused.err
    )
    home.rename(tmp_path / "elsewhere")
    assert cli("restore", str(file)).code == 0
    assert (head(home), groups(home)[TINY].epoch) == (before, 3)
    assert not (home / swap.ASIDE).exists()


def test_a_home_without_a_cluster_has_nothing_to_back_up(cli: Cli, home: Path) -> None:
    refused = cli("backup")
    assert (refused.code, f"there is no cluster in {home}" in refused.err) == (1, True)


def test_nothing_is_restored_under_a_running_controller(cli: Cli, home: Path) -> None:
    fill(cli, home)
    file = made(cli("backup"))
    with Home(home).lock():
        refused = cli("restore", "--force", str(file))
    assert refused.code == 1
    assert f"in use by another controller (pid {os.getpid()})" in refused.err
    assert not (home / swap.ASIDE).exists()


def test_a_backup_is_complete_whatever_is_written_meanwhile(cli: Cli, home: Path, tmp_path: Path) -> None:
    fill(cli, home)
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        store = Store(home / "store.db")
        epoch = 3
        while not ended.is_set():
            epoch += 1
            store.allocate(replace(GROUP, epoch=epoch, port=21_000 + epoch), ATTEMPT)
            begun.set()
        store.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert begun.wait(30)
    try:
        files = [made(cli("backup", "-o", str(tmp_path / f"{number}.tar.gz"))) for number in range(4)]
    finally:
        ended.set()
        writer.join()
    epochs = []
    for file in files:
        assert cli("restore", "--force", str(file)).code == 0
        (group,) = groups(home).values()
        assert group.port == 21_000 + group.epoch
        epochs.append(group.epoch)
    assert epochs == sorted(epochs)
    assert epochs[0] > 3


# --- what is no backup -------------------------------------------------------------------------------

Members = list[tuple[tarfile.TarInfo, bytes]]


def entry(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = len(content), kind, link
    return found, content


def packed(members: Members) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def listed(files: dict[str, bytes], **other: Any) -> tuple[tarfile.TarInfo, bytes]:
    """The list of contents that fits these files."""
    described = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    }
    body = {
        "kind": "reconciler backup",
        "version": 1,
        "at": "now",
        "revision": None,
        "files": described,
        **other,
    }
    return entry("contents.json", json.dumps(body).encode())


def of(files: dict[str, bytes], **other: Any) -> bytes:
    return packed([listed(files, **other), *(entry(name, content) for name, content in files.items())])


def database(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(";".join(statements))
    return path.read_bytes()


Spoil = Callable[[dict[str, bytes], Path], bytes]
"""A file that is no backup, made of the parts of a real one; the folder is for scratch files."""


def _with(name: str, content: bytes) -> Spoil:
    return lambda parts, _: of({**parts, name: content})


def _beside(*extra: tuple[tarfile.TarInfo, bytes]) -> Spoil:
    return lambda parts, _: packed([listed(parts), *extra, *(entry(*part) for part in parts.items())])


def _bomb(parts: dict[str, bytes], folder: Path) -> bytes:
    """Ten petabytes, by its own word."""
    info, text = listed({"store.db": b""})
    return packed([entry(info.name, text.replace(b'"bytes": 0', b'"bytes": %d' % 10**16))])


def _changed(parts: dict[str, bytes], folder: Path) -> bytes:
    other = {**parts, "store.db": parts["store.db"][:-1] + b"!"}
    return packed([listed(parts), *(entry(*part) for part in other.items())])


def _other_store(*statements: str) -> Spoil:
    return lambda parts, folder: of({**parts, "store.db": database(folder / "other.db", *statements)})


def _with_trigger(parts: dict[str, bytes], folder: Path) -> bytes:
    path = folder / "store.db"
    path.write_bytes(parts["store.db"])
    trigger = "CREATE TRIGGER t AFTER INSERT ON agents BEGIN DELETE FROM epochs; END"
    return of({**parts, "store.db": database(path, trigger)})


def _newer_store(parts: dict[str, bytes], folder: Path) -> bytes:
    path = folder / "store.db"
    path.write_bytes(parts["store.db"])
    return of({**parts, "store.db": database(path, "PRAGMA user_version = 99")})


SPOILT: dict[str, tuple[Spoil, str]] = {
    "empty": (lambda parts, _: b"", "is not a usable backup"),
    "text": (lambda parts, _: b"a letter to nobody", "is not a usable backup"),
    "gzip of text": (lambda parts, _: gzip.compress(b"a letter to nobody" * 100), "is not a usable backup"),
    "cut short": (lambda parts, _: of(parts)[:-200], "damaged or truncated"),
    "half": (lambda parts, _: of(parts)[: len(of(parts)) // 2], "is not a usable backup"),
    "another archive": (lambda parts, _: packed([entry("readme", b"hello")]), "does not begin with contents.json"),
    "nothing in it": (lambda parts, _: packed([]), "is not a usable backup"),
    "list is no JSON": (lambda parts, _: packed([entry("contents.json", b"{")]), "cannot be read"),
    "list is a list": (lambda parts, _: packed([entry("contents.json", b"[1]")]), "cannot be read"),
    "list is deep": (lambda parts, _: packed([entry("contents.json", b"[" * 60_000)]), "cannot be read"),
    "list is a link": (
        lambda parts, _: packed([entry("contents.json", b"", tarfile.SYMTYPE, "/etc/passwd")]),
        "does not begin with contents.json",
    ),
    "of something else": (lambda parts, _: of(parts, kind="photographs"), "is not that of a backup"),
    "newer": (lambda parts, _: of(parts, version=2, madeBy="9.0"), "written by a newer reconciler (9.0, backup version 2"),
    "no store": (lambda parts, _: of({"cluster.bundle": b"x"}), "expected store.db"),
    "listed elsewhere": (_with("../../escaped", b"x"), "it lists"),
    "listed absolutely": (_with("/tmp/escaped", b"x"), "it lists"),
    "not listed": (_beside(entry("escaped", b"x")), "'escaped'"),
    "outside": (_beside(entry("../escaped", b"x")), "'../escaped'"),
    "link before file": (_beside(entry("store.db", b"", tarfile.SYMTYPE, "/etc/passwd")), "'store.db'"),
    "hard link": (_beside(entry("store.db", b"", tarfile.LNKTYPE, "contents.json")), "'store.db'"),
    "device": (_beside(entry("store.db", b"", tarfile.CHRTYPE)), "'store.db'"),
    "twice": (lambda parts, _: packed([listed(parts), *[entry(*part) for part in parts.items()] * 2]), "'store.db'"),
    "missing": (lambda parts, _: packed([listed(parts)]), "is missing from it"),
    "changed": (_changed, "has changed since the backup"),
    "too large": (_bomb, "10000000000000000 bytes"),
    "store is text": (_with("store.db", b"not a database" * 500), "not a store of reconciler"),
    "store is empty": (_other_store(), "not a store of reconciler"),
    "store of others": (_other_store("CREATE TABLE t (x)", "PRAGMA user_version = 2"), "not a store of reconciler"),
    "store with a trigger": (_with_trigger, "not a store of reconciler"),
    "store is newer": (_newer_store, "store version 99"),
    "bundle is text": (_with("cluster.bundle", b"not a bundle"), "its cluster.bundle cannot be read"),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled() -> Iterator[Path]:
    """A home with a cluster, for tests that leave it as it is."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    home = folder / "home"
    command = [sys.executable, "-m", "reconciler", "--home", str(home), "apply", "-f", "manifests"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    store = Store(home / "store.db")
    store.allocate(GROUP, ATTEMPT)
    store.close()
    yield home
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def parts(filled: Path) -> dict[str, bytes]:
    """What a real backup of that home consists of."""
    file = filled.parent / "real.tar.gz"
    command = [sys.executable, "-m", "reconciler", "--home", str(filled), "backup", "-o", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return {name: content for name, content in contents(file).items() if name != "contents.json"}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_no_backup_is_refused_and_changes_nothing(
    cli: Cli, filled: Path, parts: dict[str, bytes], tmp_path: Path, what: str
) -> None:
    home = filled
    spoil, words = SPOILT[what]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    file = tmp_path / "spoilt.tar.gz"
    file.write_bytes(spoil(parts, scratch))
    before = (head(home), groups(home))
    refused = cli("--home", str(home), "restore", "--force", str(file))
    assert refused.code == 1, refused.out
    assert str(file) in refused.err
    assert words in refused.err
    assert "nothing was changed" in refused.err
    assert "Traceback" not in refused.err
    assert (head(home), groups(home)) == before
    assert sorted(path.name for path in home.iterdir() if path.name.startswith((".rest", "state"))) == []
    assert not [*home.parent.rglob("*escaped*")]


def test_a_file_that_is_not_there_is_said(cli: Cli, home: Path) -> None:
    refused = cli("restore", "nowhere.tar.gz")
    assert (refused.code, refused.err) == (1, "error: nowhere.tar.gz: No such file or directory\n")


# --- a restore that is cut off -----------------------------------------------------------------------

DYING = """
import os, pathlib, signal, sys
from reconciler.bootstrap import swap
left = int(sys.argv[2])
really = pathlib.Path.rename
def rename(self, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return really(self, target)
pathlib.Path.rename = rename
swap.decide(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.parametrize("renames", range(9))
def test_a_restore_that_is_killed_is_finished_by_whoever_comes_next_or_has_not_begun(
    home: Path, renames: int
) -> None:
    home.mkdir()
    for name in ("store.db", "store.db-wal"):
        (home / name).write_text("old")
    (home / "cluster.git").mkdir()
    (home / "cluster.git" / "HEAD").write_text("old")
    (home / swap.ASIDE).mkdir()
    (home / swap.ASIDE / "store.db").write_text("older")
    draft = swap.stage(home)
    (draft / "store.db").write_text("new")
    (draft / "cluster.git").mkdir()
    (draft / "cluster.git" / "HEAD").write_text("new")

    died = subprocess.run([sys.executable, "-c", DYING, str(home), str(renames)], timeout=60, check=False)

    assert died.returncode == (-signal.SIGKILL if renames < 7 else 0)
    swap.drop(home)
    swap.finish(home)
    assert not swap.finish(home)
    now, aside = ("new", "old") if renames else ("old", "older")
    assert (home / "store.db").read_text() == (home / "cluster.git" / "HEAD").read_text() == now
    assert (home / swap.ASIDE / "store.db").read_text() == aside
    assert (home / "store.db-wal").exists() == (renames == 0), "a log of the old store beside the new one"
    left = {"store.db", "cluster.git", swap.ASIDE} | ({"store.db-wal"} if not renames else set())
    assert {path.name for path in home.iterdir()} == left


def test_a_replacement_that_another_process_does_not_finish_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "LOCK_SECONDS", 0.1)
    staged = tmp_path / ".restoring"
    staged.mkdir()
    descriptor = os.open(staged, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            swap.finish(tmp_path)
        assert staged.exists()
    finally:
        os.close(descriptor)
    assert swap.finish(tmp_path)
    assert not staged.exists()
