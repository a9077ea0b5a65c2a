"""A Mac-shaped machine whose settings can be changed: its tools do, and keep, what they are told."""

from __future__ import annotations

import asyncio
import sys

from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.runtime.agent_file import write_bundle
from tests.processes import listed

from .bench import WAIT_SECONDS, Bench

_SUDO = """
[ "$1" = -n ] || exit 64
shift
case "$1" in
  -l) shift; if [ -e "$HERE/denied" ] && /usr/bin/grep -qFx "$*" "$HERE/denied"; then exit 1; fi; exit 0 ;;
esac
exec "$@"
"""
"""It allows every command but those of the file ``denied``, one a line."""
FORBIDDEN = "echo 'sudo: a password is required' >&2\nexit 1"
_IFCONFIG = """
echo "$*" >> "$HERE/asked"
[ ! -e "$HERE/hang-$2" ] || { : > "$HERE/hangs"; exec /bin/sleep 600; }
[ ! -e "$HERE/refuse-$4" ] || exit 1
case "$2 $4" in
  "deletem ") exec /bin/rm "$HERE/members/$3" ;;
  "addm ") [ ! -e "$HERE/members/$3" ] || exit 1; echo > "$HERE/members/$3" ;;
  "inet delete") exec /bin/rm "$HERE/addresses/$1" ;;
  "inet netmask") echo "$3" > "$HERE/addresses/$1" ;;
esac
"""
_TOUCH = 'exec /usr/bin/touch "$1"'
_UNLINK = 'exec /bin/rm "$1"'
_TMUTIL = 'echo "$*" >> "$HERE/exclusions"'
_PMSET = 'echo "$3 $5" > "$HERE/sleep"'


class Place:
    """A machine whose settings are files; what its tools are told they do."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.folder = bench.home / "bin"
        for each in (self.folder, self.folder / "members", self.folder / "addresses"):
            each.mkdir()
        (self.folder / "members" / "en3").touch()
        self.script("sudo", _SUDO)
        self.script("ifconfig", _IFCONFIG)
        self.script("pmset", _PMSET)
        self.script("touch", _TOUCH)
        self.script("unlink", _UNLINK)
        self.script("tmutil", _TMUTIL)

    def script(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\nHERE={self.folder}\n{body}\n")
        path.chmod(0o755)

    @property
    def settings(self) -> tuple[list[str], dict[str, str]]:
        """Members of the bridge, and the address of each interface."""
        members = sorted(path.name for path in (self.folder / "members").iterdir())
        addresses = {path.name: path.read_text().strip() for path in (self.folder / "addresses").iterdir()}
        return members, addresses

    @property
    def commands_run(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    async def agent(self) -> AgentConnection:
        """Have an agent that takes its tools from here."""
        places = {
            "--node": "bench",
            "--directory": self.bench.directory,
            "--models": self.bench.models,
            "--run-directory": self.bench.run_directory,
            "--python": sys.executable,
            "--tools": self.folder,
        }
        bundle = write_bundle(self.bench.home / "agents")
        words = [str(word) for place in places.items() for word in place]
        command = [sys.executable, "-I", str(bundle), "serve", "--detach", *words]
        starter = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        assert await asyncio.wait_for(starter.wait(), WAIT_SECONDS) == 0
        return await self.bench.controller()

    def watchdogs(self) -> list[int]:
        """The processes that carry repairs out."""
        mine = f"repair --directory {self.bench.directory}"
        return [process.pid for process in listed() if mine in process.command]
