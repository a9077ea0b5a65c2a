"""Says after an attempt if its run has ended with it."""

from __future__ import annotations

from reconciler.resources import Job
from reconciler.state.jobs import AttemptEnd, Run, RunReason, RunResult

NODE_LOSSES_MAX = 2
"""Nodes that are lost while a run is on them; after that, the run counts as the cause."""


def verdict(job: Job | None, run: Run) -> tuple[RunResult, RunReason] | None:
    """Return the end of a run after its last attempt; None if there is to be another one."""
    last = run.attempts[-1]
    # A launcher that ends by itself may have the status of some program.
    codes = {each.exit.code for each in last.ranks if each.exit is not None and each.exit.program}
    if job is None:
        return RunResult.CANCELLED, RunReason.DELETED
    if run.node_losses >= NODE_LOSSES_MAX:
        return RunResult.FAILED, RunReason.NODE_LOSS
    if last.end is AttemptEnd.RANK_FAILED and codes & set(job.spec.fail_on_exit_codes):
        return RunResult.FAILED, RunReason.EXIT_CODE
    if run.failures > job.spec.backoff_limit:
        return RunResult.FAILED, RunReason.BACKOFF_LIMIT
    return None
