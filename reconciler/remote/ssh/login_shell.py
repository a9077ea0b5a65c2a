"""Passes commands to a machine unchanged, whatever its login shell and the shell's start-up files.

An SSH server hands a command to the login shell (sshd(8), LOGIN PROCESS), which parses the line by its own rules, after
start-up files that may print, set and read. So the command travels as one word of base64, and marks the beginning of
its own text on both outputs.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence

OUT_MARK = b"reconciler-out "
"""Begins a line on the standard output. The path of the login shell follows, and after the line the command's own
output."""
ERR_MARK = b"reconciler-err\n"
REMEDY = "chsh -s /bin/sh"
_BEGIN = """
cd 2>/dev/null; umask 022; unset ENV BASH_ENV CDPATH
printf '\\n%s' 'ERR' >&2; printf '\\n%s%s\\n' 'OUT' "$SHELL"
exec /usr/bin/env LC_ALL=C """.replace("ERR", ERR_MARK.decode()).replace("OUT", OUT_MARK.decode())
_UNPACK = (
    "PATH=${PATH:+$PATH:}/usr/bin:/bin:/usr/sbin:/sbin; export PATH;"
    ' eval "$(printf %s "$0" | base64 --decode)"'
)
"""It has no quote, backslash, newline or exclamation mark, because tcsh or fish interpret these between single
quotes."""


class ShellFailed(Exception):
    """A login shell did not reach the command, or a start-up file waits for the command's input."""

    def __init__(self, problem: str, shell: str = "") -> None:
        super().__init__(
            f"the login shell{shell and f' {shell}'} {problem}; let its start-up files end at once where there is no"
            f" terminal, or choose another shell there: {REMEDY}"
        )


def command_line(argv: Sequence[str]) -> str:
    """Return the line that makes sh, bash, zsh, fish or tcsh run a command, with ``LC_ALL=C``, in the user's home.

    It is shorter than 128 KiB for 64 KiB of arguments: Linux takes no longer word (``MAX_ARG_STRLEN`` in execve(2)).
    """
    script = _BEGIN + shlex.join(argv)
    return f"exec /bin/sh -c '{_UNPACK}' {base64.b64encode(script.encode()).decode()}"


class Output:
    """One output stream of an SSH session. The part after the mark is the command's."""

    KEPT_BYTES = 1000
    """The bytes before the mark that are kept: enough to quote."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self.begun = False
        self.data = bytearray()
        """The command's output once ``begun``; before, the last output of the shell."""
        self.rest_of_mark = ""
        """The rest of the mark's line."""

    def feed(self, chunk: bytes) -> None:
        self.data += chunk
        if self.begun:
            return
        found = self.data.find(b"\n" + self._mark)
        end = self.data.find(b"\n", found + len(self._mark)) if found >= 0 else -1
        if end >= 0:
            self.rest_of_mark = self.data[found + 1 + len(self._mark) : end].decode("utf-8", "replace")
            self.begun = True
            del self.data[: end + 1]
        elif found < 0:
            del self.data[: -self.KEPT_BYTES]
