"""A gateway on another machine: looks at it, puts its files there, and starts, continues and ends its process.

The gateway is nobody's child, and serves with its last routes even without the controller.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol, runtime_checkable

from reconciler.errors import Unreachable
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.runtime.build import Shell
from reconciler.remote.runtime.gateway_file import gateway_file

ASK_SECONDS = 15.0
FOLDER = "front"
"""The home of a gateway, in ``~/.reconciler`` of its machine."""
ROUTES = "routes.json"
KEYS = "keys"
_FIND = """
umask 077; home=$1; shift; running=
pid=$(sed -n 1p "$home/gateway.lock" 2>/dev/null)
[ -n "$pid" ] && running=$(ps -ww -p "$pid" -o stat= -o args= 2>/dev/null)
case "$running" in (*"/gateway-"*".pyz $home") ;; (*)
    running=$(ps -A -ww -o pid= -o stat= -o args= 2>/dev/null | while read -r pid each; do
        case "$each" in (*"/gateway-"*".pyz $home") printf '%s %s\\n' "$pid" "$each"; break ;; esac
    done)
    pid=${running%% *}; running=${running#* } ;;
esac
"""
"""Sets ``running`` to the state and the command of the gateway of a home; empty if none runs. The number in a lock may be
that of any process, because files are copied. One that has just begun, or finds the disk full, is in no lock yet."""
_LOOK = (
    _FIND
    + """
printf '%s\\n' "${running:+$pid $running}"
cd "$home" 2>/dev/null || exit 0
sum=$(command -v sha256sum) || sum='shasum -a 256'
$sum routes.json keys/* 2>/dev/null
printf '\\n%s\\n' "$(sed -n 1p gateway.json 2>/dev/null)"
tail -n 1 gateway.log 2>/dev/null || :
"""
)
"""Prints the process, the digest of each file, an empty line, its own state, and its last words."""
_START = (
    _FIND
    + """
[ -z "$running" ] || exit 0
[ -s "$1" ] || { echo missing; exit 0; }
mkdir -p "$home"; tail -c 1000000 "$home/gateway.log" > "$home/gateway.log.1" 2>/dev/null
: > "$home/gateway.log"; rm -f "$home/gateway.json"
"$2" -I "$1" "$home" detach || exit 1
for old in "${1%/*}"/gateway-*.pyz; do [ "$old" = "$1" ] || rm -f "$old"; done
"""
)
_SIGNAL = _FIND + '[ -z "$running" ] || for each; do kill -s "$each" "$pid" 2>/dev/null || :; done'
_REMOVE = 'cd "$1" 2>/dev/null || exit 0; shift; rm -rf -- "$@"'


def digest_of_files(digests: Mapping[str, str]) -> str:
    """Return one digest for the files of a gateway, from the SHA-256 of each by its path in the home; empty if there
    are none."""
    lines = "".join(f"{path} {each}\n" for path, each in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest() if lines else ""


@dataclass(frozen=True)
class GatewayFiles:
    """The files that a gateway gets from its controller."""

    routes: bytes
    keys: Mapping[str, bytes]
    """Private keys for ranks on other machines, by the names of their files."""

    @property
    def contents(self) -> Mapping[str, bytes]:
        """Return them by their paths in the home of the gateway, keys first."""
        return {**{f"{KEYS}/{name}": key for name, key in self.keys.items()}, ROUTES: self.routes}

    @property
    def digest(self) -> str:
        return digest_of_files({path: _sha256(content) for path, content in self.contents.items()})


@dataclass(frozen=True, slots=True)
class GatewayState:
    """A gateway's process and files, as its machine shows them."""

    pid: int | None = None
    """None if it does not run."""
    stopped: bool = False
    """True if a signal has stopped it."""
    program: str = ""
    """The name of the file that it runs."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of its routes and keys, by their paths in its home."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """The state that it has written itself, or the gateway before it; empty if none has."""
    last_words: str = ""
    """The last line of its log, for people."""


@runtime_checkable
class Remote(Shell, Protocol):
    """A machine that runs commands and takes files, as ``SshNode``."""

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None: ...

    async def profile(self) -> Profile: ...


class NodeGateway:
    """The gateway of one machine. Every method raises ``Unreachable``."""

    def __init__(self, machine: Remote, name: str) -> None:
        self._machine = machine
        self._name = name
        self._there: dict[str, str] = {}
        """The digests of its files, as last seen or put there."""

    async def look(self) -> GatewayState:
        """Return its state. Changes nothing there."""
        found = await self._machine.profile()
        try:
            state = _state(await self._run(_LOOK, str(found.root / FOLDER)))
        except ValueError:
            raise Unreachable(f"a look at the gateway on {self._name} printed something else") from None
        self._there = dict(state.files)
        return state

    async def send(self, files: GatewayFiles) -> None:
        """Put these files there, as far as the last look has found others, and remove all other keys. A running gateway
        uses them within a moment."""
        home = (await self._machine.profile()).root / FOLDER
        for path, content in files.contents.items():
            if self._there.get(path) != _sha256(content):
                await self._machine.put(home / path, content, 0o600)
                self._there[path] = _sha256(content)
        others = sorted(self._there.keys() - files.contents.keys())
        if others:
            await self._run(_REMOVE, str(home), *others)

    async def start(self) -> None:
        """Start a process, with the files that are there, unless one runs. It may end again: ``look`` shows it."""
        found = await self._machine.profile()
        if not found.python:
            raise Unreachable(f"there is no Python on {self._name} to start a gateway with")
        file = found.root / "agents" / gateway_file().name
        words = (str(found.root / FOLDER), str(file), found.python)
        if (await self._run(_START, *words)).strip() == "missing":
            await self._machine.put(file, gateway_file().content, 0o600)
            await self._run(_START, *words)

    async def signal(self, *names: str) -> None:
        """Send signals to its process, if one runs, such as ``TERM`` and then ``CONT``."""
        await self._run(_SIGNAL, str((await self._machine.profile()).root / FOLDER), *names)

    async def remove_files(self) -> None:
        """Remove its routes and keys."""
        await self._run(_REMOVE, str((await self._machine.profile()).root / FOLDER), ROUTES, KEYS)

    async def _run(self, script: str, *words: str) -> str:
        done = await self._machine.run(("/bin/sh", "-c", script, "gateway", *words), timeout=ASK_SECONDS)
        if done.status != 0:
            said = done.err.strip()[-300:] or f"a command for it ended with {done.status}"
            raise Unreachable(f"the gateway on {self._name}: {said}")
        return done.out


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _state(printed: str) -> GatewayState:
    """Read what ``_LOOK`` prints. Raises ``ValueError`` for any other text."""
    process, _, rest = printed.partition("\n")
    sums, _, rest = f"\n{rest}".partition("\n\n")
    said, _, last_words = rest.partition("\n")
    pid, stat, command = (*process.split(maxsplit=2), "", "", "")[:3]
    return GatewayState(
        pid=int(pid) if pid else None,
        stopped=stat.startswith("T"),
        program=command.rpartition(".pyz ")[0].rpartition("/")[2] + ".pyz" if pid else "",
        files={
            path: digest for line in sums.splitlines() for digest, _, path in [line.partition("  ")] if path
        },
        said=_object(said),
        last_words=last_words.strip()[-300:],
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
