"""A machine shaped at its edge like a Mac, or like a Linux with systemd: tools on its user's ``PATH`` that keep their
state in a folder, and start what they are told to. Emulated: that systemd does what its manual says, and launchd what
the emulated Macs' does (``reconciler.sandbox.world.launchd``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

_TOOLS = Path(__file__).with_name("shaped_tools.py")
MAC = (
    "uname",
    "sw_vers",
    "launchctl",
    "find",
    "chown",
    "chmod",
    "install",
    "rm",
    "tee",
    "xcode-select",
    "pmset",
    "fdesetup",
    "rdma_ctl",
)
LINUX = ("systemctl", "loginctl", "chown", "chmod", "install", "rm", "tee")


class Shape:
    """The tools of one machine; ``folder/root`` stands for ``/`` where they write."""

    def __init__(self, folder: Path, tools: tuple[str, ...], sudo: bool = True) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.root = folder / "root"
        self.bin.mkdir(parents=True)
        for tool in (*tools, "sudo", "id"):
            self._script(tool)
        (folder / "sudo").write_text("yes" if sudo else "no")

    def _script(self, tool: str) -> None:
        path = self.bin / tool
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {_TOOLS} {tool} {self.folder} "$@"\n')
        path.chmod(0o755)

    @property
    def path(self) -> str:
        """Of the user who logs in there."""
        return f"{self.bin}:/usr/bin:/bin"

    def changes(self) -> list[str]:
        """Every command that changed something, in order."""
        log = self.folder / "asked"
        return log.read_text().splitlines() if log.exists() else []

    def pids(self) -> list[int]:
        """Processes that the service manager has started, of which it watches each."""
        return [int(each.read_text()) for each in sorted(self.folder.glob("watch-*")) if each.read_text()]

    def boot(self) -> None:
        """All that runs ends, and the service manager starts what is to be started at boot."""
        self.stop()
        for tool in ("launchctl", "systemctl"):
            if (self.bin / tool).exists():
                os.spawnv(os.P_WAIT, str(self.bin / tool), [tool, "boot"])

    def launchctl(self, *words: str) -> int:
        """A person types this there; its exit status."""
        return os.spawnv(os.P_WAIT, str(self.bin / "launchctl"), ["launchctl", *words])

    def stop(self) -> None:
        """End the watchers, and what they have started."""
        for each in (*self.folder.glob("watcher-*"), *self.folder.glob("watch-*")):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(each.read_text()), signal.SIGKILL)
            each.unlink(missing_ok=True)
