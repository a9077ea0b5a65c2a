"""A file from another node goes on where it was, and is fetched from its start where that makes no sense."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reconciler.fetcher.peer import Peer, serve
from reconciler.wire.codec import to_wire
from reconciler.wire.weights import RECORD_NAME, FetchSource, Record, WantedFile

CONTENT = b"0123456789"
SOURCE = FetchSource("somebody/model", "a" * 40)
WANTED = WantedFile("model.safetensors", len(CONTENT), f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """The other end of a node that has the file, in this process."""
    (tmp_path / WANTED.name).write_bytes(CONTENT)
    record = Record(SOURCE.repo, SOURCE.revision, (WANTED,))
    (tmp_path / RECORD_NAME).write_text(json.dumps(to_wire(record)))
    short = Path(tempfile.mkdtemp(prefix="r-"))
    made, connection = Peer(SOURCE, str(short / "p")), socket.socket(socket.AF_UNIX)
    connection.connect(str(short / "p"))

    def answer() -> None:
        with suppress(OSError, ValueError):
            serve(tmp_path, connection)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield made
    made.close()
    thread.join(10)
    connection.close()
    shutil.rmtree(short)


@pytest.mark.parametrize("there", [b"", b"0123", CONTENT, b"of another, longer file"], ids=len)
def test_a_file_is_whole_whatever_was_there_of_it(there: bytes, peer: Peer, tmp_path: Path) -> None:
    part, came = tmp_path / "part", list[int]()
    part.write_bytes(there)
    peer.download(WANTED, part, came.append)
    assert part.read_bytes() == CONTENT
    assert sum(came) == len(CONTENT) - (len(there) if len(there) <= len(CONTENT) else 0)
