"""A real OpenSSH server on loopback: its own port, configuration, host key and ``authorized_keys``."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh

from reconciler.wire.generation import Machine
from tests.needs import find
from tests.processes import command_of, descendants, gone

PROGRAM = find("sshd") or "/usr/sbin/sshd"


class Sshd:
    """One server; it lets the current user in, with the keys of ``authorized``."""

    def __init__(self, place: Path, port: int, more: str = "") -> None:
        """``more``: further lines of its configuration, which count before its own."""
        self.place = place
        self.port = port
        self.authorized = place / "authorized_keys"
        self.process: asyncio.subprocess.Process | None = None
        place.mkdir(mode=0o700)
        self.authorized.touch(0o600)
        self._host_key = place / "host_key"
        make_key(self._host_key)
        (place / "config").write_text(
            f"{more}Port {port}\nListenAddress 127.0.0.1\nHostKey {self._host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.authorized}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            "PasswordAuthentication no\nAllowStreamLocalForwarding yes\nAllowTcpForwarding yes\n"
            f"Subsystem sftp internal-sftp\nMaxStartups 100\nSetEnv HOME={place}\n"  # no shell's start-up files
        )

    @property
    def machine(self) -> Machine:
        words = Path(f"{self._host_key}.pub").read_text().split()
        return Machine("127.0.0.1", self.port, getpass.getuser(), " ".join(words[:2]))

    async def start(self) -> Sshd:
        make_separation_folder()
        command = [PROGRAM, "-D", "-E", str(self.place / "log"), "-f", str(self.place / "config")]
        self.process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, start_new_session=True
        )
        for _ in range(3000):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return self
            assert self.process.returncode is None, (self.place / "log").read_text()
            await asyncio.sleep(0.02)
        raise TimeoutError("sshd does not listen")

    def signal_sessions(self, number: int) -> None:
        """To every process that serves a connection; the server itself goes on."""
        assert self.process is not None
        for pid in descendants(self.process.pid)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def logins(self) -> int:
        """How many connections have been let in."""
        return (self.place / "log").read_text().count("Accepted publickey")

    def distrusted(self) -> int:
        """How many clients have gone because of its host key."""
        return (self.place / "log").read_text().count("Host key is not trusted")

    def relays(self) -> list[int]:
        """The processes that lead to ranks now."""
        assert self.process is not None
        return [pid for pid in descendants(self.process.pid) if " relay " in command_of(pid)]

    async def stop(self) -> None:
        """Kill the server and all that it has started."""
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)  # it begins no further session
        started = descendants(process.pid)
        for pid in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.wait()
        for _ in range(500):  # a session that has just begun holds the server's port to its end
            if all(map(gone, started)):
                return
            await asyncio.sleep(0.02)
        raise TimeoutError("sessions of sshd do not end")


@contextlib.asynccontextmanager
async def sshd(place: Path, port: int, more: str = "") -> AsyncIterator[Sshd]:
    """A server until the block ends."""
    server = Sshd(place, port, more)
    try:
        yield await server.start()
    finally:
        await server.stop()


def make_separation_folder() -> None:
    """What a server of root asks for; where no service has ever started one it is not there."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def make_key(path: Path, kind: str = "ssh-ed25519") -> str:
    """Write a new key pair. Return its public line."""
    made = asyncssh.generate_private_key(kind, comment=f"{getpass.getuser()}@tests")
    path.touch(0o600)
    made.write_private_key(path)
    made.write_public_key(f"{path}.pub")
    return Path(f"{path}.pub").read_text().strip()
