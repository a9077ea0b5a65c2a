"""What an agent makes of the ranks that it finds, watches and loses, on a machine of which every process is known."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.agent.ranks import ranks as module
from reconciler.agent.system.usage import RankUsage
from reconciler.wire.launch import Exit, ExitCode, Phase, Progress, RankId
from reconciler.wire.node import Gone, Load, RankReport, ShimState, Terminate
from tests.agent.bench import SOON_SECONDS, soon

from .machine import BOOT, ID, PID, SHIM, Line, Machine, Running, Watching, spec, watched


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GONE_CHECK_SECONDS", "HELD_CHECK_SECONDS", "LEFT_CHECK_SECONDS", "FAILED_CHECK_SECONDS"):
        monkeypatch.setattr(module, name, 0.001)


# --- without a shim --------------------------------------------------------------------------------


async def test_a_rank_without_its_shim_is_killed_and_ended_once_it_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "agent")
    machine = Machine().with_rank(shim=False)
    machine.running[PID].held = True
    watching = Watching(machine).adopt()
    assert machine.running[PID].killed
    for _ in range(3):
        watching.ranks._tick(1.0, ())
        await asyncio.sleep(0.005)
    assert (watching.report.exit, watching.report.killed_seconds) == (None, 0.0)
    assert len(caplog.records) == 1, "the log says once that it is killed"
    del machine.running[PID]
    report = await watching.until(lambda report: report.gone == Gone.YES)
    assert report.exit == Exit(None, signal.SIGKILL, 1000.0, "the shim died; its last line")
    assert (report.phase, report.killed_seconds) == (Phase.EXITED, None)
    assert machine.written[ID].exit == report.exit, "the next agent finds how it ended"
    assert watching.told[-1]


@pytest.mark.parametrize(
    ("born", "code", "number", "detail"),
    [
        ("", 1, None, "never started: its last line"),
        ("boot-1 5", None, signal.SIGKILL, "the machine was restarted"),
        (f"{BOOT} 3", None, signal.SIGKILL, "the shim died; its last line"),
    ],
    ids=["never started", "another boot", "its pid is another process's"],
)
async def test_a_rank_that_is_gone_with_its_shim_ended_in_one_of_these_ways(
    born: str, code: int | None, number: int | None, detail: str
) -> None:
    machine = Machine().with_rank(shim=False, born=born)
    if not born:
        del machine.born[ID]
    watching = Watching(machine).adopt()
    assert watching.report.exit == Exit(code, number, 1000.0, detail)
    assert not machine.running[PID].killed, "nothing of somebody else's is killed"
    assert (await watching.until(lambda report: report.gone == Gone.YES)).kept == ""


async def test_how_a_rank_ended_is_taken_from_what_its_shim_wrote() -> None:
    ended = Exit(3, None, 900.0, "as it said itself")
    state = ShimState(PID, SHIM, 3.0, Progress(Phase.EXITED), exit=ended)
    watching = Watching(Machine().with_rank(state, shim=False)).adopt()
    report = await watching.until(lambda report: report.gone == Gone.YES)
    assert (report.exit, report.phase, report.started_at) == (ended, Phase.EXITED, 3.0)


async def test_an_end_that_cannot_be_written_down_is_reported_all_the_same() -> None:
    machine = Machine().with_rank(shim=False)
    del machine.born[ID]
    machine.disk_full = True
    watching = Watching(machine).adopt()
    report = await watching.until(lambda report: report.gone == Gone.YES)
    assert report.exit is not None
    assert machine.written[ID].exit is None


async def test_a_connection_that_ends_after_the_end_of_its_rank_changes_nothing() -> None:
    machine, watching = watched()
    state = dataclasses.replace(machine.written[ID], exit=Exit(0, None, 900.0, "done"))
    machine.hear(state)
    await watching.until(lambda report: report.gone == Gone.YES)
    watching.told.clear()
    machine.lose()
    assert (watching.report.exit, watching.told) == (state.exit, [])


async def test_the_loss_of_a_shim_is_the_end_of_its_rank() -> None:
    machine, watching = watched()
    del machine.running[SHIM]
    machine.lose()
    report = await watching.until(lambda report: report.exit is not None)
    assert report.exit is not None
    assert (report.exit.signal, PID in machine.running) == (signal.SIGKILL, False)


# --- starting and ending ---------------------------------------------------------------------------


async def test_a_rank_is_started_once_and_reported_with_what_it_was_started_with() -> None:
    machine = Machine()
    watching = Watching(machine)
    assert watching.ranks.start(spec())
    assert watching.told == [True]
    report = watching.report
    assert (report.group, report.size, report.port, report.socket) == ("llama-0", 2, 5000, "/run/r.sock")
    assert (report.phase, report.started_at, report.shim_pid) == (Phase.STARTING, 1000.0, None)
    assert not watching.ranks.start(spec())
    assert watching.told == [True]


async def test_a_rank_whose_shim_cannot_be_started_is_reported_as_never_started() -> None:
    machine = Machine()
    machine.cannot_start = OSError("too many processes")
    watching = Watching(machine)
    with pytest.raises(OSError, match="too many processes"):
        watching.ranks.start(spec())
    exit = watching.report.exit
    assert exit is not None
    assert exit.detail == "never started: too many processes"


async def test_a_shim_that_is_not_stopped_may_take_the_time_of_its_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STOPPED_SHIM_SECONDS", 0.0)
    machine, watching = watched()
    watching.ranks.stop(ID, 0.0)
    await asyncio.sleep(0.01)
    assert machine.lines[ID].sent == [Terminate(0.0)]
    assert set(machine.running) == {PID, SHIM}


async def test_a_shim_that_is_stopped_again_is_killed_and_its_rank_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STOPPED_SHIM_SECONDS", 0.0)
    machine = Machine().with_rank()
    machine.running[SHIM].stopped = True
    watching = Watching(machine).adopt()
    watching.ranks.stop(ID, 0.0)
    assert not machine.running[SHIM].stopped, "it is continued, to hear that it shall end its rank"
    watching.ranks._tick(1.0, (SHIM,))
    await asyncio.sleep(0.01)
    assert SHIM not in machine.running
    machine.lose()
    assert (await watching.until(lambda report: report.exit is not None)).pid == PID
    assert PID not in machine.running


@pytest.mark.parametrize("killed", [True, False], ids=["it has killed its rank", "it has not"])
async def test_a_shim_that_is_late_is_killed_unless_it_has_killed_its_rank(
    monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setattr(module, "LATE_SHIM_SECONDS", 0.0)
    machine, watching = watched()
    machine.hear(dataclasses.replace(machine.written[ID], killed=killed))
    watching.ranks.stop(ID, 0.0)
    await asyncio.sleep(0.01)
    assert set(machine.running) == ({PID, SHIM} if killed else set())


async def test_a_rank_that_is_gone_is_not_asked_to_end() -> None:
    _, watching = watched(shim=False)
    watching.ranks.stop(ID, 0.0)
    watching.ranks.stop(RankId("other", 0, 1, 0), 0.0)
    watching.ranks.resume(ID)
    watching.ranks.resume(RankId("other", 0, 1, 0))
    assert watching.told == []


async def test_what_is_forgotten_is_let_go_of_and_may_be_forgotten_twice() -> None:
    machine, watching = watched()
    for _ in range(2):
        watching.ranks.forget(ID)
    assert (watching.ranks.reports(), machine.specs, watching.told) == ((), {}, [True])
    assert not machine.lines[ID].open
    machine.lose()
    assert watching.told == [True], "the end of its connection is no news"
    assert PID in machine.running
    gone = Machine().with_rank(shim=False)
    del gone.born[ID]
    ended = Watching(gone).adopt()
    ended.ranks.forget(ID)
    assert ended.ranks.reports() == ()


async def test_what_cannot_be_removed_is_still_known_and_may_be_forgotten_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nobody would remove it before the agent starts again, and a report would change without a word."""
    machine, watching = watched()
    remove = machine.remove

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(machine, "remove", fails)
    with pytest.raises(OSError, match="the disk is full"):
        watching.ranks.forget(ID)
    assert ([report.id for report in watching.ranks.reports()], watching.told) == ([ID], [])

    monkeypatch.setattr(machine, "remove", remove)
    watching.ranks.forget(ID)
    assert (watching.ranks.reports(), machine.specs, watching.told) == ((), {}, [True])


