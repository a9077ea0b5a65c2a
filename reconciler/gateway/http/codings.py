"""Codings of a request's body (RFC 9110, 8.4.1): decoded in short steps, with a bound on the output."""

from __future__ import annotations

import asyncio
import functools
import sys
import zlib
from collections.abc import Callable, Iterator

from reconciler.gateway.errors import too_large, undecodable, unknown_coding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP_BYTES = 64 * 1024
"""The most bytes that one step reads, and that it returns. It takes less than a millisecond; then other tasks run."""
LAYERS_MAX = 3
"""The most codings of one body, applied one over the other."""
MEMBERS_MAX = 4096
"""The most parts of one body. Each needs a decoder of its own, so even an empty one costs time."""
_WINDOW_LOG_MAX = 23
"""The 8 MiB that a decoder of zstd needs for HTTP (RFC 9659)."""


class _Inflated:
    """The decoder of ``zlib`` with the interface of the standard library's others, which are newer."""

    def __init__(self, bits: int) -> None:
        self._zlib = zlib.decompressobj(bits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        part = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = len(part) < max_length
        return part


_Decoder = _Inflated | zstd.ZstdDecompressor


def _gzip(_: bytes) -> _Decoder:
    return _Inflated(zlib.MAX_WBITS | 16)


def _deflate(body: bytes) -> _Decoder:
    """``deflate`` is zlib's format (RFC 9110, 8.4.1.2); some clients leave out its two-byte header and its checksum."""
    has_head = body[0] & 15 == zlib.DEFLATED and int.from_bytes(body[:2]) % 31 == 0
    return _Inflated(zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS)


def _zstd(_: bytes) -> _Decoder:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX})


_DECODERS: dict[str, Callable[[bytes], _Decoder]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
ACCEPTED = ("gzip", "deflate", "zstd")
"""The codings that errors offer to a client."""


def codings_of(value: str) -> list[str]:
    """Return the codings in a ``content-encoding``, in the order in which they were applied. Raises ``ApiError`` (415)."""
    given = [coding for part in value.split(",") if (coding := part.strip().lower()) not in ("", "identity")]
    for coding in given:
        if coding not in _DECODERS:
            raise unknown_coding(f"the coding {coding[:100]!r} is not understood", ACCEPTED)
    if len(given) > LAYERS_MAX:
        raise unknown_coding(f"{len(given)} codings over one another are too many", ACCEPTED)
    return given


async def decoded(body: bytes, codings: list[str], bytes_max: int) -> bytes:
    """Return a body without its codings. Raises ``ApiError``: 413 as soon as one has more than ``bytes_max`` bytes of
    output, 400 if the body does not match its codings."""
    for coding in reversed(codings):
        if not body:
            break
        out = bytearray()
        try:
            for part in _parts(body, functools.partial(_DECODERS[coding], body)):
                out += part
                if len(out) > bytes_max:
                    raise too_large(bytes_max, decoded=True)
                if len(body) > STEP_BYTES or len(out) >= STEP_BYTES:
                    await asyncio.sleep(0)
        except (zlib.error, zstd.ZstdError, EOFError) as error:
            raise undecodable(coding, str(error)) from None
        body = bytes(out)
    return body


def _parts(body: bytes, new: Callable[[], _Decoder]) -> Iterator[bytes]:
    """Decode step by step. A body may consist of several members or frames (RFC 1952, 2.2; RFC 8878, 3). Raises
    ``EOFError`` if it ends too early."""
    decoder, members = new(), 1
    for at in range(0, len(body), STEP_BYTES):
        data = body[at : at + STEP_BYTES]
        while data or not (decoder.needs_input or decoder.eof):
            if decoder.eof:
                decoder, members = new(), members + 1
                if members > MEMBERS_MAX:
                    raise EOFError(f"it has more than {MEMBERS_MAX} members")
            yield decoder.decompress(data, STEP_BYTES)
            data = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise EOFError("it is cut off")
