"""Weights from another node that has them: the same files as from the hub, over a connection that the controller makes.

Each side listens on a Unix socket of its node, and the controller carries the bytes between them. A question is a line
of JSON, ``{"get": name, "offset": n}``, with ``"length": n`` if a part is enough. The answer is a line ``{"size": n}``
and n bytes. If a node has only the outline of a weight file, it gives only the outline.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.shards import header_end
from reconciler.wire.weights import (
    RECORD_BYTES_MAX,
    RECORD_NAME,
    FetchProblem,
    FetchSource,
    Record,
    WantedFile,
)

from .folder import Folder
from .problems import Unfetched, of_disk
from .weight_header import header

ACCEPT_SECONDS = 60.0
SILENT_SECONDS = 60.0
PIECE_BYTES = 1024 * 1024


class Peer:
    """The node at the other end, with the methods of the hub's ``Repository``. Everything raises ``Unfetched``."""

    def __init__(self, source: FetchSource, path: str) -> None:
        self._source = source
        self._listener = socket.socket(socket.AF_UNIX)
        Path(path).unlink(missing_ok=True)
        self._listener.bind(path)
        Path(path).chmod(0o600)
        self._listener.listen(1)
        self._listener.settimeout(ACCEPT_SECONDS)
        self._connection: socket.socket | None = None
        self._path = path

    def close(self) -> None:
        Path(self._path).unlink(missing_ok=True)
        self._listener.close()
        if self._connection is not None:
            self._connection.close()

    def files(self) -> tuple[WantedFile, ...]:
        """Return the hub's files that the other node has verified."""
        content = bytearray()
        self._ask(RECORD_NAME, 0, RECORD_BYTES_MAX, content.extend)
        try:
            record = from_wire(Record, json.loads(content))
        except (ValueError, WireError) as error:
            raise Unfetched(FetchProblem.FAILED, f"the other node's record cannot be read: {error}") from None
        if (record.repo, record.revision) != (self._source.repo, self._source.revision):
            raise Unfetched(
                FetchProblem.FAILED, f"the other node has {record.repo} at {record.revision[:10]}"
            )
        return record.files

    def download(self, wanted: WantedFile, part: Path, more: Callable[[int], None]) -> None:
        try:
            with part.open("ab") as file:
                if file.tell() > wanted.size:
                    file.truncate(file.seek(0))

                def take(piece: bytes) -> None:
                    file.write(piece)
                    more(len(piece))

                self._ask(wanted.name, file.tell(), wanted.size, take)
                if file.tell() < wanted.size:
                    raise Unfetched(FetchProblem.TRUNCATED, f"{wanted.name} of the other node is too short")
        except OSError as error:
            raise of_disk(error) from None

    def outline(self, wanted: WantedFile) -> bytes:

        def read(offset: int, length: int) -> bytes:
            content = bytearray()
            self._ask(wanted.name, offset, length, content.extend, length)
            return bytes(content)

        return header(wanted, read)

    def _ask(
        self,
        name: str,
        offset: int,
        size_max: int,
        take: Callable[[bytes], object],
        length: int | None = None,
    ) -> None:
        question: dict[str, Any] = {"get": name, "offset": offset}
        if length is not None:
            question["length"] = length
        try:
            connection = self._connected()
            connection.sendall(json.dumps(question).encode() + b"\n")
            left = int(json.loads(_line(connection))["size"])
            if left > size_max:
                raise Unfetched(FetchProblem.FAILED, f"the other node offers too much of {name}")
            while left:
                piece = connection.recv(min(PIECE_BYTES, left))
                if not piece:
                    raise ConnectionError("it was closed")
                left -= len(piece)
                take(piece)
        except (ConnectionError, TimeoutError, ValueError, KeyError) as error:
            text = f"the connection to the other node broke while fetching {name}: {error}"
            raise Unfetched(FetchProblem.INTERRUPTED, text) from None

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection, _ = self._listener.accept()
            self._connection.settimeout(SILENT_SECONDS)
        return self._connection


def serve(folder: Path, connection: socket.socket) -> None:
    """Answer the other side until the connection ends. Raises ``OSError`` and ``ValueError``."""
    while question := _line(connection):
        request = json.loads(question)
        name, offset = request["get"], int(request["offset"])
        with (folder / name).open("rb") as file:
            end = _there(Folder(folder), name, file)
            size = max(0, min(end - offset, int(request.get("length", end))))
            connection.sendall(json.dumps({"size": size}).encode() + b"\n")
            if size:
                connection.sendfile(file, offset, size)


def _there(folder: Folder, name: str, file: BinaryIO) -> int:
    """Return how many bytes of a file this node has. Raises ``ValueError`` if it is not a file of these weights."""
    if name == RECORD_NAME:
        return os.fstat(file.fileno()).st_size
    files = folder.record.files if folder.record else ()
    wanted = next((each for each in files if each.name == name), None)
    if wanted is None:
        raise ValueError(f"{name!r} is not a file of these weights")
    if not folder.is_outline(wanted):
        return os.fstat(file.fileno()).st_size
    end = header_end(file.read(8))
    file.seek(0)
    return end


def _line(connection: socket.socket) -> bytes:
    """Return a line without its end; empty at the end of the connection."""
    line = bytearray()
    while (byte := connection.recv(1)) != b"\n":
        if not byte or len(line) > 4096:
            return b""
        line += byte
    return bytes(line)
