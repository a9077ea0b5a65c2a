"""A node on another machine: copies, starts and uses its agent over one SSH connection.

All our files are in ``~/.reconciler`` of the user: ``agents/``, ``nodes/<name>/``, ``run/`` (sockets), ``models/``,
``runtimes/``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

import asyncssh

from reconciler.errors import Barred, ReconcilerError, Refused, Silent, Unreachable
from reconciler.hardening import sudoers
from reconciler.planning.nodes.root_commands import RootCommand
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.bootstrap import profile, survey
from reconciler.remote.bootstrap.actions import Place, Run, Write, start
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.bootstrap.service import node_folder, script, script_path, service_name, words_path
from reconciler.remote.bootstrap.survey import Survey
from reconciler.remote.commands import Completed
from reconciler.remote.gateway_key import ensure_line, public_key, relay_line, without_key
from reconciler.remote.runtime.agent_file import Bundle
from reconciler.remote.runtime.build import Pruned
from reconciler.remote.runtime.managed import Managed
from reconciler.remote.runtime.wheelhouse import Tell
from reconciler.remote.ssh import jumps
from reconciler.remote.ssh.channels import Held, TooLong, hold, open_stream, run
from reconciler.remote.ssh.connection import CONNECT_SECONDS, Connection, ends
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.remote.ssh.login_shell import REMEDY, ShellFailed
from reconciler.resources import Access
from reconciler.wire.generation import jump_key_name
from reconciler.wire.node import HeldBy
from reconciler.wire.paths import agent_socket
from reconciler.wire.repair import RESTART

from . import scripts
from .local import ANOTHER_SERVES, FENCED, START_SECONDS

COMMANDS_MAX = 4
"""The most commands at a time on one machine: ``sshd`` allows ten sessions for each connection (``MaxSessions``)."""
PUT_SECONDS = 120.0
ANSWER_SECONDS = 5.0
REBOOT_SECONDS = 15.0
AGENTS_KEPT = 3
SERVICE_SECONDS = 15.0
"""launchd restarts an ended process at most every ten seconds."""
LOOK_SECONDS = 0.2
log = logging.getLogger(__name__)
_TAIL_BYTES = 2000


class SshNode:
    """One node with ``spec.ssh``. ``gate`` bounds the number of connections that are made at a time. ``last``: see
    ``Connection``."""

    def __init__(
        self, name: str, access: Access, bundle: Bundle, gate: asyncio.Semaphore, gateway_key: Path,
        last: LastAddresses | None = None,
    ) -> None:  # fmt: skip
        assert access.ssh is not None
        self.name = name
        self._access = access
        self._bundle = bundle
        self._gateway_key = gateway_key
        self._managed = Managed(self, name, bundle.wheelhouse, access.python)
        self._connection = Connection(name, access.ssh, gate, last)
        self._room = asyncio.Semaphore(COMMANDS_MAX)
        self._profile: Profile | None = None
        self._held: Held | None = None

    async def close(self) -> None:
        await self._connection.close()

    async def reconnect(self) -> None:
        """Use a new connection from now on. A connection with the session that holds the agent stays open."""
        await self._connection.renew()

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109 - every caller must name a bound
        """Run a command there, with only ``LC_ALL=C`` added to its environment.

        Raises ``Silent`` if it does not end in time or the machine is not reached, ``Barred`` if the login shell there
        runs no commands, ``Refused`` if it prints more than ``OUTPUT_BYTES_MAX``.
        """
        until = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(until + 1), self._room:  # the command's own bound says more
                connection = await self._connection.get()
                return await run(connection, argv, stdin, until - asyncio.get_running_loop().time())
        except TimeoutError as error:
            late = f"it did not end within {timeout:g} s"
            raise Silent(f"{argv[0]} on {self.name}: {str(error) or late}") from None
        except ShellFailed as error:
            raise Barred("LoginShell", f"{self._connection}: {error}", REMEDY) from None
        except TooLong as error:
            raise Refused("TooLong", f"{argv[0]} on {self.name}: {error}") from None
        except (asyncssh.Error, OSError) as error:
            raise Silent(f"{argv[0]} on {self.name} could not be run: {error}") from error

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None:
        """Write a file there atomically, with its folders. Raises ``Unreachable``."""
        words = ("/bin/sh", "-c", scripts.PUT, "put", str(path), f"{mode:o}", str(len(content)))
        done = await self.run(words, stdin=content, timeout=PUT_SECONDS)
        if done.status != 0:
            raise Unreachable(f"{path} on {self.name} cannot be written: {_words(done)}")

    async def profile(self) -> Profile:
        """Return the machine's profile, which is determined once. Raises ``Unreachable``."""
        if self._profile is None:
            question = profile.question(self._access.python)
            done = await self.run(question, timeout=START_SECONDS)
            found = profile.answer(done.out)
            newest = await self._managed.newest(
                found
            )  # the agent's too: its earlier interpreter can be removed
            self._profile = replace(found, ranks_python=newest, python=newest or found.python)
        return self._profile

    # --- the agent ---

    async def start_agent(self, token: int = 0) -> None:
        """Start an agent unless one is running.

        Raises ``Unreachable`` with the agent's last output if it does not answer in time, ``Refused`` with ``Fenced``
        if the node has obeyed a controller with a higher token (0 is not checked), and with ``NoPython`` if there is no
        interpreter for it.
        """
        found = await self._fit()
        bundle, seen = await self._staged(found, token)
        await self._authorize_gateway(found, bundle)
        serve = self._serve(found, bundle)
        if seen.loaded:
            await self._ask_for(
                serve, token
            )  # this ends an agent that hangs, and the service starts the next one
            if await self._started_by_service(found, seen):
                return
        if found.system == "Darwin":
            done = await self._hold((*serve, "--token", str(token), "--held-by", HeldBy.SESSION))
        else:
            done = await self.run((*serve, "--token", str(token), "--detach"), timeout=START_SECONDS)
        if done.status == FENCED:
            raise Refused("Fenced", _words(done))
        if done.status not in (0, ANOTHER_SERVES):
            raise Unreachable(f"the agent of {self.name} did not start: {_words(done)}")

    async def _started_by_service(self, found: Profile, seen: Survey) -> bool:
        """Return whether the machine's own service runs an agent that serves."""
        begin = start(found, seen, self.name)
        if isinstance(begin.act, Run) and not begin.by_person:
            await self.run(begin.act.argv, timeout=START_SECONDS)
        until = asyncio.get_running_loop().time() + SERVICE_SECONDS
        while asyncio.get_running_loop().time() < until:
            with suppress(Unreachable):
                _, writer = await self.stream(self._socket(found))
                writer.close()
                return True
            await asyncio.sleep(LOOK_SECONDS)
        last_lines = await self.run(
            ("/usr/bin/tail", "-n", "5", str(words_path(found, self.name))), timeout=START_SECONDS
        )
        log.warning(
            "%s: its service %s has not started the agent within %g s; starting it without the service: %s",
            self.name, service_name(found.user, self.name), SERVICE_SECONDS, _words(last_lines),
        )  # fmt: skip
        return False

    async def _hold(self, command: Sequence[str]) -> Completed:
        """Start an agent in a session of this connection. The agent continues after the session's end."""
        connection = await self._connection.get()
        try:
            async with asyncio.timeout(START_SECONDS):
                self._held = await hold(connection, command)
                await self._connection.keep()
                return await self._held.begun
        except TimeoutError:
            raise Unreachable(f"the agent of {self.name} does not serve after {START_SECONDS:g} s") from None
        except (asyncssh.Error, OSError) as error:
            raise Silent(f"cannot open a session for the agent of {self.name}: {error}") from error

    def _serve(self, found: Profile, bundle: PurePosixPath) -> tuple[str, ...]:
        """Return the command of the agent, without the options for the token and for its holder."""
        serve = (found.python, "-I", str(bundle), "serve", "--node", self.name)
        places = {
            "--directory": node_folder(found, self.name),
            "--models": found.root / "models",
            "--run-directory": found.root / "run",
            "--python": self._access.python or found.ranks_python or found.python,
        }
        tools = ("--tools", found.tools) if found.tools else ()
        return (*serve, *(str(word) for place in places.items() for word in place), *tools)

    async def survey(self) -> Survey:
        """Return the machine's means to keep an agent running. Raises ``Unreachable``."""
        done = await self.run(survey.question(await self.profile(), self.name), timeout=START_SECONDS)
        return survey.answer(done.out)

    async def stage(self, token: int = 0) -> PurePosixPath:
        """Install the agent's file, check that it runs, and let the machine's service use it. Return its path.

        Raises as ``start_agent``.
        """
        path, _ = await self._staged(await self._fit(), token)
        return path

    async def _staged(self, found: Profile, token: int) -> tuple[PurePosixPath, Survey]:
        path = await self._have_agent(found)
        seen = await self.survey()
        serve = self._serve(found, path)
        wanted = script(seen.keeper, found, self.name, serve)
        if seen.loaded and seen.script != wanted:
            await self._ask_for(serve, token)  # once the script exists, the service may start its agent
            await self.put(script_path(found, self.name), wanted.encode(), 0o600)
        return path, seen

    async def _ask_for(self, serve: Sequence[str], token: int) -> None:
        """Raise ``Refused`` (``Fenced``) if no agent may be started for this controller."""
        answer = await self.run((*serve, "--ask", "--token", str(token)), timeout=START_SECONDS)
        if answer.status == FENCED:
            raise Refused("Fenced", _words(answer))

    async def _have_agent(self, found: Profile) -> PurePosixPath:
        path = found.root / "agents" / self._bundle.name
        there = await self.run(("/bin/test", "-s", str(path)), timeout=START_SECONDS)
        if there.status != 0:
            await self.put(path, self._bundle.content, 0o600)
            prune = ("/bin/sh", "-c", scripts.PRUNE, "prune", str(path.parent), str(AGENTS_KEPT + 1))
            await self.run(prune, timeout=START_SECONDS)
        tried = await self.run((found.python, "-I", str(path), "--help"), timeout=START_SECONDS)
        if tried.status != 0:
            self._profile = None  # its Python may be gone
            raise Unreachable(f"{path} does not run on {self.name} with {found.python}: {_words(tried)}")
        return path

    async def place(self) -> Place:
        """Return the existing and the needed files, apart from a service. Raises ``Unreachable``, and ``Refused`` as
        ``start_agent``."""
        found = await self.profile()
        runtime = self._managed.lacking(found)
        if runtime is not None:
            python = str(runtime / "bin" / "python3")
            found = replace(found, ranks_python=python, python=python)
        else:
            found = await self._fit()
        path = found.root / "agents" / self._bundle.name
        there = await self.run(("/bin/test", "-s", str(path)), timeout=START_SECONDS)
        line = self._relay_line(found, path)
        authorized, existing = await self._authorized()
        wanted = ensure_line(existing, line)
        return Place(
            node=self.name,
            found=found,
            runtime=runtime,
            serve=self._serve(found, path),
            agent=Write(path, self._bundle.content),
            agent_there=there.status == 0,
            authorized=Write(authorized, wanted.encode(), shown=line),
            admitted=wanted == existing,
        )

    def _relay_line(self, found: Profile, bundle: PurePosixPath) -> str:
        return relay_line(found.python, str(bundle), str(found.root / "run"), public_key(self._gateway_key))

    async def _authorize_gateway(self, found: Profile, bundle: PurePosixPath) -> None:
        """Admit the gateway's key, for the sockets of ranks and nothing else."""
        line = self._relay_line(found, bundle)
        await self._rewrite_authorized(lambda existing: ensure_line(existing, line))
        try:
            await jumps.authorize(self._connection.jump_chain, self._jump_key)
        except Unreachable as error:
            log.warning("%s: %s", self.name, error)

    async def disable_service(self) -> None:
        """Prevent the machine's own service from starting agents; a running agent continues. Raises ``Unreachable``."""
        path = str(script_path(await self.profile(), self.name))
        done = await self.run(("/bin/rm", "-f", path), timeout=START_SECONDS)
        if done.status != 0:
            raise Unreachable(f"{path} on {self.name} cannot be removed: {_words(done)}")

    async def withdraw(self) -> None:
        """Take the gateway's key out of ``authorized_keys``. Raises ``Unreachable``."""
        key = public_key(self._gateway_key)
        await self._rewrite_authorized(lambda existing: without_key(existing, key))
        await jumps.revoke(self._connection.jump_chain, self._jump_key)

    @property
    def _jump_key(self) -> Path:
        """Return the path of the gateway's key for the jump hosts of this machine."""
        return self._gateway_key.with_name(jump_key_name(self.name))

    async def _authorized(self) -> tuple[PurePosixPath, str]:
        """Return the path and content of the user's ``authorized_keys``."""
        done = await self.run(("/bin/sh", "-c", scripts.AUTHORIZED), timeout=START_SECONDS)
        if done.status != 0:
            raise Unreachable(f"~/.ssh/authorized_keys of {self.name} cannot be read: {_words(done)}")
        path, _, existing = done.out.partition("\n")
        return PurePosixPath(path), existing

    async def _rewrite_authorized(self, rewrite: Callable[[str], str]) -> None:
        path, existing = await self._authorized()
        wanted = rewrite(existing)
        if wanted != existing:
            await self.put(path, wanted.encode(), 0o600)

    # --- the runtime ---

    async def build_runtime(self, tell: Tell) -> str:
        """Install the managed runtime there; return its name. Raises as ``Managed.build``."""
        key = await self._managed.build(await self.profile(), tell)
        self._profile = None  # ranks are started with it from now on, and perhaps the agent
        return key

    async def prune_runtimes(self) -> Pruned:
        """Remove old, unused runtimes. Raises as ``Managed.prune``."""
        return await self._managed.prune(await self.profile())

    async def _fit(self) -> Profile:
        found = await self.profile()
        if not found.python:
            self._profile = None
            coming = self._managed.lacking(found) is not None
            raise Refused("NoPython", profile.none(found, self.name, self._access.python, coming))
        return found

    async def dial(self) -> AgentConnection:
        """Return a new connection to the agent. Raises ``Unreachable`` if there is none, ``Silent`` if the machine does
        not answer, ``Barred`` if a person has to act."""
        socket = self._socket(await self.profile())
        connection = await self._connection.get()
        link = AgentConnection(*await self._stream(connection, socket))
        link.ends = ends(connection, self._connection.jump_chain)
        return await link.open("controller")

    def _socket(self, found: Profile) -> str:
        try:
            return agent_socket(str(found.root / "run"), self.name)
        except ValueError as error:
            raise Barred("PathTooLong", f"{self.name}: {error}") from None

    async def stream(self, socket: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a Unix socket there. Raises as ``dial``."""
        return await self._stream(await self._connection.get(), socket)

    async def _stream(
        self, connection: asyncssh.SSHClientConnection, socket: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await open_stream(connection, socket)
        except TimeoutError:
            raise Silent(f"no connection to {socket} on {self.name} within {CONNECT_SECONDS:g} s") from None
        except (asyncssh.Error, OSError) as error:
            if connection.is_closed():
                raise Silent(f"the connection to {self.name} was lost: {error}") from error
            raise Unreachable(f"nothing answers at {socket} on {self.name}: {error}") from error

    async def answers(self) -> bool:
        with suppress(ReconcilerError):
            await self.run(("/bin/sh", "-c", ":"), timeout=ANSWER_SECONDS)
            return True
        return False

    async def reboot(self) -> None:
        """Restart the machine. Raises ``Refused`` if it certainly does not restart, ``Silent`` if that is unknown."""
        try:
            connection = await self._connection.get()
        except Silent as error:
            raise Refused("NotReached", str(error)) from error
        try:
            done = await self.run(("/bin/sh", "-c", scripts.REBOOT, "reboot"), timeout=REBOOT_SECONDS)
        except Silent:
            if connection.is_closed():
                return  # it has gone down before it could answer
            raise
        if done.status not in (0, 128 + 15):
            user = self._access.ssh.user if self._access.ssh else ""
            allowing = ", ".join(sudoers.allowed(RootCommand(RESTART, "")))
            raise Refused(
                "NotAllowed",
                f"{self.name} does not restart: {_words(done)}; to allow it, add this line with visudo there:"
                f" {user} ALL=(root) NOPASSWD: {allowing}",
            )


def _words(done: Completed) -> str:
    return (done.err or done.out).strip()[-_TAIL_BYTES:] or f"exit status {done.status}"
