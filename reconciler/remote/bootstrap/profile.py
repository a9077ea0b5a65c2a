"""Determines a machine's system, user and Python, before anything is installed there.

Runs one script of plain ``sh``, which changes nothing. On a Mac without the Command Line Tools ``/usr/bin/python3`` is
a stub that opens a dialog: it is not run unless ``xcode-select -p`` names a folder.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from reconciler.errors import Unreachable

MARK = "reconciler-profile"
"""Prefix of every line of the answer: tools that are run may print other text."""

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
say shell "$SHELL"
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
    """One machine, as its user sees it."""

    home: PurePosixPath
    system: str
    """``uname -s``."""
    machine: str
    """``uname -m``."""
    user: str
    uid: int
    hostname: str
    python: str = ""
    """The first interpreter of at least 3.9; empty if there is none."""
    ranks_python: str = ""
    """The interpreter of a managed runtime; empty if there is none."""
    login_shell: str = ""
    """Path of the user's login shell."""
    tools: str = ""
    """Folder of a Mac's own tools; empty if they are in the system's folders, or there are none."""

    @property
    def kind(self) -> str:
        """Return the name of the platform, as runtimes use it."""
        return f"{self.system}/{self.machine}"

    @property
    def root(self) -> PurePosixPath:
        """Return the folder that contains all files of the reconciler."""
        return self.home / ".reconciler"


def question(python: str | None) -> tuple[str, ...]:
    """Return the command that prints the profile; ``python`` is tried first."""
    return ("/bin/sh", "-c", _SCRIPT, "profile", *([python] if python else []))


def answer(text: str) -> Profile:
    """Parse the answer. Raises ``Unreachable`` for any other text."""
    values = dict(pairs(text))
    try:
        return Profile(
            home=PurePosixPath(values["home"]),
            system=values["system"],
            machine=values["machine"],
            user=values["user"],
            uid=int(values["uid"]),
            hostname=values["hostname"],
            python=values.get("python", ""),
            login_shell=values.get("shell", ""),
            tools=values.get("tools", ""),
        )
    except (KeyError, ValueError):
        raise Unreachable(
            f"its shell cannot run a plain sh script: it printed {shlex.quote(text[-200:])}"
        ) from None


def none(found: Profile, node: str, named: str | None, coming: bool) -> str:
    """Return the message that a machine has no Python, with the remedy.

    ``named``: the interpreter in its manifest. ``coming``: whether a managed runtime can be built there.
    """
    text = f"there is no Python 3.9 or newer on {node} for user {found.user}"
    if found.system == "Darwin":
        text += " (/usr/bin/python3 needs the Command Line Tools)"
    if named:
        return f"{text}, and {named} in spec.python is not one either: correct or remove it"
    if coming:
        return f"{text}: its runtime, which is being built, includes one; see RuntimeReady for the progress"
    return f"{text}, and there is no runtime for {found.kind}: install Python, or set it in spec.python"


def pairs(text: str) -> list[tuple[str, str]]:
    """Return the words of the answer in order, each with the rest of its line."""
    words = [line.split(" ", 2) for line in text.splitlines()]
    return [(each[1], each[2]) for each in words if len(each) == 3 and each[0] == MARK]
