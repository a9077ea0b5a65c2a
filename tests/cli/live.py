"""A real controller over a real repository, in a home of its own; and commands that go on in the background."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reconciler.cli.core.client import ask
from reconciler.errors import Unreachable
from reconciler.wire.admin import ShowStatus

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0
API = "apiVersion: reconciler/v1alpha1\n"
MANIFESTS = {
    "node-a": "kind: Node\nmetadata: {name: node-a, labels: {pool: studios}}\nspec: {local: {}}\n",
    "tiny-model": "kind: Model\nmetadata: {name: tiny}\nspec: {source: {path: tiny}}\n",
    "tiny": "kind: ModelDeployment\nmetadata: {name: tiny}\nspec: {model: tiny}\n",
    "big": "kind: ModelDeployment\nmetadata: {name: big, labels: {tier: test}}\nspec: {model: tiny}\n",
    "main": 'kind: Gateway\nmetadata: {name: main}\nspec: {listen: "127.0.0.1:8400", auth: {mode: none}}\n',
}
"""One node with a real agent; the weights are missing, so that no rank ever starts."""


def manifest(name: str) -> str:
    return API + MANIFESTS[name]


class Live:
    """A home whose controller can be started, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.controller: subprocess.Popen[bytes] | None = None

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "reconciler", "--home", str(self.home), *arguments]

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command for the home that the environment names."""
        return subprocess.run(
            [sys.executable, "-m", "reconciler", *arguments],
            env={**os.environ, "RECONCILER_HOME": str(self.home)},
            input=stdin, capture_output=True, text=True, timeout=90, cwd=ROOT, check=False,
        )  # fmt: skip

    def apply(self, *texts: str) -> None:
        done = self.run("apply", "-f", "-", stdin="---\n".join(texts))
        assert done.returncode == 0, done.stderr

    def remove(self, name: str) -> None:
        """Delete the files of a name, as somebody with a clone does."""
        with tempfile.TemporaryDirectory() as folder:
            git = ("git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.com")
            subprocess.run(["git", "clone", "-q", str(self.home / "cluster.git"), folder], check=True)
            subprocess.run([*git, "rm", "-q", f"*{name}.yaml"], check=True)
            subprocess.run([*git, "commit", "-qm", f"Remove {name}"], check=True)
            subprocess.run([*git, "push", "-q"], check=True, capture_output=True)

    def start(self, *options: str) -> None:
        self.controller = subprocess.Popen(
            self.command("controller", *options), stderr=subprocess.DEVNULL, cwd=ROOT
        )
        wait_for(self._answers)

    def _answers(self) -> Any:
        with suppress(Unreachable):
            return ask(self.home / "controller.sock", ShowStatus())["revision"]

    def kill(self) -> None:
        assert self.controller is not None
        self.controller.kill()
        self.controller.wait(10)

    def close(self) -> None:
        if self.controller is not None:
            self.kill()
        for lock in self.home.glob("nodes/*/agent.lock"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(lock.read_text()), signal.SIGKILL)


@contextmanager
def live() -> Iterator[Live]:
    """A controller of the manifests above, without a single rank."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    made = Live(folder)
    try:
        made.apply(*map(manifest, MANIFESTS))
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


class Running:
    """A command in the background, and when it printed what."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines))
            for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))  # noqa: PERF401 - each line at once

    def wait_for(self, true: Callable[[list[str]], object]) -> None:
        wait_for(lambda: true(self.out), lambda: f"printed:\n{self.out}\n{self.err}")

    def end(self, number: int = signal.SIGINT) -> int:
        """Ctrl-C; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(WAIT_SECONDS)
        for reader in self._readers:
            reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@contextmanager
def running(live: Live, *arguments: str) -> Iterator[Running]:
    """A command that goes on until the block ends."""
    made = Running(live.command(*arguments))
    try:
        yield made
    finally:
        made.end(signal.SIGKILL)


def wait_for(
    true: Callable[[], object], diagnostics: Callable[[], str] = lambda: "", seconds: float = WAIT_SECONDS
) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited in vain; {diagnostics()}"
        time.sleep(0.02)
