"""One SSH connection to a machine: made on demand; detects its loss and explains its absence.

Only the manifest's host key is accepted. ``~/.ssh/config`` is read, including ``ProxyJump`` (whose hosts are looked up
in ``~/.ssh/known_hosts``). Keys are the user's own and those of the SSH agent. It never asks a person, and never passes
on other commands, forwardings or credentials.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.public_key import decode_ssh_public_key
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from reconciler.errors import Barred, Invalid, Silent
from reconciler.planning.diagnosis.rules import NO_LOCAL_NETWORK
from reconciler.resources import SshAccess
from reconciler.secret_files import read_private_key
from reconciler.state import Ends

from . import jumps, obstacles
from .last_addresses import LastAddresses

CONNECT_SECONDS = 10.0
"""Time limit for the connection, and for the login."""
JUMP_SECONDS = 25.0
"""Time limit for connecting, including all jump hosts."""
KEEPALIVE_SECONDS = 3.0
KEEPALIVES_MAX = 3
"""A machine that leaves so many keep-alives unanswered counts as lost, at most 12 seconds after its loss."""
ATTEMPTS_MAX = 3
"""Attempts to connect: an overloaded server drops some before it has greeted them (``MaxStartups``)."""
ATTEMPT_SPREAD_SECONDS = 1.0
BARRED_SECONDS = 30.0
"""The wait before another attempt if a person has to act, because many machines count failed logins."""
PRIVATE_SECONDS = 5.0
"""The same if macOS keeps this process out of the local network: no machine sees such an attempt."""
KEY_ALGORITHMS = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
"""Algorithms for a server to prove its key, by the key's type. No certificates, because the manifest has the key
itself."""

log = logging.getLogger(__name__)


class Connection:
    """The only connection to a machine. ``gate`` bounds the number that are made at a time.

    ``last``: the addresses at which machines last answered without jump hosts, for names that are not found until a
    disk is unlocked.
    """

    def __init__(
        self, name: str, access: SshAccess, gate: asyncio.Semaphore, last: LastAddresses | None = None
    ) -> None:
        asyncssh.set_log_level(logging.WARNING)
        self._name = name
        self._access = access
        self._gate = gate
        self._connecting: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self._kept: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        """The connection that is kept as long as possible, even when it is no longer the newest."""
        self._barred: tuple[float, Barred] | None = None
        self.jump_chain = jumps.JumpChain()
        """Jump hosts of the connection."""
        self._last = last or LastAddresses()

    def __str__(self) -> str:
        access = self._access
        return f"{access.user}@{access.host}" + (f":{access.port}" if access.port != 22 else "")

    async def get(self) -> asyncssh.SSHClientConnection:
        """Return the connection, and make one if there is none. Raises ``Silent`` if that fails, ``Barred`` if a person
        has to act first; then it is not tried again for a while."""
        if self._barred is not None and asyncio.get_running_loop().time() < self._barred[0]:
            raise self._barred[1]
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect(), name=f"connect to {self._name}")
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    async def close(self) -> None:
        """Close it and all its channels."""
        ending, self._connecting, self._kept = {self._connecting, self._kept}, None, None
        for connecting in ending - {None}:
            await _end(connecting)

    async def renew(self) -> None:
        """Make the next connection a new one; close the current one unless it is kept."""
        connecting, self._connecting = self._connecting, None
        if connecting is not self._kept:
            await _end(connecting)

    async def keep(self) -> None:
        """Keep the current connection, because a process there ends with it. Close the one kept before."""
        before, self._kept = self._kept, self._connecting
        if before is not self._kept:
            await _end(before)

    async def _connect(self) -> asyncssh.SSHClientConnection:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self._gate, asyncio.timeout(JUMP_SECONDS):
                async for attempt in AsyncRetrying(
                    retry=retry_if_exception_type((asyncssh.ConnectionLost, ConnectionResetError)),
                    stop=stop_after_attempt(ATTEMPTS_MAX),
                    wait=wait_random_exponential(ATTEMPT_SPREAD_SECONDS, max=2 * ATTEMPT_SPREAD_SECONDS),
                    reraise=True,
                ):
                    with attempt:
                        return await self._found(task)
        except (asyncssh.Error, OSError, ValueError) as error:
            raise await self._meaning(error) from error
        raise AssertionError("an attempt either succeeds or raises")

    async def _found(self, task: asyncio.Task[Any]) -> asyncssh.SSHClientConnection:
        """Connect by its name or, if that is not found, to its last address: the host key decides."""
        try:
            return await self._attempt(task, self._access.host)
        except socket.gaierror:
            last = self._last.of(str(self))
            if not last:
                raise
            log.info("%s is not found; trying %s", self._access.host, last)
            return await self._attempt(task, last)

    async def _attempt(self, task: asyncio.Task[Any], host: str) -> asyncssh.SSHClientConnection:
        client, options = _Client(lambda error: self._lost(task, error)), self._options()
        jump_chain = await jumps.connect(host, options)
        try:
            connection = await asyncssh.connect(
                host, client_factory=lambda: client, tunnel=jump_chain.last, **options
            )
        except BaseException as error:
            jump_chain.close()
            if isinstance(error, asyncssh.HostKeyNotVerifiable) and client.presented is not None:
                raise _KeyChanged(client.presented) from error
            if isinstance(error, asyncssh.PermissionDenied) and obstacles.only_passwords(client.methods):
                address, last = "" if jump_chain.connections else client.address, self._last.of(str(self))
                raise obstacles.locked(self._access, address or last or "", last is not None) from error
            raise
        if jump_chain.connections:
            connection.set_tunnel(jump_chain.connections[-1])
        self.jump_chain = jump_chain
        self._last.keep(str(self), "" if jump_chain.connections else client.address)
        log.info("connected to %s (%s)", self._name, self)
        return connection

    def _options(self) -> dict[str, Any]:
        access = self._access
        key = trusted_key(access)
        kind = key.get_algorithm()
        kinds = sorted(KEY_ALGORITHMS, key=lambda other: other != kind)
        identity: dict[str, Any] = {}
        if access.identity_file:
            identity = {"client_keys": [_identity(access.identity_file)], "agent_path": None}
        return {
            **identity,
            "port": access.port
            if access.port != 22
            else (),  # the user's configuration may name another one then
            "username": access.user,
            "known_hosts": ([key], [], []),
            "server_host_key_algs": [algorithm for each in kinds for algorithm in KEY_ALGORITHMS[each]],
            "preferred_auth": ["publickey", "password"],  # no password is ever sent: see ``_Client``
            "gss_host": None,
            "gss_kex": False,
            "gss_auth": False,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "request_pty": False,
            "send_env": (),
            "command": None,
            "compression_algs": None,
            "connect_timeout": CONNECT_SECONDS,
            "login_timeout": CONNECT_SECONDS,
            "keepalive_interval": KEEPALIVE_SECONDS,
            "keepalive_count_max": KEEPALIVES_MAX,
        }

    def _connected(self, task: asyncio.Task[asyncssh.SSHClientConnection]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._barred = None
        elif self._connecting is task:
            self._connecting = None
        if isinstance(error, Barred):
            wait = PRIVATE_SECONDS if error.code == NO_LOCAL_NETWORK else BARRED_SECONDS
            self._barred = (asyncio.get_running_loop().time() + wait, error)

    def _lost(self, connecting: asyncio.Task[Any], error: Exception | None) -> None:
        if self._connecting is connecting and connecting.done():
            log.warning("the connection to %s (%s) has ended: %s", self._name, self, error or "it was closed")
            self._connecting = None

    async def _meaning(self, error: Exception) -> Silent:
        """Return the error for a failed connection, with the remedy if a person has to act."""
        match error:
            case _KeyChanged():
                return Barred("HostKeyChanged", self._changed(error.presented))
            case asyncssh.HostKeyNotVerifiable():
                return Barred(
                    "HostKeyUnknown",
                    f"a jump host of {self._name} (ProxyJump in ~/.ssh/config) is not trusted: {error};"
                    " connect to it once with ssh, and check its fingerprint",
                )
            case asyncssh.PermissionDenied():
                return Barred("LoginRefused", await self._refused())
            case asyncssh.KeyExchangeFailed():
                return Barred(
                    "NoCommonAlgorithm", f"{self} and this machine have no common algorithm: {error}"
                )
            case asyncssh.KeyImportError() | asyncssh.ConfigParseError() | ValueError():
                return Barred("SshMisconfigured", f"the SSH configuration for {self} does not work: {error}")
            case asyncssh.Error() if "Too many authentication failures" in str(error):
                return Barred("LoginRefused", await self._refused())
            case OSError() if obstacles.no_route(error) and await self._only_ssh_reaches():
                return obstacles.private(self._access.host)
            case TimeoutError() if not str(error):
                return Silent(f"{self} does not answer within {CONNECT_SECONDS:g} s")
            case _:
                return Silent(f"cannot connect to {self}: {str(error) or type(error).__name__}")

    async def _only_ssh_reaches(self) -> bool:
        access = self._access
        port = access.port if access.port != 22 else None  # the user's configuration may name another
        return await obstacles.ssh_reaches(access.host, port, access.user)

    def _changed(self, presented: asyncssh.SSHKey) -> str:
        expected = trusted_key(self._access)
        return (
            f"the host key of {self} is not the one in the manifest: it is {fingerprint(presented)}, expected"
            f" {fingerprint(expected)}; this is another machine, or somebody intercepts the connection, or the machine was"
            f" reinstalled: if so, compare its own fingerprint, then run: reconciler node add --again {self._name}"
        )

    async def _refused(self) -> str:
        tried = await keys_tried(self._access.host, self._options())
        return (
            f"{self} refuses the login of user {self._access.user}; tried:"
            f" {', '.join(tried) or 'no key, because neither ~/.ssh nor an SSH agent has one'};"
            " add one of these keys to authorized_keys of that user there: ssh-copy-id"
            f" {self._access.user}@{self._access.host}"
        )


class _KeyChanged(ValueError):
    def __init__(self, presented: asyncssh.SSHKey) -> None:
        self.presented = presented
        super().__init__(fingerprint(presented))


async def _end(connecting: asyncio.Task[asyncssh.SSHClientConnection] | None) -> None:
    if connecting is None:
        return
    connecting.cancel()
    with contextlib.suppress(asyncio.CancelledError, Silent):
        connection = await connecting
        connection.abort()
        await connection.wait_closed()


class _Client(asyncssh.SSHClient):
    """Notes an unexpected host key and the server's login methods, and reports the end of the connection."""

    def __init__(self, lost: Callable[[Exception | None], None]) -> None:
        self._lost = lost
        self.presented: asyncssh.SSHKey | None = None
        self.address = ""
        """The server's address; empty before the connection."""
        self.methods: set[str] = set()
        """The login methods that it offered and that failed."""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.address = str((conn.get_extra_info("peername") or ("",))[0])

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.presented = key
        return False

    def public_key_auth_requested(self) -> None:
        self.methods.add("publickey")  # it has no other key

    def password_auth_requested(self) -> None:
        self.methods.add("password")  # sends nothing

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)


