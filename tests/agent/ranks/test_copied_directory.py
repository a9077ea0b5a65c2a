"""An agent whose directory is a copy of another's: it touches no process of the original, and no file."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from reconciler.agent.ranks.directory import Owner, RankDirectory
from reconciler.agent.repairs.runner import StoredRepair, recorded
from reconciler.agent.system.files import write_json
from reconciler.agent.system.machine import boot_id
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.node import ForgetRank, Gone, RankReport
from reconciler.wire.repair import Change, Repair
from tests.agent.bench import RANK, Bench, alive, ask, ended, gone, in_phase, pushed, rank
from tests.agent.ranks.machine import BOOT, ID, PID, Machine, Watching


def _cp(one: Path, other: Path) -> None:
    subprocess.run(["cp", "-a", one, other], check=True)


def _contents(one: Path, other: Path) -> None:
    shutil.copytree(one, other, ignore=_sockets)


def _hard_links(one: Path, other: Path) -> None:
    other.mkdir()
    subprocess.run(["cp", "-al", one / "node", other / "node"], check=True)


def _tar(one: Path, other: Path) -> None:
    other.mkdir()
    with subprocess.Popen(["tar", "-C", one, "-cf", "-", "node"], stdout=subprocess.PIPE) as packed:
        subprocess.run(["tar", "-C", other, "-xf", "-"], stdin=packed.stdout, check=True)


HOWS: dict[str, Callable[[Path, Path], None]] = {
    "cp -a": _cp,
    "a copy of contents": _contents,
    "hard links": _hard_links,
    "tar": _tar,
}
"""Ways in which people copy a home."""
OTHER = RankId("llama", 0, 1, 1)


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_socket()]


def files_of(home: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a home but logs, which its own processes go on writing."""
    found = (path for path in home.rglob("*") if path.is_file() and path.suffix != ".log")
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in found}


def processes_of(report: RankReport) -> list[int]:
    assert report.pid is not None
    assert report.shim_pid is not None
    return [report.pid, report.shim_pid]


@pytest.fixture
async def copy(bench: Bench) -> AsyncIterator[Bench]:
    """The bench that a copy of the first one's home makes; its folder is not there yet."""
    made = Bench(bench.home.with_name(f"{bench.home.name}-2"))
    made.runtime = bench.runtime
    yield made
    shutil.rmtree(made.home / "node" / "ranks", ignore_errors=True)  # its processes are another's to end
    await made.close()


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("how", "agent", "shim"),
    [
        *itertools.product(["cp -a"], ("serves", "is gone"), ("serves", "is stopped", "is gone")),
        *itertools.product(list(HOWS)[1:], ("serves",), ("serves",)),
    ],
)
async def test_the_agent_of_a_copy_touches_no_process_and_no_file_of_the_original(
    bench: Bench, copy: Bench, how: str, agent: str, shim: str
) -> None:
    link = await bench.agent()
    for id in (RANK, OTHER):
        await bench.start(link, "say('ready', steps=3); time.sleep(600)", id)
    before = [await in_phase(link, Phase.READY, id) for id in (RANK, OTHER)]
    pids = [pid for report in before for pid in processes_of(report)]
    if agent == "is gone" or shim == "is gone":
        await bench.kill_agent()
    if shim != "serves":
        for report in before:
            os.kill(processes_of(report)[1], signal.SIGSTOP if shim == "is stopped" else signal.SIGKILL)
    if shim == "is gone":
        pids = [processes_of(report)[0] for report in before]
        for report in before:
            await gone(report.shim_pid)
    files = files_of(bench.directory)
    HOWS[how](bench.home, copy.home)
    (copy.directory / "agent.lock").unlink()

    found = await copy.agent()
    reports = [await pushed(found, lambda report: report.gone == Gone.YES, id) for id in (RANK, OTHER)]
    for id in (RANK, OTHER):
        await ask(found, ForgetRank(1, id))

    assert all(report.exit is not None and "is left alone" in report.exit.detail for report in reports)
    assert [alive(pid) for pid in pids] == [True] * len(pids)
    assert files_of(bench.directory) == files
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    if shim != "is gone":
        again = await bench.agent()
        assert [processes_of(await rank(again, id)) for id in (RANK, OTHER)] == [
            processes_of(r) for r in before
        ]


@pytest.mark.parametrize("way", ["a link", "a path through a link", "a path with dots"])
async def test_another_path_to_the_same_directory_is_no_copy(bench: Bench, way: str) -> None:
    _, before = await bench.ready("say('ready', steps=3); time.sleep(600)")
    await bench.kill_agent()
    other = bench.home.with_name(f"{bench.home.name}-l")
    other.symlink_to(bench.home if way != "a path through a link" else bench.home.parent)
    paths = {
        "a link": other,
        "a path through a link": other / bench.home.name,
        "a path with dots": bench.home / "node" / "..",
    }
    try:
        same = Bench(paths[way], runtime=bench.runtime)
        found = await same.agent()
        assert processes_of(await rank(found)) == processes_of(before)
        bench.links += same.links
        os.kill(processes_of(before)[1], signal.SIGKILL)
        report = await ended(found)
        assert not alive(before.pid), "a rank whose shim died is its own to end"
        assert report.exit is not None
        await same.kill_agent()
    finally:
        other.unlink()


async def test_what_an_older_version_started_is_ended_where_its_shim_has_shown_it(bench: Bench) -> None:
    link, before = await bench.ready("say('ready', steps=3); time.sleep(600)")
    pid, birth = RankDirectory(bench.rank_directory()).process() or (0, "")
    write_json(bench.rank_directory() / "process.json", {"pid": pid, "birth": birth})  # without its place
    assert RankDirectory(bench.rank_directory()).owner() == Owner.UNKNOWN

    os.kill(processes_of(before)[1], signal.SIGKILL)

    await ended(link)
    assert not alive(before.pid)


async def test_what_an_older_version_started_and_no_shim_has_shown_is_left_alone() -> None:
    machine = Machine().with_rank(shim=False, born=f"{BOOT} 5")
    machine.owners[ID] = Owner.UNKNOWN

    report = Watching(machine).adopt().report

    assert not machine.running[PID].killed
    assert report.exit is not None
    assert "left alone" in report.exit.detail


async def test_a_shim_that_answers_at_the_path_of_a_copy_is_not_listened_to() -> None:
    machine = Machine().with_rank()  # as where the folder of sockets is a link, which was copied
    machine.owners[ID] = Owner.OTHER

    watching = Watching(machine).adopt()

    assert machine.lines == {}
    assert watching.report.exit is not None
    assert not machine.running[PID].killed


def test_a_repair_that_waits_for_its_confirmation_is_not_undone_by_a_copy(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    change = Change(("ifconfig", "bridge0", "deletem", "en3"), ("ifconfig", "bridge0", "addm", "en3"))
    StoredRepair(one).write(recorded(Repair(1, "r1", boot_id(), (change,))))

    shutil.copytree(one, other)

    assert StoredRepair(one).read() is not None
    assert StoredRepair(other).read() is None
    record = json.loads((one / "repair.json").read_text())
    del record["place"]
    (one / "repair.json").write_text(json.dumps(record))
    assert StoredRepair(one).read() is not None, "an older version has written it"
