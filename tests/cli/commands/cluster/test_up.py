"""`up` with its real processes, and manifests that start no rank: it is quick, and needs no weights."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.processes import listed

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[4]
WAIT_SECONDS = 60.0


@dataclass
class Up:
    """`reconciler up` in the background. What it says goes to ``log``."""

    home: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        command = [
            sys.executable,
            "-m",
            "reconciler",
            "--home",
            str(self.home),
            "up",
            "--any-port",
            *arguments,
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )

    def serve(self) -> None:
        """Start with a gateway alone, and wait until it listens."""
        self.start("-f", GATEWAY)
        self.wait_for_output("\nendpoint: ")

    def begin_to_stop_in_vain(self) -> int:
        """Ask for the end of everything of a controller that does not answer; its pid."""
        (pid,) = self.pids("controller")
        os.kill(pid, signal.SIGSTOP)
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.wait_for_output("stopping every rank and agent")
        return pid

    def output(self) -> str:
        return self.log.read_text()

    def wait_for_output(self, text: str) -> None:
        self.wait(lambda: text in self.output())

    def wait(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not true():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)

    def send(self, number: int) -> int:
        """Send a signal; the exit status that follows."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)

    def pids(self, role: str) -> list[int]:
        """The running children of this home: those of ``role`` (``controller``, ``gateway`` or ``console``), or all."""
        words = f"-m reconciler --home {self.home} {role}"
        found = [each for each in listed() if words in each.command and each.state != "Z"]
        parents = {each.pid: each.parent for each in found}
        # What it has just forked bears its name until it runs a program of its own.
        return [pid for pid, parent in parents.items() if parent not in parents]


@pytest.fixture
def up(home: Path, tmp_path: Path) -> Iterator[Up]:
    running = Up(home, tmp_path / "up.log")
    yield running
    if running.process is not None:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(WAIT_SECONDS)
        for pid in running.pids(""):  # services outlive it, and so does the console
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.wait(lambda: not running.pids(""))


GATEWAY = str(ROOT / "manifests" / "gateway.yaml")