# --- while they run --------------------------------------------------------------------------------


async def test_a_process_that_is_stopped_is_told_and_one_that_is_continued() -> None:
    machine, watching = watched()
    for stopped in (PID, SHIM):
        machine.running[stopped].stopped = True
        watching.ranks._tick(1.0, (stopped,))
        assert watching.report.stopped
        watching.ranks.resume(ID)
        assert (watching.report.stopped, machine.running[stopped].stopped) == (False, False)
        assert watching.told == [True, True]
        watching.told.clear()
        watching.ranks._tick(1.0, ())
        watching.told.clear()


async def test_a_rank_that_has_ended_grows_no_older() -> None:
    machine, watching = watched()
    watching.ranks._tick(1.0, ())
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 900.0, "done")))
    await watching.until(lambda report: report.gone == Gone.YES)
    watching.told.clear()
    for _ in range(5):
        watching.ranks._tick(1.0, (PID, SHIM))
    report = watching.report
    assert (report.age_seconds, report.stopped, report.silent_seconds, watching.told) == (1.0, False, 0.0, [])


async def test_only_a_new_phase_a_process_and_an_end_are_urgent() -> None:
    machine, watching = watched()
    state = machine.written[ID]
    for changed in (
        dataclasses.replace(state, progress=Progress(Phase.READY, steps=5)),
        dataclasses.replace(state, progress=Progress(Phase.DRAINING)),
        dataclasses.replace(state, pid=99, progress=Progress(Phase.DRAINING)),
        dataclasses.replace(state, pid=99, progress=Progress(Phase.DRAINING), exit=Exit(0, None, 9.0, "")),
    ):
        machine.hear(changed)
    assert watching.told == [False, True, True, True]
    machine.hear("nothing that a shim says")
    assert len(watching.told) == 4


