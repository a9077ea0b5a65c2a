"""Commands in texts for people, ready to type: for the same cluster as the command that prints them.

Findings, refusals and hints name commands without a cluster, because the code that writes them knows none. Somebody who chose
a cluster with an option would type them for another one.
"""

from __future__ import annotations

import re
import shlex

import click

WITHOUT_CLUSTER = ("context", "config", "help", "completion", "rehearse", "ci")
"""Commands that need no cluster, and work even if the contexts cannot be read."""
COMMAND = re.compile(
    r"(?:(?<=[`'(])|(?<=: )|(?<=\| )|\b(?:or|with|type|run|use|and|by|until|begin with) )\s*reconciler (?=[a-z])"
)
"""The beginning of a command to type, in contrast to a sentence about the product."""
_OF_NO_CLUSTER = re.compile(rf"(?:{'|'.join(WITHOUT_CLUSTER)})\b")


def typed(text: str, context: click.Context | None = None) -> str:
    """Return a text whose commands have the `--home` or `--context` of this command, or of the command of ``context``.

    Those of the environment, and the current context, apply to the next command as well.
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
