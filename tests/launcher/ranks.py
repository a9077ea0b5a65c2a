"""Ranks of jobs as real processes, with the pipes that a shim would hold."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reconciler.planning.context.membership import certificate
from reconciler.wire.codec import to_wire
from reconciler.wire.launch import JobConfig, JobFile, JobLimits, MpiConfig, RankConfig, RankId
from tests.processes import gone

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 30.0
"""Generous: the machine that runs the tests may be busy with other things."""
SECRET = certificate("of a gang")
LIMITS = JobLimits(disk_bytes=2**30, output_bytes=2**20, open_files=256, processes=4096)


def job(command: Sequence[str], **given: Any) -> JobConfig:
    """A job that runs a command."""
    made = JobConfig(
        command=tuple(command),
        env={},
        files=(),
        artifacts=(),
        python=sys.executable,
        grace_seconds=10.0,
        limits=LIMITS,
    )
    return replace(made, **given)


def script(body: str, **given: Any) -> JobConfig:
    """A job that runs a script of Python."""
    content = base64.b64encode(body.encode()).decode()
    return job(("python", "script.py"), files=(JobFile("script.py", content),), **given)


def mpi(command: Sequence[str], processes: int = 1, **given: Any) -> JobConfig:
    return job(command, mpi=MpiConfig("mpirun", (), processes), **given)


def config(
    of: JobConfig, rank: int = 0, addresses: Sequence[str] = ("",), control: str = "", **given: Any
) -> RankConfig:
    """The configuration of one rank; ``addresses`` has one for each."""
    made = RankConfig(
        id=RankId("job_bench", 0, 1, rank),
        size=len(addresses),
        model_path="",
        strategy="",
        backend="ring",
        addresses=tuple(addresses) if len(addresses) > 1 else (),
        control=control,
        secret=SECRET if len(addresses) > 1 else "",
        socket="",
        context=0,
        batch_max=0,
        rendezvous_seconds=WAIT_SECONDS,
        job=of,
    )
    return replace(made, **given)


@dataclass
class Started:
    """A launcher with the shim's ends of its pipes."""

    process: subprocess.Popen[bytes]
    directory: Path
    progress_end: int
    lines: list[Mapping[str, Any]] = field(default_factory=list)
    output: bytes = b""

    def watch(self) -> None:
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while chunk := os.read(self.process.stdout.fileno(), 1 << 16):
            self.output = (self.output + chunk)[-(1 << 20) :]

    def _hear(self) -> None:
        with os.fdopen(self.progress_end, "rb") as lines:
            for line in lines:
                self.lines.append(json.loads(line))

    @property
    def work(self) -> Path:
        return self.directory / "work"

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    @property
    def detail(self) -> str:
        return str(self.lines[-1]["detail"])

    @property
    def program(self) -> bool:
        """Whether the launcher has said that its end is the program's."""
        return bool(self.lines[-1]["program"])

    def phases(self) -> list[str]:
        return [str(line["phase"]) for line in self.lines]

    def end(self) -> int:
        """Its exit status, below 0 for a signal, once everything that it wrote is read."""
        status = self.process.wait(WAIT_SECONDS)
        self._hearing.join(WAIT_SECONDS)
        self._reading.join(WAIT_SECONDS)
        return status

    def wait_for(self, text: str) -> None:
        """Wait until the program has printed this."""
        until(lambda: text in self.text)

    def wait_for_phase(self, phase: str) -> None:
        until(lambda: phase in self.phases())

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def lose_shim(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


def until(condition: Any, seconds: float = WAIT_SECONDS) -> None:
    """Wait for what nobody tells."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


@dataclass
class Launchers:
    """Starts launchers; ends all of them afterwards."""

    folder: Path
    started: list[Started] = field(default_factory=list)
    python: str = sys.executable
    code: Path = ROOT
    owner: int | None = None
    """The user that runs the launchers; ``prefix`` makes it so."""

    def start(
        self, of: RankConfig, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> Started:
        directory = self.folder / str(of.id)
        directory.mkdir(0o700)
        path = directory / "config.json"
        path.write_text(json.dumps(to_wire(of)))
        if self.owner is not None:
            for each in (directory, path):
                os.chown(each, self.owner, self.owner)
        progress, given = os.pipe()
        process = subprocess.Popen(
            [*prefix, self.python, "-m", "reconciler.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "PYTHONPATH": str(self.code),
                "RECONCILER_RANK_CONFIG": str(path),
                "RECONCILER_PROGRESS_FD": str(given),
                **(env or {}),
            },
            pass_fds=(given,),
            start_new_session=True,
        )
        os.close(given)
        started = Started(process, directory, progress)
        started.watch()
        self.started.append(started)
        return started

    def run(self, of: JobConfig, **given: Any) -> Started:
        """Start the only rank of a job."""
        return self.start(config(of, **given))

    def close(self) -> None:
        for each in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait(WAIT_SECONDS)
            assert each.process.stdin is not None
            each.process.stdin.close()
            each._reading.join(WAIT_SECONDS)
            each._hearing.join(WAIT_SECONDS)
            assert each.process.stdout is not None
            each.process.stdout.close()


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def wait_until_gone(pid: int) -> None:
    until(lambda: gone(pid))


def pids(text: str) -> Iterator[int]:
    """The numbers that a program has printed, one on each line."""
    for line in text.splitlines():
        if line.isdecimal():
            yield int(line)
