"""Reads the logs of a run of a job through the controller: of the ranks of one attempt, and of later ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from reconciler.cli.core.objects import LastingClient
from reconciler.cli.core.runs import attempt_of, job_named, job_of, rank_of, run_of
from reconciler.errors import Refused, Unreachable
from reconciler.wire.objects import Attempt, Job, JobState, Run

from .merge import Line, Wanted
from .printer import Printer
from .rank_logs import FOLLOW_SECONDS, LogReading, Source

COMPLETED = "Completed"
"""The end of an attempt that went well."""


@dataclass(frozen=True, slots=True)
class RunTarget:
    """The ranks whose lines are wanted: of a run, and of one of its attempts or of the newest."""

    job: str
    run: int | None
    attempt: int | None
    rank: int | None

    @classmethod
    def named(cls, text: str, how: dict[str, Any]) -> RunTarget:
        """Return the target that a command line means. Raises ``UsageError``."""
        if how["replica"] is not None or how["previous"]:
            raise click.UsageError(
                f"--replica and --previous need a deployment; use --run and --attempt for {text}"
            )
        return cls(job_named(text), how["run"], how["attempt"], how["rank"])


class RunReading(LogReading):
    """Reads the logs of a run, once or until it has ended."""

    def __init__(self, client: LastingClient, target: RunTarget, wanted: Wanted) -> None:
        super().__init__(client, wanted)
        self._target = target
        self._attempts: set[int] = set()
        """The numbers of the attempts whose ranks are read."""
        self._run: int | None = target.run

    def print(self, how: dict[str, Any]) -> int:
        """Print the lines, with ``follow`` until the run has ended. Return the exit status of the command: with ``follow``, 1
        for a run that has not succeeded. Raises ``Refused``."""
        run, attempt = self._look()
        name = self._target.job
        if attempt is None and not how["follow"]:
            raise Refused(
                "NotFound",
                f"run {run['run']} of job/{name} has no output yet: {run['text']}; see: reconciler describe job/{name}",
            )
        several = attempt is None or (self._target.rank is None and len(attempt["ranks"]) > 1)
        show = Printer(how, several)
        lines = self._take(run, attempt, show, strict=not how["follow"])
        if not how["follow"]:
            lines += self._ends()
        show(self._merge.merged(lines))
        while how["follow"] and not self._over(run, attempt):
            time.sleep(FOLLOW_SECONDS)
            try:
                run, attempt = self._look()
                lines = list(self._grown())
                lines += self._take(run, attempt, show)
            except Unreachable:
                self._client.reconnect()
                continue
            show(self._merge.merged(lines))
        if not how["follow"]:
            self._note_silence(run, attempt, lines)
            return 0
        show(self._merge.merged([*self._grown(), *self._ends()]))
        return self._status(run, attempt)

    def _note_silence(self, run: Run, attempt: Attempt | None, lines: list[list[Line]]) -> None:
        """Say why there is nothing to read of an attempt that has ended without output."""
        if attempt is not None and attempt["end"] is not None and not any(lines):
            text = f"attempt {attempt['number']} of run {run['run']} has no such output; it ended: {attempt['text']}"
            click.echo(f"note: {text}", err=True)

    def _look(self) -> tuple[Run, Attempt | None]:
        """Return the run and the attempt as they are now. The run is the newest one of the first look."""
        job: Job = job_of(self._client, self._target.job)
        run = run_of(job, self._run)
        self._run = run["run"]
        return run, attempt_of(self._target.job, run, self._target.attempt)

    def _over(self, run: Run, attempt: Attempt | None) -> bool:
        if self._target.attempt is not None and attempt is not None:
            return attempt["end"] is not None
        return run["state"] in JobState.ENDED

    def _status(self, run: Run, attempt: Attempt | None) -> int:
        if self._target.attempt is not None and attempt is not None:
            return int(attempt["end"] != COMPLETED)
        return int(run["state"] != JobState.SUCCEEDED)

    def _take(
        self, run: Run, attempt: Attempt | None, show: Printer, strict: bool = False
    ) -> list[list[Line]]:
        """Begin to read the ranks of an attempt, if they are not read yet, and return their lines so far.

        With ``strict``, raises ``Refused`` if no node has output of it.
        """
        if attempt is None or attempt["number"] in self._attempts:
            return []
        if self._attempts:
            click.echo(f"note: attempt {attempt['number']} has begun", err=True)
        self._attempts.add(attempt["number"])
        ranks = [each["rank"] for each in attempt["ranks"]]
        if self._target.rank is not None and self._target.rank not in ranks:
            raise Refused(
                "NotFound",
                f"job/{self._target.job} has no rank {self._target.rank}; choose one of: {', '.join(map(str, ranks))}",
            )
        found, lacking = [], list[str]()
        for each in attempt["ranks"]:
            if self._target.rank not in (None, each["rank"]):
                continue
            id = rank_of(self._target.job, run, attempt, each["rank"])
            source = Source(id, attempt["startedAt"])
            try:
                found.append(source.backlog(self._client, self._wanted))
            except Refused as refused:
                if refused.code != "NotFound":
                    lacking.append(f"rank {each['rank']} on {each['node']}: {refused}")
                    continue
                if attempt["end"] is not None:
                    lacking.append(f"rank {each['rank']}: {each['node']} has no output of it any more")
                    continue
            self._sources[str(id)] = source
            show.nodes[str(id)] = source.node
            show.marks[str(id)] = f"rank {each['rank']} | "
        for text in lacking:
            click.echo(f"note: {text}", err=True)
        if strict and lacking and not self._sources:
            raise Refused(
                "NotFound", f"no output of run {run['run']} of job/{self._target.job} is left on its nodes"
            )
        return found

    def _grown(self) -> Iterator[list[Line]]:
        """Yield the new lines of each rank; none of a rank whose node does not answer now, or has forgotten it."""
        for source in self._sources.values():
            try:
                yield source.more(self._client)
            except Refused:
                continue
