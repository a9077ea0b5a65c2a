"""Every act of many repairs, with failures at every place, compared with the acts that were recorded before."""

from __future__ import annotations

import fcntl
import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.repairs import runner, script
from reconciler.agent.repairs.script import Await, Failure, Keep, Record, Run, Try
from reconciler.agent.system import files, machine
from reconciler.wire.repair import CONFIRM_SECONDS, Change, Repair, RepairState
from reconciler.wire.tools import Ending, RunTool, ToolSaid
from tests.recorded import compare, digest

RECORDED = Path(__file__).parents[1] / "recorded"
SWITCHED = ("/usr/sbin/systemsetup", "-setcomputersleep")
FAILURES = (
    Failure("no"),
    Failure("perhaps", certain=False),
    Failure("sudo: no", barred=True),
    Failure("late", certain=False, barred=True),
)


def changes(lasting: tuple[bool, ...]) -> tuple[Change, ...]:
    """So many changes, each of which outlasts a boot or not."""
    return tuple(
        Change(("do", str(at)), ("undo", str(at)), lasting=stays) for at, stays in enumerate(lasting)
    )


def record(lasting: tuple[bool, ...], **given: Any) -> Record:
    """A repair in its first second, after another one of the same boot."""
    tries = (Try("before", 5.0, RepairState.UNDONE), Try("r", 100.0))
    return replace(Record("r", "boot", changes(lasting), 30.0, tries=tries), **given)


def told(kept: Record) -> str:
    """One record, in short."""
    marks = "".join("-b"[each.barred] + "-o"[each.broken_off] for each in kept.tries)
    states = ",".join(each.state for each in kept.tries)
    return f"{kept.state} {kept.begun}/{kept.made} {kept.problem!r} {kept.barred:d} {states} {marks}"


def play(acts: script.Acts, answers: Any) -> str:
    """The acts in short, each with the answer to it."""
    shown: list[str] = []
    answer: script.Answer = None
    while True:
        try:
            act = acts.send(answer)
        except StopIteration as end:
            kept = end.value
            return f"{digest((shown, told(kept)), 6)} {len(shown)} {kept.state}"
        answer = answers(act)
        match act:
            case Keep(kept):
                shown.append(told(kept))
            case Run(argv):
                shown.append(" ".join(argv))
            case Await(seconds):
                shown.append(f"wait {seconds:g}")


def failing(places: dict[int, Failure], confirmed: bool) -> Any:
    """Answers with failures at these acts."""
    number = iter(range(10000))

    def answer(act: script.Act) -> script.Answer:
        at = next(number)
        return confirmed if isinstance(act, Await) else places.get(at)

    return answer


def test_every_act_of_a_repair_with_one_failure_is_as_recorded() -> None:
    lines = []
    for size in (0, 1, 2, 3):
        lasting = tuple(at % 2 == 0 for at in range(size))
        for at, failure, confirmed in product(range(2 * size + 3), FAILURES, (True, False)):
            shown = play(script.carry_out(record(lasting)), failing({at: failure}, confirmed))
            lines.append(f"{size} {at} {failure.text} {confirmed:d}: {shown}")
    compare(RECORDED / "repairs-one-failure.txt", lines)


def test_every_act_of_a_repair_with_several_failures_is_as_recorded() -> None:
    lines, rng = [], random.Random(8)
    for _ in range(150):
        size, failures = rng.choice((1, 2, 3)), rng.choice((2, 4, 8, 16))
        places = {rng.randrange(24): rng.choice(FAILURES) for _ in range(failures)}
        lasting = tuple(rng.random() < 0.5 for _ in range(size))
        first = record(lasting)
        if rng.random() < 0.3:
            first = replace(first, tries=())
        shown = play(script.carry_out(first), failing(places, rng.random() < 0.5))
        lines.append(f"{digest((lasting, places))}: {shown}")
    compare(RECORDED / "repairs-failures.txt", lines)