async def test_machine_and_ranks_are_measured_while_they_run() -> None:
    machine, watching = watched()
    await watching.ranks._measure(10.0)
    assert watching.ranks.load == Load(1.0, 5, "", 0.5)
    assert watching.report.resident_bytes == 4096
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    assert watching.report.resident_bytes == 0


async def test_a_spare_is_kept_for_a_rank_that_is_ready_and_ended_after_its_end() -> None:
    machine = Machine().with_rank()
    machine.specs[ID] = spec(spare=True)
    state, machine.written[ID] = machine.written[ID], ShimState(PID, SHIM, 3.0, Progress(Phase.LOADING))
    watching = Watching(machine).adopt()
    watching.ranks._keep_standby()
    assert machine.spare_of is None, "a rank that comes up has the machine to itself"
    machine.hear(state)
    watching.ranks._keep_standby()
    assert machine.spare_of is None, "nor do its first answers share it"
    for _ in range(30):
        watching.ranks._tick(1.0, ())
    watching.ranks._keep_standby()
    assert machine.spare_of == ID
    machine.hear(dataclasses.replace(state, exit=Exit(0, None, 9.0, "")))
    watching.ranks._keep_standby()
    assert machine.spare_of is None


async def test_a_spare_waits_a_while_after_the_end_of_a_rank_and_only_for_programs_that_can() -> None:
    machine, watching = watched()
    watching.ranks._keep_standby()
    assert machine.spare_of is None, "its program cannot wait"
    machine.spare_of = ID
    watching.ranks._keep_standby()
    assert machine.spare_of == ID, "there is a rank"
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    watching.ranks._standby_seconds = 600.0
    watching.ranks._keep_standby()
    assert machine.spare_of == ID, "the next rank may be about to come"
    watching.ranks._standby_seconds = 0.0
    watching.ranks._keep_standby()
    assert machine.spare_of is None


# --- what they leave behind ------------------------------------------------------------------------


async def test_what_a_rank_left_is_looked_at_until_it_is_gone() -> None:
    machine = Machine().with_rank(shim=False)
    machine.left = [(Gone.NO, "process 9, port 4000"), (Gone.NO, "port 4000"), (Gone.YES, "")]
    del machine.running[PID]
    watching = Watching(machine).adopt()
    assert watching.report.gone == Gone.PENDING
    seen = []
    async with asyncio.timeout(SOON_SECONDS):
        while watching.report.gone != Gone.YES:
            seen += [watching.report.kept] if watching.report.kept not in seen else []
            await asyncio.sleep(0)
    assert seen == ["", "process 9, port 4000", "port 4000"]
    assert watching.told == [True, True, True]
    assert machine.looked_for == (4000,)


async def test_a_look_that_could_not_be_taken_is_taken_again() -> None:
    machine = Machine().with_rank(shim=False)
    machine.left = [(Gone.UNKNOWN, "it cannot be determined: ps timed out"), (Gone.YES, "")]
    del machine.running[PID]
    watching = Watching(machine).adopt()
    await watching.until(lambda report: report.gone == Gone.UNKNOWN)
    assert (await watching.until(lambda report: report.gone == Gone.YES)).kept == ""


