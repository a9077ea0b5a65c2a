"""Compares the rights that sudo gives a machine's user with the needed ones. Pure but for the question, which runs
there.

Only the answers for single commands count (``sudo -l COMMAND``), never the text of a sudoers file, which only root can read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.hardening import sudoers
from reconciler.planning.nodes.root_commands import LINK_LOCAL_WORD, RootCommand, RootCommands
from reconciler.wire.repair import PATHS

from .profile import MARK, pairs

SAMPLE_ADDRESS = "169.254.31.200"
TOO_MUCH = (
    ("powermetrics", "-n", "1", "-o", "/var/root/reconciler"),
    ("ifconfig", "bridge0", "deletem", "en0"),
    ("ifconfig", "en0", "inet", "192.0.2.1", "delete"),
    ("ifconfig", "en0", "inet", "192.0.2.1", "netmask", "255.255.255.252"),
    ("sysctl", "iogpu.wired_limit_mb=1"),
    ("pmset", "-a", "sleep", "7", "disksleep", "7"),
)
"""Commands that no machine needs, but that lines with free arguments allow: the first can overwrite any file."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The commands that a user may run as root without a password, compared with the needed ones."""

    needed: RootCommands
    refused: tuple[RootCommand, ...] = ()
    """Needed commands that are not allowed."""
    excess: tuple[str, ...] = ()
    """Allowed commands that must not be, as they would be typed."""
    jobs_refused: bool = False
    """True if the user may not run programs as the user of jobs."""


def question(needed: RootCommands) -> tuple[str, ...]:
    """Return the command that asks sudo for each command; it runs none of them."""
    tried = [_shown(each) for each in needed.commands] + list(TOO_MUCH)
    lines = [
        f"[ -x {path} ] && sudo -n -l {shlex.join((path, *words))} >/dev/null 2>&1 && echo {MARK} allows {number}"
        for number, (tool, *words) in enumerate(tried)
        for path in PATHS[tool]
    ]
    if needed.jobs_user:
        asked = f"sudo -n -l -u {shlex.quote(needed.jobs_user)} /bin/sh >/dev/null 2>&1"
        lines.append(f"{asked} && echo {MARK} allows {len(tried)}")
    return ("/bin/sh", "-c", "\n".join(("PATH=$PATH:/usr/bin:/bin", *lines, ":")), "rights")


def answer(needed: RootCommands, text: str) -> Rights:
    allowed = {int(number) for word, number in pairs(text) if word == "allows" and number.isdecimal()}
    first = len(needed.commands)
    refused = tuple(each for number, each in enumerate(needed.commands) if number not in allowed)
    excess = tuple(" ".join(argv) for number, argv in enumerate(TOO_MUCH, first) if number in allowed)
    jobs_refused = bool(needed.jobs_user) and first + len(TOO_MUCH) not in allowed
    return Rights(needed, refused, excess, jobs_refused)


def lines(user: str, rights: Rights) -> tuple[str, ...]:
    """Return all lines that the file should have; none if no line can have the user's name."""
    try:
        jobs_user = rights.needed.jobs_user
        for_jobs = (sudoers.jobs_line(user, jobs_user),) if jobs_user else ()
        return (*sudoers.lines(user, rights.needed.commands), *for_jobs)
    except ValueError:
        return ()


def texts(user: str, rights: Rights) -> Iterator[str]:
    """Yield the faults, for people; nothing if sudo allows exactly the needed commands."""
    if rights.jobs_refused:
        yield f"sudo does not allow {user} to run the programs of jobs as {rights.needed.jobs_user}"
    if rights.refused and not lines(user, rights):
        yield f"no sudoers line can name the user {user!r}: have another user run the agent"
    elif rights.refused:
        why = ", ".join(dict.fromkeys(each.why for each in rights.refused))
        yield f"sudo does not allow {user} what these need: {why}"
    if rights.excess:
        yield f"sudo allows {user} more than is needed, such as: {'; '.join(rights.excess)}"
    for text in rights.needed.unknown:
        yield f"{text}: what sudo should allow for it is printed once that is known"


def _shown(command: RootCommand) -> Sequence[str]:
    return [SAMPLE_ADDRESS if word == LINK_LOCAL_WORD else word for word in command.argv]