def test_up_tells_the_endpoint_and_ctrl_c_ends_everything(up: Up, home: Path) -> None:
    up.start("-f", GATEWAY)
    up.wait_for_output("\nendpoint: http://127.0.0.1:")
    assert "1 object committed to " in up.output()
    assert "\x1b" not in up.output()
    assert up.send(signal.SIGINT) == 0
    assert up.output().endswith("\nstopped\n")
    assert up.pids("controller") == up.pids("gateway") == []
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.second_tier
def test_an_endpoint_on_another_port_says_why(up: Up, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        manifest = tmp_path / "gateway.yaml"
        manifest.write_text(Path(GATEWAY).read_text().replace("127.0.0.1:8400", listen))
        up.start("-f", str(manifest))
        up.wait_for_output(f"   ({listen} is taken)\n")
    assert up.send(signal.SIGINT) == 0


@pytest.mark.second_tier
def test_events_of_an_earlier_run_are_not_printed_again(up: Up) -> None:
    up.serve()
    up.wait_for_output("RevisionApplied")
    assert up.send(signal.SIGINT) == 0
    up.serve()
    assert "RevisionApplied" not in up.output()


@pytest.mark.second_tier
@pytest.mark.parametrize("role", ["controller", "gateway"])
def test_a_killed_process_comes_back(up: Up, role: str) -> None:
    up.serve()
    (pid,) = up.pids(role)
    os.kill(pid, signal.SIGKILL)
    up.wait_for_output(f"the {role} was killed by signal 9 and is restarted")
    up.wait(lambda: up.pids(role) not in ([], [pid]))
    assert up.send(signal.SIGTERM) == 0
    assert f"the next `reconciler --home {up.home} up` adopts them" in up.output()


@pytest.mark.second_tier
def test_a_controller_that_is_killed_while_it_stops_everything_has_to_finish(up: Up) -> None:
    up.serve()
    os.kill(up.begin_to_stop_in_vain(), signal.SIGKILL)
    assert up.process is not None
    assert up.process.wait(WAIT_SECONDS) == 0
    assert up.output().endswith("\nstopped\n")


@pytest.mark.second_tier
def test_a_second_ctrl_c_does_not_wait(up: Up) -> None:
    up.serve()
    pid = up.begin_to_stop_in_vain()
    assert up.process is not None
    up.process.send_signal(signal.SIGINT)
    up.wait_for_output("not everything has stopped")
    os.kill(pid, signal.SIGCONT)
    assert up.process.wait(WAIT_SECONDS) == 0


@pytest.mark.second_tier
def test_an_empty_cluster_says_what_to_do(up: Up) -> None:
    up.start()
    up.wait_for_output(
        f"there are no manifests yet; commit some with: reconciler --home {up.home} apply -f DIR"
    )
    assert up.send(signal.SIGINT) == 0


def test_a_question_nobody_could_answer_is_an_error_at_once(up: Up) -> None:
    up.start("-f", GATEWAY, "--once", "Is anybody there?")
    assert up.process is not None
    assert up.process.wait(WAIT_SECONDS) == 1
    assert (
        "error: --once has nothing to ask: the manifests have no ModelDeployment with replicas" in up.output()
    )
    assert up.pids("controller") == up.pids("gateway") == []


def test_mistakes_in_the_manifests_of_a_new_home_leave_nothing_running(up: Up, tmp_path: Path) -> None:
    wrong = tmp_path / "gateway.yaml"
    wrong.write_text(Path(GATEWAY).read_text().replace("listen:", "listne:"))
    up.start("-f", str(wrong))
    assert up.process is not None
    assert up.process.wait(WAIT_SECONDS) == 1
    assert "listne" in up.output()
    assert "problems in the manifests, listed above; nothing was changed" in up.output()
    assert up.pids("controller") == up.pids("gateway") == []
    assert not (up.home / "gateway.json").exists(), "no client has seen an endpoint"


@pytest.mark.second_tier
def test_a_repository_with_commits_is_left_as_it_is(up: Up, cli: Cli) -> None:
    cli("apply", "-f", GATEWAY)
    up.start("-f", str(ROOT / "manifests" / "nodes.yaml"))
    up.wait_for_output("cluster.git already has commits and is used as it is; to change it: reconciler ")
    up.wait_for_output("\nendpoint: ")
    assert cli("get", "nodes").err == "No resources found\n"
    assert up.send(signal.SIGINT) == 0


@pytest.mark.second_tier
def test_a_second_up_of_a_home_says_who_has_it(up: Up, cli: Cli) -> None:
    up.serve()
    assert up.process is not None
    second = cli("up")
    assert second.code == 1
    assert f"reconciler up is already running for {up.home} (pid {up.process.pid})" in second.err
    assert up.send(signal.SIGINT) == 0


def test_models_are_copied_completely_and_once(home: Path, tmp_path: Path) -> None:
    from reconciler.cli.commands.cluster.up import seed_models

    (tmp_path / "here" / "small").mkdir(parents=True)
    (tmp_path / "here" / "small" / "config.json").write_text("{}")
    (tmp_path / "here" / "notes").mkdir()
    target = home / "models"
    (target / ".small.partial").mkdir(parents=True)
    (target / ".small.partial" / "half").write_text("of an earlier attempt")
    messages: list[str] = []
    seed_models(tmp_path / "here", target, messages.append)
    assert sorted(path.name for path in target.rglob("*")) == ["config.json", "small"]
    (target / "small" / "config.json").write_text('{"mine": true}')
    seed_models(tmp_path / "here", target, messages.append)
    assert (target / "small" / "config.json").read_text() == '{"mine": true}'
    assert messages == [f"copying model small (2B) into {target}"]