@pytest.mark.parametrize(
    ("rank", "control", "code", "ports"),
    [
        (0, "10.0.0.1:4000", 1, (4000,)),
        (1, "10.0.0.1:4000", 1, ()),
        (0, "", 1, ()),
        (0, "10.0.0.1:4000", ExitCode.PORT_IN_USE, ()),
    ],
    ids=["rank 0", "another rank", "alone", "another process had it"],
)
async def test_a_port_is_looked_for_where_the_rank_itself_has_listened_on_it(
    rank: int, control: str, code: int, ports: tuple[int, ...]
) -> None:
    machine = Machine().with_rank()
    machine.specs[ID] = spec(dataclasses.replace(ID, rank=rank), control)
    watching = Watching(machine).adopt()
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(code, None, 9.0, "")))
    await watching.until(lambda report: report.gone == Gone.YES)
    assert machine.looked_for == ports


async def test_of_a_rank_whose_spec_cannot_be_read_nothing_is_known_to_be_gone() -> None:
    machine = Machine().with_rank()
    machine.specs[ID] = None
    watching = Watching(machine).adopt()
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    await asyncio.sleep(0.01)
    report = watching.report
    assert (report.gone, report.group, report.size, report.port) == (Gone.UNKNOWN, "", 0, 0)


async def test_the_time_since_an_end_is_told_in_steps_up_to_the_longest() -> None:
    machine, watching = watched()
    assert watching.report.ended_seconds == 0.0
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    now = asyncio.get_running_loop().time()
    for since, told in ((0.0, 0.0), (12.0, 10.0), (119.0, 115.0), (1000.0, 120.0)):
        watching.rank.ended_at = now - since
        assert watching.report.ended_seconds == told
    assert watching.rank.ended_before(900.0)
    assert not watching.rank.ended_before(2000.0)


async def test_an_agent_that_ends_looks_at_nothing_more() -> None:
    machine = Machine().with_rank()
    machine.left = [(Gone.NO, "process 9")] * 1000
    watching = Watching(machine).adopt()
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    await watching.until(lambda report: report.gone == Gone.NO)
    watching.ranks.close()
    await asyncio.sleep(0)
    left = len(machine.left)
    await asyncio.sleep(0.01)
    assert len(machine.left) == left


# --- reports and looks -----------------------------------------------------------------------------


async def test_a_report_has_all_that_is_known_of_a_rank() -> None:
    machine = Machine().with_rank()
    machine.specs[ID] = dataclasses.replace(spec(), memory_bytes=2**30, transport="tcp", formed_for="{}")
    progress = Progress(Phase.DRAINING, 5, 2, 10, 20, "it ends", step_tokens=3, verbs=True, tokens=40)
    machine.written[ID] = ShimState(PID, SHIM, 3.0, progress)
    watching = Watching(machine).adopt()
    vitals = watching.rank.vitals
    vitals.silent_seconds, vitals.idle_seconds, vitals.age_seconds = 1.04, 2.26, 3.37
    watching.rank.usage = RankUsage(1.5, 4096, 2.5)
    known = RankReport(
        id=ID,
        group="llama-0",
        socket="/run/r.sock",
        pid=PID,
        shim_pid=SHIM,
        phase=Phase.DRAINING,
        steps=5,
        demand=2,
        loaded_bytes=10,
        total_bytes=20,
        detail="it ends",
        started_at=3.0,
        exit=None,
        stopped=False,
        silent_seconds=1.0,
        idle_seconds=2.3,
        age_seconds=3.4,
        step_tokens=3,
        verbs=True,
        size=2,
        port=5000,
        memory_bytes=2**30,
        transport="tcp",
        formed_for="{}",
        context=128,
        gone=Gone.UNKNOWN,
        kept="",
        ended_seconds=0.0,
        cores=1.5,
        resident_bytes=4096,
        tokens_per_second=2.5,
        killed_seconds=None,
    )
    assert watching.report == known
    ended = Exit(0, None, 900.0, "done")
    vitals.stopped = vitals.shim_stopped = True
    machine.hear(dataclasses.replace(machine.written[ID], exit=ended))
    assert watching.report == dataclasses.replace(
        known,
        phase=Phase.EXITED,
        exit=ended,
        silent_seconds=0.0,
        idle_seconds=0.0,
        gone=Gone.PENDING,
        cores=0.0,
        resident_bytes=0,
        tokens_per_second=0.0,
    )


