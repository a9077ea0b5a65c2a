"""Runs a script of ``sh`` where functions stand for the tools: each call of one is answered here, so that time is a number
and anything may happen between two calls."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

TOOLS = ("launchctl", "kill", "sleep")
_BEGINNING = """
exec 3>&1 4<&0 >/dev/null </dev/null
ask() {
    printf "%s\\n" "$*" >&3
    IFS=" " read -r answered said <&4 || exit 99
    [ -z "$said" ] || printf "%s\\n" "$said" >&2
    return "$answered"
}
sudo() { [ "$1" != -n ] || shift; "$@"; }
""" + "".join(f'{tool}() {{ ask {tool} "$@"; }}\n' for tool in TOOLS)

Answer = Callable[[list[str]], tuple[int, str]]
"""From the words of a call to its exit status and the line that it prints as its error."""


def run(command: Sequence[str], answer: Answer) -> tuple[int, str]:
    """The exit status of a command ``/bin/sh -c SCRIPT WORDS…``, and its error output. If ``answer`` raises, the script
    ends there."""
    shell, option, script, *words = command
    pipe = subprocess.PIPE
    with subprocess.Popen(
        (shell, option, _BEGINNING + script, *words), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stdout:
                status, said = answer(line.split())
                process.stdin.write(f"{status} {said}\n")
                process.stdin.flush()
        except BaseException:
            process.kill()
            raise
        return process.wait(60), process.stderr.read()
