"""Reaches a home on another machine: its controller's socket and its cluster repository, over one SSH connection.

The system's `ssh` makes the connection, so that the user's keys, agent, jump hosts and known hosts apply. It lasts as
long as the command: its remote end reads from a pipe that closes when this process ends for any reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from reconciler.errors import Barred, Refused, Unreachable

from .contexts_file import SSH, Context

CONNECT_SECONDS = 10
SECONDS_MAX = 20.0
"""Longest time to connect; longer on a terminal, where a person may be typing."""
SECONDS_MAX_WITH_PERSON = 120.0
END_SECONDS = 2.0
ALIVE_SECONDS = 15
HELD = "echo && cat >/dev/null"
"""The command there. Its first output says that both local sockets listen: ssh makes their files a moment before, and
begins a session after that (OpenSSH's ssh.c, ``ssh_session2``)."""
HOME_QUESTION = 'printf %s "${RECONCILER_HOME:-$HOME/.reconciler}"'


@dataclass(slots=True)
class Away:
    """A home on another machine. Nothing is connected before it is needed."""

    context: Context
    asks: bool = True
    """True if ssh may ask the person for a passphrase or password; it never does without a terminal."""
    _folder: Path | None = None
    _process: subprocess.Popen[bytes] | None = None
    _copy: Any = field(default=None)

    # --- the controller ----------------------------------------------------------------------------

    def socket(self) -> Path:
        """Return the path of a local socket that leads to the controller. Raises ``Unreachable``."""
        return self._connected() / "controller.sock"

    def _connected(self) -> Path:
        if self._folder is not None:
            return self._folder
        folder = Path(tempfile.mkdtemp(prefix="rec-"))
        self._folder, here = folder, folder / "controller.sock"
        forward = f"{here}:{self.context.home}/controller.sock"
        wait = ("-o", "ExitOnForwardFailure=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}")
        command = [*self._ssh(), "-M", "-T", *wait, "-L", forward, self._target(), HELD]
        try:
            with (folder / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
        except OSError as error:
            raise Unreachable(f"ssh cannot be started: {error}; install an OpenSSH client") from error
        seconds = SECONDS_MAX_WITH_PERSON if self._person else SECONDS_MAX
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise Unreachable(f"{self.context.ssh} has not let this user in after {seconds:g} s")
        if not self._process.stdout.read(1):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
            raise self._barred((folder / "log").read_text(errors="replace", encoding="utf-8"))
        return folder

    @property
    def _person(self) -> bool:
        return self.asks and sys.stdin.isatty() and sys.stderr.isatty()

    def _ssh(self) -> list[str]:
        """Return the command without its destination, for the connection and the commands that use it."""
        assert self._folder is not None
        own = {"identityFile": self.context.identity_file, "UserKnownHostsFile": self.context.known_hosts}
        options = {
            "StrictHostKeyChecking": "yes",
            "BatchMode": "no" if self._person else "yes",
            "ServerAliveInterval": ALIVE_SECONDS,
            **{name: Path(path).expanduser() for name, path in own.items() if path},
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", "-S", str(self._folder / "ssh"), *words, *_port(self.context.ssh)]

    def _target(self) -> str:
        match = SSH.fullmatch(self.context.ssh)
        assert match is not None
        host = match["host"].strip("[]")
        return f"{match['user']}@{host}" if match["user"] else host

    def _barred(self, words: str) -> Unreachable:
        """Return the error for a connection that ssh could not make, with the command to type."""
        said = [line.strip() for line in words.splitlines() if line.strip() and not line.startswith("@")]
        last, where, target = said[-1] if said else "it ended", self.context.ssh, self._target()
        typed = shlex.join(["ssh", *_port(self.context.ssh), target])
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in words:
            return Barred(
                "HostKeyChanged",
                f"{where} has another host key than known_hosts: somebody may be in "
                f"between; if the machine was set up again: ssh-keygen -R {target.rpartition('@')[2]}",
            )
        if "Host key verification failed" in words:
            return Barred(
                "HostKeyUnknown",
                f"the host key of {where} is not known; connect once and compare it: {typed}",
            )
        if "Permission denied" in words:
            return Barred("PermissionDenied", f"{where} does not let this user in ({last}); try: {typed}")
        if "remote port forwarding failed" in words or "forwarding" in words.lower():
            return Unreachable(
                f"{where} does not forward sockets ({last}); its sshd needs AllowStreamLocalForwarding yes"
            )
        return Unreachable(f"{where} cannot be reached: {last}; try: {typed}")

    # --- the repository ----------------------------------------------------------------------------

    def repository(self) -> Any:
        """Return a current copy of the cluster repository, which pushes its commits there."""
        if self._copy is None:
            from reconciler.source.git.copies import Copy

            self._connected()
            url = f"{self.context.ssh.rstrip('/')}{self.context.home}/cluster.git"
            environment = {"GIT_SSH_COMMAND": shlex.join(self._ssh()), "GIT_SSH_VARIANT": "ssh"}
            copy = Copy(_cache(url), environment, url=url, told=lambda text: click.echo(text, err=True))
            copy.fetch()
            self._copy = copy
        return self._copy

    # --- the machine -------------------------------------------------------------------------------

    def home_there(self) -> str:
        """Return the usual home of the user on that machine."""
        self._connected()
        command = [*self._ssh(), "-T", self._target(), HOME_QUESTION]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS_MAX, check=False
        )
        if not done.stdout.startswith("/"):
            raise Unreachable(f"{self.context.ssh} does not say where its home is; give it with: --home PATH")
        return done.stdout

    def only_there(self, command: str) -> Refused:
        """Return the error for a command that works only on the cluster's own machine."""
        words = ["ssh", *_port(self.context.ssh), "-t", self._target()]
        there = f"reconciler --home {shlex.quote(self.context.home)} {command}"
        text = f"this works on the machine of the cluster ({self.context.name}): {shlex.join(words)} {there}"
        return Refused("NotHere", text)

    def explained(self, error: Unreachable) -> Unreachable:
        """Return an error of the forwarded socket as an error of the other machine."""
        if self._folder is None or str(self._folder) not in str(error):
            return error
        there = f"{self.context.home} on {self.context.ssh}"
        ended = self._process is not None and self._process.poll() is not None
        if ended:
            return Unreachable(f"lost the connection to {self.context.ssh}; try again")
        up = f"reconciler --home {shlex.quote(self.context.home)} up"
        return Unreachable(f"no controller answers in {there}; start it there with: {up}")

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            for end in (process.kill, lambda: None):
                try:
                    process.wait(END_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    end()
            process.stdout.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _port(ssh: str) -> list[str]:
    match = SSH.fullmatch(ssh)
    return ["-p", match["port"]] if match and match["port"] else []


def _cache(url: str) -> Path:
    """Return the folder of the copy of a repository. It may be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(base) if base.startswith("/") else Path("~/.cache").expanduser()
    return cache / "reconciler" / hashlib.sha256(url.encode()).hexdigest()[:16] / "cluster.git"
