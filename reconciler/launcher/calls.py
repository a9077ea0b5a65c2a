"""The calls of ``mpirun`` for other machines: on rank 0 they come in, on the other ranks they are carried out."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
import socket
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, Optional, Sequence, Set, Tuple

from reconciler.wire.gang import EndRemote, RemoteOver, RunRemote

from .gang import Gang
from .remote import UNREACHED

_NAME = "calls"
_CALL_BYTES_MAX = 256 * 1024
_CALL_SECONDS = 10.0
_CALLERS_MAX = 64


class Calls:
    """On rank 0: a socket for ``reconciler-remote``, and the way to the other ranks."""

    def __init__(self, gang: Gang, hosts: Sequence[str]) -> None:
        self._gang = gang
        self._hosts = hosts
        self._word = secrets.token_hex(16)
        self._waiting: Dict[int, asyncio.Future[int]] = {}
        """By rank: the status of the command that it runs."""
        self._callers = 0
        self._server: Optional[asyncio.AbstractServer] = None
        gang.on_remote = self._on_over

    async def open(self, folder: str) -> str:
        """Listen in a folder. Return the value of ``mpi.CALLS_VARIABLE``. Raises ``OSError``."""
        listener = socket.socket(socket.AF_UNIX)
        before = Path.cwd()
        os.chdir(folder)  # the whole path may be longer than the path of a socket may be
        try:
            listener.bind(_NAME)
            Path(_NAME).chmod(0o666)  # the job's user may be another, and has the word
        finally:
            os.chdir(before)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=_CALL_BYTES_MAX)
        return "{}/{} {}".format(folder, _NAME, self._word)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._callers += 1
        try:
            if self._callers <= _CALLERS_MAX:
                await self._answer(reader, writer)
        except (OSError, ValueError, asyncio.TimeoutError):
            pass  # a stranger, or one that is gone
        finally:
            self._callers -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call: Any = json.loads(await asyncio.wait_for(reader.readline(), _CALL_SECONDS))
        if not isinstance(call, dict) or not hmac.compare_digest(str(call.get("word")), self._word):
            return
        host = str(call.get("host"))
        rank = self._hosts.index(host) if host in self._hosts else 0
        if rank == 0 or rank in self._waiting:
            status = UNREACHED
        else:
            status = await self._run(rank, str(call.get("command")), reader)
        writer.write(json.dumps({"status": status}).encode() + b"\n")
        await writer.drain()

    async def _run(self, rank: int, command: str, reader: asyncio.StreamReader) -> int:
        """Have a rank run a command, until that has ended, or the caller is gone."""
        ended: asyncio.Future[int] = asyncio.get_event_loop().create_future()
        self._waiting[rank] = ended
        gone = asyncio.ensure_future(reader.read())
        try:
            await self._gang.send(rank, RunRemote(command))
            either: Set[asyncio.Future[Any]] = {ended, gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self._gang.send(rank, EndRemote())
                await ended
            return await ended
        finally:
            gone.cancel()
            del self._waiting[rank]

    def _on_over(self, told: Tuple[int, RemoteOver]) -> None:
        rank, message = told
        waiting = self._waiting.get(rank)
        if waiting is not None and not waiting.done():
            waiting.set_result(message.status)


async def carry_out(
    gang: Gang, run: Callable[[str], Awaitable[int]], end: Callable[[], Awaitable[object]]
) -> None:
    """On another rank: run what rank 0 asks for, until its program has ended well. ``run`` returns a status of
    ``waitpid``."""
    asked: asyncio.Queue[Any] = asyncio.Queue()
    gang.on_remote = asked.put_nowait
    finished = asyncio.ensure_future(gang.finished.wait())
    running: Optional[asyncio.Future[None]] = None

    async def answer(command: str) -> None:
        status = await run(command)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        await gang.send(0, RemoteOver(code))

    while True:
        following = asyncio.ensure_future(asked.get())
        waited = {finished, following} | ({running} if running is not None else set())
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if running is not None and running.done():
            running.result()  # a keeper that is gone ends the rank
            running = None
        if not following.done():
            following.cancel()
        elif isinstance(following.result(), RunRemote) and running is None:
            running = asyncio.ensure_future(answer(following.result().command))
        elif isinstance(following.result(), EndRemote):
            await end()
        if finished.done():
            if running is not None:
                with contextlib.suppress(Exception):
                    await end()
            return
