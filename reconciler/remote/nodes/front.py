"""A gateway on another machine: puts its file and its routes there, and restarts its process when it has ended.

The gateway is nobody's child, and serves with its last routes even without the controller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol, runtime_checkable

from reconciler.errors import Unreachable
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.runtime.build import Shell
from reconciler.remote.runtime.gateway_file import gateway_file

ASK_SECONDS = 15.0
FOLDER = "front"
"""The home of a gateway, in ``~/.reconciler`` of its machine."""
_KEEP = """
umask 077; home=$1 file=$2 python=$3; rm -f "$home/ended"
pid=$(sed -n 1p "$home/gateway.lock" 2>/dev/null)
running=; [ -n "$pid" ] && running=$(ps -ww -p "$pid" -o args= 2>/dev/null)
case "$running" in
*"$file $home") kill -CONT "$pid" ;;
*"/gateway-"*".pyz $home") kill -TERM "$pid" ;;
*) tail -c 1000000 "$home/gateway.log" > "$home/gateway.log.1" 2>/dev/null; : > "$home/gateway.log"
   "$python" -I "$file" "$home" detach ;;
esac
for old in "${file%/*}"/gateway-*.pyz; do [ "$old" = "$file" ] || rm -f "$old"; done
[ -n "$running" ] && cat "$home/gateway.json" 2>/dev/null || { echo; tail -n 1 "$home/gateway.log.1" 2>/dev/null; }
"""
"""Prints the state of a running gateway, and continues it if a signal has stopped it. Otherwise prints an empty line,
and the last messages of the one before."""
_END = """
home=$1; pid=$(sed -n 1p "$home/gateway.lock" 2>/dev/null); rm -rf "$home/routes.json" "$home/keys"
[ -n "$pid" ] || exit 0
case "$(ps -ww -p "$pid" -o args= 2>/dev/null)" in *"/gateway-"*".pyz $home") kill -TERM "$pid" ;; esac
"""


@dataclass(frozen=True, slots=True)
class FrontFiles:
    """The files that a gateway gets from its controller."""

    routes: bytes
    keys: Mapping[str, bytes]
    """Private keys for ranks on other machines, by the names of their files."""


@runtime_checkable
class Remote(Shell, Protocol):
    """A machine that runs commands and takes files, as ``SshNode``."""

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None: ...

    async def profile(self) -> Profile: ...


class Front:
    """The gateway of one machine. Every method raises ``Unreachable``."""

    def __init__(self, machine: Remote, name: str) -> None:
        self._machine = machine
        self._name = name
        self._there: FrontFiles | None = None
        """The files that were put there last."""
        self._file_there = False

    async def keep(self, files: FrontFiles) -> dict[str, Any]:
        """Make it run with these files. Return its own state.

        Raises ``Unreachable`` with the last messages of a gateway that does not run; another is then being started.
        """
        found = await self._machine.profile()
        home, file = found.root / FOLDER, found.root / "agents" / gateway_file().name
        if not self._file_there:
            await self._machine.put(file, gateway_file().content, 0o600)
            self._file_there = True
        await self._put(home, files)
        words = ("/bin/sh", "-c", _KEEP, "keep", str(home), str(file), found.python)
        done = await self._machine.run(words, timeout=ASK_SECONDS)
        said, _, rest = done.out.partition("\n")
        try:
            state = json.loads(said)
        except ValueError:
            last = rest.strip() or done.err.strip() or "it has not said anything yet"
            raise Unreachable(f"the gateway on {self._name} is being started: {last[-300:]}") from None
        if not isinstance(state, dict):
            raise Unreachable(f"the gateway on {self._name} says nothing of itself")
        return state

    async def end(self) -> None:
        """End it, and remove its routes and keys."""
        found = await self._machine.profile()
        words = ("/bin/sh", "-c", _END, "end", str(found.root / FOLDER))
        await self._machine.run(words, timeout=ASK_SECONDS)
        self._there = None

    async def _put(self, home: PurePosixPath, files: FrontFiles) -> None:
        before = self._there
        for name, key in files.keys.items():
            if before is None or before.keys.get(name) != key:
                await self._machine.put(home / "keys" / name, key, 0o600)
        if before is None or before.routes != files.routes:
            await self._machine.put(home / "routes.json", files.routes, 0o600)
        self._there = files
