"""The launcher's side of the keeper, which runs as the user of the job."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from reconciler.wire.job_user import another, started_as
from reconciler.wire.launch import CONFIG_VARIABLE, ExitCode, JobLimits, RankEnd

from . import keeper
from .config import Launch

_BOOT = (
    "import os,sys\n"
    "n,s=int(sys.argv[1]),b''\n"
    "while len(s)<n: s+=os.read(0,n-len(s)) or sys.exit(1)\n"
    "exec(compile(s,'keeper','exec'))"
)
"""Reads the keeper's source from standard input: the job's user may not be allowed to read the product's files."""
START_SECONDS = 30.0
END_SECONDS = 20.0
"""Longest wait for the end of a program after SIGKILL."""
_LINE_BYTES_MAX = 64 * 1024


class Keeping:
    """One keeper, and the program that it keeps."""

    def __init__(self, launch: Launch, on_limit: Callable[[str], None]) -> None:
        self._launch = launch
        self._on_limit = on_limit
        self._process: Optional[Process] = None
        self._answer: Optional[asyncio.Future[Mapping[str, Any]]] = None
        self._ended: Optional[asyncio.Future[int]] = None
        self._closing = False
        self.problem = ""
        """Why the program could not be started; empty if it was."""

    async def start(self) -> None:
        """Start the keeper. Raises ``RankEnd(CONFIG)`` if no process of the user can be started."""
        job = self._launch.job
        source = Path(keeper.__file__).read_bytes()
        try:
            words, arguments = started_as(job.user)
            boot = (job.python, "-I", "-S", "-c", _BOOT, str(len(source)), str(os.getpid()))
            command = [*words, *boot, "1" if another(job.user) else "0", keeper.MARK]
            env = {"PATH": os.defpath, CONFIG_VARIABLE: str(self._launch.directory / "config.json")}
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=2,
                env=env,
                cwd="/",
                limit=_LINE_BYTES_MAX,
                **arguments,
            )
        except (KeyError, OSError, ValueError) as error:
            raise RankEnd(ExitCode.CONFIG, "cannot start {}: {}".format(job.python, error)) from None
        assert self._process.stdin is not None
        self._process.stdin.write(source)
        self._hearing = asyncio.ensure_future(self._hear(self._process))

    async def prepare(self, work: str, folders: Sequence[str], files: Sequence[Any]) -> None:
        """Make the working directory. ``files``: names, contents in base64, and whether they are programs. Raises
        ``RankEnd(CONFIG)``."""
        answer = await self._ask(
            "prepared", do="prepare", folder=work, folders=list(folders), files=list(files)
        )
        if "failed" in answer:
            raise RankEnd(ExitCode.CONFIG, answer["failed"])

    async def start_program(self, argv: Sequence[str], env: Mapping[str, str], limits: JobLimits) -> None:
        """Start the program. If that fails, ``ended`` returns at once."""
        self._ended = asyncio.get_event_loop().create_future()
        bounds: Dict[str, int] = {
            "disk": limits.disk_bytes,
            "open_files": limits.open_files,
            "processes": limits.processes,
        }
        await self._ask("started", do="start", argv=list(argv), env=dict(env), limits=bounds)

    @property
    def runs(self) -> bool:
        """Return whether the program was started and has not ended."""
        return self._ended is not None and not self._ended.done()

    async def ended(self) -> int:
        """Wait for the end of the program, and of everything that it has started. Return its status of ``waitpid``. Raises
        ``RankEnd(UNEXPECTED)`` if the keeper is gone."""
        assert self._ended is not None
        return await asyncio.shield(self._ended)

    async def end(self, grace_seconds: float) -> Optional[int]:
        """End the program, and return its status; None if it is not known."""
        if not self.runs:
            return None
        self._tell(do="end", grace=grace_seconds)
        with contextlib.suppress(asyncio.TimeoutError, RankEnd):
            return await asyncio.wait_for(self.ended(), grace_seconds + END_SECONDS)
        return None

    async def close(self) -> None:
        """End the keeper, with everything that is left."""
        if self._process is None or self._closing:
            return
        self._closing = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_SECONDS)

    async def sweep(self) -> None:
        """Kill what an earlier keeper has left: its program may have killed it."""
        await self.start()
        with contextlib.suppress(RankEnd):
            await self._ask("swept", do="sweep")
        await self.close()

    async def _ask(self, expected: str, **command: Any) -> Mapping[str, Any]:
        """Return the answer to a command. Raises ``RankEnd(CONFIG)`` if there is none."""
        self._answer = asyncio.get_event_loop().create_future()
        self._tell(**command)
        try:
            return await asyncio.wait_for(self._answer, START_SECONDS)
        except asyncio.TimeoutError:
            raise RankEnd(ExitCode.CONFIG, "the keeper of the program does not answer") from None

    def _tell(self, **command: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def _hear(self, process: Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
                answer = json.loads(line) if line else None
            except ValueError:
                answer = None
            if not isinstance(answer, dict):
                break
            self._on_answer(answer)
        self._on_gone()

    def _on_answer(self, answer: Mapping[str, Any]) -> None:
        if "limit" in answer:
            self._on_limit(str(answer["limit"]))
        elif "ended" in answer:
            self.problem = str(answer.get("problem", ""))
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(int(answer["ended"]))
        if self._answer is not None and not self._answer.done() and "limit" not in answer:
            self._answer.set_result(answer)

    def _on_gone(self) -> None:
        if self._closing:
            return
        user = self._launch.job.user
        why = "no process can be started as the user {}: its sudoers line is missing, or it may not run {}"
        text = (
            why.format(user, self._launch.job.python) if user else "{} ended".format(self._launch.job.python)
        )
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RankEnd(ExitCode.CONFIG, text))
        if self.runs:
            assert self._ended is not None
            self._ended.set_exception(RankEnd(ExitCode.UNEXPECTED, "the keeper of the program was killed"))
