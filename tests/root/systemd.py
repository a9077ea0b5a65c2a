"""A real systemd of a user, with nothing but one folder to write to: as root on Linux, in namespaces of its own.

It has its own processes, network, control groups and mounts; all of the file system but the folder is read-only there, so
that no unit of the system can change anything of this machine.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MANAGER = "/lib/systemd/systemd"
START_SECONDS = 30.0
_BOOT = """
set -eu
folder=$1
mount --make-rprivate /
mount --bind "$folder" "$folder"
mount -o remount,bind,ro /
if touch /tmp/.written 2>/dev/null; then echo 'the file system can be written: nothing is started' >&2; exit 3; fi
mount -t tmpfs none /run
mkdir -p /run/systemd/system
mount -t tmpfs none /sys/fs/cgroup
if grep -qw cgroup /proc/filesystems && mkdir /sys/fs/cgroup/systemd \
    && mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd; then :; else
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
ip link set lo up
env -i HOME="$folder/home" XDG_RUNTIME_DIR="$folder/run" TMPDIR="$folder/tmp" PATH=/usr/bin:/bin:/usr/sbin:/sbin \
    MANAGER --user --log-target=null &
echo started
wait
""".replace("MANAGER", MANAGER)


@dataclass
class UserManager:
    """A running systemd of a user."""

    folder: Path
    init: int
    """Pid of the first process in there; all others end with it."""

    def command(self, words: tuple[str | Path, ...], environment: dict[str, str]) -> list[str]:
        """Return a command that runs in there, as the user."""
        values = {
            **environment,
            "HOME": str(self.folder / "home"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "TMPDIR": str(self.folder / "tmp"),
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        }
        enter = ["nsenter", "-t", str(self.init), "-m", "-p", "-n", "-C", "env", "-i"]
        return [*enter, *(f"{name}={value}" for name, value in values.items()), *map(str, words)]

    def run(self, *words: str | Path, environment: dict[str, str], seconds: float = 120.0) -> str:
        """Run a command in there, and return its output."""
        done = subprocess.run(
            self.command(words, environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def user_manager(folder: Path) -> Iterator[UserManager]:
    """Boot one, whose processes all end with it, as those of a machine that is switched off."""
    for name in ("home", "run", "tmp"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    shutil.rmtree(folder / "run" / "systemd", ignore_errors=True)
    command = ["unshare", "--fork", "--pid", "--mount", "--cgroup", "--net", "--mount-proc", "--kill-child"]
    boot = subprocess.Popen(
        [*command, "sh", "-c", _BOOT, "boot", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert boot.stdout is not None
    inside = 0
    try:
        assert boot.stdout.readline() == "started\n"
        (init,) = (Path(f"/proc/{boot.pid}/task/{boot.pid}/children").read_text()).split()
        inside = int(init)
        made = UserManager(folder, inside)
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "run" / "systemd" / "private").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield made
    finally:
        boot.send_signal(signal.SIGKILL)
        boot.wait(START_SECONDS)
        boot.stdout.close()
        deadline = time.monotonic() + START_SECONDS
        while inside and Path(f"/proc/{inside}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
