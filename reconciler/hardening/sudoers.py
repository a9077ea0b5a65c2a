"""Writes sudoers lines, each of which allows one command with exactly these arguments (sudoers(5)). Pure.

A list of arguments without wildcards matches only the same words. One line cannot be exact, because macOS chooses its
address: it is a regular expression for all arguments, which sudo supports from 1.9.10 on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reconciler.planning.nodes.root_commands import LINK_LOCAL_WORD, RootCommand
from reconciler.wire.repair import LINK_LOCAL, PATHS

FILE = "/etc/sudoers.d/reconciler"
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.$-]*(?:\\[A-Za-z0-9_.$-]+)?")
"""Names that mean exactly one user: no group (``%``), no id (``#``), no list, no quotation mark."""
_SPECIAL = re.compile(r"([\\,:=!()*?\[\]\"#])")
"""Characters with a special meaning in an argument, unless a backslash is before them."""


def lines(user: str, commands: Sequence[RootCommand]) -> tuple[str, ...]:
    """Return the lines of a user. Raises ``ValueError`` for a name that could mean other users."""
    if not _USER.fullmatch(user) or user == "ALL":
        raise ValueError(
            f"the user name {user!r} cannot stand in a sudoers line: use another user for the agent"
        )
    who = user.replace("\\", "\\\\")
    return tuple(f"{who} ALL=(root) NOPASSWD: {what}" for each in commands for what in allowed(each))


def jobs_line(user: str, jobs_user: str) -> str:
    """Return the line with which a user may run programs of jobs as ``jobs_user``. Raises as ``lines``; for root too."""
    for name in (user, jobs_user):
        if not _USER.fullmatch(name) or name == "ALL":
            raise ValueError(f"the user name {name!r} cannot stand in a sudoers line: use another user")
    if jobs_user == "root":
        raise ValueError("jobs do not run as root: name a user without rights in spec.jobs.allow.user")
    who, other = (name.replace("\\", "\\\\") for name in (user, jobs_user))
    return f"{who} ALL=({other}) NOPASSWD: ALL"


def allowed(command: RootCommand) -> Iterator[str]:
    """Yield the part of a line that names a command, for each possible path of its tool."""
    tool, *words = command.argv
    for path in PATHS[tool]:
        yield f"{path} {_expression(words) if LINK_LOCAL_WORD in words else ' '.join(map(_escaped, words))}"


def _expression(words: Sequence[str]) -> str:
    parts = (LINK_LOCAL if word == LINK_LOCAL_WORD else re.escape(word) for word in words)
    return f"^{' '.join(parts)}$"


def _escaped(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)
