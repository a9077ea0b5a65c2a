"""What a machine is found to be, before anything of ours runs there: its system, its user, a Python for the agent.

One script of plain ``sh`` asks; nothing is installed or changed. On a Mac without the Command Line Tools
``/usr/bin/python3`` is a stub that opens a dialog: it is not touched unless ``xcode-select -p`` names a folder.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from reconciler.errors import Unreachable

MARK = "reconciler-profile"
"""Begins every line of the answer: what a login shell prints by itself is none of it."""

_SCRIPT = """
home=$(cd && pwd -P); PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin; export PATH
system=$(uname -s)
say() { printf '%s %s %s\\n' MARK "$1" "$2"; }
usable() {
    [ -x "$1" ] || return 1
    real=$(readlink -f "$1" 2>/dev/null) || real=$1
    if [ "$system" = Darwin ] && [ "$real" = /usr/bin/python3 ]; then
        tools=$(xcode-select -p 2>/dev/null) && [ -d "$tools" ] || return 1
    fi
    "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' </dev/null >/dev/null 2>&1
}
first() { for one; do if usable "$one"; then say python "$one"; return; fi; done; }
say home "$home"
say system "$system"
say machine "$(uname -m)"
say user "$(id -un)"
say uid "$(id -u)"
say hostname "$(uname -n)"
tools=$(command -v sw_vers) && tools=${tools%/*} && case $tools in
/usr/bin|/usr/sbin|/bin|/sbin) ;; /*) [ -x "$tools/sysctl" ] && [ -x "$tools/uname" ] && say tools "$tools";; esac
set -- "$@" "$home"/.reconciler/runtimes/*/bin/python3 /opt/homebrew/bin/python3 /usr/local/bin/python3 \\
    /Library/Frameworks/Python.framework/Versions/Current/bin/python3 "$home/.local/bin/python3"
for version in 14 13 12 11 10 9; do
    found=$(command -v "python3.$version") && set -- "$@" "$found"
done
found=$(command -v python3) && set -- "$@" "$found"
first "$@" /usr/bin/python3
""".replace("MARK", MARK)


@dataclass(frozen=True, slots=True)
class Profile:
    """One machine, as the user sees it who logs in there."""

    home: PurePosixPath
    system: str
    """``uname -s``."""
    machine: str
    """``uname -m``."""
    user: str
    uid: int
    hostname: str
    python: str = ""
    """The first interpreter of 3.9 or newer; empty where there is none."""
    ranks_python: str = ""
    """That of a managed runtime; empty where there is none."""
    tools: str = ""
    """Folder of a Mac's own tools; empty where they are in the system's folders, or there are none."""

    @property
    def kind(self) -> str:
        """As the platforms of runtimes are called."""
        return f"{self.system}/{self.machine}"

    @property
    def root(self) -> PurePosixPath:
        """Everything of ours is under it."""
        return self.home / ".reconciler"


def question(python: str | None) -> tuple[str, ...]:
    """The command that asks; ``python`` is looked at first."""
    return ("/bin/sh", "-c", _SCRIPT, "profile", *([python] if python else []))


def answer(text: str) -> Profile:
    """What was answered. Raises ``Unreachable`` where it is no answer."""
    said = dict(pairs(text))
    try:
        return Profile(
            home=PurePosixPath(said["home"]),
            system=said["system"],
            machine=said["machine"],
            user=said["user"],
            uid=int(said["uid"]),
            hostname=said["hostname"],
            python=said.get("python", ""),
            tools=said.get("tools", ""),
        )
    except (KeyError, ValueError):
        raise Unreachable(
            f"its shell cannot run a plain sh script: it printed {shlex.quote(text[-200:])}"
        ) from None


def none(found: Profile, node: str, named: str | None, coming: bool) -> str:
    """That a machine has no Python, and what to do about it.

    ``named``: the owner's, of its manifest; ``coming``: whether a managed runtime can be built there.
    """
    told = f"there is no Python 3.9 or newer on {node} for user {found.user}"
    if found.system == "Darwin":
        told += " (/usr/bin/python3 needs the Command Line Tools)"
    if named:
        return f"{told}, and {named} in spec.python is not one either: correct or remove it"
    if coming:
        return f"{told}: its runtime, which is being built, includes one; see RuntimeReady for the progress"
    return f"{told}, and there is no runtime for {found.kind}: install Python, or set it in spec.python"


def pairs(text: str) -> list[tuple[str, str]]:
    """What was said, in order: a word and the rest of its line."""
    words = [line.split(" ", 2) for line in text.splitlines()]
    return [(each[1], each[2]) for each in words if len(each) == 3 and each[0] == MARK]
