"""The scripts that make launchd use a definition, or let go of it, whatever state the service is in. Pure.

Facts about ``launchctl``, from its manual and from public reports of macOS 13 to 26: ``bootout`` returns before the
service is gone, and until then ``bootstrap`` ends with 5 (Input/output error). It does so too while the service is
disabled, which ``enable`` undoes and a restart does not, and where a person does not allow it in the background.
``print`` ends with 113 once the service is gone.
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
    [ $? = 5 ] && [ $left -gt 1 ] || fail "launchd does not start $name: $words." \\
        "If a person has switched it off, allow it again under System Settings > General >" \\
        "Login Items & Extensions > Allow in the Background, then type: sudo launchctl bootstrap system $file"
    left=$((left - 1)); sleep 1
done
"""
"""It contains no apostrophe: a person pastes it between two of them."""


def load(launchctl: Sequence[str], name: str, path: str) -> tuple[str, ...]:
    """Return the command that makes launchd run the service ``name`` as ``path`` defines it, now and at every boot. It
    ends with an error that says why not, within ``GONE_SECONDS`` and ``ATTEMPTS_MAX`` seconds. ``launchctl`` is the
    command for that tool as root."""
    return ("/bin/sh", "-c", _UNLOAD + _LOAD, "load", name, path, *launchctl)


def unload(launchctl: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the command that ends when launchd has let go of the service ``name``, or with an error after
    ``GONE_SECONDS``."""
    return ("/bin/sh", "-c", _UNLOAD, "unload", name, "", *launchctl)
