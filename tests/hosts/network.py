"""Hosts of a network of their own: each a real OpenSSH server with an address, a host key, a user and a home.

They are namespaces of Linux, joined by a switch that is one too, and held by processes alone: when these end, for
whatever reason, nothing of the network is left. The machine that runs the tests has one more address in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import parent_of
from tests.sshd import PROGRAM, make_key, make_separation_folder

INTERFACE = "rcl"
"""How the names of the interfaces begin that the machine of the tests gets, one a network."""
NETWORKS = "10.213."
"""How all of their addresses begin."""
_BOOT = """
read -r go; ip link set lo up; mount --bind "$1/passwd" /etc/passwd
[ ! -e /etc/machine-id ] || mount --bind "$1/machine-id" /etc/machine-id
mount --bind "$1/boot-id" /proc/sys/kernel/random/boot_id; echo $$ > "$1/pid"
exec "$2" -D -E "$1/log" -f "$1/config"
"""
_SHUTDOWN = """#!/bin/sh
[ "$*" = "-r now" ] || exit 64
setsid sh {folder}/cycle </dev/null >/dev/null 2>&1 &
"""
"""What is found first by this name: never that of the machine that the tests run on."""
_CYCLE = """
date +%s%N >> {folder}/downs
ip link set eth0 down
here=$(readlink /proc/self/ns/net)
for process in /proc/[0-9]*; do
    pid=${{process#/proc/}}
    [ "$pid" = $$ ] || [ "$pid" = "$(cat {folder}/pid)" ] || [ "$(readlink $process/ns/net)" != "$here" ] || kill -9 $pid
done
cat /proc/sys/kernel/random/uuid > {folder}/boot-id
sleep 2
ip link set eth0 up
"""
"""All that runs ends, and another boot begins; the server that holds the namespaces is there again."""
_WAIT_SECONDS = 60.0


@dataclass
class Host:
    """One machine of the network."""

    name: str
    address: str
    user: str
    folder: Path
    key: Path
    """Private key that is let in."""
    process: subprocess.Popen[bytes] | None = None
    space: int = 0
    """Its network's inode: by that its processes are known, whatever became of their parents."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def root(self) -> Path:
        return self.home / ".reconciler"

    @property
    def host_key(self) -> str:
        return (self.folder / "host_key.pub").read_text().strip()

    @property
    def boot_id(self) -> str:
        return (self.folder / "boot-id").read_text().strip()

    @property
    def downs(self) -> list[int]:
        """When it went down, each time, in nanoseconds."""
        path = self.folder / "downs"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def prepare(self) -> None:
        """Everything that its server needs."""
        (self.home / ".ssh").mkdir(mode=0o700, parents=True)
        (self.folder / "log").touch()
        make_key(self.folder / "host_key")
        (self.home / ".ssh" / "authorized_keys").write_text(make_key(self.key) + "\n")
        known = Path("/etc/passwd").read_text()
        (self.folder / "passwd").write_text(f"{known}{self.user}:x:0:0::{self.home}:/bin/sh\n")
        (self.folder / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (self.folder / "boot-id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "shutdown").write_text(_SHUTDOWN.format(folder=self.folder))
        (self.folder / "bin" / "shutdown").chmod(0o755)
        (self.folder / "cycle").write_text(_CYCLE.format(folder=self.folder))
        (self.folder / "config").write_text(
            f"SetEnv PATH={self.folder}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n"
            f"ListenAddress {self.address}\nHostKey {self.folder}/host_key\nPidFile none\nStrictModes no\n"
            f"UsePAM no\nPermitRootLogin yes\nAllowUsers {self.user}\nPasswordAuthentication no\n"
        )

    def boot(self) -> None:
        """A process in namespaces of its own that becomes the server as soon as it is told to."""
        words = ["sh", "-c", _BOOT, "boot", str(self.folder), PROGRAM]
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--propagation", "private", *words],
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        _wait(lambda: _apart(self.pid), f"{self.name} to have namespaces")
        self.space = _space(self.pid)

    def go(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def pids(self, words: str = "") -> list[int]:
        """Processes that run on it, with these words in their command line."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if (entry / "ns" / "net").stat().st_ino == self.space and words in line and line:
                    found.append(int(entry.name))
        return sorted(found)

    def programs(self, words: str) -> list[int]:
        """The same, but for children that have not become another program yet."""
        found = self.pids(words)
        return [pid for pid in found if parent_of(pid) not in found]

    def change_host_key(self, folder: Path) -> None:
        """Be the machine with the key pair that is kept in a folder, as after a restart of the server; connections end."""
        for name in ("host_key", "host_key.pub"):
            shutil.copyfile(folder / name, self.folder / name)
        log, before = self.folder / "log", self.times_logged("listening")
        os.kill(self.pid, signal.SIGHUP)  # it executes itself anew
        _wait(lambda: self.times_logged("listening") > before, f"{self.name} to listen again, see {log}")
        for pid in self.pids("sshd"):
            if pid != self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def times_logged(self, words: str) -> int:
        """How often its server has written these words to its log."""
        return (self.folder / "log").read_text().count(words)

    def seen(self, path: Path) -> Path:
        """A path of this machine as it sees it itself."""
        return Path(f"/proc/{self.pid}/root") / path.relative_to("/")

    def disk(self, path: Path, size: str) -> None:
        """A disk of its own for a folder; again, another size of it. It ends with the machine."""
        path.mkdir(parents=True, exist_ok=True)
        again = "remount," if self.seen(path).is_mount() else ""
        words = ("mount", "-t", "tmpfs", "-o", f"{again}size={size}", "disk", str(path))
        _run("nsenter", "--target", str(self.pid), "--mount", *words)

    def agents(self) -> list[int]:
        return self.programs(".pyz serve")

    def ranks(self) -> list[int]:
        return self.pids("reconciler.runner")

    def stop(self) -> None:
        """End everything that runs on it."""
        if self.process is None:
            return
        for _ in range(20):
            found = self.pids()
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.process.wait(_WAIT_SECONDS)
        self.process = None


class Network:
    """The switch, and the hosts at it."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder = folder
        self.person = folder / "person"
        """The home of whoever runs the controller: its keys are here."""
        self.number = os.getpid() % 250 + 1
        self.mine = f"{INTERFACE}{os.getpid()}"
        self.hosts = [
            Host(
                name,
                self._address(11 + at),
                f"user-{name}",
                folder / name,
                self.person / ".ssh" / f"id_{name}",
            )
            for at, name in enumerate(names)
        ]
        self.switch: subprocess.Popen[bytes] | None = None

    @property
    def here(self) -> str:
        """The address of the machine that runs the tests."""
        return self._address(1)

    def _address(self, last: int) -> str:
        return f"{NETWORKS}{self.number}.{last}"

    def start(self) -> None:
        self.person.joinpath(".ssh").mkdir(mode=0o700, parents=True)
        make_separation_folder()
        self.switch = subprocess.Popen(["unshare", "--net", "sleep", "100000"], start_new_session=True)
        switch = self.switch.pid
        _wait(lambda: _apart(switch), "the switch to have a namespace")
        _ip(switch, "link", "add", "br0", "type", "bridge")
        _ip(switch, "link", "set", "br0", "up")
        _run("ip", "link", "add", self.mine, "type", "veth", "peer", "name", "up0", "netns", str(switch))
        _run("ip", "addr", "add", f"{self.here}/24", "dev", self.mine)
        _run("ip", "link", "set", self.mine, "up")
        _ip(switch, "link", "set", "up0", "master", "br0", "up")
        config = []
        for host in self.hosts:
            host.prepare()
            host.boot()
            cable = ("peer", "name", "eth0", "netns", str(host.pid))
            _ip(switch, "link", "add", host.name, "type", "veth", *cable)
            _ip(switch, "link", "set", host.name, "master", "br0", "up")
            _ip(host.pid, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _ip(host.pid, "link", "set", "eth0", "up")
            host.go()
            config.append(f"Host {host.name}\n  HostName {host.address}\n  IdentityFile {host.key}\n")
            config.append(f"Host {host.address}\n  IdentityFile {host.key}\n")
        (self.person / ".ssh" / "config").write_text("".join(config))
        for host in self.hosts:
            _wait(
                lambda host=host: host.times_logged("listening"),
                f"{host.name} to listen",
            )

    def address_for(self, name: str) -> str:
        """A further address of the machine that runs the tests, to which one host alone has a way."""
        address = self._address(2)
        _run("ip", "addr", "add", f"{address}/24", "dev", self.mine)
        for host in self.hosts:
            if host.name != name:
                _ip(host.pid, "route", "add", "unreachable", f"{address}/32")
        return address

    def open(self, address: str) -> None:
        """Let every host have a way to such an address."""
        for host in self.hosts:
            words = ("ip", "route", "del", "unreachable", f"{address}/32")
            command = ["nsenter", "--target", str(host.pid), "--net", *words]
            subprocess.run(
                command, capture_output=True, timeout=20, check=False
            )  # but for one they have none

    def cut(self, host: Host, up: bool = False) -> None:
        """Take the cable of a host out, or put it back."""
        assert self.switch is not None
        _ip(self.switch.pid, "link", "set", host.name, "up" if up else "down")

    def stop(self) -> None:
        for host in self.hosts:
            host.stop()
        if self.switch is not None:
            # The kernel takes the interface away some time after the switch: a next network needs the name at once.
            subprocess.run(
                ["ip", "link", "del", self.mine], capture_output=True, timeout=_WAIT_SECONDS, check=False
            )
            self.switch.kill()
            self.switch.wait(_WAIT_SECONDS)


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Hosts until the block ends, in a short folder because of the sockets."""
    folder = Path(tempfile.mkdtemp(prefix="n-"))
    made = Network(folder, names)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _apart(pid: int) -> bool:
    return _space(pid) != _space(os.getpid())


def _space(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _ip(pid: int, *words: str) -> None:
    _run("nsenter", "--target", str(pid), "--net", "ip", *words)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=_WAIT_SECONDS, stdin=subprocess.DEVNULL)


def _wait(true: object, what: str) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.02)
