"""A client that sends any bytes, and reads strictly what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import ssl
from collections.abc import Mapping
from types import TracebackType

import orjson

from .corpus import Endpoint, Entry

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*")
_HEADER = re.compile(rb"([A-Za-z0-9-]+): ([\t -~\x80-\xff]*)")


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer; interim ones are left out."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def closes(self) -> bool:
        return self.headers.get("connection") == "close"

    def assert_in_shape(self, path: str, says: bool = True) -> None:
        """An error is JSON of the dialect that the path speaks, and says something. ``says``: whether it has a body."""
        assert self.status != 500, self.body
        if self.status < 400 or not says:
            return
        assert self.headers["content-type"] == "application/json"
        told = orjson.loads(self.body)
        if path.startswith("/v1/messages"):
            assert told["type"] == "error", told
            assert set(told["error"]) >= {"type", "message"}, told
        else:
            assert set(told["error"]) == {"type", "message", "param", "code"}, told
        assert len(told["error"]["message"]) > 10


class Line:
    """One connection to a gateway."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._tls = tls

    async def __aenter__(self) -> Line:
        host, _, port = self._address.rpartition(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port), ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    async def answer(self, method: str = "") -> Answer | None:
        """The next answer, whichever way its end is marked; None where the connection has ended."""
        async with asyncio.timeout(20):
            head = b""
            while True:
                with contextlib.suppress(ConnectionError):
                    head = await self.reader.read(1)
                if not head:
                    return None
                head += await self.reader.readuntil(b"\r\n\r\n")
                first, *lines = head[:-4].split(b"\r\n")
                status = _STATUS.fullmatch(first)
                assert status, first
                found = [_HEADER.fullmatch(line) for line in lines]
                headers = {one[1].decode().lower(): one[2].decode("latin-1") for one in found if one}
                assert len(headers) == len(lines), lines
                if int(status[1]) >= 200:
                    break
            return Answer(int(status[1]), headers, await self._body(int(status[1]), headers, method))

    async def _body(self, status: int, headers: Mapping[str, str], method: str) -> bytes:
        if method == "HEAD" or status == 204:
            return b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            assert await self.reader.readexactly(2) == b"\r\n"
            return body
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        assert headers.get("connection") == "close"
        return await self.reader.read()

    async def assert_in_step(self, last: Answer | None) -> None:
        """The connection is closed, as the last answer has said; or what is asked next gets its own answer."""
        if last is None or last.closes:
            async with asyncio.timeout(20):
                try:
                    assert await self.reader.read() == b""
                except ConnectionError:
                    assert last is None, "the client may not have read the answer"
            return
        self.writer.write(HEALTH)
        after = await self.answer()
        assert after is not None, "the connection ended, and nobody has said so"
        assert (after.status, after.body) == (200, b'{"status":"ok"}')


async def replay(line: Line, entry: Entry, endpoint: Endpoint, plain: int) -> None:
    """Read the answers to what was sent, and see that they are right. ``plain``: the status of a plain request."""
    last = None
    for _ in range(entry.times):
        last = await line.answer(entry.asked or endpoint.method)
        assert last is not None
        last.assert_in_shape(
            endpoint.path if entry.head and not entry.pathless else "/", entry.asked != "HEAD"
        )
        if entry.refused:
            assert last.status >= 400 or (not endpoint.reads and last.status == plain)
        elif entry.refused_body and endpoint.reads:
            assert last.status == entry.refused_body, last.body
        else:
            assert last.status == (entry.status or plain), last.body
    assert last is not None
    if last.status == 415:
        assert last.headers["accept-encoding"] == "gzip, deflate, zstd"
    if entry.then:
        last = await line.answer()
        assert last is not None
        assert last.status == entry.then
    if not (entry.refused or entry.refused_body):
        assert last.closes is (entry.connection == "closed")
    await line.assert_in_step(last)