async def test_before_its_shim_says_anything_a_rank_is_known_from_the_disk() -> None:
    machine = Machine().with_rank()
    watching = Watching(machine)
    watching.ranks.adopt()
    assert (watching.report.phase, watching.report.pid, watching.report.started_at) == (Phase.READY, PID, 3.0)
    del machine.written[ID]
    watching = Watching(machine)
    watching.ranks.adopt()
    report = watching.report
    assert (report.phase, report.pid, report.shim_pid, report.started_at) == (
        Phase.STARTING,
        None,
        None,
        0.0,
    )
    assert not watching.rank.watched
    watching.ranks.stop(ID, 0.0)
    assert machine.lines[ID].sent == [Terminate(0.0)], "it hears of it once it runs"
    assert not watching.rank.ended_before(0.0)


async def test_how_a_rank_ended_is_known_from_the_disk_where_its_shim_did_not_live_to_say_it() -> None:
    machine, watching = watched()
    ended = Exit(3, None, 900.0, "as it said itself")
    machine.written[ID] = dataclasses.replace(machine.written[ID], exit=ended)
    machine.lose()
    assert (watching.report.exit, watching.told) == (ended, [True])
    assert PID in machine.running
    watching.ranks.stop(ID, 0.0)
    assert machine.lines[ID].sent == [], "nobody is there to hear it"


async def test_nothing_is_signalled_before_a_rank_has_a_process_nor_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STOPPED_SHIM_SECONDS", 0.0)
    monkeypatch.setattr(module, "LATE_SHIM_SECONDS", 0.0)
    machine, watching = watched()
    state = machine.written[ID]
    machine.hear(dataclasses.replace(state, pid=None))
    watching.ranks.resume(ID)
    watching.rank.vitals.shim_stopped = True
    watching.ranks.stop(ID, 0.0)
    machine.hear(dataclasses.replace(state, exit=Exit(0, None, 9.0, "")))
    await asyncio.sleep(0.01)
    assert set(machine.running) == {PID, SHIM}, "these are other processes by now"
    late = Machine().with_rank(dataclasses.replace(state, pid=None))
    Watching(late).adopt().ranks.stop(ID, 0.0)
    await asyncio.sleep(0.01)
    assert set(late.running) == {PID}


@pytest.mark.parametrize(("patience", "grace"), [(0.0, 600.0), (600.0, 0.0), (600.0, -5.0)])
async def test_a_shim_that_hears_nothing_has_the_grace_of_its_rank_and_some_time(
    monkeypatch: pytest.MonkeyPatch, patience: float, grace: float
) -> None:
    monkeypatch.setattr(module, "STOPPED_SHIM_SECONDS", patience)
    monkeypatch.setattr(module, "LATE_SHIM_SECONDS", patience)
    machine, watching = watched()
    watching.ranks.stop(ID, grace)
    watching.rank.vitals.shim_stopped = True
    await asyncio.sleep(0.01)
    assert set(machine.running) == {PID, SHIM}


async def test_a_change_of_one_rank_is_told_whatever_the_others_do() -> None:
    other = dataclasses.replace(ID, replica=1)
    machine, watching = watched()
    assert watching.ranks.start(spec(other))
    machine.hear(ShimState(80, 81, 3.0, Progress(Phase.READY)))
    watching.ranks._tick(1.0, ())
    watching.told.clear()
    for stopped in ((PID,), (PID, 80), (PID,), (PID,)):
        watching.ranks._tick(1.0, stopped)
    assert watching.told[:3] == [True, True, True]


async def test_a_rank_that_was_killed_is_counted_until_its_end_and_no_other() -> None:
    machine, watching = watched()
    watching.ranks._tick(1.0, ())
    before = watching.report
    assert before.killed_seconds is None
    killed = dataclasses.replace(machine.written[ID], killed=True)
    machine.hear(killed)
    watching.told.clear()
    for _ in range(7):
        watching.ranks._tick(1.0, ())
    assert (watching.report.killed_seconds, watching.told) == (5.0, [True, True])
    machine.hear(dataclasses.replace(killed, exit=Exit(None, 9, 9.0, "")))
    await watching.until(lambda report: report.gone == Gone.YES)
    watching.told.clear()
    for _ in range(20):
        watching.ranks._tick(1.0, ())
    assert watching.told == []
    assert watching.rank.vitals.killed_seconds == 6.0


