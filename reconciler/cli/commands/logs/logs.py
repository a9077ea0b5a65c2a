"""`logs`: what ranks, controller and gateway print."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.durations import Duration, Moment
from reconciler.cli.output.form import output_option
from reconciler.errors import Invalid

from .merge import BEFORE_EVERYTHING, Wanted
from .printer import Printer


@click.command()
@click.argument("target", required=False, shell_complete=complete.deployments)
@click.option("--replica", type=click.IntRange(0), metavar="N", help="Only of this replica.")
@click.option("--rank", type=click.IntRange(0), metavar="N", help="Only of this rank of each replica.")
@click.option("-p", "--previous", is_flag=True, help="Of the group before the current one.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing, also of the groups to come.")
@click.option("--tail", type=int, default=-1, metavar="N", help="Only the last N lines of each; -1: all.")
@click.option("--since", type=Duration(), metavar="5m", help="Only lines that are not older.")
@click.option("--since-time", type=Moment(), metavar="TIME", help="Only lines from this time on (RFC 3339).")
@click.option(
    "--prefix/--no-prefix", default=None, help="Whose line it is; said by itself where it may be several's."
)
@click.option("--controller", "process", flag_value="controller", help="The controller's own log.")
@click.option("--gateway", "process", flag_value="gateway", help="The gateway's own log.")
@output_option()
@click.pass_obj
def logs(settings: Settings, /, target: str | None, **how: Any) -> None:
    """Print what the ranks of a deployment print, in the order of time.

    TARGET is a deployment (tiny, deployment/tiny), one of its replicas (tiny/0), or a rank such as
    tiny.0.3.1 (deployment, replica, epoch, rank), also one that has ended. Lines begin with their time.

    \b
    Examples:
      reconciler logs tiny
      reconciler logs deployment/tiny --rank 1 --tail 20
      reconciler logs tiny -f --since 5m
      reconciler logs tiny --previous          what the last group said before it ended
      reconciler logs tiny.0.3.1
      reconciler logs --controller -f
    """
    if (target is None) == (how["process"] is None):
        raise click.UsageError("expected a deployment, a rank, --controller or --gateway")
    if how["since"] is not None and how["since_time"] is not None:
        raise click.UsageError("--since and --since-time exclude each other")
    wanted = Wanted(_since(how), how["tail"] if how["tail"] >= 0 else None)
    if how["process"] is not None:
        from .log_files import print_file

        print_file(settings.home / "logs" / f"{how['process']}.log", wanted, how, Printer(how, False))
        return
    from .rank_logs import Reading, Target

    assert target is not None
    reading = Reading(settings.socket, Target.named(target, how), wanted)
    try:
        reading.print(how)
    finally:
        reading.close()


def _since(how: dict[str, Any]) -> datetime:
    if how["since"] is None:
        return how["since_time"] or BEFORE_EVERYTHING
    if how["since"] <= 0:
        raise Invalid("--since is how long ago, such as 5m")
    return datetime.now(UTC) - timedelta(seconds=how["since"])
