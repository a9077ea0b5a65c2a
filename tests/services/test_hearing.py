"""A service that lives and does not answer is continued, and then replaced; one that is busy, or starts, is left alone."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.bootstrap import CONSOLE, CONTROLLER, GATEWAY, Home
from reconciler.cli.commands.cluster.up import question
from reconciler.inventory import observe_supervision
from reconciler.services import hearing, supervise
from reconciler.services.hearing import (
    ANSWER_SECONDS,
    ASK_SECONDS,
    ASLEEP_MAX,
    CONTINUE_AFTER,
    STARTING_MAX,
    UNANSWERED_MAX,
    Hearing,
    Said,
    Verdict,
    record,
)
from reconciler.services.supervise import Child, Supervisor
from reconciler.wire.supervision import KEPT
from tests.certificates import self_signed
from tests.services.test_supervise import ROOT, Clock, wait

SERVICES = (CONTROLLER, GATEWAY, CONSOLE)


class Asked:
    """A question whose answers are a list; each look waits for the last one."""

    def __init__(self, said: list[tuple[Said, bool]]) -> None:
        self.left = list(said)
        self.asleep = True
        self.hearing = Hearing(self._answer, lambda pid: self.asleep)
        self.now = 0.0
        self.times: list[float] = []

    def _answer(self, pid: int) -> Said:
        said, self.asleep = self.left.pop(0)
        self.times.append(self.now)
        if said is Said.NOTHING:
            self.now += ANSWER_SECONDS
        return said

    def verdicts(self, pid: int = 7) -> list[Verdict]:
        """All verdicts until every answer was heard, or the process is to end."""
        found = []
        while self.left or self.hearing._thread is not None:
            verdict = self.hearing.look(pid, self.now)
            if verdict is not None:
                found.append(verdict)
            if verdict is Verdict.END:
                break
            thread = self.hearing._thread
            if thread is not None:
                thread.join()
                if not self.left:
                    last = self.hearing._heard(*(self.hearing._said or (Said.ANSWER, False)))
                    return [*found, *([last] if last else [])]
            else:
                self.now += 1.0
        return found


NOTHING = [(Said.NOTHING, True)]


def test_a_process_that_is_asleep_is_continued_first_and_ended_after_a_quarter_of_a_minute() -> None:
    asked = Asked(NOTHING * ASLEEP_MAX)
    assert asked.verdicts() == [Verdict.CONTINUE, Verdict.END]
    assert asked.now == ASLEEP_MAX * ANSWER_SECONDS == 15


def test_a_process_that_does_something_is_ended_after_a_minute() -> None:
    asked = Asked([(Said.NOTHING, False), *NOTHING * (UNANSWERED_MAX - 1)])
    assert asked.verdicts() == [Verdict.CONTINUE, Verdict.END]
    assert asked.now == UNANSWERED_MAX * ANSWER_SECONDS == 60


def test_one_that_answers_is_asked_every_five_seconds() -> None:
    asked = Asked([(Said.ANSWER, False)] * 5)
    assert asked.verdicts() == []
    assert [later - sooner for sooner, later in itertools.pairwise(asked.times)] == [ASK_SECONDS] * 4


def test_one_that_never_listens_is_ended_after_ten_minutes() -> None:
    asked = Asked([(Said.STARTING, False)] * STARTING_MAX)
    assert asked.verdicts() == [Verdict.CONTINUE, Verdict.END]
    assert asked.times[-1] == (STARTING_MAX - 1) * ASK_SECONDS
    assert asked.hearing.seconds == 600


def test_another_process_begins_with_no_question_unanswered() -> None:
    asked = Asked(NOTHING * (ASLEEP_MAX - 1))
    asked.verdicts()
    asked.left = NOTHING * (CONTINUE_AFTER - 1)
    assert asked.verdicts(pid=8) == []
    assert asked.hearing.unanswered == CONTINUE_AFTER - 1


@given(
    st.lists(
        st.tuples(st.sampled_from(Said), st.booleans()).map(lambda each: (each[0], each[1])),
        max_size=3 * UNANSWERED_MAX,
    )
)
def test_only_a_row_of_questions_without_an_answer_ends_a_process(said: list[tuple[Said, bool]]) -> None:
    verdicts = Asked(said).verdicts()
    row = awake = 0
    expected = []
    for answer, asleep in said:  # too few to end one that starts
        row = row + 1 if answer is Said.NOTHING else 0
        awake = (awake or not asleep) if row else 0
        if row >= (UNANSWERED_MAX if awake else ASLEEP_MAX):
            expected.append(Verdict.END)
            break
        if row == CONTINUE_AFTER:
            expected.append(Verdict.CONTINUE)
    assert verdicts == expected


# --- what each service is asked ----------------------------------------------------------------------


def _answers(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 401 Unauthorized\r\n\r\n")


def _says_hello(connection: socket.socket) -> None:
    from reconciler.wire import SPOKEN, frames
    from reconciler.wire.codec import Hello, to_wire

    connection.sendall(frames.encode(to_wire(Hello("controller", SPOKEN))))
    connection.recv(4096)


def _says_nothing(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.recv(4096)


def _closes(connection: socket.socket) -> None:
    return


class Service:
    """A listener in a home, where a service is looked for."""

    def __init__(self, home: Path, service: str, tls: bool = False) -> None:
        self.home, self.service = home, service
        home.mkdir(exist_ok=True)
        place = Home(home)
        place.routes.touch()
        if service == CONTROLLER:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(place.socket))
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            port = self.listener.getsockname()[1]
            scheme = "https" if tls else "http"
            address = f"127.0.0.1:{port}"
            state = {
                "pid": 7,
                "url": f"{scheme}://{address}/",
                "endpoint": f"{scheme}://mac.local:{port}/v1",
                "local": address,
            }
            (place.gateway if service == GATEWAY else place.console).write_text(json.dumps(state))
        self.listener.listen()
        self.thread: threading.Thread | None = None
        self.closing = False

    def serve(self, behave: Callable[[socket.socket], None]) -> None:
        def accept() -> None:
            while True:
                try:
                    connection, _ = self.listener.accept()
                except OSError:
                    return
                with connection:
                    if self.closing:
                        return
                    behave(connection)

        self.thread = threading.Thread(target=accept)
        self.thread.start()

    def close(self) -> None:
        # Closing alone does not end an accept: one that a signal interrupts goes on with the next listener of that number.
        self.closing = True
        if self.thread is not None:
            with socket.socket(self.listener.family) as last:
                last.connect(self.listener.getsockname())
                self.thread.join()
        self.listener.close()

    def ask(self, pid: int = 7) -> Said:
        return question(self.home, self.service)(pid)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "ANSWER_SECONDS", 0.3)


@pytest.fixture
def house(home: Path) -> Iterator[Callable[[str], Service]]:
    with ExitStack() as stack:

        def made(service: str) -> Service:
            found = Service(home, service)
            stack.callback(found.close)
            return found

        yield made


@pytest.mark.parametrize("service", SERVICES)
def test_whoever_answers_has_answered_whatever_that_is(house: Callable[[str], Service], service: str) -> None:
    there = house(service)
    there.serve(_says_hello if service == CONTROLLER else _answers)
    assert there.ask() is Said.ANSWER


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("behave", [None, _says_nothing, _closes])
def test_who_accepts_nobody_says_nothing_or_closes_has_not(
    house: Callable[[str], Service], service: str, behave: Callable[[socket.socket], None] | None
) -> None:
    there = house(service)
    if behave is not None:
        there.serve(behave)
    assert there.ask() is Said.NOTHING


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("service", SERVICES)
def test_a_full_queue_of_who_accepts_nobody_is_no_answer(
    house: Callable[[str], Service], service: str
) -> None:
    there = house(service)
    there.listener.listen(0)
    waiting = [socket.socket(there.listener.family) for _ in range(3)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(there.listener.getsockname())
    assert there.ask() is Said.NOTHING
    for each in waiting:
        each.close()


@pytest.mark.parametrize("service", SERVICES)
def test_nobody_is_asked_where_nothing_listens_yet(home: Path, service: str) -> None:
    home.mkdir()
    Home(home).routes.touch()
    assert question(home, service)(7) is Said.STARTING
    there = Service(home, service)
    there.close()
    assert there.ask() is Said.STARTING
    assert not list(home.glob(".*.asked"))


def test_a_gateway_of_a_cluster_without_a_gateway_waits_and_is_left_alone(home: Path) -> None:
    home.mkdir()
    assert question(home, GATEWAY)(7) is Said.NOT_ASKED
    Home(home).routes.touch()
    assert question(home, GATEWAY)(7) is Said.STARTING


@pytest.mark.parametrize("service", [GATEWAY, CONSOLE])
def test_a_service_that_cannot_write_where_it_listens_is_not_blamed(home: Path, service: str) -> None:
    home.mkdir()
    place = Home(home)
    place.routes.touch()
    file = place.gateway if service == GATEWAY else place.console
    obstacle = file.with_name(f".{file.name}.asked")
    obstacle.mkdir()  # a full disk: nothing can be written

    assert question(home, service)(7) is Said.NOT_ASKED

    obstacle.rmdir()
    assert question(home, service)(7) is Said.STARTING


@pytest.mark.parametrize("service", [GATEWAY, CONSOLE])
def test_the_file_of_another_process_is_no_place_to_ask(
    house: Callable[[str], Service], service: str
) -> None:
    there = house(service)
    assert there.ask(pid=8) is Said.STARTING
    place = Home(there.home)
    file = place.gateway if service == GATEWAY else place.console
    for content in (b"", b"{", b"[]", b'{"pid": 7}', b"null", b"\0" * 200):
        file.write_bytes(content)
        assert there.ask() is Said.STARTING


@pytest.mark.parametrize("service", [GATEWAY, CONSOLE])
def test_one_that_says_that_it_listens_nowhere_is_not_asked(
    house: Callable[[str], Service], service: str
) -> None:
    there = house(service)
    place = Home(there.home)
    file = place.gateway if service == GATEWAY else place.console
    file.write_text('{"pid": 7, "endpoint": null, "local": null, "url": null}')
    assert there.ask() is Said.NOT_ASKED


def test_a_gateway_with_a_certificate_that_nobody_knows_is_asked_too(home: Path, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    there = Service(home, GATEWAY, tls=True)

    def answer(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as sealed:
            _answers(sealed)

    there.serve(answer)
    assert there.ask() is Said.ANSWER
    there.close()


# --- what is done to real processes --------------------------------------------------------------------

SERVES = """
import json, os, socket, sys, time
from pathlib import Path
state, way = Path(sys.argv[1]), sys.argv[2]
print("begun", flush=True)
if way == "hangs first":
    time.sleep(600)
