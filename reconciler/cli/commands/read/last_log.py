"""Shows, for `describe`, the last lines of the rank to blame of each group that ended and was not replaced."""

from __future__ import annotations

from reconciler.cli.core.client import Client
from reconciler.cli.output.streams import shown
from reconciler.errors import Refused
from reconciler.wire import objects
from reconciler.wire.admin import ReadRankLog
from reconciler.wire.launch import RankId

LINES_SHOWN = 20
LINE_CHARACTERS_MAX = 400
BYTES_MAX = 32 * 1024
GROUPS_SHOWN = 4


class LastLog(objects.FailedRank):
    """The last lines of a rank's output."""

    lines: list[str]
    problem: str
    """Why there are none."""
    command: str
    """The command that prints the whole output."""


def last_logs(client: Client, item: objects.Item) -> list[LastLog]:
    """Return the last lines of each such rank, if its node still has them."""
    groups = item["status"].get("groups") or [] if item["kind"] == "ModelDeployment" else []
    return [_last_lines(client, group["failed"]) for group in groups if "failed" in group][:GROUPS_SHOWN]


def _last_lines(client: Client, failed: objects.FailedRank) -> LastLog:
    command = f"reconciler logs {failed['rank']}"
    found: LastLog = {**failed, "lines": [], "problem": "", "command": command}
    try:
        text = client.ask(ReadRankLog(RankId.parse(failed["rank"]), BYTES_MAX))["text"]
    except Refused as refused:
        return {**found, "problem": str(refused)}
    lines = [line.rstrip("\r") for line in text.rstrip("\n").split("\n")][-LINES_SHOWN:]
    return {**found, "lines": [line[:LINE_CHARACTERS_MAX] for line in lines if text]}


def section(logs: list[LastLog]) -> list[str]:
    """Return the lines to print."""
    found = []
    for log in logs:
        found += [f"Last log of {log['rank']} on {log['node']}: {log['text']}"]
        found += [f"  {shown(line)}" for line in log["lines"]] or [f"  {log['problem'] or '<no output>'}"]
        found += [f"  (full log: {log['command']})"]
    return found
