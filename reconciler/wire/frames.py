"""Frames: a 4-byte big-endian length, then that many bytes of UTF-8 JSON holding one object.

The same few lines serve blocking sockets (shim, follower ranks), selectors (agent) and asyncio
(controller, gateway), because the decoder does not depend on how bytes arrive.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Union

from .codec import WireError

if TYPE_CHECKING:  # slow to import, and commands use blocking sockets
    import asyncio

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""No frame is longer: a prompt of a million characters fits, a runaway peer does not."""

_HEADER = struct.Struct(">I")
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
"""``json.dumps`` would make an encoder for each frame."""
_READ_JSON = json.JSONDecoder().decode


def encode(frame: Mapping[str, Any]) -> bytes:
    """Return a frame as bytes. Raises ``WireError`` if it is longer than ``FRAME_BYTES_MAX``."""
    return framed(_JSON.encode(frame))


def framed(text: str) -> bytes:
    """Return the JSON text of an object as a frame. Raises ``WireError`` if it is longer than ``FRAME_BYTES_MAX``."""
    return framed_bytes(text.encode("utf-8", "surrogatepass"))


def framed_bytes(body: bytes) -> bytes:
    """Return the JSON of an object as a frame. Raises as ``framed``."""
    if len(body) > FRAME_BYTES_MAX:
        raise WireError("frame of {} bytes, the most is {}".format(len(body), FRAME_BYTES_MAX))
    return _HEADER.pack(len(body)) + body


def read_json(body: Union[bytes, bytearray]) -> Any:
    """Return the value of JSON text. Raises ``ValueError``, or ``RecursionError`` where it is nested too deeply."""
    return _READ_JSON(body.decode("utf-8", "surrogatepass"))


class Decoder:
    """Splits bytes into complete frames. Keeps at most one unfinished frame."""

    def __init__(self, read: Callable[[Union[bytes, bytearray]], Any] = read_json) -> None:
        """``read`` returns the value of a frame's JSON, and raises ``ValueError``."""
        self._buffer = bytearray()
        self._read = read

    def feed(self, chunk: bytes) -> List[Dict[str, Any]]:
        """Return the frames that ``chunk`` completes. Raises ``WireError`` for an invalid frame."""
        buffer, read = self._buffer, self._read
        buffer += chunk
        frames: List[Dict[str, Any]] = []
        start, size = _HEADER.size, len(buffer)  # of the next frame's JSON
        while start <= size:
            (length,) = _HEADER.unpack_from(buffer, start - _HEADER.size)
            _check(length)
            end = start + length
            if end > size:
                break
            frames.append(_parse(buffer[start:end], read))
            start = end + _HEADER.size
        del buffer[: start - _HEADER.size]
        return frames


def _check(length: int) -> None:
    if length > FRAME_BYTES_MAX:
        raise WireError("frame of {} bytes, the most is {}".format(length, FRAME_BYTES_MAX))


def _parse(body: Union[bytes, bytearray], read: Callable[[Union[bytes, bytearray]], Any]) -> Dict[str, Any]:
    try:
        frame = read(body)
    except (ValueError, RecursionError) as error:
        raise WireError("not JSON: {}".format(error)) from None
    if not isinstance(frame, dict):
        raise WireError("expected an object, got {}".format(type(frame).__name__))
    return frame


def receive(sock: socket.socket) -> Optional[Dict[str, Any]]:
    """Return the next frame of a blocking socket, or None if the peer has closed it between frames."""
    header = _exactly(sock, _HEADER.size)
    if header is None:
        return None
    (length,) = _HEADER.unpack(header)
    _check(length)
    body = _exactly(sock, length)
    if body is None and length:
        raise WireError("connection closed within a frame")
    return _parse(body or b"", read_json)


def _exactly(sock: socket.socket, count: int) -> Optional[bytes]:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = sock.recv(count - len(chunks))
        if not chunk:
            if chunks:
                raise WireError("connection closed within a frame")
            return None
        chunks += chunk
    return bytes(chunks)


async def read(reader: asyncio.StreamReader) -> Optional[Dict[str, Any]]:
    """Return the next frame of a stream, or None if the peer has closed it between frames."""
    from asyncio import IncompleteReadError

    try:
        header = await reader.readexactly(_HEADER.size)
    except IncompleteReadError as error:
        if error.partial:
            raise WireError("connection closed within a frame") from None
        return None
    (length,) = _HEADER.unpack(header)
    _check(length)
    try:
        return _parse(await reader.readexactly(length), read_json)
    except IncompleteReadError:
        raise WireError("connection closed within a frame") from None