listener = socket.create_server(("127.0.0.1", 0))
url = "http://127.0.0.1:%d/" % listener.getsockname()[1]
state.write_text(json.dumps({"pid": os.getpid(), "url": url}))
while True:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        if way == "sleeps":
            time.sleep(600)
        while way == "computes":
            pass
        if way == "keeps":
            time.sleep(0.01)
            os.dup(connection.fileno())
            continue
        connection.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
"""


class Served:
    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name, value in (
            (hearing, "ANSWER_SECONDS", 0.2),
            (hearing, "ASK_SECONDS", 0.1),
            (hearing, "UNANSWERED_MAX", 8),
            (hearing, "STOPPED_MAX", 4),
            (hearing, "STARTING_MAX", 20),
            (supervise, "DEAF_SECONDS", 1.0),
        ):
            monkeypatch.setattr(module, name, value)
        home.mkdir()
        self.home = home
        self.messages: list[str] = []
        self.supervisor: Supervisor | None = None

    def start(self, way: str) -> Child:
        state = Home(self.home).console
        child = Child(
            CONSOLE,
            (sys.executable, "-c", SERVES, str(state), way),
            self.home / "console.log",
            hearing=Hearing(question(self.home, CONSOLE)),
        )

        def keep(service: str, reason: str, text: str) -> None:
            record(Home(self.home).supervision, time.time, service, reason, text)

        self.supervisor = Supervisor([child], self.messages.append, ROOT, record=keep)
        self.supervisor.start()
        return child

    def until(self, true: Callable[[], object]) -> None:
        assert self.supervisor is not None

        def holds() -> object:
            assert self.supervisor is not None
            self.supervisor.restart_dead()
            return true()

        wait(holds)

    @property
    def reasons(self) -> list[str]:
        return [act.reason for act in observe_supervision(Home(self.home).supervision)]


@pytest.fixture
def served(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    made = Served(home, monkeypatch)
    yield made
    if made.supervisor is not None:
        made.supervisor.end(seconds=0.0)


def pid_of(child: Child) -> int:
    return child.process.pid if child.process is not None else 0


def test_a_stopped_service_goes_on_as_the_same_process(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hearing, "ASLEEP_MAX", 1000
    )  # on a busy machine it may miss more questions than one that is stopped
    child = served.start("answers")
    served.until(lambda: Home(served.home).console.exists())
    first = pid_of(child)
    os.kill(first, signal.SIGSTOP)

    served.until(lambda: "ServiceContinued" in served.reasons)
    served.until(lambda: child.hearing is not None and child.hearing.unanswered == 0)

    assert pid_of(child) == first
    text = (
        f"the console (pid {first}) has given no answer for 0.4 s: it is continued, because it may be stopped"
    )
    assert set(served.messages) == {text}


@pytest.mark.parametrize("way", ["sleeps", "computes", "keeps", "hangs first"])
def test_a_service_that_hangs_is_replaced_and_that_is_said_and_kept(served: Served, way: str) -> None:
    child = served.start(way)
    first = pid_of(child)

    served.until(lambda: pid_of(child) not in (0, first))

    assert served.reasons[:2] == ["ServiceContinued", "ServiceReplaced"]
    text = next(line for line in served.messages if "ended" in line)
    assert text.startswith(f"the console (pid {first}) has given no answer for ")
    assert text.endswith(": it is ended, and started again")


def test_one_that_is_stopped_for_ever_is_killed(served: Served) -> None:
    child = served.start("answers")
    served.until(lambda: Home(served.home).console.exists())
    first = pid_of(child)

    def stop_again() -> bool:
        if pid_of(child) == first:
            os.kill(first, signal.SIGSTOP)
        return pid_of(child) not in (0, first)

    served.until(stop_again)

    assert "ServiceReplaced" in served.reasons


def test_the_file_keeps_the_newest_acts_and_one_that_cannot_be_read_is_begun_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "supervision.json", Clock()
    path.write_text("{")
    for number in range(KEPT + 5):
        clock.now += 1
        record(path, clock, GATEWAY, "ServiceReplaced", f"act {number}")
    acts = observe_supervision(path)
    assert [act.text for act in acts] == [f"act {number}" for number in range(5, KEPT + 5)]
    record(tmp_path / "no folder" / "supervision.json", clock, GATEWAY, "ServiceReplaced", "a full disk")
    assert observe_supervision(tmp_path / "no folder" / "supervision.json") == ()
