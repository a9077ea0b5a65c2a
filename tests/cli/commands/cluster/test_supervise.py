"""Supervised processes come back when they die, and end when their parent does, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.bootstrap import parent
from reconciler.cli.commands.cluster import supervise
from reconciler.cli.commands.cluster.session import ACCEPT_SECONDS_MAX, STOP_SECONDS_MAX, _Stopping
from reconciler.cli.commands.cluster.supervise import Child, Supervisor
from tests.tracing import held

ROOT = Path(__file__).parents[4]
WAIT_SECONDS = 60.0

SLEEPS = "import time; time.sleep(600)"
FAILS = "import sys; sys.exit('cannot listen: the port is taken, says pid %d' % __import__('os').getpid())"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""


def wait(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


Start = Callable[..., tuple[Supervisor, Child, list[str]]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervisor] = []

    def begin(
        program: str, clock: Callable[[], float] = time.monotonic
    ) -> tuple[Supervisor, Child, list[str]]:
        messages: list[str] = []
        child = Child("worker", (sys.executable, "-c", program), tmp_path / "worker.log")
        supervisor = Supervisor([child], messages.append, ROOT, clock)
        started.append(supervisor)
        supervisor.start()
        return supervisor, child, messages

    yield begin
    for supervisor in started:
        supervisor.end(seconds=0.0)


def pid_of(child: Child) -> int:
    assert child.process is not None
    return child.process.pid


def test_a_killed_child_is_started_again_and_that_is_said(start: Start) -> None:
    supervisor, child, messages = start(SLEEPS)
    first = pid_of(child)
    os.kill(first, signal.SIGKILL)

    def back() -> bool:
        supervisor.restart_dead()
        return child.alive and pid_of(child) != first

    wait(back)
    assert messages == ["the worker was killed by signal 9 and is restarted"]


def test_the_back_off_doubles_up_to_five_seconds_and_is_forgotten_after_a_healthy_time(start: Start) -> None:
    clock = Clock()
    supervisor, child, _ = start(SLEEPS, clock)
    delays = []
    for healthy in [False] * 7 + [True]:
        clock.now += 60.0 if healthy else 0.0
        process = child.process
        assert process is not None
        process.kill()
        process.wait(WAIT_SECONDS)
        supervisor.restart_dead()
        delays.append(round(child.restart_at - clock.now, 1))
        supervisor.restart_dead()
        assert child.process is None, "not before its time"
        clock.now = child.restart_at
        supervisor.restart_dead()
        assert child.alive
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.2]


def test_a_child_that_keeps_failing_the_same_way_is_reported_once(start: Start) -> None:
    clock = Clock()
    supervisor, child, messages = start(FAILS, clock)
    for _ in range(4):
        assert child.process is not None
        child.process.wait(WAIT_SECONDS)
        supervisor.restart_dead()
        clock.now = child.restart_at
        supervisor.restart_dead()
    (text,) = messages
    assert text.startswith("the worker exited with 1 and is restarted: cannot listen: the port is taken")


def test_children_are_out_of_reach_of_the_terminals_ctrl_c(start: Start) -> None:
    _, child, _ = start(SLEEPS)
    assert os.getsid(pid_of(child)) == pid_of(child) != os.getsid(0)


def test_the_end_is_asked_for_first_and_forced_after_its_time(start: Start) -> None:
    supervisor, child, messages = start(SLEEPS)
    process = child.process
    assert process is not None
    supervisor.end()
    assert (process.returncode, messages) == (-signal.SIGTERM, [])

    supervisor, child, messages = start(STUBBORN)
    wait(lambda: child.last_lines() == "deaf")
    process = child.process
    assert process is not None
    supervisor.end(seconds=0.2)
    assert process.returncode == -signal.SIGKILL
    assert messages == ["the worker does not end: killing it"]


def test_a_child_that_nothing_ends_is_named_and_left(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "KILLED_SECONDS", 0.1)
    supervisor, child, messages = start(SLEEPS)
    with held(pid_of(child)):
        supervisor.end(seconds=0.1)
    assert f"(pid {pid_of(child)}) has not ended within 0.1 s of SIGKILL" in messages[-1]


def test_an_ended_child_is_not_started_again(start: Start) -> None:
    supervisor, child, _ = start(SLEEPS)
    supervisor.end()
    supervisor.restart_dead()
    assert not child.alive


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from reconciler.cli.commands.cluster.supervise import Child, Supervisor
        worker = "import time; from reconciler.bootstrap import parent; parent.end_with_parent(); time.sleep(600)"
        child = Child("worker", (sys.executable, "-c", worker), Path({str(tmp_path / "log")!r}))
        Supervisor([child], print, Path({str(ROOT)!r})).start()
        print(child.process.pid, flush=True)
        time.sleep(600)
    """)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert exists(pid)
        parent.kill()
    wait(lambda: not exists(pid))


def exists(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    return bool(subprocess.run(["/bin/ps", "-p", str(pid)], capture_output=True, check=False).returncode == 0)


def test_supervisor_and_children_mean_the_same_variable() -> None:
    assert supervise.PARENT_VARIABLE == parent.PARENT_VARIABLE


def test_a_log_that_has_grown_is_put_aside_at_the_next_start(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LOG_BYTES_MAX", 10)
    (tmp_path / "worker.log").write_text("more than ten bytes\n")
    _, child, _ = start("print('new')")
    wait(lambda: child.last_lines() == "new")
    assert (tmp_path / "worker.log.1").read_text() == "more than ten bytes\n"


TALKS = """
import time
for number in range(100_000):
    print(number, flush=True)
    time.sleep(0.001)
"""


def test_the_log_of_a_process_that_runs_on_is_put_aside_as_well(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LOG_BYTES_MAX", 400)
    supervisor, child, messages = start(TALKS)
    log, aside = tmp_path / "worker.log", tmp_path / "worker.log.1"
    most = 0

    def tended() -> bool:
        """It is short again also when it has told much."""
        nonlocal most
        most = max(most, int(child.last_lines() or 0))
        supervisor.restart_dead()
        return aside.exists() and most > 1000 and log.stat().st_size < 1000

    wait(tended)
    assert aside.stat().st_size > 400
    assert log.read_bytes()[:1] != b"\0", "the process writes on behind what was cut off"
    assert messages == []


def test_a_folder_of_logs_that_was_deleted_is_made_again(start: Start, tmp_path: Path) -> None:
    supervisor, child, messages = start(SLEEPS)
    child.log = tmp_path / "logs" / "worker.log"
    os.kill(pid_of(child), signal.SIGKILL)

    def back() -> bool:
        supervisor.restart_dead()
        return len(messages) == 1 and child.alive

    wait(back)
    assert child.log.exists()


def test_last_words_are_those_of_the_newest_process_alone(start: Start, tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("an old story\n")
    _, child, _ = start("print('one'); print('two')")
    wait(lambda: child.last_lines(5) == "one\ntwo")
    assert child.last_lines() == "two"


def test_a_controller_that_was_started_again_has_the_time_of_a_new_one_to_hear_that_it_is_to_stop_everything(
    tmp_path: Path,
) -> None:
    controller = Child("controller", ["true"], tmp_path / "log")
    stopping = _Stopping(controller)
    assert not stopping.late
    stopping._began_at -= ACCEPT_SECONDS_MAX + 1
    assert stopping.late
    controller.started_at = time.monotonic()
    assert not stopping.late
    stopping._began_at -= STOP_SECONDS_MAX
    assert stopping.late
