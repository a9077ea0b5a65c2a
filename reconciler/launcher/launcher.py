"""One rank of a job, from its configuration to its end."""

from __future__ import annotations

import asyncio
import base64
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Set, Tuple

from reconciler.wire.job_user import name_of
from reconciler.wire.launch import ExitCode, MpiConfig, Phase, RankEnd

from . import environment, keeper, mpi, remote
from .calls import Calls, carry_out
from .config import OWN_FOLDERS, Launch, read_config
from .ending import Terminated, describe, end_like
from .gang import Gang
from .keeping import Keeping
from .place import Place
from .progress import ProgressPipe

TERMINATED = int(signal.SIGTERM)
"""Status of ``waitpid`` of a process that SIGTERM ended."""


def live(config_path: str, progress_descriptor: Optional[int]) -> None:
    """Run the rank. Never returns: this process ends like the program, or with an ``ExitCode``."""
    progress = ProgressPipe(progress_descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # this process holds secrets, and may end by a signal
    try:
        launch = read_config(config_path)
        keeper.become_subreaper()  # of what is left if a program kills its keeper
        status, problem = asyncio.run(Launcher(launch, progress).run())
    except RankEnd as end:
        _say(end.sentence)
        progress.explain(end.sentence)
        sys.stderr.flush()
        os._exit(end.code)
    except Terminated:
        progress.explain("it was ended before its program began")
        end_like(TERMINATED)
    progress.program_ended(problem)
    end_like(status)


def _say(text: str) -> None:
    sys.stderr.write("[launcher] {}\n".format(text))


class Launcher:
    """Carries out one rank. Whatever comes first ends it: the end of the program, a signal, the end of the shim, the loss
    of a peer, or a limit."""

    def __init__(self, launch: Launch, progress: ProgressPipe) -> None:
        self._launch = launch
        self._progress = progress
        self._status: Optional[int] = None
        """Status of the program after its end."""
        self._interruption: asyncio.Future[None]
        self._keeping: Keeping
        self._gang: Gang

    async def run(self) -> Tuple[int, str]:
        """Return the status of the program as ``waitpid`` has it, and why it could not be started, or an empty text. Raises
        ``RankEnd``, and ``Terminated`` if the program had not begun."""
        loop = asyncio.get_event_loop()
        self._interruption = loop.create_future()
        self._keeping = Keeping(self._launch, lambda text: self._interrupt(RankEnd(ExitCode.LIMIT, text)))
        self._gang = Gang(self._launch.rank, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._interrupt, Terminated())
        loop.add_reader(0, self._check_shim)
        for number in (signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, lambda: None)
        work = loop.create_task(self._work())
        either: Set[asyncio.Future[Any]] = {work, self._interruption}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        try:
            if work.done():
                return work.result(), self._keeping.problem
            return await self._stop(work), "it was asked to end"
        finally:
            await self._keeping.close()
            await self._gang.close()

    def _interrupt(self, reason: Exception) -> None:
        if not self._interruption.done():
            self._interruption.set_exception(reason)
            self._interruption.exception()  # it is always looked at, if not always raised

    def _check_shim(self) -> None:
        if not os.read(0, 4096):
            asyncio.get_event_loop().remove_reader(0)
            self._interrupt(RankEnd(ExitCode.ORPHANED, "the shim is gone: standard input was closed"))

    async def _work(self) -> int:
        launch, keeping, mpi_config = self._launch, self._keeping, self._launch.job.mpi
        place = Place(launch)
        await keeping.start()
        files: List[Any] = [(file.name, file.data, file.executable) for file in launch.job.files]
        made = [(name, text, False) for name, text in environment.contract_files(launch).items()]
        if mpi_config is not None and mpi.is_spread(launch) and launch.rank.id.rank == 0:
            source = Path(remote.__file__).read_text(encoding="utf-8")
            made += mpi.agent_files(launch.job.python, place.work, source)
        files += [(name, base64.b64encode(text.encode()).decode(), program) for name, text, program in made]
        await keeping.prepare(place.work, OWN_FOLDERS, files)
        place.close()
        if launch.rank.size > 1:
            self._progress.enter(Phase.RENDEZVOUS)
            await self._gang.meet()
        self._progress.enter(Phase.READY)
        variables = environment.variables(launch, place.work, launch.job.user or name_of(os.geteuid()))
        if mpi_config is None:
            status = await self._run(environment.command(launch), variables)
        elif launch.rank.id.rank == 0:
            status = await self._mpirun(mpi_config, place, variables)
        else:
            await carry_out(
                self._gang,
                lambda command: self._run(("/bin/sh", "-c", command), variables),
                lambda: keeping.end(launch.job.grace_seconds),
            )
            status = 0
        self._status = status
        await self._gang.tell_end(status == 0, describe(status))
        return status

    async def _run(self, argv: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run a program. Return its status. Raises ``RankEnd`` if the keeper is gone."""
        await self._keeping.start_program(argv, variables, self._launch.job.limits)
        return await self._ended()

    async def _mpirun(self, config: MpiConfig, place: Place, variables: Mapping[str, str]) -> int:
        launch = self._launch
        calls = Calls(self._gang, mpi.hosts(launch))
        try:
            at = await calls.open(place.folder) if mpi.is_spread(launch) else ""
            own = mpi.variables(place.work, at, place.owner == 0)
            if at:
                own["PATH"] = "{}:{}".format(own["PATH"], variables["PATH"])
            exported = sorted({*launch.job.env, *launch.job.secrets})
            command = mpi.command(launch, config, environment.command(launch), exported)
            return await self._run(command, {**variables, **own})
        finally:
            calls.close()

    async def _ended(self) -> int:
        try:
            return await self._keeping.ended()
        except RankEnd:
            await Keeping(self._launch, lambda text: None).sweep()
            raise

    async def _stop(self, work: asyncio.Task[int]) -> int:
        """End the program because of an interruption. Return its status if it was asked to end and has ended, but never 0:
        a program that ends in order when it is asked to has not completed. Else raise the interruption."""
        reason = self._interruption.exception()
        assert reason is not None
        if self._status is not None:  # only the others were waited for
            return self._status
        self._progress.enter(Phase.DRAINING, str(reason) or "it was asked to end")
        if not self._keeping.runs:
            work.cancel()
            raise reason
        orphaned = isinstance(reason, RankEnd) and reason.code == ExitCode.ORPHANED
        status = await self._keeping.end(0.0 if orphaned else self._launch.job.grace_seconds)
        if isinstance(reason, Terminated) and status is not None:
            return status or TERMINATED
        raise reason
