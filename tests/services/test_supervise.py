"""Supervised processes come back when they die, outlive a supervisor that is killed, and are taken over by the next."""

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

from reconciler.cli.commands.cluster.session import ACCEPT_SECONDS_MAX, STOP_SECONDS_MAX, _Stopping
from reconciler.services import supervise
from reconciler.services.lock import holder
from reconciler.services.supervise import END_SECONDS, ENDED_UNSEEN, Child, Supervisor
from tests.tracing import held

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
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


SERVES = """
import signal, sys
from pathlib import Path
from reconciler.services.lock import held
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
with held(Path(sys.argv[1]), sys.argv[2]) as (identity, holder):
    if identity:
        signal.sigwait([signal.SIGTERM])
"""


class House:
    """A service with a lock, and whoever supervises it."""

    def __init__(self, folder: Path) -> None:
        self.lock, self.log = folder / "worker.lock", folder / "worker.log"
        self.messages: list[str] = []
        self.supervisors: list[Supervisor] = []

    def supervisor(
        self, way: str = "as always", clock: Callable[[], float] = time.monotonic
    ) -> tuple[Supervisor, Child]:
        command = (sys.executable, "-c", SERVES, str(self.lock), way)
        child = Child("worker", command, self.log, self.lock, way)
        self.supervisors.append(Supervisor([child], self.messages.append, ROOT, clock))
        return self.supervisors[-1], child

    def begun(self, way: str = "as always") -> tuple[Supervisor, Child, int]:
        """A supervisor with its service, and the pid of that."""
        supervisor, child = self.supervisor(way)
        supervisor.start()
        return supervisor, child, self.serves(supervisor)

    def serves(self, supervisor: Supervisor, but: int = 0) -> int:
        """Wait for a service other than ``but``, and return its pid."""

        def found() -> int:
            supervisor.restart_dead()
            running = holder(self.lock)
            return running.pid if running and running.pid != but else 0

        wait(found)
        return found()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    for supervisor in made.supervisors:
        supervisor.end(seconds=0.0)


def test_a_service_outlives_its_supervisor_and_the_next_one_takes_it_over(house: House) -> None:
    program = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from reconciler.services.supervise import Child, Supervisor
        command = {(sys.executable, "-c", SERVES, str(house.lock), "as always")!r}
        child = Child("worker", command, Path({str(house.log)!r}), Path({str(house.lock)!r}), "as always")
        Supervisor([child], print, Path({str(ROOT)!r})).start()
        print("started", flush=True)
        time.sleep(600)
    """)
    first = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "started\n"
        wait(lambda: (running := holder(house.lock)) and running.pid)
        first.kill()
    supervisor, child = house.supervisor()
    supervisor.start()
    pid = pid_of(child)
    assert child.alive
    assert house.messages == [f"the worker runs already (pid {pid}) and is taken over"]
    os.kill(pid, signal.SIGKILL)
    after = house.serves(supervisor, but=pid)
    assert after == pid_of(child)
    assert house.messages[1:] == ["the worker has ended and is restarted"]
    supervisor.end()
    assert holder(house.lock) is None


def test_who_took_a_service_over_ends_it(house: House) -> None:
    _, _, pid = house.begun()
    second, child = house.supervisor()
    second.start()
    assert pid_of(child) == pid
    second.end()
    assert holder(house.lock) is None
    assert child.process is not None
    assert child.process.poll() == 0, "it has ended in order"


def test_what_was_started_for_nothing_is_ended_and_what_was_taken_over_stays(house: House) -> None:
    first, _, pid = house.begun()
    second, _ = house.supervisor()
    assert not second.started
    second.start()
    assert second.started
    second.end_own()
    running = holder(house.lock)
    assert running is not None
    assert running.pid == pid
    first.end_own()
    assert holder(house.lock) is None


def test_a_second_start_begins_nothing_anew(house: House) -> None:
    supervisor, child = house.supervisor()
    supervisor.start()
    pid = house.serves(supervisor)
    supervisor.start()
    assert pid_of(child) == pid
    assert house.messages == []
    supervisor.end()


def test_a_service_that_was_started_in_another_way_is_replaced(house: House) -> None:
    _, _, pid = house.begun("of another version")
    second, child = house.supervisor()
    second.start()
    assert house.serves(second, but=pid) == pid_of(child)
    assert house.messages == [
        f"the worker runs already (pid {pid}), started in another way: it is replaced",
        "the worker exited with 0 and is restarted",
    ]
    running = holder(house.lock)
    assert running is not None
    assert running.started_as == "as always"
    second.end()


SUCCEEDS = """
import os, signal, sys, time
from pathlib import Path
from reconciler.services.lock import held, holder
lock, way = Path(sys.argv[1]), sys.argv[2]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
if sys.argv[-1] == "--take-over":
    if way == "of a version that fails":
        sys.exit("a bug")
    if way == "of a version that hangs":
        print("hangs", flush=True)
        signal.sigwait([signal.SIGTERM])
        sys.exit()
    if Path(str(lock) + ".knows nothing").exists():
        sys.exit(3)
    os.kill(holder(lock).pid, signal.SIGKILL)
    while holder(lock):
        time.sleep(0.01)
