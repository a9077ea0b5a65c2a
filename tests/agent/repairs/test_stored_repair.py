"""What is on disk of a repair, and who decides whether it stays."""

from __future__ import annotations

import dataclasses
import fcntl
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.repairs import runner
from reconciler.agent.repairs.runner import (
    CONFIRMED,
    UNDO,
    Repairs,
    StoredRepair,
    Unconfirmed,
    check,
    recorded,
)
from reconciler.agent.repairs.script import Await, Record
from reconciler.agent.system.machine import boot_id
from reconciler.agent.system.tools import Tools
from reconciler.wire.repair import Change, Repair, RepairState

OUT = Change(("ifconfig", "bridge0", "deletem", "en3"), ("ifconfig", "bridge0", "addm", "en3"))
RECORD = Record("r1", "boot", (OUT,), 60.0)


def request(*changes: Change, id: str = "r1", boot: str = "") -> Repair:
    return Repair(1, id, boot or boot_id(), changes or (OUT,), 500.0)


class Clock:
    """Time that passes while somebody sleeps, and a little with every look."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.at_look: dict[int, Any] = {}

    def monotonic(self) -> float:
        self.looks += 1
        self.at_look.get(self.looks, lambda: None)()
        self.now += 1e-6
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=made.monotonic, sleep=made.sleep))
    return made


def test_a_repair_is_decided_once(tmp_path: Path) -> None:
    kept = StoredRepair(tmp_path)
    assert not kept.decided("r1", CONFIRMED)
    assert kept.decide("r1", CONFIRMED)
    assert kept.decide("r1", CONFIRMED)
    assert not kept.decide("r1", UNDO)
    assert not kept.decided("r2", CONFIRMED)
    assert [path.name for path in tmp_path.iterdir()] == ["repair.verdict"]
    kept.forget_verdict()
    kept.forget_verdict()
    assert kept.decide("r2", UNDO)


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    kept = StoredRepair(tmp_path)
    assert kept.read() is None
    kept.write(RECORD)
    assert kept.read() == RECORD
    for damage in ("{", "{}", "[]"):
        (tmp_path / "repair.json").write_text(damage)
        assert kept.read() is None


def test_a_watchdog_holds_the_lock_as_long_as_it_lives(tmp_path: Path) -> None:
    kept = StoredRepair(tmp_path)
    assert not kept.watched()
    with kept.lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert kept.watched()
    assert not kept.watched()


def test_a_confirmation_is_waited_for_with_pauses_and_not_longer_than_it_may_take(
    tmp_path: Path, clock: Clock
) -> None:
    kept = StoredRepair(tmp_path)
    assert not runner._confirmed(kept, "r1", Await(60.0))
    assert 60.0 <= clock.now < 61.0
    assert clock.looks < 700, "ten times a second"
    assert kept.decided("r1", UNDO)


def test_a_confirmation_is_taken_when_it_comes_and_at_the_last_moment(tmp_path: Path, clock: Clock) -> None:
    kept = StoredRepair(tmp_path)
    clock.at_look[5] = lambda: kept.decide("r1", CONFIRMED)
    assert runner._confirmed(kept, "r1", Await(60.0))
    assert clock.now < 1.0
    assert runner._confirmed(kept, "r1", Await(0.0)), "the agent was first to decide"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (request(boot="another"), "it is for another boot of this machine"),
        (request(Change(("rm", "-rf", "/"), OUT.undo)), "'rm -rf /' is not one of the commands"),
        (request(Change(OUT.argv, ("reboot",))), "'reboot' is not one of the commands"),
        (Repair(1, "r1", boot_id(), (), 60.0), "there is nothing to change"),
    ],
)
def test_what_is_not_permitted_is_not_begun(changed: Repair, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check(changed, boot_id())
    check(request(), boot_id())


def test_nobody_has_longer_to_confirm_than_a_minute() -> None:
    assert recorded(request()) == Record("r1", boot_id(), (OUT,), 60.0)
    assert recorded(Repair(1, "r1", "boot", (OUT,), 5.0)).confirm_seconds == 5.0


class Agents:
    """The agent's side of repairs, whose watchdogs only leave a note that they were started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kept = StoredRepair(home)
        body = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + chr(10))"
        program = (sys.executable, "-ISc", body, str(home / "started"))
        self.repairs = Repairs(home, home / "models", program, ("/a", "/b"))

    @property
    def started(self) -> list[str]:
        for watchdog in self.repairs._watchdogs:
            watchdog.wait(60)
        path = self.home / "started"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    return Agents(tmp_path)


