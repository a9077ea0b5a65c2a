"""`logs`: print the output of ranks, controller and gateway."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.durations import DURATION, MOMENT
from reconciler.cli.core.kinds import Chosen
from reconciler.cli.core.objects import LastingClient, fetch, name_of
from reconciler.cli.core.runs import is_job
from reconciler.cli.core.selectors import Selector, selector_option
from reconciler.cli.output.form import output_option
from reconciler.cli.output.parsed import number_option
from reconciler.errors import Invalid, Refused, listing

from .merge import BEFORE_EVERYTHING, Wanted
from .printer import Printer, print_file

DEPLOYMENT = "ModelDeployment"


@click.command()
@click.argument("target", required=False, shell_complete=complete.with_logs)
@selector_option
@number_option("--replica", least=0, help="Show this replica only.")
@number_option("--rank", least=0, help="Show this rank of each replica only.")
@number_option("--run", help="Show this run of a job; by default the newest.")
@number_option("--attempt", help="Show this attempt of the run; by default the newest.")
@click.option("-p", "--previous", is_flag=True, help="Show the group before the current one.")
@click.option(
    "-f", "--follow", is_flag=True, help="Keep printing new lines, including those of later groups."
)
@click.option(
    "--tail", type=int, default=-1, metavar="N", help="Show the last N lines of each rank; -1 shows all."
)
@click.option("--since", type=DURATION, metavar="5m", help="Show lines of this last period only.")
@click.option("--since-time", type=MOMENT, metavar="TIME", help="Show lines from this time on (RFC 3339).")
@click.option(
    "--prefix/--no-prefix",
    default=None,
    help="Begin each line with its rank; by default only if there are several.",
)
@click.option("--controller", "process", flag_value="controller", help="Show the controller's own log.")
@click.option("--gateway", "process", flag_value="gateway", help="Show the gateway's own log.")
@output_option()
@click.pass_obj
def logs(settings: Settings, /, target: str | None, selector: Selector | None, **how: Any) -> int:
    """Print the output of a deployment's or a job's ranks, sorted by time.

    TARGET is a deployment (tiny, deployment/tiny), one of its replicas (tiny/0), a job (job/train), or a rank such as
    tiny.0.3.1 (deployment, replica, epoch, rank), which may have ended. With -l, the ranks of all deployments with these
    labels are shown. Lines of a deployment begin with their time.

    For a job, -f follows all attempts of the run, and ends with it.

    \b
    Examples:
      reconciler logs tiny
      reconciler logs deployment/tiny --rank 1 --tail 20
      reconciler logs tiny -f --since 5m
      reconciler logs -l tier=chat -f
      reconciler logs tiny --previous          the output of the group before
      reconciler logs tiny.0.3.1
      reconciler logs job/train -f
      reconciler logs job/train --run 3 --attempt 2 --rank 1
      reconciler logs --controller -f
    """
    if sum(each is not None for each in (target, selector, how["process"])) != 1:
        raise click.UsageError("expected one of: a deployment, a rank, -l SELECTOR, --controller, --gateway")
    if how["since"] is not None and how["since_time"] is not None:
        raise click.UsageError("--since and --since-time cannot be combined")
    wanted = Wanted(_since(how), how["tail"] if how["tail"] >= 0 else None)
    if how["process"] is not None:
        print_file(settings.home / "logs" / f"{how['process']}.log", wanted, how, Printer(how, False))
        return 0
    if target and is_job(target):
        from .run_logs import RunReading, RunTarget

        run = RunTarget.named(target, how)
        with LastingClient(settings.socket) as client:
            return RunReading(client, run, wanted).print(how)
    if how["run"] is not None or how["attempt"] is not None:
        raise click.UsageError("--run and --attempt need a job, such as job/train")
    from .rank_logs import RankReading, Target

    chosen = Target.named(target, how) if target else Target.labelled(_selected(settings, selector), how)
    with LastingClient(settings.socket) as client:
        RankReading(client, chosen, wanted).print(how)
    return 0


def _selected(settings: Settings, selector: Selector | None) -> tuple[str, ...]:
    """Return the deployments with these labels. Raises ``Refused`` if there are none."""
    with Client(settings.socket) as client:
        found = fetch(client, (Chosen(DEPLOYMENT),), selector).items
    if not found:
        raise Refused(
            "NotFound", f"no deployment has these labels; {listing('modeldeployments')} --show-labels"
        )
    return tuple(map(name_of, found))


def _since(how: dict[str, Any]) -> datetime:
    if how["since"] is None:
        return how["since_time"] or BEFORE_EVERYTHING
    if how["since"] <= 0:
        raise Invalid("--since must be a positive duration, such as 5m")
    return datetime.now(UTC) - timedelta(seconds=how["since"])