with held(lock, way) as (identity, other):
    if identity:
        signal.sigwait([signal.SIGTERM])
"""
"""A service that takes over from another one, as far as its supervisor sees; it ends that instead of asking it."""


def succeeding(house: House, way: str) -> tuple[Supervisor, Child]:
    """A supervisor whose service takes over from the one that runs."""
    supervisor, child = house.supervisor(way)
    child.command, child.hands_over = (sys.executable, "-c", SUCCEEDS, str(house.lock), way), True
    return supervisor, child


def test_a_service_that_hands_over_is_not_ended_by_the_supervisor_of_the_next(house: House) -> None:
    _, _, pid = house.begun("of another version")
    second, child = succeeding(house, "as always")
    second.start()
    assert house.serves(second, but=pid) == pid_of(child)
    assert house.messages == [
        f"the worker runs already (pid {pid}), started in another way: it hands over to the next one"
    ]
    second.end()
    assert holder(house.lock) is None


def test_a_service_that_cannot_hand_over_is_ended_first(house: House) -> None:
    _, _, pid = house.begun("of another version")
    Path(f"{house.lock}.knows nothing").touch()
    second, child = succeeding(house, "as always")
    second.start()
    assert house.serves(second, but=pid) == pid_of(child)
    assert house.messages[1:] == [
        f"the worker runs already (pid {pid}), started in another way: it is replaced",
        "the worker exited with 0 and is restarted",
    ]


def test_a_successor_that_fails_costs_nothing_until_all_are_to_end(house: House) -> None:
    _, _, pid = house.begun("of another version")
    second, _ = succeeding(house, "of a version that fails")
    second.start()
    wait(lambda: house.serves(second) == pid and len(house.messages) > 1)
    assert house.messages[1:] == ["the worker exited with 1 and is restarted: a bug"]
    assert house.serves(second) == pid
    second.end()
    assert holder(house.lock) is None


def test_a_service_that_was_to_be_succeeded_and_does_not_end_is_killed(house: House) -> None:
    _, _, pid = house.begun("of another version")
    os.kill(pid, signal.SIGSTOP)
    second, child = succeeding(house, "of a version that hangs")
    second.start()
    wait(lambda: child.last_lines() == "hangs")
    second.end(seconds=0.1)
    assert holder(house.lock) is None
    assert not child.alive
    assert set(house.messages[1:]) == {"the worker does not end: killing it"}, "of a busy machine, of both"


def test_only_who_has_the_lock_is_left_for_the_next_supervisor(house: House) -> None:
    first, _, pid = house.begun("of another version")
    second, child = succeeding(house, "of a version that hangs")
    second.start()
    wait(lambda: child.last_lines() == "hangs")
    second.end(but_handing_over=True)
    assert not child.alive
    assert house.serves(first) == pid


def test_a_service_is_left_for_the_next_supervisor_where_that_is_to_take_over(house: House) -> None:
    first, child = succeeding(house, "of another version")
    first.start()
    pid = house.serves(first)
    first.end(but_handing_over=True)
    assert house.serves(first) == pid == pid_of(child)
    second, _ = house.supervisor("of another version")
    second.start()
    second.end()
    assert holder(house.lock) is None


def test_a_replaced_service_that_does_not_end_is_killed(house: House) -> None:
    _, old, pid = house.begun("of another version")
    os.kill(pid, signal.SIGSTOP)
    clock = Clock()
    second, child = house.supervisor(clock=clock)
    second.start()
    second.restart_dead()
    assert pid_of(child) == pid
    clock.now += END_SECONDS
    second.restart_dead()
    assert old.process is not None
    assert old.process.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert house.messages[1:] == ["the worker does not end: killing it"]


def test_a_controller_that_was_taken_over_and_is_killed_has_not_stopped_everything(house: House) -> None:
    house.begun()
    second, child = house.supervisor()
    second.start()
    stopping = _Stopping(child)
    stopping._accepted_by, child.ended = pid_of(child), True
    assert not stopping.done
    assert child.ended, "it is at it"
    os.kill(pid_of(child), signal.SIGKILL)
    wait(lambda: not child.alive)
    assert child.process is not None
    assert child.process.poll() == ENDED_UNSEEN
    assert not stopping.done
    assert not child.ended, "it is to be started again"


def test_a_controller_that_was_taken_over_and_ends_in_order_has_stopped_everything(house: House) -> None:
    house.begun()
    second, child = house.supervisor()
    second.start()
    stopping = _Stopping(child)
    stopping._accepted_by, child.ended = pid_of(child), True
    os.kill(pid_of(child), signal.SIGTERM)
    wait(lambda: stopping.done)


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