def test_a_repair_is_written_down_and_then_begun_by_a_process_of_its_own(agents: Agents) -> None:
    assert agents.repairs.report() is None
    assert not agents.repairs.continue_abandoned()
    agents.kept.decide("r0", CONFIRMED)
    agents.repairs.begin(request())
    line = f"repair --directory {agents.home} --models {agents.home}/models --tools /a:/b"
    assert agents.started == [f"{line} --new"]
    record = agents.kept.read()
    assert record is not None
    assert (record.id, record.state, record.begun) == ("r1", RepairState.RUNNING, 0)
    assert not agents.kept.decided("r0", CONFIRMED)
    agents.repairs.begin(request())
    assert len(agents.started) == 1, "it goes on"
    with pytest.raises(Unconfirmed, match="the repair r1 is running"):
        agents.repairs.begin(request(id="r2"))
    assert agents.repairs.continue_abandoned()
    assert agents.started == [f"{line} --new", line], "one whose process is gone is resumed"


def test_another_repair_begins_only_once_the_process_of_the_last_has_ended(agents: Agents) -> None:
    with agents.kept.lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Unconfirmed, match="a repair is about to end"):
            agents.repairs.begin(request())
        agents.kept.write(RECORD)
        assert agents.repairs.continue_abandoned()
        assert agents.started == [], "it is watched"
        agents.kept.write(dataclasses.replace(RECORD, state=RepairState.UNDONE))
        assert agents.repairs.continue_abandoned()
    assert not agents.repairs.continue_abandoned()


@pytest.mark.parametrize(
    ("state", "id", "stays"),
    [
        (RepairState.WAITING, "r1", True),
        (RepairState.WAITING, "r2", False),
        (RepairState.RUNNING, "r1", False),
        (RepairState.CONFIRMED, "r1", True),
        (RepairState.UNDONE, "r1", False),
    ],
)
def test_only_what_waits_for_it_is_confirmed(agents: Agents, state: str, id: str, stays: bool) -> None:
    assert not agents.repairs.confirm("r1")
    agents.kept.write(dataclasses.replace(RECORD, state=state))
    assert agents.repairs.confirm(id) is stays
    report = agents.repairs.report()
    assert report is not None
    assert report.state == (RepairState.CONFIRMED if stays else state)


def test_what_was_undone_is_not_confirmed_any_more(agents: Agents) -> None:
    agents.kept.write(dataclasses.replace(RECORD, state=RepairState.WAITING))
    agents.kept.decide("r1", UNDO)
    assert not agents.repairs.confirm("r1")


# --- the watchdog's commands -----------------------------------------------------------------------


def tools(folder: Path, **scripts: str) -> Tools:
    for name, body in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return Tools((str(folder),), {"models": "/m"})


SUDO = '[ "$1" = -n ] && shift; exec "$@"'


@pytest.mark.parametrize(
    ("body", "text", "certain", "barred"),
    [
        ("echo no such bridge >&2; exit 1", "no such bridge", True, False),
        ("echo said; exit 2", "said", True, False),
        ("exit 3", "ended", True, False),
        ("echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required", True, True),
        ("echo 'sudo: no such tool' >&2; exit 2", "sudo: no such tool", True, False),
    ],
)
def test_a_command_that_fails_says_why_and_whether_sudo_kept_it_from_running(
    tmp_path: Path, body: str, text: str, certain: bool, barred: bool
) -> None:
    failure = runner._run(tools(tmp_path, sudo=SUDO, ifconfig=body), OUT.argv)
    assert failure == (f"ifconfig bridge0 deletem en3: {text}", certain, barred)
    assert runner._run(tools(tmp_path, sudo=SUDO, ifconfig="exit 0"), OUT.argv) is None