def test_every_act_after_a_repair_was_abandoned_is_as_recorded() -> None:
    lines = []
    for size, boot, confirmed in product((0, 1, 2), ("boot", "next"), (True, False)):
        lasting = tuple(at % 2 == 1 for at in range(size))
        for begun, made, failed, problem in product(range(size + 1), range(size + 1), (0, 4), ("", "bad")):
            if made > begun:
                continue
            first = record(lasting, begun=begun, made=made, problem=problem)
            places = {at: Failure("no") for at in range(1, failed)}
            shown = play(script.finish_abandoned(first, boot, confirmed), failing(places, False))
            lines.append(f"{size} {boot} {confirmed:d} {begun}/{made} {failed} {problem!r}: {shown}")
    lines += [play(script.refuse(record((True,)), each), failing({}, False)) for each in FAILURES]
    compare(RECORDED / "repairs-abandoned.txt", lines)


def test_reports_and_first_records_are_as_recorded() -> None:
    lines, rng = [], random.Random(3)
    states = (RepairState.RUNNING, RepairState.WAITING, RepairState.CONFIRMED, RepairState.UNDONE)
    for _ in range(60):
        tries = tuple(
            Try(str(at), rng.choice((0.0, 1.0, 1800.0, 1801.0)), rng.choice(states), *_two(rng))
            for at in range(rng.randrange(5))
        )
        kept = record((True,), tries=tries, state=rng.choice(states), problem=rng.choice(("", "bad")))
        now = rng.choice((10.0, 1800.0, 1801.0, 3600.0, 3601.0))
        report = script.report(kept, now, stays := rng.random() < 0.3)
        lines.append(
            f"{digest((kept, now, stays))} {report.state} {report.tried} {report.barred} {report.broken_off}"
        )
    for number, boot in product((0, 1, 30, 31, 32, 33), ("boot", "other")):
        before = record((), tries=tuple(Try(str(at), 1.0) for at in range(number)), boot_id=boot)
        begun = script.begin(before, replace(record((True,)), tries=()), 7.0).tries
        lines.append(f"{number} {boot} {len(begun)} {begun[0].id} {begun[-1]}")
    compare(RECORDED / "repairs-reports.txt", lines)


def _two(rng: random.Random) -> tuple[bool, bool]:
    return rng.random() < 0.3, rng.random() < 0.3


class Machine:
    """Tools that answer what they are told to, and keep what they were asked."""

    def __init__(self, answers: list[ToolSaid]) -> None:
        self.answers = answers
        self.calls: list[RunTool] = []

    def run(self, call: RunTool) -> ToolSaid:
        self.calls.append(call)
        return self.answers[min(len(self.calls), len(self.answers)) - 1]


ENDINGS = (Ending.ENDED, Ending.ABSENT, Ending.STUCK, Ending.BARRED, Ending.LATE, Ending.ENDLESS)
SUDO = ("ifconfig", "bridge0", "deletem", "en3")


def test_the_results_of_commands_are_as_recorded() -> None:
    lines = []
    both = Change(SUDO, ("ifconfig", "bridge0", "addm", "en3")), Change(("true",), SUDO)
    for ending, code, stdout, stderr in product(
        ENDINGS, (0, 1, 2), ("", " out \n"), ("", "err\n", "sudo: a password is required\n", "x" * 300)
    ):
        said = ToolSaid(ending, code, stdout, stderr, "a problem" if code == 2 else "")
        found: list[object] = []
        for argv in (SUDO, ("true",)):
            tools = Machine([said])
            found.append((runner._run(tools, argv), tools.calls))  # type: ignore[arg-type]
        tools = Machine([ToolSaid(Ending.ENDED, 0), said])
        refused = runner._refusal(tools, record((False,), changes=both))  # type: ignore[arg-type]
        name = f"{ending} {code} {digest((stdout, stderr), 4)}"
        lines.append(f"{name}: {digest(found)} {refused is None} {digest((refused, tools.calls))}")
    compare(RECORDED / "repairs-commands.txt", lines)