def ends(connection: asyncssh.SSHClientConnection, jump_chain: jumps.JumpChain) -> Ends:
    """Return the addresses of a direct connection; with jump hosts, only the first part is known."""
    if jump_chain.jumps:
        return Ends(jumps=jump_chain.jumps, inner=(jump_chain.host, jump_chain.port))
    here, there = (connection.get_extra_info(name) for name in ("sockname", "peername"))
    if not here or not there:
        return Ends()
    return Ends(str(here[0]), str(there[0]), int(there[1]))


def _identity(path: str) -> str | asyncssh.SSHKey:
    """Return a private key, or its path if asyncssh can read the file itself, with the certificate next to it.

    Raises ``ValueError`` for a file without a key.
    """
    file = str(Path(path).expanduser())
    try:
        asyncssh.read_private_key(file)
    except asyncssh.KeyEncryptionError:
        return file  # the agent may have it
    except (asyncssh.KeyImportError, OSError):
        try:
            return asyncssh.import_private_key(read_private_key(path))
        except (Invalid, asyncssh.KeyImportError) as error:
            raise ValueError(f"spec.ssh.identityFile: {error}") from None
    return file


def trusted_key(access: SshAccess) -> asyncssh.SSHKey:
    """Return the key in the manifest. Raises ``ValueError`` for an invalid key."""
    try:
        return asyncssh.import_public_key(access.host_key)
    except asyncssh.KeyImportError as error:
        raise ValueError(f"spec.ssh.hostKey: {error}") from error


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Return the fingerprint in the form of `ssh-keygen -l`: ``SHA256:… (ED25519)``."""
    kind = key.get_algorithm().removeprefix("ssh-").removeprefix("ecdsa-sha2-").upper()
    return f"{key.get_fingerprint()} ({kind})"


async def keys_tried(host: str, options: dict[str, Any]) -> list[str]:
    """Return the keys that a login tried, with fingerprint and comment, those of the SSH agent first."""
    with contextlib.suppress(asyncssh.Error, OSError, ValueError):
        settled = asyncssh.SSHClientConnectionOptions(host=host, config=(), **options)
        found = []
        if settled.agent_path:
            with contextlib.suppress(OSError, ValueError, asyncssh.Error):
                async with (
                    asyncio.timeout(CONNECT_SECONDS),
                    asyncssh.SSHAgentClient(settled.agent_path) as agent,
                ):
                    found += [f"{each} of the SSH agent" for each in _named(await agent.get_keys())]
        return [*found, *_named(settled.client_keys)]
    return []


def _named(pairs: Any) -> Iterator[str]:
    for pair in pairs:
        key = decode_ssh_public_key(pair.public_data)
        comment = pair.get_comment() or ""
        yield f"{fingerprint(key)} {comment}".strip()
