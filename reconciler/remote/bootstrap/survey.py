"""Finds a machine's means to keep an agent running, and the installed parts, with one script of plain ``sh``.

Changes nothing. Tools are looked up on the user's ``PATH`` and in the system's folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.errors import Unreachable
from reconciler.service_managers.definitions import Keeper
from reconciler.service_managers.launchd import HELD_BACK

from .profile import MARK, Profile, pairs
from .service import node_folder, service_name

_SCRIPT = """
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin; export PATH
say() { printf '%s %s %s\\n' MARK "$1" "$2"; }
lines() {
    if [ -r "$2" ]; then while IFS= read -r line || [ -n "$line" ]; do say "$1" "$line"; done < "$2"
    elif [ -e "$2" ]; then say "$1" ''; fi
}
name=$1 folder=$2 system=$3 uid=$4 tab=$(printf '\\t')
for tool in sudo install rm launchctl systemctl; do found=$(command -v "$tool") && say "tool-$tool" "$found"; done
rights=
if [ "$uid" = 0 ]; then rights=root; elif sudo -n true 2>/dev/null; then rights=sudo; fi
say rights "$rights"
HELD_BACK
unit() {
    shown=$("$@" show --property=FragmentPath,MainPID,UnitFileState "$name.service" 2>/dev/null)
    file=$(printf '%s\\n' "$shown" | sed -n 's/^FragmentPath=//p'); [ -n "$file" ]
}
of_user() { XDG_RUNTIME_DIR=/run/user/$uid "$@"; }
if [ "$system" = Darwin ]; then
    say keeper launchd
    file=/Library/LaunchDaemons/$name.plist
    if shown=$(launchctl print "system/$name" 2>/dev/null); then
        loaded=$(printf '%s\\n' "$shown" | sed -n "s/^${tab}path = //p"); file=${loaded:-$file}; say loaded yes
        say pid "$(printf '%s\\n' "$shown" | sed -n "s/^${tab}pid = //p")"
    fi
    if held_back "$name" "$file"; then say boot no; fi
    lines definition "$file"
    say macos "$(sw_vers -productVersion 2>/dev/null)"; say rdma "$(rdma_ctl status 2>/dev/null)"
    say filevault "$(fdesetup status 2>/dev/null | head -n 1)"
    power=$(pmset -g custom 2>/dev/null | sed -n '/^AC Power/,/^[^ ]*Battery/p')
    say sleep "$(printf '%s\\n' "$power" | sed -n 's/^ sleep  *\\([0-9]*\\).*/\\1/p')"
    say autorestart "$(printf '%s\\n' "$power" | sed -n 's/^ autorestart  *\\([0-9]*\\).*/\\1/p')"
else
    case $(systemctl is-system-running 2>/dev/null) in
    initializing|starting|running|degraded|maintenance)
        lingers=$(loginctl show-user "$uid" --property=Linger --value 2>/dev/null)
        if unit systemctl; then say keeper systemd
        elif [ "$lingers" = yes ] && unit of_user systemctl --user; then say keeper 'systemd of the user'
        elif [ "$lingers" != yes ] || [ -n "$rights" ]; then say keeper systemd
        else say keeper 'systemd of the user'; fi
        case $shown in *UnitFileState=enabled*) say loaded yes;; esac
        say pid "$(printf '%s\\n' "$shown" | sed -n 's/^MainPID=//p')"; lines definition "$file";;
    *) say keeper nothing;;
    esac
fi
lines script "$folder/serve"
for draft in "$folder/$name.plist" "$folder/$name.service"; do lines draft "$draft"; done
held=$(cat "$folder/agent.lock" 2>/dev/null) && kill -0 "$held" 2>/dev/null && say agent "$held"
:
""".replace("MARK", MARK).replace("HELD_BACK", HELD_BACK)

MAC_FACTS = ("macos", "rdma", "filevault", "sleep", "autorestart")
"""Facts about a Mac that neither manifests nor services can change."""


@dataclass(frozen=True, slots=True)
class Survey:
    """One machine and the service of one node on it."""

    keeper: Keeper
    """The service manager that would keep the agent running once an administrator has installed the service."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """Absolute paths of ``sudo``, ``install``, ``rm``, ``launchctl``, ``systemctl``."""
    administrator: str = ""
    """The way to act as root: ``root`` itself, or ``sudo`` without a password; empty if neither is possible."""
    definition: str | None = None
    """Content of the service's definition; an empty line if its user may not read it, None if there is none."""
    draft: str | None = None
    """Draft of the definition, for installation in the system."""
    loaded: bool = False
    """True if the service manager has it; systemd also starts it at every boot."""
    at_boot: bool = True
    """False if launchd will not load it at the next boot (``HELD_BACK``)."""
    pid: int = 0
    """Pid of the service's process; 0 if it is not running."""
    script: str | None = None
    """Content of the script that the service runs; None if no agent should run."""
    agent: int = 0
    """Pid of the agent that serves the node, however it was started; 0 if there is none."""
    mac_facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about a Mac: ``macos``, ``rdma``, ``filevault``, ``sleep``, ``autorestart``; empty if its tools do not
    report them."""


def question(found: Profile, node: str) -> tuple[str, ...]:
    words = (service_name(found.user, node), node_folder(found, node), found.system, found.uid)
    return ("/bin/sh", "-c", _SCRIPT, "survey", *(str(word) for word in words))


def answer(text: str) -> Survey:
    """Parse the answer. Raises ``Unreachable`` for any other text."""
    answers = pairs(text)
    values = dict(answers)
    try:
        keeper = Keeper(values["keeper"])
    except (KeyError, ValueError):
        raise Unreachable(f"its shell cannot run a plain sh script: it printed {text[-200:]!r}") from None
    return Survey(
        keeper=keeper,
        tools={word.removeprefix("tool-"): path for word, path in answers if word.startswith("tool-")},
        administrator=values.get("rights", ""),
        definition=_content(answers, "definition"),
        draft=_content(answers, "draft"),
        loaded="loaded" in values,
        at_boot="boot" not in values,
        pid=_number(values, "pid"),
        script=_content(answers, "script"),
        agent=_number(values, "agent"),
        mac_facts={word: values[word] for word in MAC_FACTS if values.get(word)},
    )


def _content(answers: list[tuple[str, str]], word: str) -> str | None:
    lines = [f"{line}\n" for each, line in answers if each == word]
    return "".join(lines) or None


def _number(values: Mapping[str, str], word: str) -> int:
    digits = values.get(word, "")
    return int(digits) if digits.isdigit() else 0