async def test_an_agent_looks_at_its_ranks_as_long_as_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEASURE_SECONDS", 600.0)
    machine = Machine().with_rank()
    machine.specs[ID] = spec(spare=True)
    watching = Watching(machine).adopt()
    began = asyncio.get_running_loop().time()
    watch = asyncio.create_task(watching.ranks.watch())
    await soon(lambda: machine.looks > 3)
    assert machine.measured == [[PID]], "the next measurement comes later"
    assert (watching.ranks.load, machine.spare_of) == (Load(1.0, 5, "", 0.5), ID)
    assert watching.report.age_seconds <= asyncio.get_running_loop().time() - began + 0.1
    assert not watching.report.stopped
    machine.running[SHIM].stopped = True
    await watching.until(lambda report: report.stopped)
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    looks = machine.looks
    await asyncio.sleep(0.02)
    assert machine.looks <= looks + 1, "there is nobody to look at"
    assert machine.spare_of is None
    watch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watch


async def test_measurements_are_made_again_and_again_and_of_ranks_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MEASURE_SECONDS", 0.001)
    machine = Machine().with_rank()
    machine.measurable = False
    watching = Watching(machine).adopt()
    watch = asyncio.create_task(watching.ranks.watch())
    await soon(lambda: len(machine.measured) > 2)
    assert (watching.ranks.load, watching.report.resident_bytes) == (None, 0)
    machine.measurable = True
    await watching.until(lambda report: report.resident_bytes > 0)
    machine.hear(dataclasses.replace(machine.written[ID], pid=None))
    machine.measured.clear()
    await soon(lambda: machine.measured)
    assert machine.measured[-1] == []
    machine.hear(dataclasses.replace(machine.written[ID], exit=Exit(0, None, 9.0, "")))
    machine.measured.clear()
    await soon(lambda: machine.measured)
    assert machine.measured[-1] == []
    watch.cancel()


# --- several ranks ---------------------------------------------------------------------------------


class Several(Machine):
    """A machine with ranks of several groups, each with its shim."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.hears: dict[RankId, Callable[[Any], None]] = {}
        for number in range(count):
            id, pid = dataclasses.replace(ID, replica=number), 2 * number + 100
            self.specs[id], self.born[id] = spec(id), (pid, f"{BOOT} 5")
            self.running |= {pid: Running(f"{BOOT} 5"), pid + 1: Running(f"{BOOT} 4")}
            self.written[id] = ShimState(pid, pid + 1, 3.0, Progress(Phase.READY, 5, demand=1))
            self.shims.add(id)

    def connect(self, id: RankId, on_message: Callable[[Any], None], on_close: Callable[[], None]) -> Line:
        self.hears[id] = on_message
        return super().connect(id, on_message, on_close)


async def test_every_rank_that_makes_no_progress_is_watched_however_many_do_so_at_once() -> None:
    machine = Several(4)
    watching = Watching(machine).adopt()
    for id, hear in machine.hears.items():
        hear(machine.written[id])
    for _ in range(3):
        watching.ranks._tick(2.0, ())
    assert {report.silent_seconds for report in watching.ranks.reports()} == {4.0}
    machine.hears[dataclasses.replace(ID, replica=2)](
        ShimState(104, 105, 3.0, Progress(Phase.READY, 6, demand=1))
    )
    watching.ranks._tick(2.0, (100, 106))
    found = {
        report.id.replica: (report.silent_seconds, report.stopped) for report in watching.ranks.reports()
    }
    assert found == {0: (6.0, True), 1: (6.0, False), 2: (0.0, False), 3: (6.0, True)}


async def test_every_rank_that_a_kill_does_not_end_is_counted_for_itself() -> None:
    machine = Several(3)
    watching = Watching(machine).adopt()
    for id, hear in machine.hears.items():
        hear(dataclasses.replace(machine.written[id], killed=True))
    for _ in range(60):
        watching.ranks._tick(5.0, ())
    (seconds,) = {report.killed_seconds for report in watching.ranks.reports()}
    assert seconds is not None
    assert seconds > 0.0


async def test_a_change_of_one_rank_is_told_whatever_the_ranks_after_it_do() -> None:
    machine = Several(2)
    watching = Watching(machine).adopt()
    first, second = machine.hears
    machine.hears[second](dataclasses.replace(machine.written[second], killed=True))
    watching.ranks._tick(1.0, ())
    machine.hears[first](dataclasses.replace(machine.written[first], killed=True))
    watching.told.clear()
    watching.ranks._tick(1.0, ())
    assert [report.killed_seconds for report in watching.ranks.reports()] == [0.0, 0.0]
    assert watching.told == [True], "the first has been killed; of the second nothing is new"