def test_sudo_is_asked_for_every_command_before_the_first_one_runs(tmp_path: Path) -> None:
    asked = f'echo "$*" >> {tmp_path}/asked'
    assert runner._refusal(tools(tmp_path, sudo=asked), RECORD) is None
    lines = (tmp_path / "asked").read_text().splitlines()
    assert lines == [f"-n -l {' '.join(argv)}" for argv in (OUT.argv, OUT.undo)]
    touch = Change(("touch", "{models}/.metadata_never_index"), ("unlink", "{models}/.metadata_never_index"))
    no_root = Record("r1", "boot", (touch,), 60.0)
    assert runner._refusal(tools(tmp_path, sudo="exit 1"), no_root) is None
    undo = " ".join(OUT.undo)
    refuses = 'case "$*" in *addm*) echo "not allowed" >&2; exit 1 ;; esac'
    assert runner._refusal(tools(tmp_path, sudo=refuses), RECORD) == (f"{undo}: not allowed", True, True)
    silent = runner._refusal(tools(tmp_path, sudo="exit 1"), RECORD)
    assert silent is not None
    assert silent.text.endswith(": sudo does not allow it")


def test_a_command_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    made = tools(tmp_path)
    (tmp_path / "touch").write_text("#!/nowhere/interpreter\n")
    (tmp_path / "touch").chmod(0o755)
    failure = runner._run(made, ("touch", "{models}/.metadata_never_index"))
    assert failure is not None
    assert "No such file or directory" in failure.text
    assert failure.certain
    absent = runner._run(made, OUT.argv)
    assert absent is not None
    assert (absent.text, absent.certain, absent.barred) == (f"{' '.join(OUT.argv)}: absent", True, False)


def test_a_command_that_does_not_end_may_have_had_its_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "COMMAND_SECONDS", 0.05)
    failure = runner._run(
        tools(tmp_path, touch="exec /bin/sleep 600"), ("touch", "{models}/.metadata_never_index")
    )
    assert failure is not None
    assert not failure.certain


@pytest.mark.parametrize(
    ("record", "new", "called", "problem"),
    [
        (RECORD, True, [OUT.argv, OUT.undo], "it was not confirmed within 0 s"),
        (RECORD, False, [], "it was interrupted"),
        (dataclasses.replace(RECORD, begun=1), True, [OUT.undo], "it was interrupted"),
        (
            dataclasses.replace(RECORD, begun=1, made=1, state=RepairState.WAITING),
            True,
            [OUT.undo],
            "it was interrupted",
        ),
    ],
    ids=["nobody has begun it", "nobody waits for it", "another is in the middle", "another had made it"],
)
def test_a_watchdog_begins_only_what_is_new_and_not_begun_and_undoes_what_another_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record: Record,
    new: bool,
    called: list[tuple[str, ...]],
    problem: str,
) -> None:
    """A second watchdog may have had its turn, and died, before one that was started as new has the lock."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # it ignores some in its own process
    log = tmp_path / "called"
    log.touch()
    sudo = '[ "$2" = -l ] || { shift; exec "$@"; }'
    tools(tmp_path, sudo=sudo, ifconfig=f'echo "ifconfig $*" >> {log}')
    kept = StoredRepair(tmp_path)
    kept.write(dataclasses.replace(record, boot_id=boot_id(), confirm_seconds=0.0))
    assert runner.watch(tmp_path, tmp_path, (str(tmp_path),), new) == 0
    assert log.read_text().splitlines() == [" ".join(argv) for argv in called]
    found = kept.read()
    assert found is not None
    assert (found.state, found.problem, found.begun) == (RepairState.UNDONE, problem, 0)
