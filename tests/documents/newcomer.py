"""Somebody who has just cloned the repository, and types what the documents say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
BLOCK_SECONDS = 240.0
UP_SECONDS = 120.0
FOLLOWED_SECONDS = 3
"""How long a command that never ends by itself is watched."""

SHELL_ENDED = "=== the shell has ended"

UNCOPIED = (".git", ".venv*", ".reconciler", ".hypothesis", ".*_cache", "__pycache__", "*.egg-info")

NOT_HERE = {
    "make test": "this is a part of it",
    "make check": "a part of make test, like this",
    "make fuzz": "the tests that it runs are in the suite, with fewer examples",
    "make bench": "takes minutes; tests/bench runs each benchmark once",
    "make tiny": "trains a model for half an hour",
    "reconciler node add studio-1.local --user cluster": "needs another machine; tests/hosts adds three",
    "reconciler node bootstrap studio-1": "needs another machine; tests/hosts has three, tests/cli shaped ones",
    "reconciler node reset studio-1": "needs another machine; tests/cli has shaped ones",
    "reconciler node add --again studio-1": "needs another machine, whose key has changed; tests/cli has one",
    "reconciler reboot studio-1 studio-2": "needs machines to restart; tests/hosts restarts two",
}
"""Commands of the documents that are not run again here, and why."""

TESTS = re.compile(
    r"^(\.venv/bin/python -m pytest\b|(\.venv/bin/python -m tests\.mutants|make mutants)\b(?!.* --show))"
)
"""Nor are the tests themselves, and bugs are planted for minutes or hours, by ``make nightly``; one is shown."""

_FOREGROUND = re.compile(r"^(make quickstart|reconciler up\b(?!.*--once).*)$")
_FOLLOWS = re.compile(r"^reconciler (logs .*-f\b|(get|events) .*(-w|--watch(-only)?)\b)")


@dataclass(frozen=True)
class Block:
    """One fenced block of shell commands."""

    document: str
    line: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: Path) -> list[Block]:
    """The blocks fenced as ``sh``, in their order."""
    found: list[Block] = []
    start, collected = 0, None
    for number, line in enumerate(document.read_text().splitlines(), start=1):
        if collected is None:
            if line.strip() == "```sh":
                start, collected = number + 1, list[str]()
        elif line.strip() == "```":
            found.append(Block(document.relative_to(ROOT).as_posix(), start, tuple(collected)))
            collected = None
        else:
            collected.append(line)
    return found


def without_comment(line: str) -> str:
    """A command line as it is typed: comments are for the reader."""
    return re.sub(r"\s+# .*$", "", line).strip()


class Newcomer:
    """A copy of the repository, a terminal in it, and a second one for what stays in the foreground."""

    def __init__(self, folder: Path) -> None:
        self.copy = folder / "reconciler"
        self.home = self.copy / ".reconciler"
        self._port = free_port()
        self._background: list[subprocess.Popen[bytes]] = []
        shutil.copytree(ROOT, self.copy, ignore=shutil.ignore_patterns(*UNCOPIED))
        self._listen_elsewhere()
        _stand_in_for_installing(self.copy / ".venv")
        (folder / ".gitconfig").write_text("[user]\n\tname = Newcomer\n\temail = newcomer@example.org\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "EDITOR": "true",
        }
        self._shell: subprocess.Popen[bytes] | None = None
        self._output: Queue[str] = Queue()
        self.open_terminal()

    def open_terminal(self) -> None:
        """A new shell in the copy, instead of the one before."""
        self._close_terminal()
        self._output = Queue()
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.copy,
            env=self._environment,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, args=(self._shell, self._output), daemon=True)
        self._listener.start()

    def _close_terminal(self) -> None:
        if self._shell is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._listener.join(10)
        for pipe in (self._shell.stdin, self._shell.stdout):
            assert pipe is not None
            pipe.close()

    def _listen_elsewhere(self) -> None:
        """The port that the manifests name may be taken on this machine."""
        path = self.copy / "manifests" / "gateway.yaml"
        path.write_text(path.read_text().replace(":8400", f":{self._port}"))

    def type(self, block: Block) -> str:
        """Run a block line by line as it stands, all in one shell. Returns what was printed."""
        script = []
        for line in block.lines:
            command = without_comment(line)
            if command in NOT_HERE or TESTS.match(command):
                continue
            if _FOREGROUND.match(command):
                self._start(command)
            elif _FOLLOWS.match(command):
                watched = f"timeout --signal=INT {FOLLOWED_SECONDS} {command}"
                script.append(f"{watched} || case $? in 124|130) ;; *) false ;; esac")
            else:
                script.append(line)
        return self._run("\n".join(script), str(block))

    def _run(self, script: str, what: str) -> str:
        file = self.copy.parent / "block.sh"
        file.write_text(script.replace(":8400", f":{self._port}") + "\n")
        mark = f"=== {what} "
        assert self._shell is not None
        assert self._shell.stdin is not None
        self._shell.stdin.write(
            f"set -eE; trap 'echo \"{mark}1\"' ERR; source {shlex.quote(str(file))} </dev/null; "
            f"trap - ERR; set +eE; echo '{mark}0'\n".encode()
        )
        self._shell.stdin.flush()
        printed: list[str] = []
        deadline = time.monotonic() + BLOCK_SECONDS
        while True:
            try:
                line = self._output.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise AssertionError(f"{what} does not end:\n{''.join(printed)}") from None
            before, found, status = line.partition(mark)  # what was printed last may end without a newline
            printed.append(before)
            assert SHELL_ENDED not in line, f"{what} ended the shell:\n{''.join(printed)}"
            if found:
                assert status.strip() == "0", f"{what} failed:\n{''.join(printed)}"
                return "".join(printed)

    @staticmethod
    def _listen(shell: subprocess.Popen[bytes], output: Queue[str]) -> None:
        assert shell.stdout is not None
        for line in shell.stdout:
            output.put(line.decode(errors="replace"))
        output.put(f"{SHELL_ENDED}\n")

    def _start(self, command: str) -> None:
        """The first terminal: a command that stays in the foreground, until it says that all is ready."""
        log = self.copy.parent / "foreground.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f'PATH="$PWD/.venv/bin:$PATH" exec {command}'],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.copy,
                env=self._environment,
                start_new_session=True,
            )
        self._background.append(process)
        deadline = time.monotonic() + UP_SECONDS
        while "endpoint: http://" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{command} did not come up:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)

    def leave(self) -> None:
        """Ctrl-C in the first terminal, close the second."""
        for process in self._background:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        for process in self._background:
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)
        self._close_terminal()


@contextmanager
def newcomer() -> Iterator[Newcomer]:
    """A newcomer in a folder of their own, of which nothing is left at the end."""
    from tests.e2e.cluster import Cluster

    folder = Path(tempfile.mkdtemp(prefix="d-"))
    person = Newcomer(folder)
    try:
        yield person
    finally:
        person.leave()
        Cluster(person.home).kill_everything()
        shutil.rmtree(folder, ignore_errors=True)


def _stand_in_for_installing(venv: Path) -> None:
    """What ``make`` would install is here already: its stamps and its two commands."""
    (venv / "bin").mkdir(parents=True)
    for name, words in (("python", ""), ("reconciler", "-P -m reconciler ")):
        command = venv / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        command.chmod(0o755)
    for stamp in ("runtime", "dev"):
        (venv / stamp).touch()
