"""Jump hosts (``ProxyJump`` of ``~/.ssh/config``), connected hop by hop. So the key of each is known, and the gateway,
which reads no configuration, can get access.

On such a machine, the gateway's key may only connect its standard input and output to the SSH server of one other
machine. A forwarding would also let it reach the Unix sockets of that user, which ``permitopen`` does not restrict
(sshd(8)).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from reconciler.errors import Unreachable
from reconciler.remote.gateway_key import authorized_line, ensure_line, public_key, without_key
from reconciler.wire.generation import Jump

from .channels import run
from .login_shell import ShellFailed

log = logging.getLogger(__name__)

COMMAND_SECONDS = 15.0
NESTED_MAX = 4
"""The most levels of jump hosts that are reached over jump hosts."""
_AUTHORIZED = 'file=$HOME/.ssh/authorized_keys; [ ! -e "$file" ] || cat "$file"'
_REWRITE = """
umask 077; mkdir -p "$HOME/.ssh"; file=$HOME/.ssh/authorized_keys; [ -h "$file" ] && file=$(readlink -f "$file")
cat > "$file.$$" && mv "$file.$$" "$file"
"""
_SPLICER = "command -v nc || command -v python3"
_SPLICE = (
    "import os,socket,sys,threading;s=socket.create_connection((sys.argv[1],int(sys.argv[2])));o=sys.stdout.buffer;"
    "threading.Thread(target=lambda:(any(o.write(b) and o.flush() for b in iter(lambda:s.recv(65536),b'')),os._exit(0))"
    ",daemon=True).start();any(s.sendall(b) for b in iter(lambda:os.read(0,65536),b''))"
)
"""Script for machines without netcat; Macs have it."""


@dataclass(frozen=True, slots=True)
class JumpChain:
    """Jump hosts in order, and the machine's address for the last one."""

    jumps: tuple[Jump, ...] = ()
    connections: tuple[asyncssh.SSHClientConnection, ...] = ()
    host: str = ""
    port: int = 0

    @property
    def last(self) -> asyncssh.SSHClientConnection | tuple[()]:
        """Return the tunnel for asyncssh, which would otherwise look for one itself."""
        return self.connections[-1] if self.connections else ()

    def close(self) -> None:
        for connection in reversed(self.connections):
            connection.close()


async def connect(host: str, options: Mapping[str, Any], nested: int = 0) -> JumpChain:
    """Connect to the jump hosts of ``host`` that the configuration names.

    ``options`` are those for the machine itself. Raises as ``asyncssh.connect``.
    """
    settled = await asyncssh.SSHClientConnectionOptions.construct(host=host, config=(), **options)
    named = settled.tunnel
    if not isinstance(named, str) or nested == NESTED_MAX:
        return JumpChain()
    chain = JumpChain(host=str(settled.host), port=int(settled.port))
    try:
        for word in named.split(","):
            chain = await _next_hop(chain, word.strip(), options, nested)
    except BaseException:
        chain.close()
        raise
    return chain


async def _next_hop(chain: JumpChain, word: str, options: Mapping[str, Any], nested: int) -> JumpChain:
    user, _, place = word.rpartition("@")
    host, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    wanted = {name: value for name, value in options.items() if name not in _OF_THE_MACHINE}
    wanted |= {"port": int(port) if port else (), "username": user or ()}
    before = chain if chain.connections else await connect(host, wanted, nested + 1)
    connection = await asyncssh.connect(host, tunnel=before.last, **wanted)
    if before.connections:
        connection.set_tunnel(before.connections[-1])
    key = connection.get_server_host_key()
    settled = await asyncssh.SSHClientConnectionOptions.construct(host=host, config=(), **wanted)
    shown = " ".join(key.export_public_key().decode("ascii").split()[:2]) if key else ""
    jump = Jump(str(settled.host), int(settled.port), str(settled.username), shown)
    return JumpChain((*before.jumps, jump), (*before.connections, connection), chain.host, chain.port)


_OF_THE_MACHINE = (
    "known_hosts", "server_host_key_algs", "command", "compression_algs", "client_keys", "agent_path",
)  # fmt: skip
"""Options for the machine alone; those for jump hosts come from ``~/.ssh/known_hosts``."""


async def authorize(chain: JumpChain, key: Path) -> None:
    """Let the gateway's ``key`` through every jump host, to the next one and nowhere else.

    Raises ``Unreachable`` with the missing line if it cannot be added.
    """
    ends = [*((jump.host, jump.port) for jump in chain.jumps), (chain.host, chain.port)][1:]
    for connection, jump, end in zip(chain.connections, chain.jumps, ends, strict=True):
        tool, problem = "", "neither nc nor python3 can be run there"
        try:
            tool = (await _output(connection, _SPLICER, fails=True)).strip().partition("\n")[0]
        except Unreachable as error:
            problem = str(error)
        line = authorized_line(_splice(tool or "nc", *end), public_key(key))
        try:
            if not tool:
                raise Unreachable(problem)
            await _rewrite(connection, lambda existing, line=line: ensure_line(existing, line))  # type: ignore[misc]
        except Unreachable as error:
            raise Unreachable(
                f"the gateway cannot connect through {jump.user}@{jump.host}: {error}; add to its authorized_keys: {line}"
            ) from error


async def revoke(chain: JumpChain, key: Path) -> None:
    """Take the gateway's ``key`` from every jump host.

    A jump host that cannot be changed does not keep a node from leaving, because the machine behind it no longer admits
    the gateway.
    """
    public = public_key(key)
    for connection, jump in zip(chain.connections, chain.jumps, strict=True):
        try:
            await _rewrite(connection, lambda existing: without_key(existing, public))
        except Unreachable as error:
            log.warning("%s@%s may keep a line for %s: %s", jump.user, jump.host, public, error)


def _splice(tool: str, host: str, port: int) -> tuple[str, ...]:
    """Return a command that connects its standard input and output to a port."""
    python = () if Path(tool).name == "nc" else ("-I", "-c", _SPLICE)
    return (tool, *python, host, str(port))


async def _rewrite(connection: asyncssh.SSHClientConnection, rewrite: Callable[[str], str]) -> None:
    existing = await _output(connection, _AUTHORIZED)
    wanted = rewrite(existing)
    if wanted != existing:
        await _output(connection, _REWRITE, wanted.encode())


async def _output(
    connection: asyncssh.SSHClientConnection, script: str, stdin: bytes = b"", fails: bool = False
) -> str:
    """Return the output of a script there. Raises ``Unreachable``, also if the script fails, unless ``fails`` permits
    that."""
    try:
        done = await run(connection, ("/bin/sh", "-c", script), stdin, COMMAND_SECONDS)
    except (asyncssh.Error, OSError, ShellFailed) as error:
        raise Unreachable(f"it cannot run commands: {error or type(error).__name__}") from error
    if done.status != 0 and not fails:
        raise Unreachable(f"its authorized_keys cannot be changed: {(done.err or done.out).strip()[-300:]}")
    return done.out
