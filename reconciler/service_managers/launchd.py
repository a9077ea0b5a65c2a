"""The scripts that make launchd use a definition, or let go of it, whatever state the service is in. Pure.

Facts about ``launchctl``, from its manual and from public reports of macOS 13 to 27: ``bootout`` returns before the
service is gone, and until then ``bootstrap`` ends with 5 (Input/output error), or with 37 (Operation already in
progress). It ends with 5 too while the service is disabled, which ``enable`` undoes and a restart does not, or not allowed
in the background. The same happens if its definition is missing, no property list, or open to changes by others than
root. ``print`` ends with 113 once the service is gone. A service that was loaded may have no process
although its definition says ``RunAtLoad``, until ``kickstart``.
"""

from __future__ import annotations

from collections.abc import Sequence

GONE_SECONDS = 30
"""launchd kills a service that does not end by itself after at most 20 s (launchd.plist(5), ``ExitTimeOut``)."""
ATTEMPTS_MAX = 10
"""Attempts of ``bootstrap``, one a second."""
_UNLOAD = f"""
name=$1 file=$2 left={GONE_SECONDS}; shift 2
fail() {{ printf "%s\\n" "$*" >&2; exit 1; }}
words=$("$@" bootout "system/$name" 2>&1)
until "$@" print "system/$name" > /dev/null 2>&1; [ $? = 113 ]; do
    [ $left -gt 0 ] || fail "launchd still has $name after {GONE_SECONDS} s${{words:+: $words}}." \\
        "Once it has ended, type this again."
    left=$((left - 1)); sleep 1
done
"""
_LOAD = f"""\
"$@" enable "system/$name" || exit
left={ATTEMPTS_MAX}
until words=$("$@" bootstrap system "$file" 2>&1); do
    case $? in 5|37) left=$((left - 1));; *) left=0;; esac
    "$@" print "system/$name" > /dev/null 2>&1 && break
    [ $left -gt 0 ] || fail "launchd does not start $name: $words. If $file is there, a person may have switched" \\
        "it off: allow it again under System Settings > General > Login Items & Extensions >" \\
        "Allow in the Background, then type this again."
    sleep 1
done
"$@" kickstart "system/$name" > /dev/null 2>&1 || :
"""
"""It contains no apostrophe: a person pastes it between two of them."""
HELD_BACK = r"""
held_back() {
    case $(launchctl print-disabled system 2>/dev/null) in
    *"\"$1\" => disabled"*|*"\"$1\" => true"*) return 0;;
    esac
    [ -e "$2" ] && [ -z "$(find "$2" -prune -user 0 ! -perm -020 ! -perm -002 2>/dev/null)" ]
}
"""
"""A function of ``sh`` that says if the next boot does not load the service ``$1`` that ``$2`` defines, although launchd may
have it now: it is disabled (``true`` before macOS 13), or others than root may change its definition. It needs no root, and
does not know of a service that a person does not allow in the background."""
_LOADED = 'launchctl print "system/$1" > /dev/null 2>&1 && ! held_back "$1" "$2"'


def load(launchctl: Sequence[str], name: str, path: str) -> tuple[str, ...]:
    """Return the command that makes launchd run the service ``name`` as ``path`` defines it, now and at every boot. It
    ends with an error that says why not, within ``GONE_SECONDS`` and ``ATTEMPTS_MAX`` seconds. ``launchctl`` is the
    command for that tool as root."""
    return ("/bin/sh", "-c", _UNLOAD + _LOAD, "load", name, path, *launchctl)


def loaded(name: str, path: str) -> tuple[str, ...]:
    """Return the command that ends with 0 if launchd has the service ``name`` now and after the next boot."""
    return ("/bin/sh", "-c", HELD_BACK + _LOADED, "loaded", name, path)


def unload(launchctl: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the command that ends when launchd has let go of the service ``name``, or with an error after
    ``GONE_SECONDS``."""
    return ("/bin/sh", "-c", _UNLOAD, "unload", name, "", *launchctl)
