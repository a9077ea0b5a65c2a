"""What is said to begin a cluster, or beside one that runs, is typed as it is said, with the product's own processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from reconciler.bootstrap import Home
from reconciler.cli.core.client import ask
from reconciler.errors import Unreachable
from reconciler.wire.admin import ShowStatus
from tests.cli.conftest import listening
from tests.cli.live import manifest, wait_for

from .bench import Bench, commands_in, filled
from .scenes import elsewhere, operated
from .up import BEGINS

pytestmark = pytest.mark.second_tier


class Begun:
    """A command that goes on, and what it has said so far."""

    def __init__(self, bench: Bench, words: list[str]) -> None:
        assert words[0] == "reconciler", words
        self._log = bench.folder / f"{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=bench.folder,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def answers(self, home: Path) -> None:
        """Wait until the controller of a home answers."""
        wait_for(lambda: self.process.poll() is not None or _answers(home), lambda: self.said)
        assert self.process.poll() is None, self.said

    def says(self, text: str) -> str:
        wait_for(lambda: text in self.said, lambda: self.said)
        return self.said

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(10)


def _answers(home: Path) -> bool:
    with suppress(Unreachable):
        return bool(ask(home / "controller.sock", ShowStatus()))
    return False


@contextmanager
def begun(bench: Bench, words: list[str]) -> Iterator[Begun]:
    made = Begun(bench, words)
    try:
        yield made
    finally:
        made.end()


def command(text: str, words: str) -> list[str]:
    """The one of a text that begins so."""
    found = [each for each in commands_in(text) if f" {words}" in each]
    assert found, text
    return filled(found[0], {})


def _begins_nothing(bench: Bench, say: Callable[[Bench], str]) -> bool:
    return not any(each.endswith(" up") for each in commands_in(say(bench)))


def test_what_says_that_nothing_runs_says_what_begins_it(bench: Bench) -> None:
    bench.home.mkdir(mode=0o700)
    bench.file("all.yaml", manifest("node-a"))
    said = {place: say(bench) for place, say in BEGINS.items()}
    (words,) = {" ".join(command(text, "up")) for text in said.values()}
    with begun(bench, ["reconciler", "--home", str(bench.home), "up"]) as up:
        assert words == f"reconciler --home {bench.home} up"
        up.answers(bench.home)
        for place, say in BEGINS.items():
            if place.stays:
                continue
            wait_for(partial(_begins_nothing, bench, say), partial(str, place.words))


def _removed(home: Path) -> bool:
    """Remove a home in which services write."""
    shutil.rmtree(home, ignore_errors=True)
    return not home.exists()


def test_a_home_without_manifests_says_how_to_give_it_some_and_a_second_up_how_to_use_the_first(
    bench: Bench,
) -> None:
    bench.file("manifests/node.yaml", manifest("node-a"))
    with begun(bench, ["reconciler", "--home", str(bench.home), "up"]) as up:
        text = up.says("there are no manifests yet")
        (again,) = {each for each in commands_in(text) if " apply -f DIR" in each}
        done = bench.types(filled(again, {"DIR": str(bench.folder / "manifests")}))
        assert done.code == 0, done
        wait_for(lambda: "node-a" in bench.calls("get", "all").out)
        second = bench.calls("up")
        assert second.code == 1
        used = bench.types(command(second.err, "get all"))
        assert (used.code, "node-a" in used.out) == (0, True)
        wait_for(partial(_removed, bench.home))
        text = up.says("was removed")
        wait_for(lambda: up.process.poll() is not None)
    with begun(bench, command(text, "up")) as up:
        up.answers(bench.home)


def test_a_home_that_has_manifests_says_how_to_change_them(bench: Bench) -> None:
    bench.has_texts(manifest("tiny-model"))
    file = bench.file("my manifests/all.yaml", manifest("tiny"))
    with begun(bench, ["reconciler", "--home", str(bench.home), "up", "-f", file]) as up:
        text = up.says("already has commits")
        up.answers(bench.home)
        done = bench.types(command(text, "apply"))
        assert (done.code, "tiny created" in done.out) == (0, True), done


def test_a_controller_that_runs_by_itself_is_taken_over(bench: Bench) -> None:
    with begun(bench, ["reconciler", "--home", str(bench.home), "controller"]) as first:
        first.answers(bench.home)
        with begun(bench, ["reconciler", "--home", str(bench.home), "controller"]) as second:
            text = elsewhere(bench, second.says("takes it over"))
        with begun(bench, command(text, "up")) as up:
            up.says("there are no manifests yet")
            assert "in use by another" not in up.said


def test_a_copied_home_says_how_to_begin_another(bench: Bench) -> None:
    with Home(bench.home).lock():
        pass
    copy = bench.folder / "a copy"
    shutil.copytree(bench.home, copy)
    done = bench.types(["reconciler", "--home", str(copy), "up"])
    assert done.code == 1
    found = [each for each in commands_in(done.err) if " up -f MANIFESTS" in each]
    file = bench.file("all.yaml", manifest("tiny-model"))
    words = filled(found[0], {"DIR": str(bench.folder / "another"), "MANIFESTS": file})
    with begun(bench, words) as up:
        up.answers(bench.folder / "another")


def test_an_older_controller_is_ended_first(bench: Bench) -> None:
    bench.has_texts(manifest("node-a"))
    with listening(bench.home) as controller:
        operated(bench, controller)
        answer = controller.answers["status"](None)
        del answer["operations"]
        controller.answers["status"] = answer
        said = bench.calls("cordon", "node-a")
    assert said.code == 1
    with begun(bench, command(said.err, "up")) as up:
        up.answers(bench.home)
        assert bench.calls("cordon", "node-a").code == 0


@pytest.fixture
def macs(bench: Bench) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command line of a home with two emulated Macs, which were started as it was said."""

    def types(words: list[str]) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        return subprocess.run(
            [sys.executable, "-P", "-m", *words],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    none = bench.calls("sandbox", "status")
    assert none.code == 1
    started = types(command(none.err, "sandbox up --nodes 2 --detach"))
    try:
        assert started.returncode == 0, started.stderr
        bench.started = started.stdout  # type: ignore[attr-defined]
        yield types
    finally:
        types(["reconciler", "--home", str(bench.home), "sandbox", "down"])


WRONG = {
    "sandbox up": "sandbox status",
    "sandbox lock studio-1": "sandbox lock studio-1 --undo",
    "sandbox rdma away studio-2": "sandbox rdma off studio-2",
    "sandbox fragile studio-2 101": "sandbox fragile studio-2 30",
    "sandbox garbage studio-1 x": "sandbox garbage studio-1 long",
    "sandbox gpu-fault studio-1 x": "sandbox gpu-fault studio-1 oom",
    "sandbox mute studio-1 x": "sandbox mute studio-1 broken",
    "sandbox unkillable studio-2 0": "sandbox unkillable studio-2 20",
    "sandbox decay": "sandbox decay studio-2",
    "sandbox plug studio-1/3 studio-2/3": "sandbox unplug studio-1/3",
    "sandbox unplug studio-1/3": "sandbox plug studio-1/3",
}
"""What is typed in the sandbox, in this order, and what is said to it to be typed."""


@pytest.mark.needs("sshd")
def test_emulated_macs_are_started_broken_and_used_as_is_said(
    bench: Bench, macs: Callable[..., subprocess.CompletedProcess[str]], subtests: pytest.Subtests
) -> None:
    for wrong, right in WRONG.items():
        with subtests.test(wrong):
            said = bench.calls(*wrong.split())
            done = bench.types(command(said.out + said.err, right))
            assert done.code == 0, done
    with begun(bench, command(bench.started, "up -f")) as up:  # type: ignore[attr-defined]
        up.answers(bench.home)
