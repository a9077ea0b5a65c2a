"""Commands in texts for people, as they are to be typed: for the cluster that the command which prints them was for.

Findings, refusals and hints name commands without a cluster, because whoever writes them knows none. Somebody who chose a
cluster by an option would type them for another one.
"""

from __future__ import annotations

import re
import shlex

import click

WITHOUT_CLUSTER = ("context", "config", "help", "completion", "rehearse", "ci")
"""Commands that are for no cluster, and work where the contexts cannot be read."""
COMMAND = re.compile(
    r"(?:(?<=[`'(])|(?<=: )|(?<=\| )|\b(?:or|with|type|run|use|and|by|until|begin with) )\s*reconciler (?=[a-z])"
)
"""Where a command to type begins, and not a sentence about the product."""
_OF_NO_CLUSTER = re.compile(rf"(?:{'|'.join(WITHOUT_CLUSTER)})\b")


def typed(text: str, context: click.Context | None = None) -> str:
    """Return a text whose commands have the `--home` or `--context` that this command, or that of ``context``, was given.

    Those of the environment, and the current context, are in force for the next command as well.
    """
    here = context or click.get_current_context(silent=True)
    if here is None or "reconciler " not in text:
        return text
    given = here.find_root().params
    option, value = ("--home", given.get("home")) if given.get("home") else ("--context", given.get("chosen"))
    if not value:
        return text
    chosen = f"{option} {shlex.quote(str(value))} "
    return COMMAND.sub(
        lambda found: found[0] + ("" if _OF_NO_CLUSTER.match(text, found.end()) else chosen), text
    )
