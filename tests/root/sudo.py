"""A machine of its own for real sudo: its users, its sudoers, and a Mac's tools that write down who runs them how.

It is a mount namespace of Linux: nothing of it is seen outside, and nothing of it is left.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.needs import OWN_MOUNTS

USER, UID = "cluster", 64123
_SECONDS = 30.0
_TOOL = """#!/bin/sh
{{ printf '%s' "$(id -u)"; for word in "${{0##*/}}" "$@"; do printf '|%s' "$word"; done; echo; }} >> {log}
[ -z "$EVIL" ] || echo "evil $EVIL" >> {log}
"""
_ENTER = """
set -e; X=$1; shift
mount --bind /usr/bin "$X/real-bin"; mount --bind /usr/sbin "$X/real-sbin"
mount --bind "$X/bin" /usr/bin; mount --bind "$X/sbin" /usr/sbin
mount --bind "$X/passwd" /etc/passwd; mount --bind "$X/sudoers" /etc/sudoers
cd /
exec "$@"
"""


class SudoMachine:
    """One machine; ``lines`` are all of its sudoers but for root's."""

    def __init__(self, folder: Path, lines: tuple[str, ...]) -> None:
        self._folder = folder
        self.log = folder / "log"
        folder.chmod(0o755)
        for name in ("bin", "sbin"):
            (folder / f"real-{name}").mkdir()
            (folder / name).mkdir()
            for each in (Path("/usr") / name).iterdir():
                (folder / name / each.name).symlink_to(folder / f"real-{name}" / each.name)
        for path in (
            "bin/pmset",
            "bin/powermetrics",
            "bin/defaults",
            "sbin/ifconfig",
            "sbin/sysctl",
            "sbin/shutdown",
        ):
            self.tool(folder / path)
        (folder / "passwd").write_text(
            f"{Path('/etc/passwd').read_text()}{USER}:*:{UID}:{UID}::/tmp:/bin/sh\nmallory:*:{UID + 1}:{UID + 1}::/tmp:/bin/sh\n"
        )
        self.sudoers = folder / "sudoers"
        self.sudoers.write_text("root ALL=(ALL:ALL) ALL\n" + "".join(f"{line}\n" for line in lines))
        self.sudoers.chmod(0o440)

    def tool(self, path: Path) -> None:
        """Put a program there that writes down who runs it."""
        path.unlink(missing_ok=True)
        path.write_text(_TOOL.format(log=self.log))
        path.chmod(0o755)

    def checked(self) -> str:
        """What visudo says of the sudoers; empty if they are in order."""
        done = self._run("visudo", "-c", "-s", "-f", "/etc/sudoers")
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def says(self, *words: str) -> str:
        """What a command of the user prints."""
        return self._run(*self._as(UID), *words).stdout

    def runs(self, *words: str, user: int = UID, **environment: str) -> list[str]:
        """What root ran when a user asked sudo for this: ``0|tool|argument|…`` for each program."""
        self.log.write_text("")
        self.log.chmod(0o666)
        self._run(*self._as(user), "sudo", "-n", *words, **environment)
        return self.log.read_text().splitlines()

    def _as(self, user: int) -> tuple[str, ...]:
        return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--")

    def _run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*OWN_MOUNTS, "sh", "-c", _ENTER, "enter", str(self._folder), *words], capture_output=True, text=True, timeout=_SECONDS, check=False,
            env={"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C", **environment}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
