"""The control socket of the sandbox: ``$RECONCILER_HOME/sandbox/control``, mode 0600.

Newline-delimited JSON, one object on a line. A client sends one question with its kind, which determines the answer
and the life of the connection. An answer has ``"ok": true``, or ``"ok": false`` with ``"error"``, a sentence.

=========  ============================================  =========================================================
``ask``    more of the question                          answer
=========  ============================================  =========================================================
``world``  —                                             ``world``: machines and cables (``server.world_as_json``); the end
``do``     ``command``, ``words``: as after              ``said``: a sentence for people; the end
           ``reconciler sandbox``
``tool``   ``machine``, ``argv``, ``root``: whether      see below; the end. Nothing at all while the tool hangs
           it runs as root, ``pid``
``down``   —                                             ``ok`` once all is gone; the end
=========  ============================================  =========================================================

Tools have no parser of JSON (``client.py`` says why). Their answer is the line ``code CODE OUT ERR ROOT``, with the
sizes of ``stdout`` and ``stderr`` in bytes and 1 for root. Both outputs follow, then the words of the command that the
tool becomes, separated by NUL.

Other modules that emulate more of a machine add their own questions (``Asks``): each is a coroutine that gets the
sandbox, the question and the connection, which it may keep as long as it likes. ``Sandbox.watch`` informs it of
changes, with the world before and after each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reconciler.errors import ReconcilerError

LINE_BYTES_MAX = 4 * 1024 * 1024
QUESTION_SECONDS = 10.0
"""Time for a new connection to send its request."""
log = logging.getLogger(__name__)

Question = Mapping[str, Any]


class Channel:
    """One connection to the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> dict[str, Any] | None:
        """Return the next line; None if the other side has gone or sends an invalid one."""
        try:
            line = await self._reader.readline()
            question = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        return question if isinstance(question, dict) else None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one line, unless the other side has gone."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def send_tool(self, code: int, stdout: str, stderr: str, become: Sequence[str], as_root: bool) -> None:
        """Send a tool's output, unless the tool has gone."""
        if not self._writer.is_closing():
            out, err = stdout.encode(), stderr.encode()
            head = f"code {code} {len(out)} {len(err)} {int(as_root)}\n"
            self._writer.write(head.encode() + out + err + "\0".join(become).encode())

    async def sent(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


Ask = Callable[[Question, Channel], Awaitable[None]]
"""Answers one kind of question; the connection ends when it returns."""


class Control:
    """Listens, and passes each question to its handler. ``asks`` may grow while it listens."""

    def __init__(self, path: Path, asks: dict[str, Ask]) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.asks = asks

    async def start(self) -> None:
        """Start to listen. Raises ``OSError``, also for a path that is too long for a socket."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self._path, limit=LINE_BYTES_MAX)
        self._path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        own = asyncio.current_task()
        going = [task for task in self._open if task is not own]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        channel = Channel(reader, writer)
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                question = await channel.receive()
            if question is not None:
                await self._answer(question, channel)
        except TimeoutError:
            pass
        except ReconcilerError as error:
            channel.send({"ok": False, "error": str(error)})
        except asyncio.CancelledError:  # the sandbox ends
            pass
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a question was not understood", exc_info=True)
            channel.send({"ok": False, "error": f"the question makes no sense: {error!r}"})
        finally:
            self._open.discard(task)
            await channel.sent()
            channel.close()

    async def _answer(self, question: Question, channel: Channel) -> None:
        ask = self.asks.get(str(question.get("ask")))
        if ask is None:
            known = ", ".join(sorted(self.asks))
            channel.send({"ok": False, "error": f"nobody answers {question.get('ask')!r}: ask {known}"})
            return
        await ask(question, channel)


async def request(path: Path, question: Question, seconds: float) -> dict[str, Any]:
    """Ask, and return the answer. Raises ``OSError`` if nothing listens, ``TimeoutError`` without an answer."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)
        channel = Channel(reader, writer)
        try:
            channel.send(question)
            await channel.sent()
            answer = await channel.receive()
        finally:
            channel.close()
    return answer if answer is not None else {"ok": False, "error": "the sandbox has ended"}