class Process:
    """A watchdog that has begun, and ends when it is told to."""

    def __init__(self, command: list[str], **given: Any) -> None:
        self.command, self.given = command, given
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The watchdogs that were started instead of processes."""
    found: list[Process] = []

    def start(command: list[str], **given: Any) -> Process:
        found.append(Process(command, **given))
        return found[-1]

    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(Popen=start, DEVNULL=-3))
    monkeypatch.setattr(machine, "boot_id", lambda: "boot")
    monkeypatch.setattr(runner, "permitted", lambda argv: argv[0] != "rm")
    return found


@pytest.fixture
def repairs(tmp_path: Path) -> runner.Repairs:
    return runner.Repairs(tmp_path, tmp_path / "models", ("python", "agent"), ("/bin", "/sbin"))


def wanted(id: str = "r", **given: Any) -> Repair:
    """A request for a repair of this boot."""
    return Repair(
        **{
            "token": 1,
            "id": id,
            "boot_id": "boot",
            "changes": changes((True,)),
            "confirm_seconds": 9.0,
            **given,
        }
    )


def test_a_repair_that_begins_is_recorded_before_its_process_starts(
    repairs: runner.Repairs, begun: list[Process], tmp_path: Path
) -> None:
    repairs.begin(wanted())
    (process,) = begun
    assert process.command == [
        *("python", "agent", "repair", "--directory", str(tmp_path), "--models", str(tmp_path / "models")),
        *("--tools", "/bin:/sbin", "--new"),
    ]
    assert process.given["start_new_session"]
    kept = runner.StoredRepair(tmp_path).read()
    assert kept is not None
    assert (kept.id, kept.state, kept.confirm_seconds, [each.id for each in kept.tries]) == (
        "r",
        "running",
        9.0,
        ["r"],
    )
    report = repairs.report()
    assert report is not None
    assert (report.state, report.tried) == (RepairState.RUNNING, ("r",))


def test_the_same_repair_begins_once_and_another_one_waits_for_its_end(
    repairs: runner.Repairs, begun: list[Process], tmp_path: Path
) -> None:
    repairs.begin(wanted())
    repairs.begin(wanted())
    with pytest.raises(runner.Unconfirmed, match="the repair r is running"):
        repairs.begin(wanted("s"))
    assert len(begun) == 1
    stored = runner.StoredRepair(tmp_path)
    stored.decide("r", runner.UNDO)
    kept = stored.read()
    assert kept is not None
    stored.write(replace(kept, state=RepairState.UNDONE))
    repairs.begin(wanted("s"))
    assert len(begun) == 2
    assert not stored.decided("r", runner.UNDO)
    kept = stored.read()
    assert kept is not None
    assert [each.id for each in kept.tries] == ["r", "s"]


def test_a_repair_waits_for_the_end_of_the_process_of_the_last_one(
    repairs: runner.Repairs, begun: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner.StoredRepair, "watched", lambda self: True)
    with pytest.raises(runner.Unconfirmed, match="about to end"):
        repairs.begin(wanted())
    assert begun == []
    assert repairs.report() is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"boot_id": "other"}, "another boot"),
        ({"changes": ()}, "nothing to change"),
        ({"changes": (Change(("rm", "x"), ("undo",)),)}, "'rm x' is not"),
        ({"changes": (Change(("do",), ("rm", "y")),)}, "'rm y' is not"),
        ({"changes": (*changes((True, False)), Change(("do",), ("rm", "y")))}, "'rm y' is not"),
    ],
)
def test_a_forbidden_repair_is_not_recorded(
    given: dict[str, Any], words: str, repairs: runner.Repairs, begun: list[Process]
) -> None:
    with pytest.raises(ValueError, match=words):
        repairs.begin(wanted(**given))
    assert (begun, repairs.report()) == ([], None)


def test_a_repair_waits_no_longer_for_its_confirmation_than_the_bound() -> None:
    bound = CONFIRM_SECONDS
    assert [
        runner.recorded(wanted(confirm_seconds=each)).confirm_seconds for each in (1.0, bound, bound + 1)
    ] == [
        1.0,
        bound,
        bound,
    ]


def test_confirmations_and_what_continues_are_as_recorded(
    repairs: runner.Repairs, begun: list[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, lines = runner.StoredRepair(tmp_path), []
    assert not repairs.confirm("r")
    assert not repairs.continue_abandoned()
    states = (
        *(RepairState.RUNNING, RepairState.WAITING, RepairState.UNDOING),
        *(RepairState.CONFIRMED, RepairState.UNDONE, RepairState.LEFT),
    )
    for state, verdict, watched in product(states, ("", runner.CONFIRMED, runner.UNDO), (True, False)):
        monkeypatch.setattr(runner.StoredRepair, "watched", lambda self, watched=watched: watched)
        stored.forget_verdict()
        if verdict:
            stored.decide("r", verdict)
        stored.write(record((True,), state=state))
        before, report = len(begun), repairs.report()
        assert report is not None
        first, second = repairs.continue_abandoned(), repairs.continue_abandoned()
        started = len(begun) - before
        for process in begun:
            process.code = 0
        third = repairs.continue_abandoned()
        for process in begun:
            process.code = 0
        confirmed = repairs.confirm("other"), repairs.confirm("r"), repairs.confirm("r")
        lines.append(
            f"{state} {verdict or '-'} {watched:d}: {report.state} {first:d}{second:d}{third:d} {started}"
            f" {len(begun) - before} {''.join('01'[each] for each in confirmed)} {stored.decided('r', runner.UNDO):d}"
        )
    compare(RECORDED / "repairs-confirmed.txt", lines)
    assert all(process.command[-1] == "/bin:/sbin" for process in begun)


@pytest.mark.parametrize(("confirmed_at", "polls"), [(0, 0), (1, 1), (5, 5), (99, 20)])
def test_a_confirmation_is_looked_for_until_the_time_is_over(
    confirmed_at: int, polls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, clock, slept = runner.StoredRepair(tmp_path), [50.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds
        if len(slept) == confirmed_at:
            stored.decide("r", runner.CONFIRMED)

    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    if confirmed_at == 0:
        stored.decide("r", runner.CONFIRMED)
    assert runner._confirmed(stored, "r", Await(1.95)) == (confirmed_at < 99)
    assert (len(slept), set(slept) - {runner.POLL_SECONDS}) == (polls, set())
    assert stored.decided("r", runner.UNDO) == (confirmed_at == 99)


def test_the_first_decision_stays(tmp_path: Path) -> None:
    stored = runner.StoredRepair(tmp_path)
    assert not stored.decided("r", runner.CONFIRMED)
    assert stored.decide("r", runner.UNDO)
    assert not stored.decide("r", runner.CONFIRMED)
    assert stored.decide("r", runner.UNDO)
    assert not stored.decided("s", runner.UNDO)
    assert [each.name for each in tmp_path.iterdir()] == ["repair.verdict"]
    stored.forget_verdict()
    stored.forget_verdict()
    assert list(tmp_path.iterdir()) == []


def test_the_record_of_a_copy_or_without_sense_is_none(tmp_path: Path) -> None:
    stored = runner.StoredRepair(tmp_path)
    stored.write(record((True, False)))
    assert stored.read() == record((True, False))
    path = tmp_path / "repair.json"
    text = path.read_text()
    place = files.place(tmp_path)
    path.write_text(text.replace(f'"place":"{place}"', '"place":"0:0"'))
    assert stored.read() is None
    path.write_text(text.replace(f',"place":"{place}"', ""))
    assert stored.read() is not None
    path.write_text(text[:-9])
    assert stored.read() is None


def test_a_watchdog_is_seen_by_its_lock(tmp_path: Path) -> None:
    stored = runner.StoredRepair(tmp_path)
    assert not stored.watched()
    with stored.lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert stored.watched()
    assert not stored.watched()
