"""`cancel` and `restart`: end runs of jobs, and begin another one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import WritingCommand
from reconciler.cli.core.operations import HowLong, operate, operation_options
from reconciler.cli.core.runs import JOB, job_of, run_of
from reconciler.cli.core.targets import Key, Targets, labels_of, target_options
from reconciler.cli.core.waiting import finish
from reconciler.cli.output.parsed import number_option
from reconciler.errors import Refused
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now
from reconciler.wire.objects import JobState


@click.command(cls=WritingCommand)
@target_options
@number_option("--run", "number", help="End this run; by default the newest.")
@operation_options(ends=False)
@click.pass_obj
def cancel(settings: Settings, targets: Targets, how: HowLong, number: int | None) -> None:
    """End the runs of jobs that have not ended, by an operation.

    The program gets SIGTERM, and SIGKILL after spec.gracePeriod. The run does not begin again. The schedule of a job begins
    later runs as before; to prevent that, set spec.suspend.

    \b
    Examples:
      reconciler cancel job/train --reason "wrong data"
      reconciler cancel job/train --run 3
      reconciler cancel jobs --all
    """

    def decide(now: Now) -> Change:
        chosen = targets.only(JOB, labels_of(now.files), _not_for("cancelled"))
        if number is not None and len(chosen) > 1:
            raise click.UsageError("--run is for one job")
        with Client(settings.socket) as client:
            runs = {key: _run(client, key, number) for key in chosen}
        running = {key: run for key, run in runs.items() if run is not None}
        if not running:
            raise Refused("NotFound", "no run of these jobs is under way; see: reconciler get jobs")
        return verbs.cancel(now, running)

    finish(settings, how, operate(settings, how, decide), {"configured": "cancelled"})


def _run(client: Client, key: Key, number: int | None) -> int | None:
    """Return the number of the run to end; None if the newest has ended. Raises ``Refused`` for a number of one that has
    ended, or that there is not."""
    job = job_of(client, key[1])
    if number is None and not job["status"].get("runs"):
        return None
    run = run_of(job, number)
    if run["state"] not in JobState.ENDED:
        return run["run"]
    if number is None:
        return None
    raise Refused("Ended", f"run {number} of job/{key[1]} has ended already: {run['state']}")


@click.command(cls=WritingCommand)
@target_options
@operation_options(ends=False)
@click.pass_obj
def restart(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Run jobs again, by an operation that sets spec.restartedAt.

    A run that has not ended is replaced. Earlier runs stay as they are.

    \b
    Examples:
      reconciler restart job/train
      reconciler restart jobs -l team=speech --reason "new data"
    """
    at = datetime.now(UTC).timestamp()

    def decide(now: Now) -> Change:
        chosen = targets.only(JOB, labels_of(now.files), _not_for("run again"))
        return verbs.begin(now, "restart", chosen, at=at)

    finish(settings, how, operate(settings, how, decide), {"configured": "restarted"})


def _not_for(done: str) -> Callable[[str], Refused]:
    """Return the refusal of other objects. ``done``: the word for what is done."""

    def refused(other: str) -> Refused:
        if other.startswith("modeldeployment/") and done != "cancelled":
            return Refused(
                "NotAJob", f"{other} is no job; restart it with: reconciler rollout restart {other}"
            )
        what = f"{other} cannot be {done}" if other else "no objects are selected"
        return Refused("NotAJob", f"{what}; this works for jobs only")

    return refused
