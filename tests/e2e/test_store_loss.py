"""What the controller keeps is lost while ranks run: they are adopted or replaced, never doubled."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.documents.test_state_directory import named
from tests.e2e.shared_cluster.test_healing import ask
from tests.store.test_damage import spoil

from .cluster import READY_SECONDS, ROOT, Cluster, quickstart

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def alone() -> Iterator[Cluster]:
    """A cluster for scenarios that end what others adopt."""
    with quickstart() as cluster:
        yield cluster


def leave(cluster: Cluster) -> None:
    """End `up`, the controller and the gateway; ranks and agents go on."""
    assert cluster.up is not None
    cluster.up.send_signal(signal.SIGTERM)
    assert cluster.up.wait(60) == 0


def lose_store(cluster: Cluster) -> None:
    for file in cluster.home.glob("store.db*"):
        file.unlink()


def pids(cluster: Cluster) -> dict[tuple[int, int], int]:
    return {(row["epoch"], row["rank"]): row["pid"] for row in cluster.ranks()}


def later(cluster: Cluster, before: dict[tuple[int, int], int]) -> bool:
    """Whether all ranks are of an epoch above those of before."""
    return min(pids(cluster), default=(0, 0)) > max(before)


def reasons(cluster: Cluster) -> list[str]:
    return [event["reason"] for event in cluster.events()]


def kill_a_rank(alone: Cluster, before: dict[tuple[int, int], int]) -> None:
    """And wait for the later epoch."""
    os.kill(before[max(before)], signal.SIGKILL)
    alone.wait("a later epoch", lambda: later(alone, before))
    alone.wait_settled()


def test_a_controller_without_its_store_adopts_what_runs(alone: Cluster) -> None:
    before = pids(alone)
    leave(alone)
    lose_store(alone)
    alone.start("--any-port")
    alone.wait_settled()
    assert pids(alone) == before
    assert ask(alone)
    assert [reason for reason in reasons(alone) if reason.startswith(("Group", "Epoch"))] == [
        "GroupAdopted",
        "GroupProven",
    ]
    kill_a_rank(alone, before)


def test_a_store_that_is_damaged_while_everything_runs_costs_no_rank_and_no_answer(alone: Cluster) -> None:
    alone.wait_settled()
    before, (controller,), told = pids(alone), alone.controller(), reasons(alone).count("StoreDamaged")
    spoil(alone.home / "store.db")
    alone.wait("another controller", lambda: alone.controller() not in ([], [controller]), seconds=10.0)
    alone.wait_settled()
    assert ask(alone)
    assert pids(alone) == before
    assert (told, reasons(alone).count("StoreDamaged")) == (0, 1)
    kill_a_rank(alone, before)


def test_every_file_of_a_home_is_described(alone: Cluster) -> None:
    alone.wait_settled()
    patterns = named()
    files = [path.relative_to(alone.home) for path in alone.files()]
    strange = [
        str(path)
        for path in files
        if not any(place.match(pattern) for place in (path, *path.parents) for pattern in patterns)
        and not path.name.endswith(".new")
    ]
    assert strange == []


def test_a_full_disk_starts_nothing_stops_nothing_and_heals_when_there_is_room(alone: Cluster) -> None:
    alone.wait_settled()
    before = pids(alone)
    (controller,) = alone.controller()
    _, hard = resource.prlimit(controller, resource.RLIMIT_FSIZE)
    resource.prlimit(controller, resource.RLIMIT_FSIZE, (16 * 1024, hard))
    assert ask(alone)
    os.kill(before[max(before)], signal.SIGKILL)
    alone.wait("the want of room", lambda: "StateUnwritable" in str(alone.plan()["refused"]))
    assert {epoch for epoch, _ in pids(alone)} <= {epoch for epoch, _ in before}
    resource.prlimit(controller, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    alone.wait("a later epoch", lambda: later(alone, before))
    alone.wait_settled()
    assert alone.controller() == [controller]
    assert ask(alone)


def test_a_group_with_a_dead_rank_is_replaced_in_a_later_epoch(alone: Cluster) -> None:
    before = pids(alone)
    leave(alone)
    lose_store(alone)
    os.kill(before[min(before)], signal.SIGKILL)
    alone.start("--any-port")
    alone.wait_settled()
    (epoch, _), _ = min(before), max(before)
    assert sorted(pids(alone)) == [(epoch + 1, 0), (epoch + 1, 1)]
    assert not set(before.values()) & alone.processes().keys()
    assert ask(alone)


@contextmanager
def one_epoch_at_a_time(cluster: Cluster) -> Iterator[None]:
    """Fails where ranks of two epochs were seen alive together, by the directories they run in."""
    seen: set[frozenset[str]] = set()
    ended = threading.Event()

    def place(process: Path) -> Path | None:
        with suppress(OSError):
            found = (process / "cwd").readlink()
            # A shim runs in its rank's directory too, and ends a moment after the rank. A process that is ending still has
            # its directory when its memory, and with it its command line, is gone.
            words = (process / "cmdline").read_bytes()
            rank = words and b".pyz" not in words
            return found if rank and found.is_relative_to(cluster.home / "nodes") else None
        return None

    def look() -> None:
        while not ended.wait(0.02):
            found = {process: place(process) for process in Path("/proc").glob("[0-9]*")}
            # To look at all takes a while: who is still there afterwards was there together with all others.
            both = [at for process, at in found.items() if at is not None and place(process) == at]
            seen.add(frozenset(at.name.split(".")[2] for at in both))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
    assert max(map(len, seen)) == 1, f"epochs alive at once: {seen}"


def change_context(cluster: Cluster, before: int, after: int) -> None:
    """Another wish for the group, and so another group."""
    folder = cluster.home.parent / "changed"
    folder.mkdir(exist_ok=True)
    text = (ROOT / "manifests" / "tiny.yaml").read_text()
    assert f"context: {before}" in text
    (folder / "tiny.yaml").write_text(text.replace(f"context: {before}", f"context: {after}"))
    cluster.run("apply", "-f", str(folder))


@pytest.mark.parametrize("store", [pytest.param("replaced", marks=pytest.mark.nightly), "lost"])
def test_an_older_backup_is_restored_under_ranks_of_a_later_epoch(alone: Cluster, store: str) -> None:
    file = alone.home.parent / f"{store}.tar.gz"
    alone.run("backup", "-o", str(file))
    before = alone.json("get", "modeldeployment", "tiny")["spec"]
    (first,) = {epoch for epoch, _ in pids(alone)}
    with one_epoch_at_a_time(alone):
        change_context(alone, 2048, 1024)
        alone.wait("the next epoch", lambda: {epoch for epoch, _ in pids(alone)} == {first + 1})
        alone.wait_settled()
        ranks = pids(alone)
        leave(alone)
        if store == "lost":
            lose_store(alone)
        alone.run("restore", "--force", str(file))
        alone.start("--any-port")
        alone.wait("an epoch above all", lambda: {epoch for epoch, _ in pids(alone)} == {first + 2})
        alone.wait_settled()
    assert alone.json("get", "modeldeployment", "tiny")["spec"] == before
    assert not set(ranks.values()) & alone.processes().keys()
    assert ask(alone)
    assert "GroupAdopted" in reasons(alone)


def test_agents_of_nodes_that_are_no_longer_wanted_are_ended_with_their_ranks(alone: Cluster) -> None:
    leave(alone)
    lose_store(alone)
    assert len(alone.agents()) == 2
    (alone.home / "none").mkdir()
    alone.start("--watch", str(alone.home / "none"))
    alone.wait("the end of every rank and agent", lambda: not alone.pids(".pyz"))


# --- the whole home ----------------------------------------------------------------------------------


def delete_home(cluster: Cluster) -> None:
    """As `rm -rf` does it; what is written meanwhile makes it try again."""
    for _ in range(50):
        shutil.rmtree(cluster.home, ignore_errors=True)
        if not cluster.home.exists():
            return
    raise AssertionError(f"{cluster.home} keeps coming back")


@pytest.mark.parametrize("up", ["runs", pytest.param("was killed", marks=pytest.mark.nightly)])
def test_a_home_that_is_deleted_takes_everything_with_it_and_another_can_begin(up: str) -> None:
    with quickstart() as cluster:
        before = cluster.processes()
        assert cluster.up is not None
        if up == "was killed":
            cluster.up.kill()
            cluster.up.wait(10)
        delete_home(cluster)
        if up == "runs":
            assert cluster.up.wait(READY_SECONDS) == 1
            assert f"{cluster.home} was removed" in cluster.log.read_text()
            cluster.wait("the end of all that ran", lambda: not cluster.processes())
            assert not cluster.home.exists()
        cluster.start("-f", "manifests", "--models", "examples/models", "--any-port")
        cluster.wait_settled()
        cluster.wait("the end of the old home", lambda: not before.keys() & cluster.processes().keys())
        assert sorted(pids(cluster)) == [(1, 0), (1, 1)]
        assert ask(cluster)
        sockets = {path.name for path in (cluster.home / "run").glob("*.sock")}
        assert len(sockets) == 5, "the end of the old took away sockets of the new"
