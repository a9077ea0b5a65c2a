"""The runs of jobs: what ran, how it ended, and what was fetched."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from reconciler.state import JobName, NodeName, RunId
from reconciler.state.jobs import (
    Artifacts,
    AttemptEnd,
    Fetched,
    RankEnd,
    Run,
    RunAttempt,
    RunEnd,
    RunReason,
    RunResult,
)
from reconciler.store.bodies import written
from reconciler.wire.launch import Exit


class Runs:
    """The table ``runs``, a row for each run. Call its methods in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def put(self, run: Run) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO runs (job, run, body) VALUES (?, ?, ?)",
            (run.id.job, run.id.index, written(run)),
        )

    def begin(self, id: RunId, at: float) -> None:
        """Note when the first attempt of a run was placed."""
        self._db.execute(
            "UPDATE runs SET body = json_set(body, '$.started_at', ?)"
            " WHERE job = ? AND run = ? AND body ->> '$.started_at' IS NULL",
            (at, id.job, id.index),
        )

    def remove(self, ids: Iterable[RunId]) -> None:
        self._db.executemany("DELETE FROM runs WHERE job = ? AND run = ?", [(id.job, id.index) for id in ids])

    def all(self) -> dict[RunId, Run]:
        """Return every run, sorted by job and index."""
        rows = self._db.execute("SELECT job, run, body FROM runs ORDER BY job, run")
        found = (_read(*row) for row in rows)
        return {run.id: run for run in found}


@lru_cache(maxsize=4096)
def _read(job: str, index: int, text: str) -> Run:
    """Read a row, once for each of its states: every write to the store has all rows read again."""
    id, body = RunId(JobName(job), index), json.loads(text)
    ended, artifacts = body["ended"], body["artifacts"]
    return Run(
        **{
            **body,
            "id": id,
            "attempts": tuple(map(_attempt, body["attempts"])),
            "ended": ended
            and RunEnd(
                **{**ended, "result": RunResult(ended["result"]), "reason": RunReason(ended["reason"])}
            ),
            "artifacts": Artifacts(**{**artifacts, "state": Fetched(artifacts["state"])}),
        }
    )


def _attempt(body: dict[str, Any]) -> RunAttempt:
    ranks = tuple(
        RankEnd(NodeName(rank["node"]), rank["exit"] and Exit(**rank["exit"])) for rank in body["ranks"]
    )
    return RunAttempt(**{**body, "end": AttemptEnd(body["end"]), "ranks": ranks})
