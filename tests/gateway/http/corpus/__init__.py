"""Raw requests as the world sends them, as data: each is filled in for an endpoint, and says what is right."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BOMB_BYTES = 13 * 1024 * 1024
"""More than a request may have."""


def chunked(body: bytes, size: int = 7, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    sent = b"".join(b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return sent + b"0%b\r\n%b\r\n" % (extension, trailer)


def gzipped(body: bytes) -> bytes:
    """The same bytes at any time."""
    return gzip.compress(body, mtime=0)


def raw_deflate(body: bytes) -> bytes:
    deflating = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflating.compress(body) + deflating.flush()


def zstd_window(body: bytes) -> bytes:
    """A frame of which a decoder would keep 256 MiB."""
    large: dict[int, int] = {
        zstd.CompressionParameter.window_log: 28,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    compressor = zstd.ZstdCompressor(options=large)
    return compressor.compress(body) + compressor.flush()


SHAPES: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzipped,
    "gzip_members": lambda body: gzipped(body[:9]) + gzipped(b"") + gzipped(body[9:]),
    "zlib": zlib.compress,
    "raw_deflate": raw_deflate,
    "zstd": zstd.compress,
    "zstd_frames": lambda body: zstd.compress(body[:9]) + zstd.compress(body[9:]),
    "zstd_window": zstd_window,
    "cut": lambda body: body[:-3],
    "more": lambda body: body + b"and more",
    "bomb": lambda body: b" " * BOMB_BYTES + body,
    "chunked": chunked,
    "tiny_chunks": lambda body: chunked(body, 1),
    "chunk_extensions": lambda body: chunked(body, 16, b';name="value";flag'),
    "padded_chunks": lambda body: (b"%05x\r\n%b\r\n" % (len(body), body)) * bool(body) + b"000\r\n\r\n",
    "trailers": lambda body: chunked(
        body, 16, trailer=b"X-Checksum: 7\r\nAuthorization: Bearer other\r\nHost: evil.example\r\n"
    ),
    "bad_chunk": lambda body: b"2\r\n{}\r\nzz\r\n" + body,
    "huge_chunk": lambda body: b"ffffffffffffffffff\r\n" + body,
    "long_chunk": lambda body: b"2\r\n" + body + b"\r\n0\r\n\r\n",
}


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A path of each kind, and a body that it answers."""

    method: str
    path: str
    body: bytes = b""
    reads: bool = False
    """Whether it reads a body at all."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a client sends, and what is right. ``status``: of the answer; None for that of a plain request."""

    name: str
    head: tuple[str, ...] = ()
    raw: str = ""
    body: tuple[str, ...] = ()
    asked: str = ""
    """The method, where answers to it have no body."""
    bare: bool = False
    many: tuple[Any, ...] = ()
    times: int = 1
    after: str = ""
    after_filled: tuple[Any, ...] = ()
    status: int | None = None
    refused_body: int | None = None
    """The status where the body is read."""
    refused: bool = False
    """Whether any clear refusal is right."""
    pathless: bool = False
    """Whether nobody can read which path it asks for."""
    then: int | None = None
    """The status of a last answer, to ``after``."""
    connection: str = ""

    def filled(self, endpoint: Endpoint) -> bytes:
        """The bytes to send."""
        if self.raw:
            return self.raw.encode("latin-1")
        body = endpoint.body
        for shape in self.body:
            body = SHAPES[shape](body)
        lines = list(self.head)
        if self.many:
            line, count = self.many
            lines += [line.format(number, number) for number in range(count)]
        facts = {
            "method": endpoint.method,
            "path": endpoint.path,
            "length": str(len(body)),
            "long": "x" * 70_000,
        }
        for name, value in facts.items():
            lines = [line.replace(f"{{{name}}}", value) for line in lines]
        end = "\n" if self.bare else "\r\n"
        one = (end.join(lines) + end * 2).encode("latin-1") + body
        after = self.after + (self.after_filled[0] + "x" * self.after_filled[1] if self.after_filled else "")
        return one * self.times + after.encode("latin-1")

    @property
    def small(self) -> bool:
        """Whether it may be sent some hundred times."""
        return not (self.many or self.after_filled or "bomb" in self.body or "{long}" in "".join(self.head))


def corpus() -> list[Entry]:
    found = []
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        for row in yaml.load(path.read_text(), Loader=yaml.CSafeLoader):
            lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
            found.append(Entry(**{**row, **lists}))
    return found


OFFERS: dict[str, tuple[str, ...]] = {
    "no offer": (),
    "h2c": (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
    ),
    "websocket": ("Connection:keep-alive , upgrade", "Upgrade:\twebsocket", "Sec-WebSocket-Version: 13"),
    "older ones": ("Upgrade: HTTP/2.0, SHTTP/1.3, IRC/6.9, RTA/x11", "Connection: x, y, UPGRADE"),
    "nothing": ("Connection: Upgrade", "Upgrade:"),
    "bytes beyond ASCII": ("Connection: Upgrade", "Upgrade: \xe4\xff"),
}
CODINGS: dict[str, tuple[str, ...]] = {
    "": (), "gzip": ("gzip",), "X-Gzip": ("gzip_members",), "deflate": ("zlib",), " ,deflate,": ("raw_deflate",),
    "zstd": ("zstd_frames",), "zstd , identity,GZIP": ("zstd", "gzip"),
}  # fmt: skip
FRAMES: dict[str, tuple[str, ...]] = {
    "Content-Length: 00{length}": (), "Transfer-Encoding: chunked": ("chunked",),
    "transfer-encoding:  Chunked ": ("chunk_extensions",), "Transfer-Encoding: CHUNKED": ("trailers",),
}  # fmt: skip
EXPECTS: tuple[tuple[str, ...], ...] = ((), ("Expect: 100-continue",))


def combined() -> list[Entry]:
    """Each offer with each coding, each frame and each expectation: all of them are answered as a plain request is."""
    found = []
    for offer, coding, frame, expects in itertools.product(OFFERS, CODINGS, FRAMES, EXPECTS):
        head = ("{method} {path} HTTP/1.1", *OFFERS[offer], "Host: localhost", *expects)
        coded = (f"Content-Encoding: {coding}",) if coding else ()
        name = ", ".join((offer, coding, frame, *expects))
        found.append(Entry(name, (*head, *coded, frame), body=(*CODINGS[coding], *FRAMES[frame])))
    return found


CORPUS = corpus()
COMBINED = combined()
